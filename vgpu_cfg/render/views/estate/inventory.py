"""An inventory as rows for readers: hosts, GPUs with holders and room, NICs, VMs, cordons, and what fits.

The rows are plain values; tables and JSON are two prints of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from vgpu_cfg.catalog import Catalog
from vgpu_cfg.changes.plan import LostHost
from vgpu_cfg.model.choices import UseBy, UseSort
from vgpu_cfg.model.observed.inventory import (
    Connection,
    DeviceGroupInfo,
    Gpu,
    GroupPart,
    Host,
    HostNic,
    Inventory,
)
from vgpu_cfg.model.observed.vm import Vm
from vgpu_cfg.model.vgpu import Sharing, VgpuMode, VgpuProfile
from vgpu_cfg.planning.capacity.gpu_state import GpuState
from vgpu_cfg.planning.capacity.host_capacity import CapacityReader, HostCapacity
from vgpu_cfg.planning.capacity.topology import Topologies
from vgpu_cfg.planning.pool.fit import next_step
from vgpu_cfg.planning.pool.gpus import PooledGpu, obstacle_text, out_of_use
from vgpu_cfg.planning.pool.shapes import Fits
from vgpu_cfg.planning.pool.use import UseRow
from vgpu_cfg.render.views.estate.topology import (
    AtsRow,
    DisagreementRow,
    NearNicRow,
    NvlinkRow,
    WiredRow,
    ats_rows,
    disagreement_rows,
    near_nic_rows,
    nvlink_row,
    wired_rows,
)

DEVICE_MODES = {
    "host": "host",
    "enhancedDirectPath": "Enhanced DirectPath",
    "vGpuSameSize": "same size",
    "vGpuMixedSize": "mixed size",
}
"""Names of vim `HostPciPassthruInfoDirectPathDeviceMode` for a GPU on which nothing runs."""


@dataclass(frozen=True, slots=True)
class FitView:
    """The question, of which server, and the answer; `gpus` are those of the hosts by moid.

    `left_out` are requested hosts that accept no VM; `lost` do not respond, and have VMs of the requested
    line of the plan; `now` is the time by vCenter's clock. `added` are names of assumed hosts, by their
    words, `as_it_is` how many fit without these.
    """

    server: str
    read_at: str
    request: str
    fits: Fits
    clusters: Mapping[str, str]
    gpus: Mapping[str, Sequence[PooledGpu]]
    left_out: Sequence[Host] = ()
    lost: Sequence[LostHost] = ()
    added: Mapping[str, Sequence[str]] = field(default_factory=dict)
    as_it_is: int | None = None
    now: datetime | None = None

    @property
    def next_step(self) -> str:
        """Ways to make room, if nothing fits."""
        return next_step(self.fits.hosts)


@dataclass(frozen=True, slots=True)
class UseTable:
    """Rows in the order of the GPUs, or sorted where `sort` is given."""

    rows: tuple[UseRow, ...]
    by: UseBy = UseBy.GPU
    sort: UseSort | None = None


@dataclass(frozen=True, slots=True)
class CordonRow:
    """A cordon; `gpu` is empty if it is of the host, `by` and `since` if unknown."""

    host: str
    gpu: str
    reason: str
    by: str
    since: str


def cordon_rows(hosts: Iterable[Host]) -> tuple[CordonRow, ...]:
    """Make a row of each cordon, in the hosts' order."""
    return tuple(
        CordonRow(
            host=host.name,
            gpu=cordon.pci_id,
            reason=cordon.reason,
            by=cordon.by,
            since=cordon.since.isoformat() if cordon.since is not None else "",
        )
        for host in hosts
        for cordon in host.cordons
    )


@dataclass(frozen=True, slots=True)
class HostRow:
    """A host. `state` is "ok", "cordoned", "maintenance" or vSphere's word for a lost connection."""

    name: str
    cluster: str
    version: str
    build: str
    model: str
    state: str
    graphics_type: str
    assignment_policy: str
    cores: int
    memory_mib: int
    numa_nodes: int
    gpus: int
    vms_on: int
    vms: int


