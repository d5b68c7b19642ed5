"""How `unlock` answers: who has locked what, what is about to be removed, and what was."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from vgpu_cfg.cli.options.shared import OutputFormat
from vgpu_cfg.cli.output import show
from vgpu_cfg.model.locks import Lock, Locks


def locks(found: Locks, output: OutputFormat, *, server: str) -> None:
    """Print all runs that hold locks."""
    from vgpu_cfg.render.data.locks import locks_data
    from vgpu_cfg.render.text.run.locks import render_locks

    if output is OutputFormat.JSON:
        show.document("locks", **locks_data(found))
        return
    show.lines(lambda width: render_locks(found, width, server=server))


def of_run(found: Locks, run: str, *, to_people: bool) -> None:
    """Print what a run has locked; on standard error, where standard output belongs to a program."""
    from vgpu_cfg.render.text.run.locks import render_run_locks

    show.lines(lambda width: render_run_locks(found, run, width), sys.stderr if to_people else None)


def removed(run: str, gone: Sequence[Lock], output: OutputFormat) -> None:
    """Say which locks were removed."""
    from vgpu_cfg.render.data.locks import lock_data

    if output is OutputFormat.JSON:
        show.document("unlock", run=run, removed=[lock_data(lock) for lock in gone])
        return
    from vgpu_cfg.render.text.run.locks import render_removed

    show.lines(lambda width: render_removed(gone, width))
