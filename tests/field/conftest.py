"""The command line of tests/cli, and the count of cases at the end of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.cli.conftest import vgpu_cfg
from tests.field.table import count

if TYPE_CHECKING:
    import pytest

__all__ = ["vgpu_cfg"]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    terminalreporter.write_line(f"Field: {count()}")
