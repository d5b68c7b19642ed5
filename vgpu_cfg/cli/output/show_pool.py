"""The output of `inventory --hours`, `--compare` and `--watch`, as text or as JSON.

Keep a table on a terminal and rewrite it, until Ctrl-C.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from vgpu_cfg.catalog import load_catalog
from vgpu_cfg.cli.options.shared import OutputFormat
from vgpu_cfg.cli.output import show
from vgpu_cfg.errors import VCenterError
from vgpu_cfg.model.wording import shown
from vgpu_cfg.render.layout.console import width_of
from vgpu_cfg.render.layout.lines import fold, harmless

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from vgpu_cfg.model.choices import UseBy, UseSort
    from vgpu_cfg.model.observed.inventory import Inventory
    from vgpu_cfg.planning.pool.calendar import ReservationCalendar
    from vgpu_cfg.planning.pool.hours import Hours

Frame = Callable[[int, int], Iterable["Text"]]
"""A layout of a reading for a window of so many columns and lines."""
EVERY_SECONDS = 20.0
"""As often as a host measures."""


def reservations(found: ReservationCalendar, server: str, output: OutputFormat) -> None:
    """Print the reservations of plans, and free capacity over time."""
    from vgpu_cfg.render.data.pool import reservations_data
    from vgpu_cfg.render.text.pool.use import render_reservations

    if output is OutputFormat.JSON:
        show.data(reservations_data(found, server))
        return
    show.lines(lambda width: render_reservations(found, server, width))


def watch_use(
    read: Callable[[], Inventory],
    wanted: Callable[[Inventory], Callable[[str], bool]],
    by: UseBy,
    sort: UseSort,
    *,
    verbose: bool,
) -> None:
    """Keep the use of the wanted hosts' GPUs on the terminal until Ctrl-C."""
    from vgpu_cfg.cli.compose import SystemClock
    from vgpu_cfg.planning.pool.summary import read_pool
    from vgpu_cfg.planning.pool.use import use_rows
    from vgpu_cfg.render.layout.console import make_console
    from vgpu_cfg.render.layout.most import usual
    from vgpu_cfg.render.text.pool.use import render_use
    from vgpu_cfg.render.views.estate.inventory import UseTable

    def frame() -> Frame:
        observed = read()
        found = read_pool(observed, load_catalog(), wants_host=wanted(observed))
        use = UseTable(use_rows(found.gpus, observed, by), by, sort)
        return lambda width, height: render_use(
            found, use, width, height=height, most=usual(with_all=verbose)
        )

    watch(frame, SystemClock().pause, make_console(sys.stdout))


def hours(found: Hours, by: str, server: str, output: OutputFormat, *, as_csv: bool) -> None:
    """Print GPU-hours as a table, as JSON or as comma-separated values."""
    from vgpu_cfg.render.data.pool import hours_csv, hours_data
    from vgpu_cfg.render.text.pool.use import render_hours

    if as_csv:
        sys.stdout.write(hours_csv(found, by))
    elif output is OutputFormat.JSON:
        show.data(hours_data(found, by, server))
    else:
        show.lines(lambda width: render_hours(found, by, width, server=server))


def site_changes(before: Inventory, after: Inventory, output: OutputFormat) -> bool:
    """Print what changed between two readings; return whether nothing did."""
    from vgpu_cfg.planning.site_changes import compare_sites
    from vgpu_cfg.render.data.pool import site_changes_data
    from vgpu_cfg.render.text.estate.inventory import render_site_changes

    changes = compare_sites(before, after)
    if output is OutputFormat.JSON:
        show.data(site_changes_data(changes, before, after))
    else:
        times = _time_of(before), _time_of(after)
        show.lines(lambda width: render_site_changes(changes, after.vcenter.address, times, width))
    return not changes


def _time_of(site: Inventory) -> str:
    return f"{site.read_at.astimezone():%Y-%m-%d %H:%M}"


def watch(read: Callable[[], Frame], pause: Callable[[float], None], console: Console) -> None:
    """Show readings repeatedly; a failed one leaves the last one, with the reason.

    Output taller than the window is cut: else its beginning would scroll away with each reading. Ends by
    KeyboardInterrupt alone.
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
                problem = f"could not be read: {error.message} ({error.subject})"
            width = width_of(console)
            foot = fold(Text(shown(problem), style="red"), width) if problem else []
            foot.append(Text("Press Ctrl-C to stop.", style="dim"))
            room = max(console.height - len(foot), 1)
            lines = [harmless(line) for line in frame(width, room)][:room]
            live.update(Group(*lines, *foot), refresh=True)
            pause(EVERY_SECONDS)
