"""The answers of read-only commands, before their form is decided: as text, as JSON, and in figures.

One vCenter's answer is printed unchanged; those of several are printed next to each other. A watched table is
rewritten on the terminal until Ctrl-C.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from rich.text import Text

from vgpu_cfg.cli.options import typed
from vgpu_cfg.cli.options.shared import OutputFormat
from vgpu_cfg.cli.output import show
from vgpu_cfg.errors import VCenterError
from vgpu_cfg.model.wording import shown
from vgpu_cfg.render.layout.console import width_of
from vgpu_cfg.render.layout.lines import fold, harmless

if TYPE_CHECKING:
    from rich.console import Console

    from vgpu_cfg.changes.plan import LostHost, Plan
    from vgpu_cfg.changes.suggestion import Difference, Suggestion
    from vgpu_cfg.errors import VgpuCfgError
    from vgpu_cfg.model.choices import UseBy, UseSort
    from vgpu_cfg.model.desired import DesiredPlan
    from vgpu_cfg.model.guests.downloads import Download
    from vgpu_cfg.model.observed.inventory import Inventory
    from vgpu_cfg.model.reservations import Quotas
    from vgpu_cfg.planning.doctor.ours import Ours
    from vgpu_cfg.planning.pool.reservations import ReservationCalendar
    from vgpu_cfg.planning.pool.shapes import Fits
    from vgpu_cfg.planning.pool.summary import Hours, PoolRow
    from vgpu_cfg.render.data.format import Data
    from vgpu_cfg.suggestions.added_hosts import Grown

WantsHost = Callable[[str], bool]
Frame = Callable[[int, int], Iterable["Text"]]
"""A layout of a reading for a window of so many columns and lines."""
EVERY_SECONDS = 20.0
"""As often as a host measures."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The content of an answer. `lines` lays it out for a width, `data` is its JSON.

    `figures` can be added up over several answers, by their JSON keys; so can the rows of `pool`. `refusal`
    is the obstacle to the request, printed on standard error.
    """

    lines: Callable[[int], Iterable[Text]]
    data: Callable[[], Data]
    figures: Mapping[str, int] = field(default_factory=dict)
    pool: Sequence[PoolRow] = ()
    exit_code: int = 0
    refusal: VgpuCfgError | None = None

    def tell(self, output: OutputFormat) -> None:
        """Print it on standard output."""
        if output is OutputFormat.JSON:
            show.data(self.data())
        else:
            show.lines(self.lines)


def inventory(observed: Inventory, wants_host: WantsHost, *, verbose: bool) -> Answer:
    """Describe an estate, or its wanted hosts."""
    from vgpu_cfg.catalog import load_catalog
    from vgpu_cfg.render.text.estate.inventory import render_inventory
    from vgpu_cfg.render.views.estate.inventory import view_inventory

    view = view_inventory(observed, load_catalog(), wants_host=wants_host)

    def data() -> Data:
        from vgpu_cfg.render.data.documents import inventory_data  # for JSON only: it loads a lot

        return inventory_data(view)

    return Answer(
        lambda width: render_inventory(view, width, with_all=verbose),
        data,
        {
            "hosts": len(view.hosts),
            "gpus": sum(host.gpus for host in view.hosts),
            "vms": sum(host.vms for host in view.hosts),
            "vms_on": sum(host.vms_on for host in view.hosts),
        },
    )


def pool(
    observed: Inventory,
    wants_host: WantsHost,
    *,
    quotas: Sequence[Quotas],
    idle_below: float | None,
    by: UseBy,
    sort: UseSort | None,
    verbose: bool,
) -> Answer:
    """Describe the GPUs of the wanted hosts as a pool; `idle_below` is in percent, None for the usual.

    Of `quotas` all of the server are shown, for any wanted hosts.
    """
    from vgpu_cfg.catalog import load_catalog
    from vgpu_cfg.planning.pool.quotas import share_uses
    from vgpu_cfg.planning.pool.spare import spare_states
    from vgpu_cfg.planning.pool.summary import IDLE_BELOW_PERCENT, read_pool
    from vgpu_cfg.planning.pool.use import use_rows
    from vgpu_cfg.render.data.pool import pool_data
    from vgpu_cfg.render.text.pool.gpus import render_pool
    from vgpu_cfg.render.views.estate.inventory import UseTable, cordon_rows

    below = IDLE_BELOW_PERCENT if idle_below is None else idle_below
    found = read_pool(observed, load_catalog(), wants_host=wants_host, idle_below=below)
    cordons = cordon_rows(host for host in observed.hosts if wants_host(host.name))
    shares = share_uses(quotas, observed, load_catalog())
    spares = spare_states(quotas, observed, load_catalog())

    def lines(width: int) -> Iterable[Text]:
        use = UseTable(use_rows(found.gpus, observed, by), by, sort)
        return render_pool(
            found,
            observed.vcenter,
            width,
            use=use,
            cordons=cordons,
            shares=(shares, spares),
            with_all=verbose,
        )

    figures = {
        "hosts": len({gpu.host_moid for gpu in found.gpus}),
        "gpus": len(found.gpus),
        "idle_gpus": sum(row.idle for row in found.rows),
    }
    return Answer(lines, lambda: pool_data(found, observed, cordons, shares, spares), figures, found.rows)


def fits(
    grown: Grown,
    request: str,
    found: Fits,
    wants_host: WantsHost,
    *,
    lost: Sequence[LostHost],
    as_it_is: int | None,
    verbose: bool,
) -> Answer:
    """Report how many fit; `request` is the subject. `lost` are hosts of its plan that do not respond.

    `as_it_is` is how many fit without the hypothetical hosts, None without any.
    """
    from vgpu_cfg.catalog import load_catalog
    from vgpu_cfg.cli.options.hosts import cluster_names
    from vgpu_cfg.planning.pool.gpus import pooled_gpus
    from vgpu_cfg.planning.pool.reservations import now_of
    from vgpu_cfg.render.data.pool import fit_data
    from vgpu_cfg.render.text.pool.fit import render_fit
    from vgpu_cfg.render.views.estate.inventory import FitView

    observed = grown.observed
    counted = {fit.host.moid: fit.host for fit in found.hosts}
    names = {host.name for host in counted.values()}
    gpus = pooled_gpus(observed, load_catalog(), wants_host=lambda name: name in names)
    unusable = [host for host in observed.hosts if wants_host(host.name) and not host.is_usable]
    view = FitView(
        server=observed.vcenter.address,
        read_at=observed.read_at.isoformat(),
        request=request,
        fits=found,
        clusters=cluster_names(observed),
        gpus={moid: [gpu for gpu in gpus if gpu.host_moid == moid] for moid in counted},
        left_out=unusable,
        lost=lost,
        added=grown.added,
        as_it_is=as_it_is,
        now=now_of(observed),
    )
    figures = {"fit": found.total, "hosts": sum(fit.count > 0 for fit in found.hosts)}
    if found.rooms.allowed is not None:
        figures["allowed"] = found.allowed
    return Answer(lambda width: render_fit(view, width, with_all=verbose), lambda: fit_data(view), figures)


def status(
    made: Plan, observed: Inventory, differences: tuple[Difference, ...], *, verbose: bool, exit_code: int = 0
) -> Answer:
    """Report a plan's VMs and their state."""
    from vgpu_cfg.render.text.status import render_status
    from vgpu_cfg.render.views.status import differing, view_status

    made, next_command = typed.advised(made), typed.completed_command("vgpu-cfg plan PLAN")
    view = view_status(made, observed, differences)

    def data() -> Data:
        from vgpu_cfg.render.data.documents import status_data

        return status_data(view)

    return Answer(
        lambda width: render_status(view, width, next_command=next_command, with_all=verbose),
        data,
        {
            "hosts": len(view.hosts),
            "vms": len(view.vms),
            "differ": differing(view),
            "errors": len(made.errors),
        },
        exit_code=exit_code,
    )


