"""The commands for daily work on hosts: cordon, drain and uncordon."""

from __future__ import annotations

from typing import Annotated

import typer

from vgpu_cfg.cli.options.running import notified, occasioned
from vgpu_cfg.cli.options.shared import DryRunOption, OutputFormat, OutputOption, YesOption, bare, connected
from vgpu_cfg.model.choices import Occasion
from vgpu_cfg.settings.flags import ConnectionFlags

_Targets = Annotated[
    list[str],
    typer.Argument(
        metavar="TARGET...",
        help="A host, cluster:NAME, or gpu:HOST/PCI; globs match several.",
        show_default=False,
    ),
]

_PowerOffOption = Annotated[
    list[str] | None,
    typer.Option(
        "--power-off",
        metavar="VM",
        help="Allow this VM to be powered off if it cannot be migrated live.",
        callback=bare("vm"),
    ),
]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command(
        epilog='vgpu-cfg cordon host:esx-01 --reason "new DIMM on Tuesday"  # a host\n\n'
        'vgpu-cfg cordon gpu:esx-01/0000:17:00.0 --reason "Xid 79"  # a GPU'
    )(cordon)
    app.command(
        epilog="vgpu-cfg drain esx-01 --dry-run  # show only\n\n"
        "vgpu-cfg drain esx-01 --power-off=head-01  # with a VM that cannot move"
    )(drain)
    app.command(
        epilog="vgpu-cfg uncordon host:esx-01  # only end the cordon\n\n"
        "vgpu-cfg uncordon host:esx-01 --restore --dry-run  # moves back, show only"
    )(uncordon)


@connected()
@occasioned
@notified
def cordon(
    targets: _Targets,
    *,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    output: OutputOption = OutputFormat.TEXT,
    connection: ConnectionFlags,
    occasion: Occasion,
) -> None:
    """Keep new VMs of all plans off hosts or GPUs; running VMs are not affected."""
    from vgpu_cfg.cli.flows import upkeep_flow

    raise typer.Exit(upkeep_flow.cordon(connection, targets, occasion, output, yes=yes, dry_run=dry_run))


@connected()
@occasioned
@notified
def drain(
    host: Annotated[str, typer.Argument(metavar="HOST", help="The host to empty.", show_default=False)],
    *,
    power_off: _PowerOffOption = None,
    others: Annotated[
        bool, typer.Option("--others", help="Also migrate VMs that belong to no plan (vMotion).")
    ] = False,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    output: OutputOption = OutputFormat.TEXT,
    connection: ConnectionFlags,
    occasion: Occasion,
) -> None:
    """Empty a host for maintenance: cordon it, move its VMs away, and remember where they were."""
    from vgpu_cfg.cli.flows import upkeep_flow

    code = upkeep_flow.drain(
        connection, host, occasion, output, others=others, power_off=power_off or (), yes=yes, dry_run=dry_run
    )
    raise typer.Exit(code)


@connected()
@occasioned
@notified
def uncordon(
    targets: _Targets,
    *,
    restore: Annotated[
        bool,
        typer.Option(
            "--restore", help="Also exit maintenance mode left on by a run, and move drained VMs back."
        ),
    ] = False,
    stay: Annotated[
        bool, typer.Option("--stay", help="Leave drained VMs where they are; forget their original hosts.")
    ] = False,
    power_off: _PowerOffOption = None,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    output: OutputOption = OutputFormat.TEXT,
    connection: ConnectionFlags,
    occasion: Occasion,
) -> None:
    """Return cordoned hosts or GPUs to use; with --restore, also move drained VMs back."""
    from vgpu_cfg.cli.flows import upkeep_flow
    from vgpu_cfg.planning.upkeep.give_back import DrainedVms

    if stay and (restore or power_off):
        raise typer.BadParameter("cannot be combined with --restore and --power-off", param_hint="--stay")
    drained = DrainedVms.STAY if stay else DrainedVms.RETURN if restore or power_off else DrainedVms.WAIT
    code = upkeep_flow.uncordon(
        connection,
        targets,
        occasion,
        output,
        drained=drained,
        power_off=power_off or (),
        yes=yes,
        dry_run=dry_run,
    )
    raise typer.Exit(code)
