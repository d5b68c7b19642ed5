"""Free capacity of a host: its GPUs with their holders, passthrough devices, and NICs with virtual functions.

For planning, and for commands that show or count GPUs. vCenter names only running VMs as holders, and not the
places of vGPUs on a GPU; both are completed here as far as the observations allow. The holders of virtual
functions are known for running VMs whose devices were read. Virtual functions that a VM has as plain
passthrough devices are not counted: their physical function is unknown.

Belief: running-vms-hold-virtual-functions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product

from vgpu_cfg.catalog import Board, Catalog
from vgpu_cfg.model.observed.gpu_use import GraphicsType
from vgpu_cfg.model.observed.host_facts import EstateFacts, SoftwarePackage
from vgpu_cfg.model.observed.inventory import Gpu, Host, Inventory, PciDevice
from vgpu_cfg.model.observed.vm import Vm
from vgpu_cfg.model.plan_file import DeviceEntry, GpuEntry
from vgpu_cfg.model.vgpu import Sharing, VgpuMode
from vgpu_cfg.model.wording import is_at_least
from vgpu_cfg.planning.capacity.gpu_state import (
    GpuState,
    Held,
    Places,
    VgpuNeed,
    arrange,
    make_variants,
    needs_of,
)
from vgpu_cfg.planning.capacity.topology import Topologies, peer_sets
from vgpu_cfg.planning.findings.codes import Code

MIXED_SERIES_FROM = (8, 0, 2)
"""vGPUs of one size and different series share a GPU from vSphere 8.0 U2 on. Source: VMware blog, 2023."""

SRIOV = "sriov"
"""The `VirtualNic.kind` of a virtual function."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A powered-off VM that would need a GPU of this host once it is powered on."""

    vm: str
    vm_moid: str
    profile: str


@dataclass(slots=True)
class PassthroughSlot:
    """A PCI function of a host that could be passed through; `holder` is the VM that has it."""

    pci: PciDevice
    board: Board | None = None
    holder: str | None = None
    has_vgpus: bool = False
    is_cordoned: bool = False

    @property
    def is_nic(self) -> bool:
        """Whether it is a NIC, which no request for a GPU means."""
        return self.pci.is_nic


@dataclass(frozen=True, slots=True)
class FunctionPool:
    """The virtual functions of one physical function.

    `total` are there now, of which each of `holders` (VM names, one for each function) has one.
    `networks` are the moids of the portgroups on the switch that it is an uplink of, None where that
    was not read.
    """

    pci: PciDevice
    vmnic: str = ""
    total: int = 0
    holders: tuple[str, ...] = ()
    networks: frozenset[str] | None = None

    @property
    def free(self) -> int:
        """The number of free ones."""
        return max(0, self.total - len(self.holders))


@dataclass
class HostCapacity:
    """The GPUs of a host in their present state, and its NICs' capacity for VMs.

    `slots` are GPUs and NICs alike, `functions` the NICs that are cut into virtual functions, `uplinks` the
    NICs that switches use with the switches' names, as far as read. `unread` names running VMs that hold a
    GPU and whose devices are not known, `unplaced` those whose vGPUs cannot be attributed to a GPU.
    `peer_sets` are the sets of GPUs, by index, that can be NVLink peers of one VM.
    """

    host: Host
    gpus: list[GpuState] = field(default_factory=list)
    slots: list[PassthroughSlot] = field(default_factory=list)
    peer_sets: tuple[frozenset[int], ...] = ()
    software: tuple[SoftwarePackage, ...] = ()
    """The host's packages, as far as read."""
    functions: list[FunctionPool] = field(default_factory=list)
    uplinks: dict[str, str] = field(default_factory=dict)
    claims: list[Claim] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)
    unplaced: list[str] = field(default_factory=list)

    @cached_property
    def offered(self) -> frozenset[str]:
        """The names of all profiles that the host's driver is known to have."""
        return frozenset(self.host.creatable_profiles).union(
            profile.name for profile in self.host.profiles or ()
        )

    def room(self, profile: str, catalog: Catalog) -> int:
        """Count how many more vGPUs of a profile fit on the host's GPUs as they are."""
        needs = needs_of(profile, catalog)
        fitting = [gpu for gpu in self.gpus if gpu.board_key in needs]
        if any(gpu.refuse(needs[gpu.board_key or ""]) is Code.GPU_CORDONED for gpu in fitting):
            return 0
        return sum(gpu.room(needs[gpu.board_key or ""]) for gpu in fitting)


