"""The objects locked while a plan is carried out, and the runs that have locked them now."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from vgpu_cfg.changes.change import Change
from vgpu_cfg.changes.values import Subject
from vgpu_cfg.model.identity import PlanIdentity
from vgpu_cfg.model.locks import LockName, thaw_command
from vgpu_cfg.model.observed.inventory import Inventory
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.findings.collection import Findings

_MOMENT = "%Y-%m-%d %H:%M:%S"


def change_locks(changes: Iterable[Change], observed: Inventory) -> tuple[LockName, ...]:
    """Return the locks of a run before its first change.

    Each host that it works on, and each cluster where it makes, starts, moves, stops or deletes VMs, sets
    rules or prepares hosts: there another run could place VMs on the same capacity, or take down VMs that
    this one starts. Settings of a VM that is off need none: its memory counts once it runs, and its devices
    stay.
    """
    hosts: dict[str, None] = {}
    pools: dict[str, None] = {}
    for change in changes:
        if change.works_on_host:
            hosts[change.works_on_host] = None
        if not change.spares_pool(observed):
            pools.update(dict.fromkeys(_pools_of(change, observed)))
    return (*pool_locks(pools, observed), *host_locks(hosts, observed))


def plan_lock(plan: PlanIdentity) -> LockName:
    """Return the lock of a plan: its id, or its name if it has none yet.

    A holder of the one sees the other among the locks that it reads then (`RunLocks.is_alone`).
    """
    if plan.id:
        return LockName(kind="id", key=plan.id, label=plan.name)
    return LockName(kind="plan", key=plan.name)


def report_locks(
    plan: PlanIdentity, changes: Iterable[Change], observed: Inventory, findings: Findings
) -> None:
    """Report a freeze, and other runs that hold a lock of the plan, or of its changes: `apply` ends there."""
    if observed.locks is None:
        return
    subject = Subject(kind="plan", name=plan.name)
    if observed.locks.freeze is not None:
        findings.add(
            Code.FROZEN,
            subject,
            f"changes in this vCenter are frozen {observed.locks.freeze.words}",
            f"wait, or end the freeze with `{thaw_command(observed.locks.server)}`; during the "
            "freeze, `apply` makes no changes and exits with code 6",
        )
    wanted = {name.text for name in (plan_lock(plan), *change_locks(changes, observed))}
    for run in observed.locks.runs:
        held = observed.locks.of_run(run)
        holder = held[0].holder
        met = dict.fromkeys(
            str(lock.name) for lock in held if lock.name.text in wanted or lock.name.plan == plan.name
        )
        if holder is None or not met:
            continue
        beat_at = observed.locks.beat_of(run)
        message = f"run {run} has locked {', '.join(met)}: {holder}, since {holder.since:{_MOMENT}} UTC"
        if observed.locks.is_silent(run):
            findings.add(
                Code.SILENT_RUN,
                subject,
                f"{message}; inactive since {beat_at:{_MOMENT}} UTC",
                f"make sure that the run has ended; then run `{observed.locks.unlock_command(run)}`",
            )
        else:
            findings.add(
                Code.ANOTHER_RUN,
                subject,
                f"{message}; last active at {beat_at:%H:%M:%S} UTC",
                "wait until that run ends; until then, `apply` makes no changes and exits with code 6",
            )


def host_locks(moids: Iterable[str], observed: Inventory) -> tuple[LockName, ...]:
    """Return what locks these hosts."""
    names = {host.moid: host.name for host in observed.hosts}
    return tuple(LockName(kind="host", key=moid, label=names.get(moid, "")) for moid in moids)


def pool_locks(moids: Iterable[str], observed: Inventory) -> tuple[LockName, ...]:
    """Return what locks the GPUs of these clusters; a host without a cluster is one for itself."""
    names = {cluster.moid: cluster.name for cluster in observed.clusters}
    alone = {host.compute_moid: host.name for host in observed.hosts}
    return tuple(
        LockName(kind="cluster", key=moid, label=names.get(moid) or alone.get(moid, "")) for moid in moids
    )


def _pools_of(change: Change, observed: Inventory) -> Iterator[str]:
    yield from change.pools
    host = observed.host_by_moid.get(change.works_on_host or change.host_moid or "")
    if host is not None:
        yield host.owner_moid
