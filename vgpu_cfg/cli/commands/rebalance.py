"""The command that proposes which running VMs to move, so that a plan fits."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from vgpu_cfg.cli.options.shared import OutputFormat, OutputOption, PlanArgument, connected, planned
from vgpu_cfg.settings.flags import ConnectionFlags


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog="vgpu-cfg rebalance plan.yaml --dry-run")(rebalance)


@connected(recordings=True)
@planned
def rebalance(
    path: PlanArgument,
    *,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Required: only propose moves; VMs are never moved.")
    ] = False,
    only: Annotated[
        list[str] | None, typer.Option("--only", metavar="GLOB", help="Only make room for these VMs (hvd-*).")
    ] = None,
    output: OutputOption = OutputFormat.TEXT,
    connection: ConnectionFlags,
    variables: dict[str, str],
    variable_files: tuple[Path, ...],
) -> None:
    """Propose the fewest moves of running VMs that make room for all VMs of a plan."""
    from vgpu_cfg.catalog import load_catalog
    from vgpu_cfg.cli.flows import flow
    from vgpu_cfg.cli.flows.preparing.request import read_request
    from vgpu_cfg.cli.output import show
    from vgpu_cfg.errors import DoesNotFit
    from vgpu_cfg.planning.findings.options import PlanOptions
    from vgpu_cfg.planning.moves.rebalance import RebalanceResult, plan_rebalance
    from vgpu_cfg.planning.remedies.lost_hosts import find_lost
    from vgpu_cfg.render.data.pool import rebalance_data
    from vgpu_cfg.render.text.pool.rebalance import render_rebalance

    if not dry_run:
        raise typer.BadParameter("this command only proposes moves; add --dry-run", param_hint="--dry-run")
    desired, observed = flow.read_of(read_request(path, variables, variable_files), connection, moves=True)
    catalog = load_catalog()
    options = PlanOptions(only=tuple(only or ()))
    found = plan_rebalance(desired, observed, catalog, options)
    lost = find_lost(desired, observed, catalog, options.selects)
    server = observed.vcenter.address
    if output is OutputFormat.JSON:
        show.data(rebalance_data(found, desired.name, server, lost=lost))
    else:
        show.lines(lambda width: render_rebalance(found, desired.name, server, width, lost=lost))
    if found.outcome in (RebalanceResult.NONE, RebalanceResult.LIMIT):
        raise DoesNotFit(
            f"no moves would make room for {', '.join(found.unplaced)}",
            subject=f"plan {desired.name}",
            remedy="to see why these VMs cannot be placed, run `vgpu-cfg plan`",
        )
