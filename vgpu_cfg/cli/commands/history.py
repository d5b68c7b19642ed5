"""`vgpu-cfg history` and `unlock`: who ran what, when and with what result, and the locks of a dead run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vgpu_cfg.cli.options.shared import (
    DryRunOption,
    OutputFormat,
    OutputOption,
    YesOption,
    age_of,
    connected,
    planned,
)
from vgpu_cfg.cli.options.typed import PLAN_SUFFIXES
from vgpu_cfg.settings.flags import ConnectionFlags

if TYPE_CHECKING:
    from vgpu_cfg.cli.flows.history import History
    from vgpu_cfg.execution import PastRun


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command(
        epilog="vgpu-cfg history --server vc01.example.com --since 7d  # all runs\n\n"
        "vgpu-cfg history plan.yaml  # runs of a plan\n\n"
        "vgpu-cfg history --run 6392edd69034  # one run"
    )(history)
    app.command(
        epilog="vgpu-cfg unlock --server vc01.example.com  # list locks\n\n"
        "vgpu-cfg unlock 6392edd69034 --server vc01.example.com  # remove those of a run"
    )(unlock)


@connected()
@planned
def history(
    plan: Annotated[
        str | None, typer.Argument(metavar="PLAN", help="Only runs of this plan (plan file or name).")
    ] = None,
    *,
    since: Annotated[
        str | None,
        typer.Option("--since", metavar="WHEN", help="Only runs since this time: 7d, 12h, 2w or 2026-11-01."),
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option(
            "--limit",
            min=1,
            help="Show this many runs, newest first; by default 20, if they fit on the screen.",
        ),
    ] = None,
    run: Annotated[
        str | None,
        typer.Option(
            "--run",
            metavar="ID",
            help="Show one run with its steps; specify the ID or its first few characters.",
        ),
    ] = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Show all steps of a run.")] = False,
    output: OutputOption = OutputFormat.TEXT,
    connection: ConnectionFlags,
    variables: dict[str, str],
    variable_files: tuple[Path, ...],
) -> None:
    """Show who ran what, when, from where, and with what result, on any machine."""
    from vgpu_cfg.cli.flows.history import look_back
    from vgpu_cfg.cli.flows.preparing.request import read_request
    from vgpu_cfg.cli.output import show_history

    age = None if since is None else age_of(since)
    is_file = plan is not None and _is_file(plan)
    request = read_request(Path(plan or ""), variables, variable_files) if is_file else None
    most = None if run is not None else limit or 20
    found = look_back(connection, request, plan=plan or "", age=age, most=most)
    if run is None:
        with_all = verbose or limit is not None
        show_history.runs(found.runs, output, server=found.server, notes=found.notes, with_all=with_all)
    else:
        chosen = _chosen(found, run)
        show_history.one_run(chosen, output, server=found.server, notes=found.notes, with_all=verbose)
    if found.failure is not None:
        raise found.failure


def _is_file(word: str) -> bool:
    return Path(word).is_file() or Path(word).suffix in PLAN_SUFFIXES


def _chosen(found: History, start: str) -> PastRun:
    """Return the run that an id or its beginning means. Raises BadParameter for none and for several."""
    runs = [run for run in found.runs if run.id.startswith(start)]
    exact = [run for run in runs if run.id == start] or runs
    if len(exact) == 1:
        return exact[0]
    if found.failure is not None and not exact:
        raise found.failure
    message = (
        f"no run with the ID {start!r} found; `vgpu-cfg history` lists all known runs"
        if not exact
        else f"{len(exact)} runs have an ID that begins with {start!r}; enter more characters"
    )
    raise typer.BadParameter(message, param_hint="--run")


@connected()
@planned
def unlock(
    run: Annotated[
        str | None,
        typer.Argument(
            metavar="RUN", help="The run whose locks to remove; a plan file, or no argument, lists all locks."
        ),
    ] = None,
    *,
    force: Annotated[
        bool,
        typer.Option(
            "--force",
            help=(
                "Remove the locks of a run even if it was active recently; use this only if the run has "
                "ended."
            ),
        ),
    ] = False,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    output: OutputOption = OutputFormat.TEXT,
    connection: ConnectionFlags,
    variables: dict[str, str],
    variable_files: tuple[Path, ...],
) -> None:
    """Remove locks left by an interrupted run; without a run, list all locks."""
    from vgpu_cfg.cli.flows import freeze_flow
    from vgpu_cfg.cli.flows.preparing.request import read_request

    if run is None or _is_file(run):
        request = None if run is None else read_request(Path(run), variables, variable_files)
        freeze_flow.list_locks(connection, output, request)
    else:
        freeze_flow.unlock(connection, run, output, force=force, yes=yes, dry_run=dry_run)
