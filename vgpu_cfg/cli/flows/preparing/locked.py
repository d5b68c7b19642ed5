"""A command that carries a plan out: its locks before the first change, and the records of its run.

Locks are taken of its plan, then of hosts and clusters. Every such command has its run data, and the places
where they are recorded, from here.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from vgpu_cfg.cli.output import show
from vgpu_cfg.model.choices import NO_OCCASION, Occasion
from vgpu_cfg.settings.environment import state_folder

if TYPE_CHECKING:
    from vgpu_cfg.changes.plan import Plan
    from vgpu_cfg.cli.compose import Estate
    from vgpu_cfg.execution import HostTools, JournalCopy, RunLocks, RunRecord
    from vgpu_cfg.model.identity import PlanIdentity
    from vgpu_cfg.model.locks import LockName
    from vgpu_cfg.model.observed.inventory import Inventory


@contextmanager
def locked(
    plan: PlanIdentity | None,
    estate: Estate,
    command: str,
    occasion: Occasion = NO_OCCASION,
    *,
    at_once: bool = False,
) -> Iterator[RunLocks]:
    """Keep other runs of a plan away for the length of a block; without a plan only from its own locks.

    The plan is locked with `at_once`, otherwise by `read_alone` or before any other object. Other runs of the
    plan may know it by another name, or by its name alone: so read the estate by `read_alone`. Raises Locked
    if another run is active, with its owner; NotPermitted if the account may make no locks.
    """
    from vgpu_cfg.execution import RunLocks, this_machine, this_user
    from vgpu_cfg.model.locks import LockHolder
    from vgpu_cfg.planning.locks import plan_lock

    holder = LockHolder(
        run=estate.run,
        command=command,
        plan=plan.name if plan is not None else "",
        plan_id=plan.id if plan is not None else "",
        user=this_user(),
        machine=this_machine(),
        pid=os.getpid(),
        since=estate.clock.now(),
        occasion=occasion,
    )
    folder = state_folder() / "locks"
    own = () if plan is None else (plan_lock(plan),)
    with RunLocks(estate.locks, estate.run_log, estate.clock, folder, holder, show.say, own) as locks:
        if at_once:
            locks.take()
        yield locks


def read_alone(
    locks: RunLocks,
    read: Callable[[], Inventory],
    is_settled: Callable[[Inventory], bool] = lambda _: False,
) -> Inventory:
    """Read the estate for a run, once no other works on a plan of this name; the run's locks are none of it.

    `read` includes the locks. If a reading shows no lock of the plan, and `is_settled` that nothing is left
    to do, no lock is made. Otherwise the plan is locked, and the estate is read again: what another run has
    changed in between is seen. Raises Locked if another run is active, or changes are frozen.
    """
    if not locks.has_own:
        observed = read()
        if observed.locks is not None and not locks.meets(observed.locks) and is_settled(observed):
            return observed.model_copy(update={"locks": None})
        locks.refuse_frozen(observed.locks)
        locks.take()
    while True:
        observed = read()
        locks.refuse_frozen(observed.locks)
        if observed.locks is None or locks.is_alone(observed.locks):
            return observed.model_copy(update={"locks": None})


def shell_locks(tools: HostTools, observed: Inventory) -> tuple[LockName, ...]:
    """Return what locks the hosts that are written to as they are read: to open a shell, or close it."""
    from vgpu_cfg.planning.locks import host_locks

    facts = observed.facts.hosts
    return host_locks(
        (
            moid
            for moid, access in tools.access.items()
            if access.ssh == "open-and-close" or (moid in facts and facts[moid].mark is not None)
        ),
        observed,
    )


@contextmanager
def recorded_run(
    plan: Plan,
    observed: Inventory,
    estate: Estate,
    locks: RunLocks,
    *,
    command: str,
    occasion: Occasion,
    reviewed: str = "",
    say: Callable[[str], None],
) -> Iterator[RunRecord]:
    """Record a run for the length of a block, which must call `end` with its report.

    `command` is the typed word, `say` reports data that cannot be written. Every run in such a block is
    listed by `history`.
    """
    from vgpu_cfg.execution import RunPlaces, recorded, this_machine, this_user
    from vgpu_cfg.model.runs import RunEntry

    entry = RunEntry(
        run=estate.run,
        at=estate.clock.now(),
        command=command,
        occasion=occasion,
        reviewed=reviewed,
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
