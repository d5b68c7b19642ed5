"""`vgpu-cfg runbook`: a plan as a document that a colleague could follow by hand, or what a run did."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vgpu_cfg.cli.options.shared import (
    CommandOptions,
    DeleteOption,
    PlanArgument,
    PowerCycleOption,
    PruneOption,
    connected,
    names_to_delete,
    planned,
)
from vgpu_cfg.errors import NotFound
from vgpu_cfg.settings.flags import ConnectionFlags
from vgpu_cfg.settings.folders import state_folder

if TYPE_CHECKING:
    from vgpu_cfg.cli.flows.flow import PlanRequest


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        epilog="vgpu-cfg runbook plan.yaml > runbook.md\n\nvgpu-cfg runbook plan.yaml --as-run > done.md"
    )(runbook)


@connected(recordings=True)
@planned
def runbook(
    path: PlanArgument,
    *,
    as_run: Annotated[
        bool, typer.Option("--as-run", help="What the last run of this plan did, with times and results.")
    ] = False,
    allow_power_cycle: PowerCycleOption = False,
    delete: DeleteOption = None,
    prune: PruneOption = False,
    open_shell: Annotated[
        bool, typer.Option("--open-shell", help="As with `plan`: read what only the hosts' shells tell.")
    ] = False,
    connection: ConnectionFlags,
    variables: dict[str, str],
    variable_files: tuple[Path, ...],
) -> None:
    """Print the plan as a runbook in Markdown: every step with why, commands, proof and undo."""
    from vgpu_cfg.cli import compose
    from vgpu_cfg.cli.flows import flow

    request = flow.read_request(path, variables, variable_files)
    if as_run:
        sys.stdout.write(_as_run(request))
        return
    from vgpu_cfg.catalog import load_catalog
    from vgpu_cfg.planning.findings.options import PlanOptions
    from vgpu_cfg.planning.host_settings.select import make_view
    from vgpu_cfg.planning.host_settings.table import setting
    from vgpu_cfg.render.markdown.runbook import render_runbook

    names = names_to_delete(delete, prune=prune)
    options = PlanOptions(allow_power_cycle=allow_power_cycle, delete=names)
    made, observed = flow.plan_once(request, connection, options, open_shell=open_shell)
    flow.refuse_errors(made)
    command = CommandOptions(connection, variables, variable_files, allow_power_cycle, names)
    views = {host.moid: make_view(host, observed, load_catalog()) for host in observed.hosts}
    lab = compose.lab_access(flow.locate(request, connection)[0])
    again = command.command("apply", path)
    sys.stdout.write(render_runbook(made, setting, views=views, apply_command=again, lab=lab))


def _as_run(request: PlanRequest) -> str:
    """Write what the last run of a plan did, after those that it went on from.

    Raises NotFound where none was recorded on this machine.
    """
    from vgpu_cfg.execution import exit_code_of, find_journals, read_journal
    from vgpu_cfg.render.markdown.as_run import render_as_run

    name = request.desired.name
    reported: list[str] = []
    for found in find_journals(state_folder() / "journals", name):
        record = read_journal(found)
        if reported and record.report is not None and exit_code_of(record.report) == 0:
            break  # that one came to its end: what follows is another story
        if record.plan is not None:
            who = f"{record.header.user} on {record.header.host}" if record.header.user else ""
            reported.insert(0, render_as_run(record.plan, record.events, record.report, by=who))
    if reported:
        return "\n".join(reported)
    raise NotFound(
        f"no run of {name} was recorded here",
        subject=str(state_folder() / "journals"),
        remedy="look on the machine where `vgpu-cfg apply` was run",
    )
