"""The destination of lines: a terminal with color, or anything else without, both at a width of 60 to 200."""

from __future__ import annotations

from collections.abc import Iterable
from typing import IO, TYPE_CHECKING

from rich.console import Console

from vgpu_cfg.model.wording import shown
from vgpu_cfg.render.layout.lines import MAX_WIDTH, MIN_WIDTH, harmless

if TYPE_CHECKING:
    from rich.text import Text

WIDTH_WITHOUT_TERMINAL = 100


def make_console(stream: IO[str], *, width: int | None = None) -> Console:
    """Open a console on a stream.

    Colour is off where the stream is no terminal or NO_COLOR is set. Without a terminal,
    and without COLUMNS, lines are 100 wide.
    """
    console = Console(
        file=stream, width=width, highlight=False, markup=False, emoji=False, soft_wrap=True, safe_box=True
    )
    if width is None and not console.is_terminal and "COLUMNS" not in console._environ:  # noqa: SLF001 - see width
        console.width = WIDTH_WITHOUT_TERMINAL
    if console.width < 1:  # COLUMNS=0, which would print nothing at all
        console.width = WIDTH_WITHOUT_TERMINAL
    return console


def width_of(console: Console) -> int:
    """Return the width to lay lines out for."""
    return max(MIN_WIDTH, min(MAX_WIDTH, console.width))


def print_lines(console: Console, lines: Iterable[Text]) -> None:
    """Print lines that are laid out already, with no blanks at their ends and nothing to obey."""
    for line in lines:
        printed = harmless(line).copy()
        printed.rstrip()
        console.print(printed, soft_wrap=True)


def plain(lines: Iterable[Text]) -> str:
    """Return the lines as text without colour, as a file would hold them."""
    return "".join(f"{shown(line.plain).rstrip()}\n" for line in lines)
