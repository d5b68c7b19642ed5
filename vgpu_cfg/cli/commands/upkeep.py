"""The commands for daily work on hosts: cordon, drain and uncordon."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from vgpu_cfg.cli.commands.verify import check_targets
from vgpu_cfg.cli.options.running import notified, occasioned
from vgpu_cfg.cli.options.shared import (
    CommandOptions,
    DryRunOption,
    OutputFormat,
    OutputOption,
    ReportFormat,
    YesOption,
    bare,
    connected,
    planned,
    refuse_of_several,
)
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
        'vgpu-cfg cordon gpu:esx-01/0000:17:00.0 --reason "Xid 79"  # a GPU\n\n'
        "vgpu-cfg cordon gpu:esx-01/0000:17:00.0 --check --plan plan.yaml  # before uncordon"
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
@planned
@occasioned
@notified
def cordon(
    targets: _Targets,
    *,
    check: Annotated[
        bool,
        typer.Option(
            "--check", help="Instead, check the health of cordoned hosts or GPUs, before `uncordon`."
        ),
    ] = False,
    plan: Annotated[
        Path | None,
        typer.Option(
            "--plan",
            metavar="PLAN",
            help="With --check: the plan file with access to the hosts, and with VMs that have the GPUs.",
            show_default=False,
        ),
    ] = None,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    output: OutputOption = OutputFormat.TEXT,
    connection: ConnectionFlags,
    occasion: Occasion,
    variables: dict[str, str],
    variable_files: tuple[Path, ...],
) -> None:
    """Stop all plans from placing VMs on hosts or GPUs; running VMs are not affected."""
    if check:
        if plan is None:
            raise typer.BadParameter("requires --plan", param_hint="--check")
        refuse_of_several(
            {"--reason": occasion.reason, "--dry-run": dry_run}, "cannot be combined with --check"
        )
        options = CommandOptions(connection, variables, variable_files)
        check_targets(options, plan, targets, ReportFormat(output.value))
    refuse_of_several({"--plan": plan, "--set": variables, "--vars": variable_files}, "requires --check")
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
        bool, typer.Option("--others", help="Also migrate VMs that do not belong to any plan (vMotion).")
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
            "--restore", help="Also exit the maintenance mode that a run left on, and move drained VMs back."
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
    """Return cordoned hosts or GPUs to service; with --restore, also move drained VMs back."""
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
