"""The spare of a cluster: whether the GPU VMs of any of its hosts could run on its other hosts.

The VMs are placed on the free capacity of the other usable hosts, the largest first: profiles by the rules of
placement, memory by the reservations. A VM that names a device of its host, whose restart is disabled, or
that a mandatory rule keeps there is left out: that was decided.

VMs of hosts that a plan empties are placed as DRS may place them: the largest first, each on the host with
the most free memory that takes it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from vgpu_cfg.catalog import Catalog
from vgpu_cfg.changes.base import of_kind
from vgpu_cfg.changes.change import Change, EnterMaintenance
from vgpu_cfg.changes.values import Subject
from vgpu_cfg.model.desired import DesiredPlan
from vgpu_cfg.model.observed.inventory import Cluster, Host, Inventory
from vgpu_cfg.model.observed.vm import Vm, VmDetail
from vgpu_cfg.model.ranges import fold_names
from vgpu_cfg.model.reservations import Quotas, Spare
from vgpu_cfg.model.wording import as_counted, counted, gib, listed
from vgpu_cfg.planning.capacity.gpu_state import GpuState
from vgpu_cfg.planning.capacity.host_capacity import CapacityReader, HostCapacity
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.findings.collection import Findings
from vgpu_cfg.planning.findings.options import matches_any
from vgpu_cfg.planning.moves.movables import HostRules
from vgpu_cfg.planning.placement.host_state import HOST_MEMORY_SHARE
from vgpu_cfg.planning.pool.quotas import shall_run
from vgpu_cfg.planning.vms.lookup.moving import HA_RESTART
from vgpu_cfg.planning.vms.lookup.resolved_vm import ResolvedVm

Left = tuple["Load", str]
"""A VM without another place, and why."""


@dataclass(frozen=True, slots=True)
class Load:
    """A running VM with GPUs that may run on other hosts; `vm` is None for one that a plan creates.

    `devices` are the kinds of functions of which each passed-through device takes one, with its name.
    """

    name: str
    host: str
    profiles: tuple[str, ...]
    devices: tuple[tuple[str, Collection[tuple[int, int]]], ...]
    memory_mib: int
    allows: Callable[[str], bool]
    vm: Vm | None = None


@dataclass(slots=True)
class Room:
    """The free capacity of a host."""

    host: Host
    gpus: list[GpuState]
    free_mib: int
    dynamic: list[tuple[int, int]]

    def copy(self) -> Room:
        return Room(self.host, [gpu.copy() for gpu in self.gpus], self.free_mib, list(self.dynamic))


@dataclass(frozen=True, slots=True)
class ClusterSpare:
    """A cluster for which a file asks for a spare; `lost` are the VMs without another place, by host."""

    cluster: str
    spare: Spare
    lost: Mapping[str, tuple[Left, ...]] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """The number of VMs without another place."""
        return len({load.name for left in self.lost.values() for load, _ in left})

    @property
    def state(self) -> str:
        """The hosts that can be emptied, and the VMs that prevent more."""
        number = self.spare.hosts
        if not self.count:
            words = "any host can be evacuated" if number == 1 else f"any {number} hosts can be evacuated"
            return f"{words} ({self.spare.origin})"
        words = "not every host" if number == 1 else f"not every set of {number} hosts"
        found = listed((f"{name}: {_named(left)}" for name, left in self.lost.items() if left), shown=3)
        return f"{words} can be evacuated ({self.spare.origin}); VMs without another host: on {found}"

    @property
    def words(self) -> str:
        """The state with the cluster."""
        return f"cluster {self.cluster}: {self.state}"


def _named(left: Sequence[Left]) -> str:
    reasons = listed(dict.fromkeys(why for _, why in left), shown=2)
    return f"{fold_names(sorted((load.name for load, _ in left), key=as_counted))} ({reasons})"


def room_of(host: Host, capacity: HostCapacity, observed: Inventory, without: Collection[str] = ()) -> Room:
    """Return a host's room, as if the VMs of these moids had no memory; `capacity` is that without them."""
    here = (vm for vm in observed.vms_by_host.get(host.moid, ()) if vm.moid not in without and vm.is_on)
    reserved = sum(vm.detail.reserved_mib for vm in here if vm.detail is not None)
    dynamic = [
        (slot.pci.vendor_id, slot.pci.device_id)
        for slot in capacity.slots
        if slot.pci.passthrough_active and slot.holder is None and not slot.is_cordoned
    ]
    free_mib = int(HOST_MEMORY_SHARE * host.memory_mib) - reserved
    return Room(host, list(capacity.gpus) * host.takes_vms, free_mib, dynamic * host.takes_vms)


