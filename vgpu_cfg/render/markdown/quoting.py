"""Markdown that quotes text of plans and servers, so that it stays text, whatever characters it holds.

A template needs no filter for that: all but `Markdown` values are quoted when printed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING

from vgpu_cfg.changes.by_hand import as_typed, is_command
from vgpu_cfg.model.wording import shown

if TYPE_CHECKING:
    from jinja2 import Environment

_SPECIAL = re.compile(r"[\\`*\[\]<|~&]|(?<![^\W_])_|_(?![^\W_])")
_AT_START = re.compile(r"(?:[#+=>-]|\d+(?=[.)]))")


class Markdown(str):
    """Text that is Markdown already."""

    __slots__ = ()


def inline(text: str) -> Markdown:
    """Quote text for the middle of a line or a cell of a table, which line breaks do not end."""
    flat = " ".join(shown(text).split())
    quoted = _SPECIAL.sub(lambda found: f"\\{found[0]}", flat)
    start = _AT_START.match(quoted)
    if start is not None:
        end = start.end()
        quoted = f"\\{quoted}" if end == 1 and not quoted[0].isdigit() else f"{quoted[:end]}\\{quoted[end:]}"
    return Markdown(quoted)


def cell(text: str) -> Markdown:
    """Quote sentences for a cell of a table, as `prose` does elsewhere."""
    return prose(text, in_cell=True)


def prose(text: str, *, in_cell: bool = False) -> Markdown:
    """Quote sentences, and keep the text between single backticks as code."""
    parts = re.split(r"(?<!`)`([^`\n]+)`(?!`)", text)
    return Markdown(
        "".join(
            code(part, in_cell=in_cell) if index % 2 else _middle(part) for index, part in enumerate(parts)
        )
    )


def _middle(text: str) -> str:
    """Quote a piece of a sentence, with the blanks at its ends."""
    text = shown(text)
    if not text.strip():
        return " " if text else ""
    start = " " if text[0].isspace() else ""
    end = " " if text[-1].isspace() else ""
    return f"{start}{inline(text)}{end}"


def code(text: str, *, in_cell: bool = False) -> Markdown:
    """Write text as a code span; a table takes a pipe for a border even there, so it is quoted in a cell."""
    flat = shown(text)
    if in_cell:
        flat = flat.replace("|", "\\|")
    if not flat:
        return Markdown("")
    ticks = "`" * (_longest_run(flat) + 1)
    space = " " if flat.startswith("`") or flat.endswith("`") else ""
    return Markdown(f"{ticks}{space}{flat}{space}{ticks}")


def block(lines: Iterable[str], language: str = "") -> Markdown:
    """Write lines as a code block, fenced with more backticks than any of them holds."""
    text = "\n".join(map(shown, lines))
    ticks = "`" * max(3, _longest_run(text) + 1)
    return Markdown(f"{ticks}{language}\n{text}\n{ticks}")


def verbatim(text: str) -> Markdown:
    """Leave text unchanged, for use in a code block."""
    return Markdown(shown(text))


def _longest_run(text: str) -> int:
    return max((len(run) for run in re.findall("`+", text)), default=0)


@cache
def environment() -> Environment:
    """Return the environment of the package's own templates, in which all that is printed is quoted."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    made = Environment(  # noqa: S701 - autoescape is for HTML; `finalize` quotes for Markdown
        loader=PackageLoader("vgpu_cfg.render"),
        undefined=StrictUndefined,
        finalize=_finalize,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    made.filters |= {
        "code": code,
        "block": block,
        "prose": prose,
        "cell": cell,
        "verbatim": verbatim,
        "as_typed": as_typed,
    }
    made.tests["is_command"] = is_command
    return made


def _finalize(value: object) -> str:
    if isinstance(value, Markdown):
        return value
    return inline("" if value is None else str(value))


def tidy(text: str) -> str:
    """Leave no two empty lines in a row, no blanks at ends of lines, and one line break at the end."""
    lines: list[str] = []
    fence = ""
    for line in text.splitlines():
        opened = re.match(r"\s*(`{3,})", line)
        if opened and (not fence or line.strip() == fence):
            fence = "" if fence else opened[1]
        if fence and not opened:
            lines.append(line)
        elif line.strip() or (lines and lines[-1]):
            lines.append(line.rstrip())
    return "\n".join(lines).strip("\n") + "\n"