@dataclass(frozen=True, slots=True)
class HolderRow:
    """A VM on a GPU; `profile` is empty for one that has the whole GPU or could not be read."""

    vm: str
    profile: str


@dataclass(frozen=True, slots=True)
class GpuRow:
    """A GPU. `room` is, per profile of its board's C series, how many more fit now.

    `obstacle` is the reason why it accepts no vGPU; empty if it does, and for a GPU that is passed through as
    a whole: `free` then is whether it is. `label` is its hardware label. `nvlink` is None if NVLink joins it
    to no known GPU, `module` its HGX module if the host's shell was read.
    """

    host: str
    pci_id: str
    board: str
    name: str
    memory_mib: int
    numa_node: int | None
    mode: str
    holders: tuple[HolderRow, ...]
    free_framebuffer_mib: int
    room: Mapping[str, int]
    free: str
    obstacle: str
    label: str = ""
    nvlink: NvlinkRow | None = None
    module: int | None = None
    nics_near: tuple[NearNicRow, ...] = ()
    device_mode: str = ""
    configurable_modes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NicRow:
    """A physical NIC port; `use` is "host", "passthrough" or empty where the PCI function is not listed."""

    host: str
    device: str
    pci_id: str
    model: str
    speed_mbps: int | None
    numa_node: int | None
    use: str


@dataclass(frozen=True, slots=True)
class GroupPartRow:
    """Like parts of a device group; `kind` is vSphere's word for their type."""

    count: int
    kind: str
    device: str


@dataclass(frozen=True, slots=True)
class DeviceGroupRow:
    """A vendor's device group that a host offers, whether one is free or not; `name` is the host's own."""

    host: str
    name: str
    description: str
    parts: tuple[GroupPartRow, ...]


@dataclass(frozen=True, slots=True)
class NumaRow:
    """A NUMA node of a host with GPUs, and the GPUs on it."""

    host: str
    node: int
    cores: int
    memory_mib: int
    gpu_pci_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ProfileRow:
    """How many vGPUs of a profile VMs have, whatever the series and whosever they are."""

    profile: str
    series: str
    sharing: str
    running: int
    off: int
    hosts: int


@dataclass(frozen=True, slots=True)
class DatastoreRow:
    """A datastore."""

    name: str
    kind: str
    free_mib: int
    capacity_mib: int
    is_accessible: bool


@dataclass(frozen=True, slots=True)
class InventoryView:
    """All rows, with the server they were read from."""

    server: str
    version: str
    api_version: str
    read_at: str
    hosts: tuple[HostRow, ...]
    cordons: tuple[CordonRow, ...]
    gpus: tuple[GpuRow, ...]
    nics: tuple[NicRow, ...]
    numa_nodes: tuple[NumaRow, ...]
    profiles: tuple[ProfileRow, ...]
    datastores: tuple[DatastoreRow, ...]
    disagreements: tuple[DisagreementRow, ...] = ()
    device_groups: tuple[DeviceGroupRow, ...] = ()
    wiring: tuple[WiredRow, ...] = ()
    ats: tuple[AtsRow, ...] = ()


def view_inventory(
    observed: Inventory, catalog: Catalog, *, wants_host: Callable[[str], bool] = lambda _: True
) -> InventoryView:
    """Make the rows of the hosts that are wanted by name."""
    hosts = [host for host in observed.hosts if wants_host(host.name)]
    capacity = CapacityReader(observed, catalog)
    topologies = Topologies(observed, catalog)
    rooms = _Rooms(capacity, topologies)
    return InventoryView(
        server=observed.vcenter.address,
        version=observed.vcenter.version,
        api_version=observed.vcenter.api_version,
        read_at=observed.read_at.isoformat(),
        hosts=tuple(_host_row(host, observed) for host in hosts),
        cordons=cordon_rows(hosts),
        gpus=tuple(row for host in hosts if host.gpus for row in rooms.rows(capacity.read(host))),
        nics=tuple(_nic_row(host, nic) for host in hosts for nic in (*host.nics, *host.infiniband)),
        numa_nodes=tuple(row for host in hosts if host.gpus for row in _numa_rows(host)),
        profiles=_profile_rows(hosts, observed),
        datastores=tuple(
            DatastoreRow(one.name, one.kind, one.free_mib, one.capacity_mib, one.is_accessible)
            for one in observed.datastores
            if any(one.moid in host.datastore_moids for host in hosts)
        ),
        disagreements=disagreement_rows(topologies.of(host) for host in hosts if host.gpus),
        device_groups=tuple(
            DeviceGroupRow(host.name, group.name, group.description, _part_rows(group))
            for host in hosts
            for group in host.device_groups
        ),
        wiring=tuple(
            row for host in hosts if host.gpus for row in wired_rows(host, topologies.of(host), observed)
        ),
        ats=tuple(row for host in hosts if host.gpus for row in ats_rows(host, topologies, observed)),
    )