def load_of(vm: Vm, cluster: Cluster) -> Load | None:
    """Return a VM as a load of its host; None if it has no GPUs, does not run, or stays on its host."""
    detail = vm.detail
    if detail is None or not vm.is_on or vm.is_template or not (detail.vgpus or detail.passthrough_gpus):
        return None
    is_fixed = any(device.is_fixed for device in detail.passthrough)
    if is_fixed or cluster.overrides_of(vm.moid).get(HA_RESTART) == "disabled":
        return None
    return as_load(vm, detail, cluster)


def as_load(vm: Vm, detail: VmDetail, cluster: Cluster) -> Load:
    """Return the devices and memory that a VM requires on another host."""
    profiles = tuple(vgpu.profile for vgpu in detail.vgpus)
    devices = tuple((device.text, device.allowed) for device in detail.passthrough)
    allows = HostRules.of(vm, cluster).allow
    return Load(vm.name, vm.host_moid or "", profiles, devices, detail.memory_mib or 0, allows, vm)


def lost_by_host(
    rooms: Sequence[Room], loads: Sequence[Load], reader: CapacityReader, hosts: int = 1
) -> dict[str, tuple[Left, ...]]:
    """Return for each host with loads those that no other host takes if it is emptied.

    With more than one of `hosts` those with the largest loads are emptied with it.
    """
    by_host: dict[str, list[Load]] = {}
    for load in _largest_first(loads, reader):
        by_host.setdefault(load.host, []).append(load)
    heaviest = sorted(by_host, key=lambda moid: -sum(_size(one, reader) for one in by_host[moid]))
    found = {}
    for room in rooms:
        if room.host.moid not in by_host:
            continue
        down = [room.host.moid, *(moid for moid in heaviest if moid != room.host.moid)][:hosts]
        others = [one.copy() for one in rooms if one.host.moid not in down]
        leaving = [load for moid in down for load in by_host[moid]]
        found[room.host.name] = tuple(left_over(leaving, others, reader))
    return found


def _largest_first(loads: Sequence[Load], reader: CapacityReader) -> list[Load]:
    return sorted(loads, key=lambda one: (-_size(one, reader), one.name))


def _size(load: Load, reader: CapacityReader) -> int:
    needs = (reader.needs(profile).values() for profile in load.profiles)
    return sum(max((need.framebuffer_mib for need in by_board), default=0) for by_board in needs)


def left_over(loads: Sequence[Load], rooms: Sequence[Room], reader: CapacityReader) -> Iterator[Left]:
    """Put loads on hosts, in their order; yield those that none takes."""
    for load in loads:
        allowed = [room for room in rooms if load.allows(room.host.moid)]
        if len(allowed) < len(rooms) and not allowed:
            continue
        reasons: dict[str, None] = {}
        for room in allowed:
            why = _take(room, load, reader)
            if not why:
                break
            reasons[why] = None
        else:
            yield load, listed(reasons) or "no other host with GPUs is usable"


def _take(room: Room, load: Load, reader: CapacityReader) -> str:
    """Put a VM on a host if it has the room; return why not otherwise, "" if it has."""
    gpus = [gpu.copy() for gpu in room.gpus]
    for profile in load.profiles:
        needs = reader.needs(profile)
        for gpu in gpus:
            need = needs.get(gpu.board_key or "")
            if need is not None and gpu.refuse(need) is None:
                gpu.take(need, load.name)
                break
        else:
            return f"no capacity for {profile}"
    dynamic = list(room.dynamic)
    for text, kinds in load.devices:
        fitting = next((one for one in dynamic if one in kinds), None)
        if fitting is None:
            return f"no free {text}"
        dynamic.remove(fitting)
    if load.memory_mib > room.free_mib:
        return f"less than {gib(load.memory_mib)} of free memory"
    room.gpus, room.dynamic = gpus, dynamic
    room.free_mib -= load.memory_mib
    return ""


