"""How an exported plan file is laid out: its sections, its comments, and what is not in it at its end."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from vgpu_cfg.documents import laid_out
from vgpu_cfg.model.wording import shown
from vgpu_cfg.planning.exporting.lines import Line

_WIDTH = 100
_LEFT_OUT = "Not in this file:"
_FOUND = "What the next plan says all the same:"


@dataclass(slots=True)
class Content:
    """What goes into the file. `left_out` stands as comments at its end."""

    head: Mapping[str, Any]
    shared: Mapping[str, Any] = field(default_factory=dict)
    hosts: Sequence[Mapping[str, Any]] = ()
    networks: Sequence[str] = ()
    lines: Sequence[Line] = ()
    left_out: Sequence[str] = ()


def written(content: Content) -> str:
    """Write the file."""
    parts = [laid_out(content.head, depth=1)]
    if content.shared:
        parts.append(laid_out({"defaults": content.shared}, depth=2))
    if content.hosts:
        parts.append("hosts:\n" + "".join(laid_out([entry], depth=2) for entry in content.hosts))
    if content.networks:
        parts.append(laid_out({"networks": list(content.networks)}, depth=1))
    if content.lines:
        parts.append("vms:\n" + "".join(map(_line, content.lines)))
    if content.left_out:
        parts.append(_notes(_LEFT_OUT, content.left_out))
    return "\n".join(parts)


def with_findings(text: str, found: Sequence[str]) -> str:
    """Return a file that is written with what the next plan says of it as comments at its end."""
    return "\n".join([text, _notes(_FOUND, found)]) if found else text


def _notes(title: str, notes: Sequence[str]) -> str:
    return "".join(_comment(note) for note in (title, *(f"  {note}" for note in notes)))


def _line(line: Line) -> str:
    text = "".join(_comment(why) for why in line.because) + laid_out([line.written()], depth=2)
    if not line.exceptions:
        return text
    differing = laid_out({"except": line.exceptions}, depth=2)
    return text + textwrap.indent(differing, "  ")


def _comment(text: str) -> str:
    text = shown(text)
    indent = " " * (len(text) - len(text.lstrip()) + 2)
    lines: Iterable[str] = textwrap.wrap(
        text, _WIDTH - 2, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
    return "".join(f"# {line}\n" for line in lines)
