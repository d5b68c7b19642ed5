"""The commands that work on a plan file: validate, plan, apply, status and destroy."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from vgpu_cfg.cli.options import panels
from vgpu_cfg.cli.options.occasion import occasioned
from vgpu_cfg.cli.options.shared import (
    CommandOptions,
    DeleteOption,
    DryRunOption,
    MoveOption,
    OnlyOption,
    OutputFormat,
    OutputOption,
    ParallelOption,
    PerHostOption,
    PlanArgument,
    PlanFormat,
    PlanOutputOption,
    PowerCycleOption,
    PruneOption,
    ReportFormat,
    ReportOption,
    YesOption,
    connected,
    names_to_delete,
    planned,
)
from vgpu_cfg.model.occasion import Occasion
from vgpu_cfg.settings.flags import ConnectionFlags

_SaveOption = Annotated[
    Path | None,
    typer.Option("--out", "-o", metavar="PLAN.json", help="Save the plan, to be reviewed and applied."),
]
_ExitCodeOption = Annotated[bool, typer.Option("--exit-code", help="Exit 10 where something differs.")]
_StrictOption = Annotated[
    bool, typer.Option("--strict", help="As --exit-code; also 10 where something is not known.")
]
_OpenShellOption = Annotated[
    bool,
    typer.Option(
        "--open-shell",
        help="Start the hosts' SSH services, where the plan file allows it, to read; then stop them.",
    ),
]
_DoneOption = Annotated[
    list[str] | None,
    typer.Option(
        "--done", metavar="STEP", help="A manual step that you have done, where nothing else can show it."
    ),
]
_SuggestOption = Annotated[
    Path | None,
    typer.Option(
        "--suggest", metavar="FILE", help="Write the plan file as it would work, where it is refused."
    ),
]
_VerboseOption = Annotated[bool, typer.Option("--verbose", "-v", help="Show what is right already, too.")]


def register(app: typer.Typer) -> None:
    """Add the commands, in the order in which a newcomer meets them."""
    app.command(epilog="vgpu-cfg validate examples/full-vgpu.yaml", rich_help_panel=panels.PLAN)(validate)
    app.command(
        epilog="vgpu-cfg plan examples/four-10c.yaml\n\nvgpu-cfg plan plan.yaml --set net=prod -o plan.json",
        rich_help_panel=panels.PLAN,
    )(plan)
    app.command(
        epilog="vgpu-cfg apply plan.yaml\n\nvgpu-cfg apply plan.json --yes --parallel 16",
        rich_help_panel=panels.PLAN,
    )(apply)
    app.command(epilog="vgpu-cfg status plan.yaml --exit-code", rich_help_panel=panels.LOOK)(status)
    app.command(
        epilog="vgpu-cfg destroy plan.yaml --dry-run\n\nvgpu-cfg destroy plan.yaml --only hvd-01",
        rich_help_panel=panels.PLAN,
    )(destroy)


@planned
def validate(
    path: PlanArgument,
    *,
    output: ReportOption = ReportFormat.TEXT,
    variables: dict[str, str],
    variable_files: tuple[Path, ...],
) -> None:
    """Check a plan file by itself, without a vCenter: every fault with its line."""
    from vgpu_cfg.cli.flows.flow import read_request
    from vgpu_cfg.cli.output import show, show_report

    desired = read_request(path, variables, variable_files).desired
    if output is ReportFormat.JUNIT:
        show_report.validated(desired)
        return
    show.validated(path, desired, OutputFormat(output.value))


@connected(recordings=True)
@planned
def plan(
    path: PlanArgument,
    *,
    out: _SaveOption = None,
    exit_code: _ExitCodeOption = False,
    strict: _StrictOption = False,
    allow_power_cycle: PowerCycleOption = False,
    allow_move: MoveOption = False,
    delete: DeleteOption = None,
    prune: PruneOption = False,
    only: OnlyOption = None,
    open_shell: _OpenShellOption = False,
    suggest: _SuggestOption = None,
    verbose: _VerboseOption = False,
    output: PlanOutputOption = PlanFormat.TEXT,
    connection: ConnectionFlags,
    variables: dict[str, str],
    variable_files: tuple[Path, ...],
) -> None:
    """Show what would change, and why; nothing is changed."""
    from vgpu_cfg.cli.flows import flow
    from vgpu_cfg.cli.flows.occasions import stand_in
    from vgpu_cfg.cli.flows.plan_id import proposed
    from vgpu_cfg.cli.flows.saved_plan import save_plan
    from vgpu_cfg.cli.flows.suggestion import find_fixes, write_suggestion
    from vgpu_cfg.cli.output import show, show_report

    names = names_to_delete(delete, prune=prune)
    request = flow.read_request(path, variables, variable_files)
    if out is not None:
        request = proposed(request, out)
    options = CommandOptions(
        connection,
        variables,
        variable_files,
        allow_power_cycle,
        allow_move,
        names,
        tuple(only or ()),
        stand_in(flow.locate(request, connection)[0]),
    )
    answer = flow.plan_once(request, connection, options.plan_options, open_shell=open_shell)
    made = answer.plan
    is_fixable = bool(made.errors) and request.reviewed is None
    is_asked = output is not PlanFormat.JUNIT or suggest is not None
    fixes = find_fixes(request, connection, answer) if is_fixable and is_asked else None
    if out is not None:
        save_plan(made, out)
    next_command = options.command("apply", out or path)
    if output in (PlanFormat.MARKDOWN, PlanFormat.JUNIT):
        show_report.plan(made, output, command=next_command, fixes=fixes)
    else:
        show.plan(made, OutputFormat(output.value), command=next_command, verbose=verbose, fixes=fixes)
    is_written = suggest is not None and write_suggestion(suggest, fixes, path)
    if fixes is not None and output is PlanFormat.TEXT:
        command = options.command("plan", path, f"--suggest={path.stem}-fixed{path.suffix}")
        show.fixes(fixes, command=command, is_written=str(suggest) if is_written else "")
    flow.refuse_errors(made, fixes)
    if exit_code or strict:
        flow.exit_if_different(made, strict=strict)


@connected()
@planned
@occasioned
def apply(
    path: Annotated[Path, typer.Argument(metavar="PLAN", help="A plan file, or a reviewed plan.json.")],
    *,
    yes: YesOption = False,
    allow_power_cycle: PowerCycleOption = False,
    allow_move: MoveOption = False,
    delete: DeleteOption = None,
    prune: PruneOption = False,
    only: OnlyOption = None,
    done: _DoneOption = None,
    parallel: ParallelOption = 8,
    per_host: PerHostOption = 2,
    output: OutputOption = OutputFormat.TEXT,
    connection: ConnectionFlags,
    variables: dict[str, str],
    variable_files: tuple[Path, ...],
    occasion: Occasion,
) -> None:
    """Apply a plan: show it, ask, carry it out, read back the result."""
    from vgpu_cfg.cli.flows import flow, run_flow

    names = names_to_delete(delete, prune=prune)
    request = flow.read_request(path, variables, variable_files)
    options = CommandOptions(
        connection,
        variables,
        variable_files,
        allow_power_cycle,
        allow_move,
        names,
        tuple(only or ()),
        occasion,
    )
    how = run_flow.ApplyOptions(
        path=path,
        yes=yes,
        parallel=parallel,
        per_host=per_host,
        output=output,
        options=options,
        done=tuple(done or ()),
    )
    raise typer.Exit(run_flow.apply(request, connection, options.plan_options, how))


@connected(recordings=True)
@planned
def status(
    path: PlanArgument,
    *,
    exit_code: _ExitCodeOption = False,
    strict: _StrictOption = False,
    verbose: _VerboseOption = False,
    output: ReportOption = ReportFormat.TEXT,
    connection: ConnectionFlags,
    variables: dict[str, str],
    variable_files: tuple[Path, ...],
) -> None:
    """Show what the plan owns, where it runs, what has drifted, and by whose hand."""
    from vgpu_cfg.cli.flows import flow
    from vgpu_cfg.cli.flows.status_flow import look
    from vgpu_cfg.cli.output import show, show_report
    from vgpu_cfg.planning.findings.options import PlanOptions

    request = flow.read_request(path, variables, variable_files)
    answer, differences = look(request, connection, PlanOptions(allow_power_cycle=True))
    made = answer.plan
    if output is ReportFormat.JUNIT:
        show_report.status(made, answer.observed)
    else:
        show.status(made, answer.observed, differences, OutputFormat(output.value), verbose=verbose)
    if exit_code or strict:
        flow.exit_if_different(made, strict=strict)


@connected()
@planned
@occasioned
def destroy(
    path: PlanArgument,
    *,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    delete: DeleteOption = None,
    only: OnlyOption = None,
    parallel: ParallelOption = 8,
    per_host: PerHostOption = 2,
    output: OutputOption = OutputFormat.TEXT,
    connection: ConnectionFlags,
    variables: dict[str, str],
    variable_files: tuple[Path, ...],
    occasion: Occasion,
) -> None:
    """Delete the VMs that the plan file names and owns, and their rules."""
    from vgpu_cfg.cli.flows import flow, run_flow
    from vgpu_cfg.cli.output import show

    request = flow.read_request(path, variables, variable_files)
    names, globs = names_to_delete(delete), tuple(only or ())
    options = CommandOptions(
        connection, variables, variable_files, delete=names, only=globs, occasion=occasion
    )
    if dry_run:
        made = flow.plan_destroy_once(request, connection, options.plan_options)
        show.plan(made, output, command=options.command("destroy", path), verbose=False)
        flow.refuse_errors(made)
        return
    how = run_flow.ApplyOptions(
        path=path, yes=yes, parallel=parallel, per_host=per_host, output=output, options=options
    )
    raise typer.Exit(run_flow.destroy(request, connection, options.plan_options, how))
