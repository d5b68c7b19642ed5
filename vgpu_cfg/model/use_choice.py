"""By what the use of GPUs is gathered into rows, and how these are sorted."""

from __future__ import annotations

from enum import StrEnum


class UseBy(StrEnum):
    """Whose use a row tells."""

    GPU = "gpu"
    VM = "vm"
    PLAN = "plan"
    OWNER = "owner"


class UseSort(StrEnum):
    """By what rows are sorted: the most used first, and last what is not measurable."""

    NAME = "name"
    USE = "use"
    MEAN = "mean"
    MEMORY = "memory"
    TEMPERATURE = "temperature"
    POWER = "power"
