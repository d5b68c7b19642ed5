"""The unit of counting: one more of a profile, or of a VM as a plan file describes it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from vgpu_cfg.catalog import Catalog
from vgpu_cfg.changes.plan import Diagnostic
from vgpu_cfg.model.desired import DesiredPlan, DesiredPower, DesiredVm
from vgpu_cfg.model.observed.inventory import Host, Inventory
from vgpu_cfg.model.plan_file import GpuEntry
from vgpu_cfg.model.reservations import Quotas
from vgpu_cfg.planning.capacity.host_capacity import CapacityReader
from vgpu_cfg.planning.findings.collection import Findings
from vgpu_cfg.planning.placement.demand import Shape
from vgpu_cfg.planning.placement.host_state import HostState
from vgpu_cfg.planning.pool.copies import Copies
from vgpu_cfg.planning.pool.fit import HostFit, how_many
from vgpu_cfg.planning.pool.quotas import HoldingReader
from vgpu_cfg.planning.pool.rooms import Rooms, rooms_of_profile, rooms_of_vm
from vgpu_cfg.planning.vms.checks.gpu_checks import OfferedBy, check_gpus
from vgpu_cfg.planning.vms.lookup.baseline import Baseline, hosts_in_order, make_baseline
from vgpu_cfg.planning.vms.lookup.gpu_choice import with_profiles
from vgpu_cfg.planning.vms.lookup.vm_resolver import VmResolver


@dataclass(frozen=True, slots=True)
class Fits:
    """The answer: a row per host in question, with the request in numbers.

    `errors` are findings that keep the VM off every host, regardless of free capacity; then there are no
    rows. `rooms` is how many of them a plan may have, by shares and reservations.
    """

    hosts: tuple[HostFit, ...]
    profiles: tuple[str, ...]
    cpus: int = 0
    memory_mib: int = 0
    errors: tuple[Diagnostic, ...] = ()
    rooms: Rooms = field(default_factory=Rooms)

    @property
    def total(self) -> int:
        """How many fit in all."""
        return _total(self.hosts)

    @property
    def allowed(self) -> int:
        """How many a plan may take."""
        return self.total if self.rooms.allowed is None else self.rooms.allowed


@dataclass(slots=True)
class CurrentHosts:
    """The hosts as they are, read once for any number of questions."""

    observed: Inventory
    catalog: Catalog
    reader: CapacityReader = field(init=False)
    hosts: list[Host] = field(init=False)
    states: list[HostState] = field(init=False)

    def __post_init__(self) -> None:
        self.reader = CapacityReader(self.observed, self.catalog)
        self.hosts = hosts_in_order(self.observed)
        baseline: Baseline = make_baseline(self.hosts, self.observed, (), (), self.reader, Findings())
        self.states = baseline.states

    def fit_gpu(
        self, gpu: GpuEntry, wants_host: Callable[[str], bool], quotas: Sequence[Quotas] = ()
    ) -> Fits:
        """Count one more vGPU of a profile, or of the smallest that has the requested memory.

        Only GPUs decide: it says nothing of CPUs and memory of VMs.
        """
        requested = (with_profiles(gpu, self.observed, self.catalog),)
        usable = tuple(
            (index, 0) for index, host in enumerate(self.hosts) if host.is_usable and wants_host(host.name)
        )
        shape = Shape(hosts=usable, variants=self.reader.variants(requested))
        found = how_many(self.states, shape)
        rooms = rooms_of_profile(self._copies(shape, self.states, found), quotas, _total(found))
        return Fits(found, tuple(one.name for one in requested[0].profile[:1]), rooms=rooms)

    def fit_vm(self, desired: DesiredPlan, vm: DesiredVm, wants_host: Callable[[str], bool]) -> Fits:
        """Count one more VM like one of a plan file, as if none of them existed by that name.

        Its clusters, hosts, networks, datastore and template decide as they do in planning. The plan's
        changes to hosts, and its other VMs, do not count before they exist.
        """
        findings = Findings.for_plan(desired)
        resolver = VmResolver(desired, self.observed, self.catalog, findings)
        vm = next(one for one in resolver.desired.vms if one.name == vm.name)
        folder = resolver.site.folder_of(vm)
        is_protected = resolver.is_protected(vm, folder)
        resolved = resolver.resolve(vm, folder, None) if not is_protected else None
        profiles = tuple(gpu.profile[0].name for gpu in vm.gpus if gpu.profile)
        if resolved is None:
            return Fits((), profiles, errors=_errors(findings))
        check_gpus(resolved, self.catalog, self.reader, OfferedBy(self.hosts), findings)
        pools = [resolver.site.pool_of(vm, one) for one in resolved.clusters] if vm.resource_pool else [""]
        if resolved.cannot_be_placed or all(pool is None for pool in pools):
            return Fits((), profiles, resolved.cpus, resolved.memory_mib, _errors(findings))
        resolver.shape(resolved)
        shape = self._narrowed(resolved.shape, wants_host)
        states: Sequence[HostState] = make_baseline(
            self.hosts, self.observed, (), (), self.reader, findings
        ).states
        if shape is None:
            return Fits((), profiles, resolved.cpus, resolved.memory_mib, _errors(findings))
        found = how_many(states, shape)
        copies = self._copies(shape, states, found, starts=vm.power is DesiredPower.ON)
        holding = copies.reader.found_by(resolved)
        against = Findings.for_plan(desired)
        rooms = rooms_of_vm(copies, desired, vm, holding, _total(found), against)
        return Fits(found, profiles, resolved.cpus, resolved.memory_mib, _errors(against), rooms)

    def _copies(
        self, shape: Shape, states: Sequence[HostState], found: Sequence[HostFit], *, starts: bool = True
    ) -> Copies:
        taking = [index for (index, _), fit in zip(shape.hosts, found, strict=True) if fit.count]
        reader = HoldingReader(self.observed, self.catalog, self.reader)
        return Copies(self.observed, self.hosts, states, shape, taking, reader, starts)

    def _narrowed(self, shape: Shape | None, wants_host: Callable[[str], bool]) -> Shape | None:
        if shape is None:
            return None
        return replace(shape, hosts=tuple(one for one in shape.hosts if wants_host(self.hosts[one[0]].name)))


def _total(found: Sequence[HostFit]) -> int:
    return sum(fit.count for fit in found)


def _errors(findings: Findings) -> tuple[Diagnostic, ...]:
    return tuple(found for found in findings.diagnostics() if found.severity == "error")
