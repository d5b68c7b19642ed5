"""Precision and recall of `explain`, at the end of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.unit.knowledge.fresh import summary

if TYPE_CHECKING:
    import pytest


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for line in summary():
        terminalreporter.write_line(line)
