"""What nobody else may change while a plan is carried out, and which runs have locked it now."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from vgpu_cfg.changes.change import (
    AwaitCustomization,
    Change,
    ManualStep,
    MarkVm,
    ReconfigureVm,
    RelocateVm,
    SetCordon,
    SetReservation,
    StageGuest,
)
from vgpu_cfg.changes.kinds.host_base import HostChangeBase
from vgpu_cfg.changes.values import Subject
from vgpu_cfg.model.identity import PlanIdentity
from vgpu_cfg.model.locks import LockName
from vgpu_cfg.model.observed.inventory import Inventory
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.findings.collection import Findings

_MOMENT = "%Y-%m-%d %H:%M:%S"

_LEAVE_THE_POOL = (MarkVm, AwaitCustomization, StageGuest, SetCordon)
"""What names a host, and gives nobody less of its GPUs while it goes on."""


def change_locks(changes: Iterable[Change], observed: Inventory) -> tuple[LockName, ...]:
    """Return what a run locks before its first change.

    Each host that it works on, and each cluster where it makes, starts, moves, stops or deletes VMs, sets
    rules or prepares hosts: there another run would place VMs on what this one takes, or take down what it
    starts. Settings of a VM that is off take nothing: its memory counts once it runs, and its devices stay.
    """
    hosts: dict[str, None] = {}
    pools: dict[str, None] = {}
    for change in changes:
        if isinstance(change, HostChangeBase) or (isinstance(change, ManualStep) and change.host_moid):
            hosts.update(dict.fromkeys(_hosts_of(change)))
        if not _leaves_the_pool(change, observed):
            pools.update(dict.fromkeys(_pools_of(change, observed)))
    return (*pool_locks(pools, observed), *host_locks(hosts, observed))


def _leaves_the_pool(change: Change, observed: Inventory) -> bool:
    """Whether a change gives nobody less of the GPUs and the memory of hosts while it goes on."""
    if isinstance(change, ReconfigureVm) and not change.spec.devices:
        vm = observed.vm_by_moid.get(change.vm.moid or "")
        return vm is not None and not vm.is_on
    return isinstance(change, _LEAVE_THE_POOL)


def plan_lock(plan: PlanIdentity) -> LockName:
    """Return what locks a plan: its id, or its name where it has none yet.

    Whoever takes the one sees the other among the locks that it reads then (`RunLocks.is_alone`).
    """
    if plan.id:
        return LockName(kind="id", key=plan.id, label=plan.name)
    return LockName(kind="plan", key=plan.name)


def report_locks(
    plan: PlanIdentity, changes: Iterable[Change], observed: Inventory, findings: Findings
) -> None:
    """Tell of other runs that hold a lock of the plan, or of what it would change: `apply` ends there."""
    if observed.locks is None:
        return
    wanted = {name.text for name in (plan_lock(plan), *change_locks(changes, observed))}
    subject = Subject(kind="plan", name=plan.name)
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
                f"{message}; silent since {beat_at:{_MOMENT}} UTC",
                f"see that it does not run any more; then `{observed.locks.unlock_command(run)}`",
            )
        else:
            findings.add(
                Code.ANOTHER_RUN,
                subject,
                f"{message}; last heard of at {beat_at:%H:%M:%S} UTC",
                "wait for it to end: until then `apply` changes nothing and ends with exit code 6",
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


def _hosts_of(change: Change) -> Iterator[str]:
    if isinstance(change, HostChangeBase):
        yield change.host.moid
    elif change.host_moid is not None:
        yield change.host_moid
    if isinstance(change, RelocateVm):
        yield change.destination.host_moid


def _pools_of(change: Change, observed: Inventory) -> Iterator[str]:
    if isinstance(change, SetReservation) and change.reservation is not None:
        yield from (one.cluster for one in change.reservation.holds)
    cluster = getattr(change, "cluster_moid", None)
    if cluster is not None:
        yield cluster
    for moid in _hosts_of(change):
        host = observed.host_by_moid.get(moid)
        if host is not None:
            yield host.cluster_moid or host.compute_moid
