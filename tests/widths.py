"""Whether what is printed keeps to a terminal's width: no line runs over it, and no word is broken."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterable

from rich.text import Text

from vgpu_cfg.render.layout.console import make_console, plain, width_of

WIDTHS = (60, 80, 120, 200)
ENDLESS = 10_000

COMMAND = re.compile(r"    (vgpu-cfg|govc|esxcli|mlxconfig|nvidia-smi) ")

Render = Callable[[int], Iterable[Text]]


def faults(render: Render, width: int) -> list[str]:
    """Return what is wrong with what a renderer lays out for a terminal of this width."""
    printed = plain(render(width_of(make_console(io.StringIO(), width=width))))
    return faults_in(printed, plain(render(ENDLESS)), width)


def faults_in(printed: str, whole: str | None, width: int) -> list[str]:
    """Return the lines that run over, and the words that `whole`, laid out without end, does not have.

    A word that is longer than the line has room for stands on a line of its own, and so does a command,
    which could not be copied from two.
    """
    printed = re.sub(
        r"^ *not shown at this width: .*(\n {2,}[A-Z-]+(, [A-Z-]+)*$)*", "", printed, flags=re.MULTILINE
    )
    too_long = [
        f"{len(line)} wide: {line}"
        for line in printed.splitlines()
        if len(line) > width and len(line.split()) > 1 and not COMMAND.match(line)
    ]
    known = None if whole is None else set(whole.split())
    broken = [word for word in printed.split() if known is not None and word not in known]
    return [*too_long, *(f"broken: {word}" for word in broken)]


def unbroken_in(printed: str, width: int) -> set[str]:
    """Return the words that are longer than a line."""
    return {line.strip() for line in printed.splitlines() if len(line) > width}
