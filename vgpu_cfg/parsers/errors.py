"""Errors for tool output that differs from its documentation: tool, line, remedy."""

from __future__ import annotations

from vgpu_cfg.errors import ReachError

_SHOWN_AT_MOST = 200


class UnreadableOutput(ReachError):
    """A tool printed something that is not understood, so nothing is taken from it.

    `tool` is the command as a user knows it ("nvidia-smi -q"), `line` the printed line, shortened, and
    `number` its place, counted from 1; 0 if no single line is at fault.
    """

    def __init__(self, tool: str, why: str, *, line: str = "", number: int = 0, remedy: str = "") -> None:
        shown = line.strip()
        if len(shown) > _SHOWN_AT_MOST:
            shown = f"{shown[:_SHOWN_AT_MOST]}…"
        quoted = f": {shown!r}" if shown else ""
        super().__init__(
            f"{tool}: {why}{quoted}",
            subject=f"output of {tool}, line {number}" if number else f"output of {tool}",
            remedy=remedy
            or f"run {tool} manually and check the output; a new format must be added to vgpu_cfg.parsers",
        )
        self.tool = tool
        self.line = shown
        self.number = number


class ToolFailed(UnreadableOutput):
    """The tool printed an error of its own instead of the result; `line` is that error."""

    def __init__(self, tool: str, *, line: str, number: int = 0, remedy: str = "") -> None:
        super().__init__(
            tool,
            "failed with",
            line=line,
            number=number,
            remedy=remedy or "fix the problem that the tool reports, then run the command again",
        )