@dataclass(slots=True)
class Spares:
    """The spare of clusters with some of a plan's VMs in their places: `planned` come, `gone` leave.

    Then the hosts of these moids are `emptied`, one after the other.
    """

    observed: Inventory
    reader: CapacityReader
    planned: Sequence[tuple[ResolvedVm, Load]] = ()
    gone: Collection[str] = ()
    emptied: Sequence[str] = ()

    def of(self, cluster: Cluster, spare: Spare) -> ClusterSpare:
        """Return the state of a cluster."""
        (state,) = self.after_each(cluster, spare, [self.emptied])
        return state

    def after_each(
        self, cluster: Cluster, spare: Spare, groups: Sequence[Sequence[str]]
    ) -> Iterator[ClusterSpare]:
        """Yield the state of a cluster after each group of hosts (moids) that are emptied."""
        hosts = [host for host in self.observed.hosts if host.owner_moid == cluster.moid and host.gpus]
        rooms = [self._room(host) for host in hosts if host.is_usable]
        here = {room.host.moid for room in rooms}
        there = (vm for moid in here for vm in self.observed.vms_by_host.get(moid, ()))
        stay = (load_of(vm, cluster) for vm in there if vm.moid not in self.gone)
        loads = [load for load in stay if load is not None]
        loads += [load for _, load in self.planned if load.host in here and load.profiles + load.devices]
        for group in groups:
            for moid in group:
                rooms, loads = self._emptied(moid, rooms, loads)
            yield ClusterSpare(cluster.name, spare, lost_by_host(rooms, loads, self.reader, spare.hosts))

    def _emptied(self, moid: str, rooms: list[Room], loads: list[Load]) -> tuple[list[Room], list[Load]]:
        """Return rooms and loads once the loads of a host have moved; unchanged if one has no other place."""
        leaving = [load for load in _largest_first(loads, self.reader) if load.host == moid]
        others = [room.copy() for room in rooms if room.host.moid != moid]
        moved: list[Load] = []
        for load in leaving:
            by_memory = sorted(others, key=lambda room: -room.free_mib)
            takers = (room for room in by_memory if load.allows(room.host.moid))
            taker = next((room for room in takers if not _take(room, load, self.reader)), None)
            if taker is None:
                return rooms, loads
            moved.append(replace(load, host=taker.host.moid))
        without = {load.vm.moid for load in leaving if load.vm is not None}
        freed = [self._room(room.host, without) for room in rooms if room.host.moid == moid]
        return [*others, *freed], [*(load for load in loads if load.host != moid), *moved]

    def _room(self, host: Host, moved: Collection[str] | None = None) -> Room:
        """Return a host's room; once these VMs have `moved` away, it has none of a plan's VMs either."""
        without = frozenset({*self.gone, *(moved or ())})
        capacity = self.reader.read(host, without=without)
        memory = 0
        for resolved, load in self.planned if moved is None else ():
            if load.host != host.moid or resolved.fit is None:
                continue
            memory += load.memory_mib
            for index, need in zip(resolved.fit.gpus, resolved.fit.variant, strict=True):
                if capacity.gpus[index].refuse(need) is None:
                    capacity.gpus[index].take(need, load.name)
            for slot in capacity.slots:
                if slot.pci.pci_id in resolved.fit.slots:
                    slot.holder = load.name
        room = room_of(host, capacity, self.observed, without)
        room.free_mib -= memory
        return room


def spare_states(quotas: Sequence[Quotas], observed: Inventory, catalog: Catalog) -> tuple[ClusterSpare, ...]:
    """Return the present state of every cluster for which a file asks for a spare."""
    return tuple(now for (now,) in spares_after(quotas, observed, catalog, [()]))


def spares_after(
    quotas: Sequence[Quotas], observed: Inventory, catalog: Catalog, groups: Sequence[Sequence[str]]
) -> Iterator[tuple[ClusterSpare, ...]]:
    """Yield for every such cluster its states after each group of hosts (moids) that are emptied."""
    now = Spares(observed, CapacityReader(observed, catalog))
    for cluster, spare in _asked(quotas, observed):
        yield tuple(now.after_each(cluster, spare, groups))


def _asked(quotas: Sequence[Quotas], observed: Inventory) -> Iterator[tuple[Cluster, Spare]]:
    owners = {host.owner_moid for host in observed.hosts if host.gpus}
    for one in quotas:
        for cluster in observed.clusters if one.spare is not None else ():
            is_meant = not one.clusters or matches_any(cluster.name, one.clusters)
            if one.spare is not None and is_meant and cluster.moid in owners and not cluster.is_standalone:
                yield cluster, one.spare