def profile_text(profiles: Iterable[str]) -> str:
    """Fold like profiles: "2 x grid_a100-20c, grid_a100-10c"."""
    return ", ".join(name if count == 1 else f"{count} x {name}" for name, count in Counter(profiles).items())


def _part_rows(group: DeviceGroupInfo) -> tuple[GroupPartRow, ...]:
    """Count like parts, in the group's order."""
    counts = Counter((part.kind, _part_text(part)) for part in group.parts)
    return tuple(GroupPartRow(count, kind, device) for (kind, device), count in counts.items())


def _part_text(part: GroupPart) -> str:
    """Spell a part: a profile unchanged, else the vendor's name of it, with its distinguishing values."""
    if part.profile:
        return part.profile
    ids = " ".join(f"{vendor:04x}:{device:04x}" for vendor, device in part.allowed)
    told = part.pci_id or part.device_class or ids
    return f"{part.name} ({told})" if part.name and told else part.name or told


class _Rooms:
    """Computes the room on GPUs, once for all that are alike."""

    def __init__(self, capacity: CapacityReader, topologies: Topologies) -> None:
        self._capacity, self._topologies = capacity, topologies
        self._known: dict[tuple[object, ...], tuple[dict[str, int], str]] = {}

    def rows(self, host: HostCapacity) -> Iterable[GpuRow]:
        by_pci = {gpu.pci_id: gpu for gpu in host.host.gpus}
        holders = {slot.pci.pci_id: slot.holder for slot in host.slots if slot.holder}
        topology = self._topologies.of(host.host)
        for state in host.gpus:
            gpu = by_pci[state.pci_id]
            room, free = self._room(state)
            held = tuple(HolderRow(one.vm, one.need.name if one.need else "") for one in state.held)
            if not held and state.pci_id in holders:
                held = (HolderRow(holders[state.pci_id] or "", ""),)
            if gpu.is_passthrough:
                free = "none" if held else "whole GPU"
            obstacle = obstacle_text(state, gpu) or out_of_use(host.host, state.pci_id)
            yield GpuRow(
                host=host.host.name,
                pci_id=state.pci_id,
                board=state.board.name if state.board else gpu.name,
                name=gpu.name,
                memory_mib=gpu.memory_mib,
                numa_node=state.node,
                mode=_mode(state, gpu),
                holders=held,
                free_framebuffer_mib=0 if obstacle else state.free_framebuffer_mib,
                room=room,
                free=free,
                obstacle=obstacle,
                label=gpu.pci.hardware_label or "",
                nvlink=nvlink_row(topology, state.pci_id),
                module=topology.module(state.pci_id),
                nics_near=near_nic_rows(topology, state.pci_id),
                device_mode=gpu.pci.device_mode,
                configurable_modes=gpu.pci.configurable_modes,
            )

    def _room(self, state: GpuState) -> tuple[dict[str, int], str]:
        key = state.signature()
        if key not in self._known:
            self._known[key] = self._measure(state)
        return self._known[key]

    def _measure(self, state: GpuState) -> tuple[dict[str, int], str]:
        board = state.board
        if board is None or state.obstacle is not None:
            return {}, ""
        needs = [self._capacity.needs(entry.name)[board.key] for entry in board.profiles]
        # Room beside a vGPU of another series is told by that vGPU's own profile.
        needs += [one.need for one in state.held if one.need is not None and one.need.series != "C"]
        room = {need.name: count for need in needs if (count := state.room(need))}
        if not room:
            return room, "none"
        if not state.held and state.sharing is not Sharing.MIG:
            return room, "entire GPU"
        largest, smallest = next(iter(room)), max(room, key=lambda name: (room[name], -len(name)))
        if state.locked_size_gb is not None:
            largest = smallest = next((one.need.name for one in state.held if one.need), largest)
        fits = dict.fromkeys(f"{room.get(name, 0)} x {_label(name)}" for name in (largest, smallest))
        return room, " or ".join(fits)


