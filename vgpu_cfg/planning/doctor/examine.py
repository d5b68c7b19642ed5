"""Everything that is wrong with an estate, the worst first, and the same by kind."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from vgpu_cfg.catalog import Catalog
from vgpu_cfg.model.freeze import thaw_command
from vgpu_cfg.model.locks import Lock, Locks
from vgpu_cfg.model.observed.inventory import Connection, Inventory
from vgpu_cfg.model.ranges import fold_names
from vgpu_cfg.model.reservations import Reservations
from vgpu_cfg.model.wording import as_counted, counted, listed
from vgpu_cfg.planning.doctor.ailments import Ailment, Kind, Level
from vgpu_cfg.planning.doctor.failover import failover_ailments
from vgpu_cfg.planning.doctor.gpus import gpu_ailments
from vgpu_cfg.planning.doctor.hosts import cluster_ailments, host_ailments, storage_ailments
from vgpu_cfg.planning.doctor.patient import Patient
from vgpu_cfg.planning.doctor.tried import Tried, try_beliefs
from vgpu_cfg.planning.doctor.vms import vm_ailments
from vgpu_cfg.planning.vms.lookup.moving import HOT_MIGRATE_OPTION, has_host_devices, may_hot_migrate

_ORDER = {kind: number for number, kind in enumerate(Kind)}


@dataclass(frozen=True, slots=True)
class Group:
    """The ailments of one kind."""

    kind: Kind
    ailments: tuple[Ailment, ...]


@dataclass(frozen=True, slots=True)
class Health:
    """The health of an estate: `ailments` the worst first, the examined objects, the unread data.

    `tried` are the beliefs of this program that the reading could try.
    """

    ailments: tuple[Ailment, ...]
    hosts: int
    gpus: int
    vms: int
    unread: tuple[str, ...] = ()
    tried: tuple[Tried, ...] = ()

    @property
    def groups(self) -> tuple[Group, ...]:
        """The ailments by kind, in their order."""
        by_kind: dict[Kind, list[Ailment]] = {}
        for one in self.ailments:
            by_kind.setdefault(one.kind, []).append(one)
        return tuple(Group(kind, tuple(found)) for kind, found in by_kind.items())

    def count(self, level: Level) -> int:
        """Return how many ailments are of a level."""
        return sum(one.kind.level is level for one in self.ailments)


def examine(observed: Inventory, catalog: Catalog, server: Sequence[str] = ()) -> Health:
    """Find everything that is wrong; `server` are the words that name the vCenter to a command."""
    patient = Patient(observed, catalog, server)
    found: Iterable[Ailment] = (
        *host_ailments(patient),
        *cluster_ailments(patient),
        *storage_ailments(patient),
        *gpu_ailments(patient),
        *vm_ailments(patient),
        *failover_ailments(patient),
        *_vcenter(patient),
    )
    ordered = sorted(dict.fromkeys(found), key=lambda one: (_ORDER[one.kind], as_counted(one.subject)))
    gpus = sum(len(host.gpus) for host in patient.gpu_hosts)
    unread, tried = tuple(_unread(patient)), try_beliefs(patient)
    return Health(tuple(ordered), len(observed.hosts), gpus, len(patient.gpu_vms), unread, tried)


def _unread(patient: Patient) -> Iterator[str]:
    """Name what this account did not get to see, with the reason: nothing is said of it above."""
    why: dict[tuple[str, str], list[str]] = {}
    for host in patient.gpu_hosts:
        for group, reason in patient.facts(host).unread.items():
            if host.connection is Connection.CONNECTED:
                why.setdefault((group.value, reason), []).append(host.name)
    for (name, reason), names in why.items():
        yield f"{name} of {fold_names(names)}: {reason}"
    if patient.observed.licences is None:
        yield "host licenses"
    if patient.observed.locks is None:
        yield "vgpu-cfg locks and reservations"
    hidden = [vm.name for vm in patient.observed.vms if vm.detail is None and patient.holds_gpu(vm)]
    if hidden:
        yield f"configuration of {listed(hidden)}, which {'has' if len(hidden) == 1 else 'have'} a GPU"


def _vcenter(patient: Patient) -> Iterator[Ailment]:
    """Yield locks and reservations left behind at vCenter, and its settings that affect VMs with vGPUs."""
    observed = patient.observed
    if observed.locks is not None:
        yield from _locks(observed.locks)
    if observed.reservations is not None:
        yield from _reservations(observed.reservations, patient)
    moving = [
        vm for vm, detail, _ in patient.gpu_vms if vm.is_on and detail.vgpus and not has_host_devices(detail)
    ]
    if moving and observed.facts.hosts and not may_hot_migrate(observed):
        option = observed.facts.vcenter_options.get(HOT_MIGRATE_OPTION) or "not set"
        says = f"{HOT_MIGRATE_OPTION} is {option}; {counted(len(moving), 'running vGPU VM')}"
        yield Ailment(Kind.NO_VMOTION, "vcenter", says, f"govc option.set {HOT_MIGRATE_OPTION} true")


def _locks(locks: Locks) -> Iterator[Ailment]:
    if locks.freeze is not None:
        command = thaw_command(locks.server)
        yield Ailment(Kind.FREEZE, "vcenter", locks.freeze.words, command, locks.freeze.account)
    for run in filter(locks.is_silent, locks.runs):
        first = locks.of_run(run)[0]
        says = f"run {run}, last active at {locks.beat_of(run):%Y-%m-%d %H:%M} UTC"
        user = first.holder.user if first.holder is not None else ""
        yield Ailment(Kind.LOCK, _locked(first), says, locks.unlock_command(run), user)
    for lock in locks.unknown:
        yield Ailment(Kind.LOCK, _locked(lock), "the lock does not contain a run ID", "", lock.account)


def _locked(lock: Lock) -> str:
    return str(lock.name).replace(" ", ":", 1)


def _reservations(found: Reservations, patient: Patient) -> Iterator[Ailment]:
    command = patient.type_("inventory", "--reservations")
    for kept in found.kept:
        own = kept.reservation
        if own is None:
            says = "the reservation cannot be read"
            yield Ailment(Kind.RESERVATION, f"plan:{kept.name}", says, command, kept.account)
        elif own.ends <= found.now:
            says = f"ended {own.ends:%Y-%m-%d %H:%M} UTC"
            yield Ailment(Kind.RESERVATION, f"plan:{own.plan}", says, command, kept.account)
