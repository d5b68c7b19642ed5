"""Who runs what, and where that is written down: for every command that carries a plan out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from vgpu_cfg.settings.folders import state_folder

if TYPE_CHECKING:
    from vgpu_cfg.changes.plan import Plan
    from vgpu_cfg.cli.compose import Estate
    from vgpu_cfg.execution import JournalCopy, RunLocks, RunRecord
    from vgpu_cfg.model.observed.inventory import Inventory
    from vgpu_cfg.model.occasion import Occasion


@contextmanager
def recorded_run(
    plan: Plan,
    observed: Inventory,
    estate: Estate,
    locks: RunLocks,
    *,
    command: str,
    occasion: Occasion,
    say: Callable[[str], None],
) -> Iterator[RunRecord]:
    """Write a run down for the length of a block, which must call `end` with its report.

    `command` is the word that was typed, `say` tells what cannot be written. Whatever is run in such a
    block is listed by `history`.
    """
    from vgpu_cfg.execution import RunPlaces, recorded, this_machine, this_user
    from vgpu_cfg.model.runs import RunEntry

    entry = RunEntry(
        run=estate.run,
        at=estate.clock.now(),
        command=command,
        occasion=occasion,
        user=this_user(),
        machine=this_machine(),
        account=observed.vcenter.user,
    )
    places = RunPlaces(
        state_folder() / "journals",
        _make_copies,
        estate.run_log,
        observed.datacenter_moid(plan.target.datacenter),
    )
    with recorded(plan, entry, places, locks, estate.clock, say) as record:
        yield record


def _make_copies(stem: str) -> Sequence[JournalCopy]:
    """Begin the copies of a journal that the settings ask for."""
    from vgpu_cfg.execution import FolderSink, JournalCopy, SyslogSink
    from vgpu_cfg.settings.journals import journal_settings

    settings = journal_settings()
    copies = [] if settings.folder is None else [JournalCopy(FolderSink(settings.folder, stem))]
    if settings.syslog is not None:
        server = settings.syslog
        copies.append(JournalCopy(SyslogSink(server.way, server.host, server.port)))
    return copies
