"""The answers of `history`, `unlock` and `freeze`: runs and their steps, owners of locks, and freezes.

`history` shows a table of runs, or one run with its steps. `unlock` shows the owners of locks, the locks
about to be removed, and those removed.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, TextIO

from vgpu_cfg.cli.options.shared import OutputFormat
from vgpu_cfg.cli.output import show
from vgpu_cfg.model.locks import KeptFreeze, Lock, Locks

if TYPE_CHECKING:
    from vgpu_cfg.execution import PastRun


def runs(
    found: Sequence[PastRun], output: OutputFormat, *, server: str, notes: Sequence[str], with_all: bool
) -> None:
    """Print runs of a server ("" for any), the newest first; `notes` are the sources that were not read."""
    from vgpu_cfg.render.data.history import history_data
    from vgpu_cfg.render.text.run.history import render_history
    from vgpu_cfg.render.views.run.run_steps import view_run

    rows = [view_run(run.entry, run.began_at, run.ended_at, run.known_from) for run in found]
    if output is OutputFormat.JSON:
        show.data(history_data(rows, server, notes))
        return
    show.lines(lambda width: render_history(rows, width, server=server, notes=notes, with_all=with_all))


def one_run(run: PastRun, output: OutputFormat, *, server: str, notes: Sequence[str], with_all: bool) -> None:
    """Print a run with its steps, as far as a journal of it is within reach."""
    from vgpu_cfg.execution import read_journal
    from vgpu_cfg.render.data.history import run_data
    from vgpu_cfg.render.text.run.history import render_run
    from vgpu_cfg.render.views.run.run_steps import steps_done, view_run

    row = view_run(run.entry, run.began_at, run.ended_at, run.known_from)
    record = read_journal(run.journal) if run.journal is not None else None
    steps = None
    if record is not None and record.plan is not None:
        steps = steps_done(record.plan, record.events, record.report)
    journal = str(run.journal) if run.journal is not None else ""
    if output is OutputFormat.JSON:
        show.data(run_data(row, steps, server, notes, journal=journal))
        return
    show.lines(lambda width: render_run(row, steps, width, notes=notes, journal=journal, with_all=with_all))


def locks(found: Locks, output: OutputFormat, *, server: str) -> None:
    """Print all runs that hold locks."""
    from vgpu_cfg.render.data.history import locks_data
    from vgpu_cfg.render.text.run.history import render_locks

    if output is OutputFormat.JSON:
        show.document("locks", **locks_data(found))
        return
    show.lines(lambda width: render_locks(found, width, server=server))


def freeze(found: Locks, output: OutputFormat, stream: TextIO | None = None) -> None:
    """Print the freeze of a vCenter, and the runs that continue in spite of it."""
    from vgpu_cfg.render.data.history import freeze_data
    from vgpu_cfg.render.text.run.history import render_freezes

    if output is OutputFormat.JSON:
        freezes = [freeze_data(kept, found.now) for kept in found.freezes]
        show.document("freeze", freezes=freezes, runs=list(found.runs))
        return
    show.lines(lambda width: render_freezes(found, width), stream)


def thawed(ended: Sequence[KeptFreeze], output: OutputFormat) -> None:
    """Say which freezes were ended."""
    from vgpu_cfg.render.data.history import freeze_data
    from vgpu_cfg.render.text.run.history import render_thawed

    if output is OutputFormat.JSON:
        show.document("thaw", ended=[freeze_data(kept) for kept in ended])
        return
    show.lines(lambda width: render_thawed(ended, width))


def of_run(found: Locks, run: str, *, to_people: bool) -> None:
    """Print the locks of a run; on standard error, if standard output belongs to a program."""
    from vgpu_cfg.render.text.run.history import render_run_locks

    show.lines(lambda width: render_run_locks(found, run, width), sys.stderr if to_people else None)


def removed(run: str, gone: Sequence[Lock], output: OutputFormat) -> None:
    """Say which locks were removed."""
    from vgpu_cfg.render.data.history import lock_data

    if output is OutputFormat.JSON:
        show.document("unlock", run=run, removed=[lock_data(lock) for lock in gone])
        return
    from vgpu_cfg.render.text.run.history import render_removed

    show.lines(lambda width: render_removed(gone, width))
