"""Everything that is wrong with an estate, the worst first, and the same by kind."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from vgpu_cfg.catalog import Catalog
from vgpu_cfg.model.observed.inventory import Connection, Inventory
from vgpu_cfg.model.ranges import fold_names
from vgpu_cfg.model.reservations import Quotas
from vgpu_cfg.model.wording import counted, listed
from vgpu_cfg.planning.doctor.ailments import Ailment, Group, Kind, Level, grouped, worst_first
from vgpu_cfg.planning.doctor.hosts import (
    ENDS_SOON,
    cluster_ailments,
    failover_ailments,
    gpu_ailments,
    host_ailments,
    storage_ailments,
)
from vgpu_cfg.planning.doctor.ours import left_behind
from vgpu_cfg.planning.doctor.patient import Patient
from vgpu_cfg.planning.doctor.tried import Tried, try_beliefs
from vgpu_cfg.planning.doctor.vms import vm_ailments
from vgpu_cfg.planning.pool.quotas import HoldingReader, LicenceUse, licence_uses
from vgpu_cfg.planning.pool.reservations import now_of
from vgpu_cfg.planning.vms.lookup.moving import HOT_MIGRATE_OPTION, has_host_devices, may_hot_migrate


@dataclass(frozen=True, slots=True)
class Health:
    """The health of an estate: `ailments` the worst first, the examined objects, the unread data.

    `tried` are the beliefs of this program that the reading could try, `licences` the pools of the site.
    """

    ailments: tuple[Ailment, ...]
    hosts: int
    gpus: int
    vms: int
    unread: tuple[str, ...] = ()
    tried: tuple[Tried, ...] = ()
    licences: tuple[LicenceUse, ...] = ()

    @property
    def groups(self) -> tuple[Group, ...]:
        """The ailments by kind, in their order."""
        return grouped(self.ailments)

    def count(self, level: Level) -> int:
        """Return how many ailments are of a level."""
        return sum(one.kind.level is level for one in self.ailments)


def examine(
    observed: Inventory, catalog: Catalog, server: Sequence[str] = (), quotas: Sequence[Quotas] = ()
) -> Health:
    """Find everything that is wrong; `server` are the words that name the vCenter to a command."""
    patient = Patient(observed, catalog, server)
    running = HoldingReader(observed, catalog, patient.reader).running() if quotas else {}
    licences = licence_uses(quotas, running.values(), observed)
    found: Iterable[Ailment] = (
        *host_ailments(patient),
        *cluster_ailments(patient),
        *storage_ailments(patient),
        *gpu_ailments(patient),
        *vm_ailments(patient),
        *failover_ailments(patient),
        *left_behind(patient),
        *_vcenter(patient),
        *(_shortage(use) for use in licences if use.is_short),
        *_ends(quotas, observed),
    )
    ordered = worst_first(found)
    gpus = sum(len(host.gpus) for host in patient.gpu_hosts)
    unread, tried = tuple(_unread(patient)), try_beliefs(patient)
    return Health(ordered, len(observed.hosts), gpus, len(patient.gpu_vms), unread, tried, licences)


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
    """Yield settings of vCenter that affect VMs with vGPUs."""
    observed = patient.observed
    moving = [
        vm for vm, detail, _ in patient.gpu_vms if vm.is_on and detail.vgpus and not has_host_devices(detail)
    ]
    if moving and observed.facts.hosts and not may_hot_migrate(observed):
        option = observed.facts.vcenter_options.get(HOT_MIGRATE_OPTION) or "not set"
        says = f"{HOT_MIGRATE_OPTION} is {option}; {counted(len(moving), 'running vGPU VM')}"
        yield Ailment(Kind.NO_VMOTION, "vcenter", says, f"govc option.set {HOT_MIGRATE_OPTION} true")


def _shortage(use: LicenceUse) -> Ailment:
    says = f"{use.need} needed{use.by}; {use.has}"
    return Ailment(Kind.LICENCES, "vcenter", says, "")


def _ends(quotas: Iterable[Quotas], observed: Inventory) -> Iterator[Ailment]:
    for pool in (pool for one in quotas for pool in one.licences):
        if pool.ends is not None and pool.ends < (now_of(observed) + ENDS_SOON).date():
            yield Ailment(
                Kind.LICENCE_ENDS, "vcenter", f"{pool.product} expires on {pool.ends} ({pool.origin})"
            )
