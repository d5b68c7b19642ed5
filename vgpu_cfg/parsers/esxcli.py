"""How esxcli prints on a host's shell, three ways: fields, blocks under a heading, and tables under dashes.

Sources: NVIDIA AI Enterprise User Guide (graphics, hardware pci, kernel settings), Broadcom's ESXCLI
reference, and outputs that administrators published; tables are as wide as their widest cell, and a rule
of dashes tells where the columns stand.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from vgpu_cfg.parsers.errors import ToolFailed, UnreadableOutput
from vgpu_cfg.parsers.text import Line, lines_with_content

Record = Mapping[str, str]
"""One row or block: values as printed, by the name of the column or field."""

HEADING = "Heading"
"""The field that holds a block's heading, which esxcli prints without a name."""

_RULE = re.compile(r"-+(?: +-+)*")
_FIELD = re.compile(r"(?P<name>[^:]+?):(?: +(?P<value>.*))?")
_FAILURES = ("Error:", "Unknown command or namespace", "Connect to ", "Invalid option", "sh:")


def parse_fields(command: str, text: str) -> Record:
    """Read the fields of one thing, as `graphics host get` prints them.

    Raises ToolFailed where esxcli failed, UnreadableOutput for a line that is no field.
    """
    lines = _lines(command, text)
    fields: dict[str, str] = {}
    for line in lines:
        _add_field(command, fields, line)
    return fields


def parse_blocks(command: str, text: str) -> tuple[Record, ...]:
    """Read a list of things, each a heading and fields further in, as `hardware pci list` prints them.

    Raises as `parse_fields`, and where fields come before the first heading.
    """
    blocks: list[dict[str, str]] = []
    for line in _lines(command, text):
        if line.indent == 0:
            blocks.append({HEADING: line.text.strip()})
        elif blocks:
            _add_field(command, blocks[-1], line)
        else:
            raise UnreadableOutput(command, "no heading", line=line.text, number=line.number)
    return tuple(blocks)


def parse_table(command: str, text: str) -> tuple[Record, ...]:
    """Read a table, as `system module parameters list` prints it; a cell may be empty.

    Raises as `parse_fields`, and for a row that does not keep to the columns.
    """
    lines = _lines(command, text)
    if len(lines) < 2 or not _RULE.fullmatch(lines[1].text.strip()):
        raise UnreadableOutput(command, "no table", line=lines[0].text, number=lines[0].number)
    starts = [found.start() for found in re.finditer(r"-+", lines[1].text)]
    names = _cells(command, lines[0], starts)
    if not all(names) or len(set(names)) != len(names):
        raise UnreadableOutput(command, "no header", line=lines[0].text, number=lines[0].number)
    return tuple(dict(zip(names, _cells(command, line, starts), strict=True)) for line in lines[2:])


def _cells(command: str, line: Line, starts: Sequence[int]) -> tuple[str, ...]:
    """Cut a line where the columns begin; the last cell takes the rest."""
    crossed = any(0 < start <= len(line.text) and line.text[start - 1] != " " for start in starts)
    if crossed or line.text[: starts[0]].strip():
        raise UnreadableOutput(command, "cells not under their columns", line=line.text, number=line.number)
    ends = [*starts[1:], max(len(line.text), starts[-1])]
    return tuple(line.text[start:end].strip() for start, end in zip(starts, ends, strict=True))


def _add_field(command: str, fields: dict[str, str], line: Line) -> None:
    found = _FIELD.fullmatch(line.text.strip())
    if found is None or found["name"] in fields:
        why = "no field" if found is None else "a field twice"
        raise UnreadableOutput(command, why, line=line.text, number=line.number)
    fields[found["name"]] = (found["value"] or "").strip()


def _lines(command: str, text: str) -> tuple[Line, ...]:
    lines = lines_with_content(text)
    if not lines:
        raise UnreadableOutput(command, "printed nothing")
    if lines[0].text.strip().startswith(_FAILURES):
        raise ToolFailed(command, line=lines[0].text, number=lines[0].number)
    return lines
