"""What `inventory --gpus`, `inventory --compare` and `fit` print: the same values as text, or as JSON."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from vgpu_cfg.catalog import load_catalog
from vgpu_cfg.cli.options.hosts import cluster_names
from vgpu_cfg.cli.options.shared import OutputFormat
from vgpu_cfg.cli.output import show

if TYPE_CHECKING:
    from vgpu_cfg.model.observed.inventory import Inventory
    from vgpu_cfg.model.plan.lost import LostHost
    from vgpu_cfg.model.quotas import Quotas
    from vgpu_cfg.model.use_choice import UseBy, UseSort
    from vgpu_cfg.planning.pool.hours import Hours
    from vgpu_cfg.planning.pool.shapes import Fits
    from vgpu_cfg.suggestions.added_hosts import Grown


def pool(
    observed: Inventory,
    wants_host: Callable[[str], bool],
    output: OutputFormat,
    *,
    quotas: Sequence[Quotas],
    idle_below: float | None,
    by: UseBy,
    sort: UseSort | None,
    verbose: bool,
) -> None:
    """Print the GPUs of the wanted hosts as a pool; `idle_below` is in percent, None for the usual.

    Of `quotas` all is told that the server holds, whichever hosts are wanted.
    """
    from vgpu_cfg.planning.pool.quotas import share_uses
    from vgpu_cfg.planning.pool.summary import IDLE_BELOW_PERCENT, read_pool
    from vgpu_cfg.planning.pool.use import use_rows
    from vgpu_cfg.render.data.pool import pool_data
    from vgpu_cfg.render.text.gpus import render_pool
    from vgpu_cfg.render.views.cordons import cordon_rows
    from vgpu_cfg.render.views.use import UseTable

    below = IDLE_BELOW_PERCENT if idle_below is None else idle_below
    found = read_pool(observed, load_catalog(), wants_host=wants_host, idle_below=below)
    cordons = cordon_rows(host for host in observed.hosts if wants_host(host.name))
    shares = share_uses(quotas, observed, load_catalog())
    if output is OutputFormat.JSON:
        show.data(pool_data(found, observed, cordons, shares))
        return
    use = UseTable(use_rows(found.gpus, observed, by), by, sort)
    show.lines(
        lambda width: render_pool(
            found, observed.vcenter, width, use=use, cordons=cordons, shares=shares, with_all=verbose
        )
    )


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
    from vgpu_cfg.cli.output.watch import Frame, watch
    from vgpu_cfg.planning.pool.summary import read_pool
    from vgpu_cfg.planning.pool.use import use_rows
    from vgpu_cfg.render.layout.console import make_console
    from vgpu_cfg.render.text.use import render_use
    from vgpu_cfg.render.views.use import UseTable

    def frame() -> Frame:
        observed = read()
        found = read_pool(observed, load_catalog(), wants_host=wanted(observed))
        use = UseTable(use_rows(found.gpus, observed, by), by, sort)
        return lambda width, height: render_use(found, use, width, height=height, with_all=verbose)

    watch(frame, SystemClock().pause, make_console(sys.stdout))


def hours(found: Hours, by: str, server: str, output: OutputFormat, *, as_csv: bool) -> None:
    """Print GPU-hours as a table, as JSON or as comma-separated values."""
    from vgpu_cfg.render.data.pool import hours_csv, hours_data
    from vgpu_cfg.render.text.hours import render_hours

    if as_csv:
        sys.stdout.write(hours_csv(found, by))
    elif output is OutputFormat.JSON:
        show.data(hours_data(found, by, server))
    else:
        show.lines(lambda width: render_hours(found, by, width, server=server))


def fits(
    grown: Grown,
    request: str,
    found: Fits,
    wants_host: Callable[[str], bool],
    output: OutputFormat,
    *,
    lost: Sequence[LostHost],
    as_it_is: int | None,
    verbose: bool,
) -> None:
    """Print how many fit; `request` says of what. `lost` are hosts of its plan that do not respond.

    `as_it_is` is how many fit without the hosts that are thought of, None where there are none.
    """
    from vgpu_cfg.planning.pool.gpus import pooled_gpus
    from vgpu_cfg.render.data.pool import fit_data
    from vgpu_cfg.render.text.fit import render_fit
    from vgpu_cfg.render.views.fit import FitView

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
    )
    if output is OutputFormat.JSON:
        show.data(fit_data(view))
        return
    show.lines(lambda width: render_fit(view, width, with_all=verbose))


def site_changes(before: Inventory, after: Inventory, output: OutputFormat) -> bool:
    """Print what changed between two readings; return whether nothing did."""
    from vgpu_cfg.planning.site_changes import compare_sites
    from vgpu_cfg.render.data.site_changes import site_changes_data
    from vgpu_cfg.render.text.site_changes import render_site_changes

    changes = compare_sites(before, after)
    if output is OutputFormat.JSON:
        show.data(site_changes_data(changes, before, after))
    else:
        times = _time_of(before), _time_of(after)
        show.lines(lambda width: render_site_changes(changes, after.vcenter.address, times, width))
    return not changes


def _time_of(site: Inventory) -> str:
    return f"{site.read_at.astimezone():%Y-%m-%d %H:%M}"
