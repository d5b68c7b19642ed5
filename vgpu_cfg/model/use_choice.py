"""The grouping of GPU use into rows, and their order."""

from __future__ import annotations

from enum import StrEnum


class UseBy(StrEnum):
    """The grouping of rows."""

    GPU = "gpu"
    VM = "vm"
    PLAN = "plan"
    OWNER = "owner"


class UseSort(StrEnum):
    """The order of rows: the most used first, and those that cannot be measured last."""

    NAME = "name"
    USE = "use"
    MEAN = "mean"
    MEMORY = "memory"
    TEMPERATURE = "temperature"
    POWER = "power"
