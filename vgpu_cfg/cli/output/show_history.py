"""How `history` answers: a table of runs, or one run with its steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vgpu_cfg.cli.options.shared import OutputFormat
from vgpu_cfg.cli.output import show

if TYPE_CHECKING:
    from vgpu_cfg.cli.flows.history import History
    from vgpu_cfg.execution import PastRun


def runs(found: History, output: OutputFormat) -> None:
    """Print runs, the newest first."""
    from vgpu_cfg.render.data.history import history_data
    from vgpu_cfg.render.text.history import render_history
    from vgpu_cfg.render.views.past_runs import view_run

    rows = [view_run(run.entry, run.began_at, run.ended_at, run.known_from) for run in found.runs]
    if output is OutputFormat.JSON:
        show.data(history_data(rows, found.server, found.notes))
        return
    show.lines(lambda width: render_history(rows, width, server=found.server, notes=found.notes))


def one_run(run: PastRun, found: History, output: OutputFormat) -> None:
    """Print a run with its steps, as far as a journal of it is within reach."""
    from vgpu_cfg.execution import read_journal
    from vgpu_cfg.render.data.history import run_data
    from vgpu_cfg.render.text.history import render_run
    from vgpu_cfg.render.views.past_runs import view_run
    from vgpu_cfg.render.views.run_steps import steps_done

    row = view_run(run.entry, run.began_at, run.ended_at, run.known_from)
    record = read_journal(run.journal) if run.journal is not None else None
    steps = None
    if record is not None and record.plan is not None:
        steps = steps_done(record.plan, record.events, record.report)
    journal = str(run.journal) if run.journal is not None else ""
    if output is OutputFormat.JSON:
        show.data(run_data(row, steps, found.server, found.notes, journal=journal))
        return
    show.lines(lambda width: render_run(row, steps, width, notes=found.notes, journal=journal))
