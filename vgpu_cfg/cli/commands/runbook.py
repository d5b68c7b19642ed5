"""`vgpu-cfg runbook`: a plan as a document for manual execution, or the record of a run."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vgpu_cfg.cli.options.running import RotateOption, occasioned, rotated
from vgpu_cfg.cli.options.shared import (
    AllowDestroyOption,
    AllowOption,
    CommandOptions,
    DeleteOption,
    MoveOption,
    OutputFormat,
    OutputOption,
    PlanArgument,
    PowerCycleOption,
    connected,
    planned,
)
from vgpu_cfg.errors import NotFound
from vgpu_cfg.model.choices import Occasion
from vgpu_cfg.settings.environment import state_folder
from vgpu_cfg.settings.flags import ConnectionFlags

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vgpu_cfg.changes.plan import Plan
    from vgpu_cfg.changes.report import Event, Report
    from vgpu_cfg.cli.flows.preparing.request import PlanRequest


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        epilog="vgpu-cfg runbook plan.yaml > runbook.md  # before a run\n\n"
        "vgpu-cfg runbook plan.yaml --as-run > done.md  # after it"
    )(runbook)


@connected(recordings=True, quotas=True)
@planned
@occasioned
def runbook(
    path: PlanArgument,
    *,
    as_run: Annotated[
        bool, typer.Option("--as-run", help="Show the plan's last run, with times and results.")
    ] = False,
    allow_power_cycle: PowerCycleOption = False,
    allow_move: MoveOption = False,
    allow: AllowOption = None,
    delete: DeleteOption = None,
    allow_destroy: AllowDestroyOption = 0,
    rotate: RotateOption = None,
    open_shell: Annotated[
        bool,
        typer.Option(
            "--open-shell",
            help="As for `plan`: also read settings that are visible only in the hosts' shells.",
        ),
    ] = False,
    output: OutputOption = OutputFormat.TEXT,
    connection: ConnectionFlags,
    variables: dict[str, str],
    variable_files: tuple[Path, ...],
    occasion: Occasion,
) -> None:
    """Print the plan as a Markdown runbook: each step with its reason, commands, check and undo."""
    from vgpu_cfg.cli import labs
    from vgpu_cfg.cli.flows import flow
    from vgpu_cfg.cli.flows.preparing.request import read_request
    from vgpu_cfg.cli.output import show
    from vgpu_cfg.render.markdown.runbook import as_run_data, render_as_run, runbook_data

    request = read_request(path, variables, variable_files)
    if as_run:
        runs = _runs(request)
        if output is OutputFormat.JSON:
            told = [
                as_run_data(one.plan, one.events, one.report, by=one.by, run=one.id, occasion=one.occasion)
                for one in runs
            ]
            show.document("as-run", runs=told)
            return
        texts = [
            render_as_run(one.plan, one.events, one.report, by=one.by, occasion=one.occasion) for one in runs
        ]
        sys.stdout.write("\n".join(texts))
        return
    from vgpu_cfg.catalog import load_catalog
    from vgpu_cfg.planning.host_settings.resolved_host import make_view
    from vgpu_cfg.planning.host_settings.table import setting
    from vgpu_cfg.render.markdown.runbook import render_runbook

    names = tuple(delete or ())
    command = CommandOptions(
        connection,
        variables,
        variable_files,
        allow_power_cycle,
        allow_move,
        names,
        occasion=occasion,
        allow_destroy=allow_destroy,
        rotate=rotated(rotate, request.desired),
        allow=tuple(allow or ()),
    )
    answer = flow.plan_once(request, connection, command.plan_options, open_shell=open_shell)
    made, observed = answer.plan, answer.observed
    flow.refuse_errors(made, is_shown=False)
    views = {host.moid: make_view(host, observed, load_catalog()) for host in observed.hosts}
    next_command = command.command("apply", path)
    if output is OutputFormat.JSON:
        show.document(
            "runbook", **runbook_data(made, setting, views, apply_command=next_command, occasion=occasion)
        )
        return
    lab = labs.lab_access(flow.locate(request, connection)[0])
    sys.stdout.write(
        render_runbook(made, setting, views=views, apply_command=next_command, lab=lab, occasion=occasion)
    )


@dataclass(frozen=True, slots=True)
class _Run:
    """A run that was recorded, who ran it from where, and what for."""

    plan: Plan
    events: Sequence[Event]
    report: Report | None
    by: str
    id: str
    occasion: Occasion


def _runs(request: PlanRequest) -> list[_Run]:
    """Return the last run of a plan after those that it went on from, each with who ran it.

    Raises NotFound where none was recorded on this machine.
    """
    from vgpu_cfg.execution import exit_code_of, find_journals, read_journal

    name = request.desired.name
    reported: list[_Run] = []
    for found in find_journals(state_folder() / "journals", name):
        record = read_journal(found)
        if reported and record.report is not None and exit_code_of(record.report) == 0:
            break  # that one came to its end: what follows is another story
        if record.plan is not None:
            who = f"{record.header.user} on {record.header.host}" if record.header.user else ""
            header = record.header
            reported.insert(
                0, _Run(record.plan, record.events, record.report, who, header.run, header.occasion)
            )
    if reported:
        return reported
    raise NotFound(
        f"no runs of {name} are recorded on this machine",
        subject=str(state_folder() / "journals"),
        remedy="run this on the machine that ran `vgpu-cfg apply`",
    )
