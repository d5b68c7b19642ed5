"""`vgpu-cfg trial`: try assumptions of vgpu-cfg on a vCenter with throw-away objects."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from vgpu_cfg.cli.options.shared import DryRunOption, OutputFormat, OutputOption, YesOption, bare, connected
from vgpu_cfg.cli.options.steps import steps_of
from vgpu_cfg.planning.doctor.trials import Step
from vgpu_cfg.settings.flags import ConnectionFlags

DEFAULT_MINUTES = 20


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        epilog="vgpu-cfg trial --server vc01.example.com  # show its steps\n\n"
        "vgpu-cfg trial --steps objects,vm --in training --datastore vsan --server vc01.example.com"
        "  # with a VM\n\n"
        "vgpu-cfg trial --steps gpu --in training --profile grid_a100-8c --server lab:two-a100"
        "  # with a vGPU\n\n"
        "vgpu-cfg trial --clean --server vc01.example.com  # remove leftovers"
    )(trial)


@connected()
def trial(
    *,
    steps: Annotated[
        str,
        typer.Option("--steps", metavar="STEPS", help=f"The steps, separated by commas: {', '.join(Step)}."),
    ] = Step.OBJECTS.value,
    in_: Annotated[
        str | None,
        typer.Option("--in", metavar="FOLDER", help="The folder for temporary VMs.", show_default=False),
    ] = None,
    template: Annotated[
        str | None,
        typer.Option(help="Clone VMs from this template; if omitted, create empty VMs.", show_default=False),
    ] = None,
    cluster: Annotated[
        str | None,
        typer.Option(help="The cluster for temporary VMs.", show_default=False, callback=bare("cluster")),
    ] = None,
    datastore: Annotated[
        str | None, typer.Option(help="The datastore for temporary VMs.", show_default=False)
    ] = None,
    network: Annotated[
        str | None, typer.Option(help="Connect their NICs to this network.", show_default=False)
    ] = None,
    spec: Annotated[
        str | None,
        typer.Option(
            help=("Customize a guest with this specification; requires --template."), show_default=False
        ),
    ] = None,
    profile: Annotated[
        str | None, typer.Option(help="The vGPU profile for the gpu step.", show_default=False)
    ] = None,
    move_to: Annotated[
        str | None,
        typer.Option(
            "--move-to",
            metavar="HOST",
            help="Move its VM to this host with vMotion.",
            show_default=False,
            callback=bare("host"),
        ),
    ] = None,
    plan: Annotated[
        Path | None,
        typer.Option(
            "--plan",
            metavar="PLAN",
            help="The plan file whose `access` logs in to hosts, for the step shell.",
            show_default=False,
        ),
    ] = None,
    save: Annotated[
        Path | None,
        typer.Option(
            "--save",
            metavar="FILE|FOLDER",
            help="Save which assumptions hold here, as `doctor --save` does.",
            show_default=False,
        ),
    ] = None,
    max_minutes: Annotated[
        int, typer.Option("--max-minutes", min=4, max=600, help="The maximum duration, including cleanup.")
    ] = DEFAULT_MINUTES,
    clean: Annotated[
        bool, typer.Option("--clean", help="Only remove expired objects from earlier trials.")
    ] = False,
    all_: Annotated[
        bool,
        typer.Option(
            "--all", help=("With --clean: also remove objects that have not expired or have lost their mark.")
        ),
    ] = False,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    output: OutputOption = OutputFormat.TEXT,
    connection: ConnectionFlags,
) -> None:
    """Test vgpu-cfg's assumptions on a vCenter with temporary objects, which it shows first and removes."""
    from vgpu_cfg.cli.flows import trial_flow

    if all_ and not clean:
        raise typer.BadParameter("requires --clean", param_hint="--all")
    chosen = steps_of(steps)
    if in_ is None and not clean and any(step.makes_vms for step in chosen):
        raise typer.BadParameter("temporary VMs require --in FOLDER", param_hint="--steps")
    if spec is not None and template is None:
        raise typer.BadParameter("requires --template", param_hint="--spec")
    if (Step.GPU in chosen) != (profile is not None) or (move_to is not None and profile is None):
        raise typer.BadParameter(
            "the gpu step requires a profile; the other steps do not accept one", param_hint="--profile"
        )
    if (Step.SHELL in chosen) != (plan is not None):
        raise typer.BadParameter(
            "the shell step requires a plan file; the other steps do not accept one", param_hint="--plan"
        )
    how = trial_flow.How(max_minutes, yes=yes, dry_run=dry_run, output=output, save=save, plan=plan)
    where = {"folder": in_, "template": template, "cluster": cluster, "datastore": datastore}
    if clean:
        trial_flow.clean(connection, how, with_all=all_)
    else:
        place = trial_flow.Place(
            {key: value for key, value in where.items() if value}, network, profile, move_to, spec
        )
        trial_flow.trial(connection, chosen, place, how)
