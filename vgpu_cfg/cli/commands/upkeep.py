"""The commands for daily work on hosts: cordon and uncordon."""

from __future__ import annotations

from typing import Annotated

import typer

from vgpu_cfg.cli.options import panels
from vgpu_cfg.cli.options.shared import OutputFormat, OutputOption, connected
from vgpu_cfg.settings.flags import ConnectionFlags

_Targets = Annotated[
    list[str],
    typer.Argument(
        metavar="TARGET...", help="host:NAME or gpu:HOST/PCI; globs are taken.", show_default=False
    ),
]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command(
        epilog='vgpu-cfg cordon host:esx-01 --reason "new DIMM on Tuesday"\n\n'
        'vgpu-cfg cordon gpu:esx-01/0000:17:00.0 --reason "Xid 79"',
        rich_help_panel=panels.HOSTS,
    )(cordon)
    app.command(epilog="vgpu-cfg uncordon host:esx-01", rich_help_panel=panels.HOSTS)(uncordon)


@connected()
def cordon(
    targets: _Targets,
    *,
    reason: Annotated[
        str, typer.Option("--reason", metavar="TEXT", help="Why; whoever meets the cordon reads it.")
    ],
    output: OutputOption = OutputFormat.TEXT,
    connection: ConnectionFlags,
) -> None:
    """Keep new VMs off hosts or GPUs, for everybody; what runs there stays."""
    from vgpu_cfg.cli.flows import upkeep_flow

    raise typer.Exit(upkeep_flow.cordon(connection, targets, reason, output))


@connected()
def uncordon(
    targets: _Targets, *, output: OutputOption = OutputFormat.TEXT, connection: ConnectionFlags
) -> None:
    """Give hosts or GPUs back that were cordoned."""
    from vgpu_cfg.cli.flows import upkeep_flow

    raise typer.Exit(upkeep_flow.uncordon(connection, targets, output))