class CapacityReader:
    """Read capacities from an inventory; keep the facts found on boards and profiles."""

    def __init__(self, observed: Inventory, catalog: Catalog) -> None:
        self._observed = observed
        self._catalog = catalog
        self._topologies = Topologies(observed, catalog)
        self._boards: dict[tuple[int, int, int], Board | None] = {}
        self._needs: dict[str, dict[str, VgpuNeed]] = {}
        self._variants: dict[int, tuple[Sequence[GpuEntry], tuple[tuple[VgpuNeed, ...], ...]]] = {}

    def needs(self, profile: str) -> dict[str, VgpuNeed]:
        """Return a profile's needs, by board key."""
        if profile not in self._needs:
            self._needs[profile] = needs_of(profile, self._catalog)
        return self._needs[profile]

    def variants(self, gpus: Sequence[GpuEntry]) -> tuple[tuple[VgpuNeed, ...], ...]:
        """List the ways to give a VM its vGPUs, once for all VMs of a line, which share the request."""
        known = self._variants.get(id(gpus))
        if known is None:
            known = self._variants[id(gpus)] = gpus, make_variants(gpus, self.needs)
        return known[1]

    def read(self, host: Host, *, without: frozenset[str] = frozenset()) -> HostCapacity:
        """Read one host, as if the VMs of these moids held nothing and claimed nothing."""
        found = HostCapacity(host)
        here = self._observed.vms_by_host.get(host.moid, ())
        vms = sorted((vm for vm in here if vm.moid not in without), key=lambda vm: (vm.name, vm.moid))
        for gpu in host.gpus:
            found.gpus.append(self._empty_gpu(gpu, found))
        found.slots = self._slots(host)
        found.peer_sets = self.peer_sets(host, with_guesses=True)
        found.functions = read_functions(host, vms, self._observed.facts)
        found.uplinks = read_uplinks(host, self._observed.facts)
        facts = self._observed.facts.hosts.get(host.moid)
        found.software = facts.software if facts is not None else ()
        self._hold(found, vms)
        self._assess_sharing(found)
        self._reserve(found)
        self._claim(found, vms)
        gone = {vm.name for vm in here if vm.moid in without and vm.is_on} - {vm.name for vm in vms}
        if gone:
            self._keep_starts(found, gone)
        self._cordon(found)
        return found

    def _cordon(self, found: HostCapacity) -> None:
        """Close cordoned GPUs, once their holders are known."""
        cordoned = {cordon.pci_id for cordon in found.host.cordons}
        for gpu in found.gpus:
            gpu.is_cordoned = gpu.pci_id in cordoned
        for slot in found.slots:
            slot.is_cordoned = slot.pci.pci_id in cordoned

    def _keep_starts(self, found: HostCapacity, gone: set[str]) -> None:
        """Keep the places of remaining vGPUs next to those that go: leaving vGPUs do not make them move."""
        whole = self.read(found.host)
        for gpu, before in zip(found.gpus, whole.gpus, strict=True):
            kept = [held for held in before.held if held.vm not in gone]
            is_same = [held.vm for held in kept] and sorted(held.vm for held in kept) == sorted(
                held.vm for held in gpu.held
            )
            if is_same and gpu.obstacle is before.obstacle:
                gpu.held = kept

    def peer_sets(self, host: Host, *, with_guesses: bool) -> tuple[frozenset[int], ...]:
        """Return the sets of GPUs that can be NVLink peers, reported or guessed."""
        return peer_sets(self._topologies.of(host), with_guesses=with_guesses)

    def board_of(self, pci: PciDevice) -> Board | None:
        """Look a device up in the catalogue."""
        key = (pci.vendor_id, pci.device_id, pci.subsystem_id)
        if key not in self._boards:
            self._boards[key] = self._catalog.by_pci(*key)
        return self._boards[key]

    def _empty_gpu(self, gpu: Gpu, found: HostCapacity) -> GpuState:
        board = self.board_of(gpu.pci) or self._board_by_profiles(found)
        return GpuState(
            pci_id=gpu.pci_id,
            board=board,
            sharing=gpu.sharing,
            mode=gpu.vgpu_mode or VgpuMode.SAME_SIZE,
            node=gpu.numa_node,
            obstacle=self._obstacle(gpu, board, found),
            mixes_series=is_at_least(found.host.version, MIXED_SERIES_FROM),
            is_set_to_mixed=VgpuMode.MIXED_SIZE in (gpu.vgpu_mode, gpu.configured_vgpu_mode),
        )

    def _board_by_profiles(self, found: HostCapacity) -> Board | None:
        """Return the board of an unknown GPU from its host's profiles, if they are of one board only."""
        boards = {key: name for name in found.offered for key in self.needs(name)}
        known = {board.key for gpu in found.host.gpus if (board := self.board_of(gpu.pci)) is not None}
        left = sorted(boards.keys() - known)
        return self._catalog.board(left[0]) if len(left) == 1 else None

    def _obstacle(self, gpu: Gpu, board: Board | None, found: HostCapacity) -> Code | None:
        if gpu.is_passthrough:
            return Code.GPU_IN_PASSTHROUGH
        host = found.host
        is_stated = host.profiles is not None or bool(host.creatable_profiles)
        serves = any(board is not None and board.key in self.needs(name) for name in found.offered)
        is_busy = any(other.vm_moids for other in host.gpus)
        if gpu.graphics_type is GraphicsType.BASIC:
            return Code.NO_HOST_DRIVER
        if gpu.gives_vgpus is False:
            return Code.NOT_SHARED_DIRECT
        if not serves and board is not None and (is_stated or not is_busy):
            return Code.NO_HOST_DRIVER
        return None

    def _slots(self, host: Host) -> list[PassthroughSlot]:
        devices = {device.pci_id: device for device in host.pci_devices}
        devices |= {gpu.pci_id: gpu.pci for gpu in host.gpus}
        return [
            PassthroughSlot(pci, self.board_of(pci))
            for pci in devices.values()
            if pci.is_gpu or pci.passthrough_active or pci.hardware_label
        ]

    def _hold(self, found: HostCapacity, vms: Iterable[Vm]) -> None:
        """Put what runs on the GPUs that are said to hold it."""
        gpus = {gpu.pci_id: gpu for gpu in found.gpus}
        reported: dict[str, list[GpuState]] = {}
        for gpu in found.host.gpus:
            for moid in gpu.vm_moids:
                reported.setdefault(moid, []).append(gpus[gpu.pci_id])
        late: list[Vm] = []
        for vm in vms:
            if not vm.is_on:
                continue
            if vm.detail is None:
                if vm.moid in reported:
                    found.unread.append(vm.name)
                    for unread in reported[vm.moid]:
                        unread.held.append(Held(vm.name, None))
                continue
            self._hold_passthrough(found, vm)
            if vm.detail.vgpus and vm.moid in reported:
                self._hold_vgpus(vm, reported[vm.moid], found)
            elif vm.detail.vgpus:
                late.append(vm)
        for vm in late:
            self._hold_vgpus(vm, found.gpus, found, is_stated=False)
        self._arrange(found)

    def _hold_vgpus(
        self, vm: Vm, gpus: list[GpuState], found: HostCapacity, *, is_stated: bool = True
    ) -> None:
        """Spread a VM's vGPUs over GPUs: one after the other if it is reported to hold several."""
        given: dict[str, int] = {}
        profiles = sorted((vgpu.profile for vgpu in vm.detail.vgpus), reverse=True) if vm.detail else []
        for profile in profiles:
            needs = self.needs(profile)
            fitting = [gpu for gpu in gpus if gpu.board_key in needs]
            if not is_stated:
                fitting = [gpu for gpu in fitting if gpu.refuse(needs[gpu.board_key or ""]) is None]
            if not fitting:
                found.unplaced.append(vm.name)
                for unread in gpus if is_stated else ():
                    unread.held.append(Held(vm.name, None))
                return
            chosen = min(fitting, key=lambda one: given.get(one.pci_id, 0))
            given[chosen.pci_id] = given.get(chosen.pci_id, 0) + 1
            chosen.held.append(Held(vm.name, needs[chosen.board_key or ""]))

    def _hold_passthrough(self, found: HostCapacity, vm: Vm) -> None:
        slots = {slot.pci.pci_id: slot for slot in found.slots}
        for device in vm.detail.passthrough if vm.detail else ():
            pci_id = device.pci_id or device.assigned_id
            slot = slots.get(pci_id) if pci_id else None
            if slot is None and pci_id is None:
                fitting = (one for one in found.slots if _could_be(one, device.allowed, device.label))
                slot = next(fitting, None)
            if slot is not None:
                slot.holder = vm.name

    def _arrange(self, found: HostCapacity) -> None:
        """Give the vGPUs of MIG and mixed-size GPUs places: those of the instances that their host reports.

        If it was not asked, or names other instances than these vGPUs have, they get places that agree with
        the profiles that the host can still create.
        """
        busy = {gpu.pci_id for gpu in found.gpus if gpu.held}
        for slot in found.slots:
            slot.has_vgpus = slot.pci.pci_id in busy
        for index, gpu in enumerate(found.gpus):
            holders = gpu.held
            if not any(held.need for held in holders) or any(held.need is None for held in holders):
                continue
            if gpu.shared_as is not Sharing.MIG and gpu.mode is not VgpuMode.MIXED_SIZE:
                continue
            empty = gpu.copy()
            empty.held = []
            empty.obstacle = None
            reported = self._known_places(found.host, gpu)
            if reported is not None and (known := next(arrange(empty, holders, reported), None)) is not None:
                known.obstacle = gpu.obstacle
                found.gpus[index] = known
                continue
            states = list(arrange(empty, holders))
            if not states:
                gpu.obstacle = gpu.obstacle or Code.HOLDER_UNKNOWN
                continue
            chosen = next((state for state in states if self._agrees(state, found)), states[0])
            chosen.obstacle = gpu.obstacle
            found.gpus[index] = chosen

    def arrangements(self, host: Host, pci_id: str) -> list[GpuState]:
        """Return the possible placements of a GPU's vGPUs: several only if their places are unknown."""
        found = self.read(host)
        gpu = next(one for one in found.gpus if one.pci_id == pci_id)
        has_places = gpu.shared_as is Sharing.MIG or gpu.mode is VgpuMode.MIXED_SIZE
        if not has_places or any(held.need is None for held in gpu.held):
            return [gpu]
        if self._known_places(host, gpu) is not None:
            return [gpu]
        empty = gpu.copy()
        empty.held, empty.obstacle = [], None
        states = list(arrange(empty, gpu.held))
        return [state for state in states if self._agrees(state, found)] or states

    def _known_places(self, host: Host, gpu: GpuState) -> Places | None:
        """Return the places of GPU instances from the host's shell; None if it was not asked."""
        facts = self._observed.facts.hosts.get(host.moid)
        mig = facts.shell.mig if facts is not None and facts.shell is not None else None
        if mig is None or gpu.shared_as is not Sharing.MIG:
            return None
        return frozenset((instance.start, instance.size) for instance in mig.get(gpu.pci_id, ()))

    def _agrees(self, gpu: GpuState, found: HostCapacity) -> bool:
        """Whether what this GPU could take is what vCenter says the host can create."""
        if sum(other.board_key == gpu.board_key for other in found.gpus) > 1:
            return False
        creatable = frozenset(found.host.creatable_profiles)
        return all(
            (gpu.refuse(needs[gpu.board_key]) is None) == (name in creatable)
            for name in found.offered
            if gpu.board_key in (needs := self.needs(name))
        )

    def _assess_sharing(self, found: HostCapacity) -> None:
        """Infer an idle GPU's mode from creatable profiles, if the API does not report it (before 8.0.3)."""
        for gpu in found.gpus:
            if gpu.sharing is None and not gpu.held and gpu.board_key is not None:
                kinds = {
                    needs[gpu.board_key].sharing
                    for name in found.host.creatable_profiles
                    if gpu.board_key in (needs := self.needs(name))
                }
                gpu.sharing = kinds.pop() if len(kinds) == 1 else None

    def _reserve(self, found: HostCapacity) -> None:
        """Keep what vCenter has promised to others by DirectPath profiles, on GPUs in use first."""
        for one in found.host.direct_path or ():
            needs = self.needs(one.vgpu_profile)
            for _ in range(one.unused_reservation):
                fitting = [gpu for gpu in found.gpus if gpu.board_key in needs]
                free = [gpu for gpu in fitting if gpu.refuse(needs[gpu.board_key or ""]) is None]
                chosen = min(free, key=lambda gpu: not gpu.held, default=None)
                if chosen is None:
                    break
                name = f"reserved by {one.name}"
                chosen.take(needs[chosen.board_key or ""], name, is_planned=False)

    def _claim(self, found: HostCapacity, vms: Iterable[Vm]) -> None:
        for vm in vms:
            if not vm.is_on and not vm.is_template and vm.detail is not None:
                found.claims += [Claim(vm.name, vm.moid, vgpu.profile) for vgpu in vm.detail.vgpus]