def _label(profile: str) -> str:
    """Return what follows the prefix, slices included: "40c", "1-5c"."""
    parsed = VgpuProfile.parse(profile)
    return profile.removeprefix(f"{parsed.prefix}-")


def _mode(state: GpuState, gpu: Gpu) -> str:
    if gpu.is_passthrough:
        return "passthrough"
    match state.shared_as:
        case Sharing.MIG:
            return "MIG"
        case Sharing.TIME_SLICED:
            return "mixed size" if state.mode is VgpuMode.MIXED_SIZE else "same size"
        case None:
            fallback = DEVICE_MODES.get(gpu.pci.device_mode, "")
            return "mixed size" if state.mode is VgpuMode.MIXED_SIZE else fallback


def _host_row(host: Host, observed: Inventory) -> HostRow:
    cluster = observed.cluster_by_moid.get(host.cluster_moid or "")
    vms = [vm for vm in observed.vms_by_host.get(host.moid, ()) if not vm.is_template]
    state = "maintenance" if host.is_in_maintenance_mode else "cordoned" if host.cordon else "ok"
    return HostRow(
        name=host.name,
        cluster=cluster.name if cluster else "",
        version=host.version,
        build=host.build,
        model=host.model,
        state=state if host.connection is Connection.CONNECTED else host.connection.value,
        graphics_type=host.graphics_type.value if host.graphics_type else "",
        assignment_policy=host.assignment_policy.value if host.assignment_policy else "",
        cores=host.cores,
        memory_mib=host.memory_mib,
        numa_nodes=len(host.numa_nodes),
        gpus=len(host.gpus),
        vms_on=sum(vm.is_on for vm in vms),
        vms=len(vms),
    )


def _nic_row(host: Host, nic: HostNic) -> NicRow:
    use = "" if nic.pci is None else "passthrough" if nic.pci.passthrough_active else "host"
    if nic.pci is not None and nic.pci.is_infiniband:
        use = "InfiniBand"
    return NicRow(
        host=host.name,
        device=nic.device,
        pci_id=nic.pci_id,
        model=nic.pci.device_name if nic.pci else nic.driver,
        speed_mbps=nic.speed_mbps,
        numa_node=nic.numa_node,
        use=use,
    )


def _numa_rows(host: Host) -> Iterable[NumaRow]:
    for node in host.numa_nodes:
        gpus = tuple(gpu.pci_id for gpu in host.gpus if gpu.numa_node == node.node_id)
        yield NumaRow(host.name, node.node_id, node.cores, node.memory_mib, gpus)


def _profile_rows(hosts: Iterable[Host], observed: Inventory) -> tuple[ProfileRow, ...]:
    running: Counter[str] = Counter()
    off: Counter[str] = Counter()
    places: dict[str, set[str]] = {}
    for host in hosts:
        for vm in observed.vms_by_host.get(host.moid, ()):
            for profile in _profiles_of(vm):
                (running if vm.is_on else off)[profile] += 1
                places.setdefault(profile, set()).add(host.moid)
    return tuple(
        ProfileRow(name, *_kind(name), running[name], off[name], len(places[name])) for name in sorted(places)
    )


def _profiles_of(vm: Vm) -> list[str]:
    if vm.is_template or vm.detail is None:
        return []
    return [vgpu.profile for vgpu in vm.detail.vgpus]


def _kind(profile: str) -> tuple[str, str]:
    """Return series and sharing; empty for a name that is not one of NVIDIA's grammar."""
    try:
        parsed = VgpuProfile.parse(profile)
    except ValueError:
        return "", ""
    return parsed.series, "MIG" if parsed.sharing is Sharing.MIG else "time-sliced"