def ours(found: Ours, *, next_command: str, verbose: bool, exit_code: int = 0) -> Answer:
    """Report everything of vgpu-cfg at a vCenter."""
    from vgpu_cfg.planning.doctor.ailments import Level
    from vgpu_cfg.render.text.doctor import render_ours

    def data() -> Data:
        from vgpu_cfg.render.data.upkeep import ours_data

        return ours_data(found)

    return Answer(
        lambda width: render_ours(found, width, next_command=next_command, with_all=verbose),
        data,
        {"plans": len(found.plans), **{level.value: found.count(level) for level in Level}},
        exit_code=exit_code,
    )


def plan(
    made: Plan,
    *,
    command: str,
    fix_command: str,
    verbose: bool,
    exit_code: int,
    fixes: Suggestion | None,
    refusal: VgpuCfgError | None,
) -> Answer:
    """Show a plan; `fixes` would let a refused one be carried out."""
    from vgpu_cfg.render.data.documents import plan_data
    from vgpu_cfg.render.text.plan.findings import render_fixes
    from vgpu_cfg.render.text.plan.whole import PlanShown, render_plan

    made = typed.advised(made)

    def lines(width: int) -> Iterable[Text]:
        yield from render_plan(made, width, PlanShown(command, is_only_shown=True, with_all=verbose))
        if fixes is not None:
            yield from render_fixes(fixes, width, command=fix_command, is_written="")

    return Answer(
        lines,
        lambda: plan_data(made, fixes),
        {"vms": len(made.desired.vms), "changes": len(made.changes), "errors": len(made.errors)},
        exit_code=exit_code if refusal is None else refusal.exit_code,
        refusal=refusal,
    )


