"""Errors: subject, place, and fix, one line each; all faults of a document before them."""

from __future__ import annotations

import re
from dataclasses import replace

from rich.text import Text

from vgpu_cfg.errors import DocumentError, Interrupted, VgpuCfgError
from vgpu_cfg.model.wording import counted, shown
from vgpu_cfg.render.layout.lines import hanging

_LONG_QUOTE = re.compile(r"'([^']{100})[^']{100,}'")
_REMEDY = "correct the file, then run the same command again"


def render_error(error: VgpuCfgError, width: int, *, of: str = "") -> list[Text]:
    """Lay out an error for standard error; a line that has nothing to say is left out.

    `of` says which of several it is of.
    """
    lines: list[Text] = []
    if isinstance(error, DocumentError):
        if len(error.faults) == 1:
            (fault,) = error.faults
            told = replace(fault, hint="") if error.remedy == fault.hint else fault
            return [_fault_line(str(told)), *_labelled("DO", error.remedy, width)]
        lines = [_fault_line(str(fault)) for fault in error.shown]
        if error.left_out:
            lines.append(Text(f"and {counted(error.left_out, 'fault')} more"))
        hints = {fault.hint for fault in error.faults}
        remedy = _REMEDY if error.remedy in hints else error.remedy
        return [
            *lines,
            *_labelled("ERROR", error.message, width, "bold red"),
            *_labelled("DO", remedy, width),
        ]
    is_stop = isinstance(error, Interrupted)
    lines += _labelled(
        "STOP" if is_stop else "ERROR", error.message, width, "bold yellow" if is_stop else "bold red"
    )
    where = f"{error.subject} ({of})".lstrip() if of else error.subject
    lines += _labelled("WHERE", where, width)
    lines += _labelled("DO", error.remedy, width)
    return lines


def _fault_line(text: str) -> Text:
    """Leave a fault on one line: editors and CI find file:line:column there. A long value is cut."""
    text = shown(_LONG_QUOTE.sub(r"'\1…'", text))
    line = Text(text)
    place = ":".join(text.split(":")[:3])
    line.stylize("bold", 0, len(place))
    return line


def _labelled(label: str, text: str, width: int, style: str = "bold") -> list[Text]:
    return hanging(label, text, width, indent=0, label_width=6, style=style) if text else []