def _could_be(slot: PassthroughSlot, allowed: Iterable[tuple[int, int]], label: str | None) -> bool:
    return (
        slot.holder is None
        and slot.pci.passthrough_active
        and (slot.pci.vendor_id, slot.pci.device_id) in allowed
        and (not label or slot.pci.hardware_label == label)
    )


def read_functions(host: Host, vms: Iterable[Vm], facts: EstateFacts) -> list[FunctionPool]:
    """List the physical functions of a host that have virtual ones, in the host's order.

    `vms` are those that are on the host and count. A virtual function whose physical one vSphere chose
    is taken for one of the first that has any left.
    """
    nics = {nic.pci_id: nic for nic in host.nics}
    devices = {nic.pci_id: nic.pci for nic in host.nics if nic.pci is not None}
    devices |= {device.pci_id: device for device in host.pci_devices}
    pools = {
        pci_id: device
        for pci_id, device in devices.items()
        if device.is_nic and device.sriov is not None and device.sriov.is_active
    }
    totals = {
        pci_id: device.sriov.functions if device.sriov is not None else 0 for pci_id, device in pools.items()
    }
    holders: dict[str, list[str]] = {pci_id: [] for pci_id in pools}
    unnamed: list[str] = []
    for vm in vms:
        for nic in vm.detail.nics if vm.detail is not None and vm.is_on else ():
            if nic.kind == SRIOV and nic.function in holders:
                holders[nic.function].append(vm.name)
            elif nic.kind == SRIOV and nic.function is None:
                unnamed.append(vm.name)
    for name in unnamed:
        left = next((pci_id for pci_id in pools if len(holders[pci_id]) < totals[pci_id]), None)
        if left is not None:
            holders[left].append(name)
    return [
        FunctionPool(
            device,
            nics[pci_id].device if pci_id in nics else "",
            totals[pci_id],
            tuple(holders[pci_id]),
            _reach(host, nics[pci_id].device, facts) if pci_id in nics else None,
        )
        for pci_id, device in pools.items()
    ]