def downloads_data(downloads: Iterable[Download]) -> list[Data]:
    """Return downloads as JSON lists them."""
    return [one.model_dump(mode="json") | {"is_pinned": one.is_pinned} for one in downloads]


def validated(path: Path, desired: DesiredPlan, downloads: Sequence[Download] | None = None) -> Answer:
    """Report that a plan file is valid, its content, and its guests' downloads if they were listed."""
    from vgpu_cfg.model.wording import counted
    from vgpu_cfg.render.data.format import FORMAT
    from vgpu_cfg.render.layout.lines import fold

    def data() -> Data:
        listed = {} if downloads is None else {"downloads": downloads_data(downloads)}
        return {
            "kind": "validate",
            "format": FORMAT,
            "name": desired.name,
            "vcenter": desired.vcenter,
            "vms": [vm.name for vm in desired.vms],
            "host_entries": len(desired.hosts),
            "networks": [network.name for network in desired.networks],
            **listed,
        }

    count, entries = len(desired.vms), len(desired.hosts)
    gpus = sum(len(vm.gpus) for vm in desired.vms)
    parts = [f"{counted(count, 'VM')} with {counted(gpus, 'GPU')}"] if count else []
    if entries:
        parts.append(f"{entries} {'entry' if entries == 1 else 'entries'} of hosts")
    if desired.networks:
        parts.append(counted(len(desired.networks), "network"))

    def lines(width: int) -> Iterable[Text]:
        yield from fold(Text(f"{path}: valid. {', '.join(parts) or 'empty'}."), width, hang=2)
        if downloads is not None:
            from vgpu_cfg.render.text.plan.whole import render_downloads

            yield from render_downloads(downloads, width)
            if not all(one.is_pinned for one in downloads):
                yield Text(f"NEXT   vgpu-cfg validate {path} --pin")
                return
        is_there_already = not desired.id and count and all(vm.source is None for vm in desired.vms)
        yield Text(f"NEXT   vgpu-cfg {'import' if is_there_already else 'plan'} {path}")

    return Answer(lines, data, {"vms": count, "gpus": gpus, "host_entries": entries})


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
    from vgpu_cfg.catalog import load_catalog
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
