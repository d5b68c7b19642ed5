"""How a table is kept on a terminal and written anew, until Ctrl-C."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from vgpu_cfg.errors import VCenterError
from vgpu_cfg.model.signs import shown
from vgpu_cfg.render.layout.console import width_of
from vgpu_cfg.render.layout.lines import harmless

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

Frame = Callable[[int], Iterable["Text"]]
EVERY_SECONDS = 20.0
"""As often as a host measures."""


def watch(read: Callable[[], Frame], pause: Callable[[float], None], console: Console) -> None:
    """Show what is read, again and again; a reading that fails leaves the last one, and says why.

    `read` returns what lays it out for a width, so that a window may change its size. Ends by
    KeyboardInterrupt alone.
    """
    from rich.console import Group
    from rich.live import Live
    from rich.text import Text

    frame: Frame = lambda _width: ()  # noqa: E731 - until there is one
    with Live(console=console, auto_refresh=False, vertical_overflow="visible") as live:
        while True:
            problem = ""
            try:
                frame = read()
            except VCenterError as error:
                problem = f"not read: {error.message} ({error.subject})"
            lines = [harmless(line) for line in frame(width_of(console))]
            if problem:
                lines.append(Text(shown(problem), style="red"))
            lines.append(Text("Ctrl-C ends it.", style="dim"))
            live.update(Group(*lines), refresh=True)
            pause(EVERY_SECONDS)
