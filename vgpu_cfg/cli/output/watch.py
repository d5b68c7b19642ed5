"""How a table is kept on a terminal and written anew, until Ctrl-C."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from vgpu_cfg.errors import VCenterError
from vgpu_cfg.model.signs import shown
from vgpu_cfg.render.layout.console import width_of
from vgpu_cfg.render.layout.lines import fold, harmless

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

Frame = Callable[[int, int], Iterable["Text"]]
"""Lays out what was read for a window of so many columns and lines."""
EVERY_SECONDS = 20.0
"""As often as a host measures."""


def watch(read: Callable[[], Frame], pause: Callable[[float], None], console: Console) -> None:
    """Show what is read, again and again; a reading that fails leaves the last one, and says why.

    What is taller than the window is cut: else its beginning would scroll away, again with each reading.
    Ends by KeyboardInterrupt alone.
    """
    from rich.console import Group
    from rich.live import Live
    from rich.text import Text

    frame: Frame = lambda _width, _height: ()  # noqa: E731 - until there is one
    with Live(console=console, auto_refresh=False, vertical_overflow="visible") as live:
        while True:
            problem = ""
            try:
                frame = read()
            except VCenterError as error:
                problem = f"not read: {error.message} ({error.subject})"
            width = width_of(console)
            foot = fold(Text(shown(problem), style="red"), width) if problem else []
            foot.append(Text("Ctrl-C ends it.", style="dim"))
            room = max(console.height - len(foot), 1)
            lines = [harmless(line) for line in frame(width, room)][:room]
            live.update(Group(*lines, *foot), refresh=True)
            pause(EVERY_SECONDS)
