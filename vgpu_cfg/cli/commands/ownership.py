"""The commands that change whose VMs are: import and forget."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from vgpu_cfg.cli.options.running import occasioned
from vgpu_cfg.cli.options.shared import (
    CommandOptions,
    DryRunOption,
    OnlyOption,
    OutputFormat,
    OutputOption,
    ParallelOption,
    PlanArgument,
    YesOption,
    connected,
    planned,
)
from vgpu_cfg.model.choices import PARALLEL, Occasion
from vgpu_cfg.settings.flags import ConnectionFlags

if TYPE_CHECKING:
    from vgpu_cfg.cli.flows.running.run_flow import ApplyOptions


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command(
        "import",
        epilog="vgpu-cfg import plan.yaml --dry-run  # show only\n\n"
        "vgpu-cfg import plan.yaml --only 'train-*'  # some VMs",
    )(import_)
    app.command(epilog="vgpu-cfg forget plan.yaml --only train-01  # one VM")(forget)


@connected()
@planned
@occasioned
def import_(
    path: PlanArgument,
    *,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    only: OnlyOption = None,
    parallel: ParallelOption = PARALLEL,
    output: OutputOption = OutputFormat.TEXT,
    connection: ConnectionFlags,
    variables: dict[str, str],
    variable_files: tuple[Path, ...],
    occasion: Occasion,
) -> None:
    """Bring existing VMs under management, by name and folder; show what apply would change next."""
    from vgpu_cfg.cli.flows.files import ownership_flow
    from vgpu_cfg.cli.flows.preparing.request import read_request

    request = read_request(path, variables, variable_files)
    said = CommandOptions(connection, variables, variable_files, only=tuple(only or ()), occasion=occasion)
    how = _how(path, said, output, yes=yes, parallel=parallel)
    raise typer.Exit(ownership_flow.take_in(request, connection, said.plan_options, how, dry_run=dry_run))


@connected()
@planned
@occasioned
def forget(
    path: PlanArgument,
    *,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    only: OnlyOption = None,
    parallel: ParallelOption = PARALLEL,
    output: OutputOption = OutputFormat.TEXT,
    connection: ConnectionFlags,
    variables: dict[str, str],
    variable_files: tuple[Path, ...],
    occasion: Occasion,
) -> None:
    """Stop managing VMs without changing them: remove the plan's marks and rules."""
    from vgpu_cfg.cli.flows.files import ownership_flow
    from vgpu_cfg.cli.flows.preparing.request import read_request

    request = read_request(path, variables, variable_files)
    said = CommandOptions(connection, variables, variable_files, only=tuple(only or ()), occasion=occasion)
    how = _how(path, said, output, yes=yes, parallel=parallel)
    raise typer.Exit(ownership_flow.give_up(request, connection, said.plan_options, how, dry_run=dry_run))


def _how(path: Path, said: CommandOptions, output: OutputFormat, *, yes: bool, parallel: int) -> ApplyOptions:
    from vgpu_cfg.cli.flows.running.run_flow import ApplyOptions

    return ApplyOptions(path=path, yes=yes, parallel=parallel, per_host=parallel, output=output, options=said)
