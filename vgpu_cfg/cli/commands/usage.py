"""`vgpu-cfg usage`: GPU-hours that were held, by plan, folder or owner."""

from __future__ import annotations

from typing import Annotated

import typer

from vgpu_cfg.cli.options.shared import OutputFormat, OutputOption, connected
from vgpu_cfg.cli.options.since import age_of
from vgpu_cfg.settings.flags import ConnectionFlags


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        epilog="vgpu-cfg usage --server vc01.example.com\n\n"
        "vgpu-cfg usage --by attribute:CostCentre --since 90d --csv --server vc01.example.com"
    )(usage)


@connected()
def usage(
    *,
    by: Annotated[
        str, typer.Option("--by", metavar="WHAT", help="plan, folder, vm, owner, or attribute:NAME.")
    ] = "plan",
    since: Annotated[
        str, typer.Option("--since", metavar="WHEN", help="Start of the period: 7d, 12h, 2w or 2026-11-01.")
    ] = "30d",
    csv: Annotated[bool, typer.Option("--csv", help="Print comma-separated values.")] = False,
    output: OutputOption = OutputFormat.TEXT,
    connection: ConnectionFlags,
) -> None:
    """Report the GPU-hours that VMs used, based on the power events that vCenter still has."""
    from vgpu_cfg.cli.flows.flow import read_hours
    from vgpu_cfg.cli.output import show_pool

    if csv and output is OutputFormat.JSON:
        raise typer.BadParameter("specify either --csv or --output json", param_hint="--csv")
    age = age_of(since)
    try:
        found, server = read_hours(connection, age, by)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--by") from error
    show_pool.hours(found, by, server, output, as_csv=csv)