def read_uplinks(host: Host, facts: EstateFacts) -> dict[str, str]:
    """Return the NICs that are uplinks with the names of their switches; empty where nothing was read."""
    read = facts.hosts.get(host.moid)
    return {vmnic: switch.name for switch in (read.switches if read else ()) for vmnic in switch.uplinks}


def _reach(host: Host, vmnic: str, facts: EstateFacts) -> frozenset[str] | None:
    """Return the portgroups of the distributed switch that a NIC is an uplink of.

    None if no switches were read, and for standard switches: a host does not report which portgroup is on
    which.
    """
    read = facts.hosts.get(host.moid)
    if read is None or not facts.switches:
        return None
    own = next((switch for switch in read.switches if vmnic in switch.uplinks), None)
    if own is None:
        return frozenset()
    switch = next((one for one in facts.switches if one.uuid and one.uuid == own.switch_uuid), None)
    return frozenset(switch.portgroup_vlans) if switch is not None else None


def match_slots(free: Sequence[PassthroughSlot], needs: Sequence[DeviceEntry]) -> tuple[str, ...] | None:
    """Give every Dynamic DirectPath request a function of its own (augmenting paths), None where none can."""
    taken: dict[str, int] = {}

    def settle(number: int, tried: set[str]) -> bool:
        for slot in free:
            address = slot.pci.pci_id
            if address not in tried and is_match(slot, needs[number]):
                tried.add(address)
                if address not in taken or settle(taken[address], tried):
                    taken[address] = number
                    return True
        return False

    if not all(settle(number, set()) for number in range(len(needs))):
        return None
    by_number = {number: address for address, number in taken.items()}
    return tuple(by_number[number] for number in range(len(needs)))


