"""The severity of a finding."""

from __future__ import annotations

from enum import StrEnum


class Severity(StrEnum):
    """How much a finding weighs: an error stops the plan."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"