def report_spare(
    desired: DesiredPlan,
    before: Spares,
    resolved_vms: Sequence[ResolvedVm],
    deleted: Sequence[Vm],
    hosts: Sequence[Host],
    changes: Sequence[Change],
    findings: Findings,
) -> None:
    """Refuse a plan after which more VMs than before have no other host; report the other clusters.

    The hosts that its `changes` empty count with their VMs on other hosts.
    """
    observed = before.observed
    asked = tuple(_asked(desired.quotas, observed))
    if not asked:
        return
    gone = {vm.moid for vm in deleted}
    planned: list[tuple[ResolvedVm, Load]] = []
    for resolved in resolved_vms:
        runs = shall_run(resolved)
        if resolved.existing is not None and (resolved.fit is not None or not runs):
            gone.add(resolved.existing.moid)
        if runs and resolved.fit is not None and (load := _planned(resolved, hosts)) is not None:
            planned.append((resolved, load))
    emptied = [one.subject.moid or "" for one in of_kind(changes, EnterMaintenance) if one.evacuates]
    touched = {load.host for _, load in planned} | set(emptied)
    touched |= {vm.host_moid or "" for vm in observed.vms if vm.moid in gone}
    after = replace(before, planned=planned, gone=gone, emptied=emptied)
    for cluster, spare in asked:
        if touched.isdisjoint(host.moid for host in observed.hosts if host.owner_moid == cluster.moid):
            continue
        now, then = before.of(cluster, spare), after.of(cluster, spare)
        subject = Subject(kind="cluster", name=cluster.name, moid=cluster.moid)
        if not then.count:
            findings.add(Code.SPARE_KEPT, subject, f"after this plan, {then.state}")
        elif then.count <= now.count:
            remedy = "power VMs off, move them to another cluster, or add a host"
            findings.add(Code.SPARE_LACKING, subject, f"even before this plan, {then.state}", remedy)
        else:
            already = f"; before this plan, {counted(now.count, 'VM')} had no other host" if now.count else ""
            message = f"after this plan, {then.state}{already}"
            findings.add(Code.SPARE_LOST, subject, message, _give_back(after, cluster, now, spare))


def _give_back(after: Spares, cluster: Cluster, now: ClusterSpare, spare: Spare) -> str:
    """Name the last of the plan's VMs without which no more VMs than before lack another host."""
    here = {host.moid for host in after.observed.hosts if host.owner_moid == cluster.moid}
    order = [load.name for _, load in after.planned if load.host in here]
    for count in range(1, len(order) + 1):
        names = set(order[-count:])
        rest = [one for one in after.planned if one[1].name not in names]
        if replace(after, planned=rest).of(cluster, spare).count <= now.count:
            left_out = fold_names(sorted(names, key=as_counted))
            return f"leave out {left_out}, free the same capacity in the cluster, or add a host"
    down = [moid for moid in after.emptied if moid in here]
    for count in range(1, len(down) + 1):
        rest_of_hosts = [moid for moid in after.emptied if moid not in down[-count:]]
        if replace(after, emptied=rest_of_hosts).of(cluster, spare).count <= now.count:
            names = {after.observed.host_by_moid[moid].name for moid in down[-count:]}
            return f"leave out {fold_names(sorted(names, key=as_counted))}, or free GPUs in the cluster"
    return "free GPUs in the cluster, or add a host"


def _planned(resolved: ResolvedVm, hosts: Sequence[Host]) -> Load | None:
    """Return a plan's VM as a load of the host that it gets; None if it stays there."""
    fit, shape, host = resolved.fit, resolved.shape, resolved.host
    if fit is None or shape is None or host is None or shape.fixed:
        return None
    slots = {pci.pci_id: pci for pci in host.pci_devices}
    given = [slots[pci_id] for pci_id in fit.slots if pci_id in slots]
    devices = tuple((f"device like {one.pci_id}", {(one.vendor_id, one.device_id)}) for one in given)
    allowed = {hosts[index].moid for index, _ in shape.hosts}
    profiles = tuple(need.name for need in fit.variant)
    allows = allowed.__contains__
    return Load(resolved.name, host.moid, profiles, devices, resolved.memory_mib, allows, resolved.existing)