def alike(free: Sequence[PassthroughSlot], needs: Sequence[DeviceEntry]) -> list[tuple[DeviceEntry, ...]]:
    """List the ways to give a need that is asked for several times boards of one kind: it names their IDs.

    One name can fit two boards, such as A100 with 40 and 80 GB. If none has enough, the needs are unchanged.
    """
    repeated = [need for need, count in Counter(needs).items() if count > 1 and need.device_id is None]
    options = [
        [ids for ids in dict.fromkeys(map(ids_of, free)) if _has(free, need, ids)] for need in repeated
    ]
    ways: list[tuple[DeviceEntry, ...]] = []
    for chosen in product(*options):
        to = dict(zip(repeated, chosen, strict=True))
        way = tuple(need.model_copy(update={"device_id": to.get(need, need.device_id)}) for need in needs)
        if match_slots(free, way) is not None:
            ways.append(way)
    return ways or [tuple(needs)]


def unlike(slots: Sequence[PassthroughSlot], needs: Sequence[DeviceEntry], chosen: Collection[str]) -> int:
    """Count the kinds of boards, beyond the first, that needs asked for several times get by a choice."""
    repeated = (need for need, count in Counter(needs).items() if count > 1)
    return sum(len(allowed_ids(slots, need, chosen)) - 1 for need in repeated)


