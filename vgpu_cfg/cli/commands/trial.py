"""`vgpu-cfg trial`: try assumptions of vgpu-cfg on a vCenter with throw-away objects."""

from __future__ import annotations

from typing import Annotated

import typer

from vgpu_cfg.cli.options.shared import DryRunOption, OutputFormat, OutputOption, YesOption, connected
from vgpu_cfg.cli.options.steps import steps_of
from vgpu_cfg.planning.doctor.trials import Step
from vgpu_cfg.settings.flags import ConnectionFlags

DEFAULT_MINUTES = 20


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        epilog="vgpu-cfg trial --server vc01.example.com\n\n"
        "vgpu-cfg trial --dry-run --server lab:two-a100\n\n"
        "vgpu-cfg trial --clean --server vc01.example.com"
    )(trial)


@connected()
def trial(
    *,
    steps: Annotated[
        str, typer.Option("--steps", metavar="STEPS", help="The steps, separated by commas: objects.")
    ] = Step.OBJECTS.value,
    max_minutes: Annotated[
        int, typer.Option("--max-minutes", min=4, max=600, help="The maximum duration, removal included.")
    ] = DEFAULT_MINUTES,
    clean: Annotated[
        bool, typer.Option("--clean", help="Only remove objects of earlier trials that have expired.")
    ] = False,
    all_: Annotated[
        bool,
        typer.Option("--all", help="With --clean: also those that have not expired, or whose mark is lost."),
    ] = False,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    output: OutputOption = OutputFormat.TEXT,
    connection: ConnectionFlags,
) -> None:
    """Try assumptions of vgpu-cfg on a vCenter with throw-away objects, which it shows and removes."""
    from vgpu_cfg.cli.flows import trial_flow

    if all_ and not clean:
        raise typer.BadParameter("requires --clean", param_hint="--all")
    how = trial_flow.How(max_minutes, yes=yes, dry_run=dry_run, output=output)
    if clean:
        trial_flow.clean(connection, how, with_all=all_)
    else:
        trial_flow.trial(connection, steps_of(steps), how)
