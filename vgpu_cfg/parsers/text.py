"""Cleanup of every tool's output before parsing, errors for unknown output, and PCI addresses."""

from __future__ import annotations

import re
from dataclasses import dataclass

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
            or f"run {tool} manually and check its output; if the format is new, vgpu-cfg must be updated",
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


# ECMA-48: CSI sequences, then OSC strings up to BEL or ST, then the two-character escapes.
_ESCAPES = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[@-Z\\^_]")
_PCI_ID = re.compile(
    r"(?:(?P<domain>[0-9a-f]{4,8}):)?(?P<bus>[0-9a-f]{2}):(?P<slot>[0-9a-f]{2})\.(?P<function>[0-7])",
    re.IGNORECASE,
)

NOTHING = frozenset({"", "n/a", "[n/a]", "not found", "[not supported]", "[unknown error]", "[not found]"})
"""The output of tools for a missing value, in lower case."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line as it reads, with its number counted from 1; `text` keeps its indentation."""

    number: int
    text: str

    @property
    def indent(self) -> int:
        """How many columns it is indented; a tab goes to the next multiple of eight."""
        expanded = self.text.expandtabs(8)
        return len(expanded) - len(expanded.lstrip())

    @property
    def is_blank(self) -> bool:
        """Whether nothing can be seen on it."""
        return not self.text.strip()


def lines_of(text: str) -> tuple[Line, ...]:
    """Split output into lines: without colours, carriage returns, NULs and trailing blanks."""
    plain = _ESCAPES.sub("", text).replace("\r\n", "\n").replace("\r", "\n").replace("\x00", "")
    return tuple(Line(number, line.rstrip()) for number, line in enumerate(plain.split("\n"), start=1))


def lines_with_content(text: str) -> tuple[Line, ...]:
    """Split output into lines and leave the blank ones out."""
    return tuple(line for line in lines_of(text) if not line.is_blank)


def pci_id_of(text: str) -> str | None:
    """Spell a PCI address as `dddd:bb:dd.f` in lower case; None where the text is none.

    nvidia-smi prints an eight-digit domain in upper case, mst none at all. A domain that needs more than four
    digits, as with Intel VMD, keeps them.
    """
    found = _PCI_ID.fullmatch(text.strip())
    if found is None:
        return None
    domain = int(found["domain"] or "0", 16)
    return f"{domain:04x}:{found['bus']}:{found['slot']}.{found['function']}".lower()


def pci_id_or_error(tool: str, text: str, line: Line) -> str:
    """Spell a PCI address as this project does.

    Raises UnreadableOutput where the text is none.
    """
    found = pci_id_of(text)
    if found is None:
        raise UnreadableOutput(tool, "not a PCI address", line=line.text, number=line.number)
    return found


def value_or_none(text: str) -> str | None:
    """Return a value without blanks around it, None where the tool says that there is none."""
    stripped = text.strip()
    return None if stripped.lower() in NOTHING else stripped


def int_or_error(tool: str, text: str, line: Line) -> int:
    """Read a decimal number, or a hexadecimal one after 0x.

    Raises UnreadableOutput where the text is none.
    """
    stripped = text.strip()
    if re.fullmatch(r"-?[0-9]{1,18}", stripped, re.ASCII):
        return int(stripped)
    if re.fullmatch(r"0x[0-9a-f]{1,16}", stripped, re.ASCII | re.IGNORECASE):
        return int(stripped, 16)
    raise UnreadableOutput(tool, f"no number in {stripped!r}", line=line.text, number=line.number)