def ids_of(slot: PassthroughSlot) -> tuple[int, int]:
    """Return the IDs by which Dynamic DirectPath I/O knows a device."""
    return slot.pci.vendor_id, slot.pci.device_id


def allowed_ids(
    slots: Sequence[PassthroughSlot], need: DeviceEntry, chosen: Collection[str]
) -> set[tuple[int, int]]:
    """Return the IDs that a request names: those of the chosen boards, else of all that fit."""
    fitting = [slot for slot in slots if is_match(slot, need)]
    return {ids_of(slot) for slot in fitting if slot.pci.pci_id in chosen} or set(map(ids_of, fitting))


def _has(free: Sequence[PassthroughSlot], need: DeviceEntry, ids: tuple[int, int]) -> bool:
    return any(ids_of(slot) == ids and is_match(slot, need) for slot in free)


def is_match(slot: PassthroughSlot, need: DeviceEntry) -> bool:
    """Whether a device matches a Dynamic DirectPath request for a GPU."""
    pci = slot.pci
    if slot.is_nic:
        return False
    if need.label is not None and pci.hardware_label != need.label:
        return False
    if need.device_id is not None and (pci.vendor_id, pci.device_id) != need.device_id:
        return False
    if need.model is not None:
        names = (pci.device_name, *(slot.board.names if slot.board else ()))
        return any(need.model.casefold() in name.casefold() for name in names)
    return True
