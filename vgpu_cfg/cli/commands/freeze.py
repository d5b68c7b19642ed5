"""`vgpu-cfg freeze`: stop all changes at a vCenter until a date, or end that earlier."""

from __future__ import annotations

from typing import Annotated

import typer

from vgpu_cfg.cli.options.running import occasioned
from vgpu_cfg.cli.options.shared import DryRunOption, OutputFormat, OutputOption, YesOption, connected
from vgpu_cfg.model.choices import Occasion
from vgpu_cfg.settings.flags import ConnectionFlags


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        epilog='vgpu-cfg freeze --until 2027-01-07 --reason "year-end closing" --server vc01.example.com'
        "  # begin\n\n"
        "vgpu-cfg freeze --thaw --server vc01.example.com  # end"
    )(freeze)


@connected()
@occasioned
def freeze(
    *,
    until: Annotated[
        str | None,
        typer.Option(
            "--until",
            metavar="DATE",
            help="When the freeze ends, in UTC: 2027-01-07, or '2027-01-07 06:00'.",
            show_default=False,
        ),
    ] = None,
    thaw: Annotated[bool, typer.Option("--thaw", help="End the freeze now.")] = False,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    output: OutputOption = OutputFormat.TEXT,
    connection: ConnectionFlags,
    occasion: Occasion,
) -> None:
    """Block all vgpu-cfg changes in a vCenter until a date; --thaw ends the freeze early."""
    from vgpu_cfg.cli.flows import freeze_flow

    if thaw == (until is not None):
        raise typer.BadParameter("specify --until with --reason, or --thaw", param_hint="--until")
    if until is None:
        freeze_flow.thaw(connection, occasion, output, yes=yes, dry_run=dry_run)
    else:
        freeze_flow.freeze(connection, until, occasion, output, yes=yes, dry_run=dry_run)
