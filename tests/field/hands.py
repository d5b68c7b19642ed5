"""What somebody does by hand in vCenter between two commands."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tests.cli.command_line import CommandLine

HANDS: Mapping[str, Callable[[CommandLine], None]] = {}
