"""Admission of a VM to a host: whether it may run now, its resources, and their allocation and release.

Swap files fill their size on VMFS alone. HA is simulated for a percentage of the cluster's memory alone;
other policies and CPUs are not judged. That a host without free virtual functions refuses in these words is
the lab's own: no source has a real one's message.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pyVmomi import vim

from vgpu_cfg.catalog import Board, load_catalog
from vgpu_cfg.lab.rules import hardware, nvlink, refusals
from vgpu_cfg.lab.rules.gpu_load import (
    ESXI_8_0,
    Pick,
    entry_of,
    esxi_order,
    find_slot,
    has_functions,
    knows,
    load_of,
    serves_vgpus,
)
from vgpu_cfg.lab.rules.refusals import refuse
from vgpu_cfg.lab.state.devices import copy_with, dynamic_of, fixed_of, groups_of, vgpus_of
from vgpu_cfg.lab.state.inventory import (
    Datastore,
    Gpu,
    Host,
    LabState,
    Passthrough,
    PciDevice,
    ResourcePool,
    VgpuUse,
    VirtualMachine,
)

MIB = 2**20


def reserved_mib(state: LabState, host: Host) -> int:
    """Return the memory that the VMs which run on a host have reserved."""
    running = (state.get(moid, VirtualMachine) for moid in host.vms)
    return sum(hardware.reservation_mib(vm) for vm in running if vm.is_on)


def check(state: LabState, vm: VirtualMachine, host: Host, *, has_swap: bool = False) -> None:
    """Raise where the VM's memory is no size, or has no room beyond its host.

    `has_swap` if its swap file exists.
    """
    if vm.memory_mib % hardware.MEMORY_STEP_MIB:
        raise refuse("memory-not-of-4-mib", memory=vm.memory_mib)
    if vm.is_on:
        return
    asked = hardware.reservation_mib(vm)
    store = state.find(vm.datastore, Datastore)
    is_too_much = store is not None and store.kind == "VMFS" and vm.memory_mib - asked > store.free_mib
    if is_too_much and not has_swap:
        raise refuse("no-room-for-swap")
    _check_pools(state, vm, asked)
    _check_failover(state, host, asked)


def _check_pools(state: LabState, vm: VirtualMachine, asked: int) -> None:
    left = unreserved_mib(state, state.find(vm.resource_pool, ResourcePool))
    if left is not None and left < asked:
        raise refuse("pool-limit", unreserved=left * MIB, requested=asked * MIB)


def unreserved_mib(state: LabState, pool: ResourcePool | None) -> int | None:
    """Return the memory that VMs in a pool can still reserve, None if neither it nor a parent has a limit."""
    left = []
    while pool is not None:
        limit, memory = -1, pool.memory
        if memory is not None:
            limit = -1 if memory.limit is None else memory.limit
            if memory.expandableReservation is False:
                own = memory.reservation or 0
                limit = own if limit < 0 else min(own, limit)
        left += [limit - _reserved_below(state, pool)] if limit >= 0 else []
        pool = state.find(pool.parent, ResourcePool)
    return min(left, default=None)


def _reserved_below(state: LabState, pool: ResourcePool) -> int:
    vms = (state.get(moid, VirtualMachine) for moid in pool.vms)
    below = sum(_reserved_below(state, state.get(moid, ResourcePool)) for moid in pool.pools)
    return below + sum(hardware.reservation_mib(vm) for vm in vms if vm.is_on)


def _check_failover(state: LabState, host: Host, asked: int) -> None:
    cluster = state.cluster_of(host)
    policy = getattr(cluster.das, "admissionControlPolicy", None)
    kind = vim.cluster.FailoverResourcesAdmissionControlPolicy
    if not cluster.ha_enabled or not isinstance(policy, kind) or not cluster.das.admissionControlEnabled:
        return
    hosts = [state.get(moid, Host) for moid in cluster.hosts]
    total = sum(one.memory_mib - hardware.HOST_OWN_MIB for one in hosts if one.is_usable)
    kept = total * policy.memoryFailoverResourcesPercent // 100
    if sum(reserved_mib(state, one) for one in hosts) + asked > total - kept:
        raise refuse("failover-capacity")


LOW_16_BITS = 0xFFFF


def assign_whole_devices(vm: VirtualMachine, host: Host) -> dict[int, str]:
    """Return device key → PCI address for a VM's fixed and dynamic devices. Raises the host's refusal."""
    taken: dict[int, str] = {}
    for device in fixed_of(vm.devices):
        _check_fixed(device.backing, host)
        _check_free(vm, host, device.backing.id, taken)
        taken[device.key] = device.backing.id
    for device in dynamic_of(vm.devices):
        found = next(
            (pci for pci in host.pci_devices() if _suits(device.backing, pci, host, vm, taken)), None
        )
        if found is None:
            raise refusals.no_assignable_device(device)
        taken[device.key] = found.pci_id
    return taken


def _check_fixed(backing: Any, host: Host) -> None:
    pci = next((pci for pci in host.pci_devices() if pci.pci_id == backing.id), None)
    bus, slot, function = _numbers(backing.id)
    if pci is None or not host.is_passed_through(pci.pci_id):
        raise refusals.not_a_passthrough_device(bus, slot, function)
    same_device = (
        _hex(backing.deviceId) == pci.device_id and (backing.vendorId & LOW_16_BITS) == pci.vendor_id
    )
    if backing.systemId != host.system_id or not same_device:
        raise refusals.wrong_system_id(bus, slot, function)


def _check_free(vm: VirtualMachine, host: Host, pci_id: str, taken: dict[int, str]) -> None:
    holder = host.passthrough_of(pci_id).vm
    if pci_id in taken.values() or holder not in (None, vm.moid):
        vm.log.append(f"The device at {pci_id} is in use by another virtual machine.")
        raise refusals.device_power_on_failed()


def _suits(backing: Any, pci: PciDevice, host: Host, vm: VirtualMachine, taken: dict[int, str]) -> bool:
    state = host.passthrough_of(pci.pci_id)
    if not state.active or state.vm not in (None, vm.moid) or pci.pci_id in taken.values():
        return False
    if backing.customLabel and backing.customLabel != state.label:
        return False
    return any(_is_allowed(allowed, pci) for allowed in backing.allowedDevice)


def _is_allowed(allowed: Any, pci: PciDevice) -> bool:
    pairs = (
        (allowed.vendorId, pci.vendor_id),
        (allowed.deviceId, pci.device_id),
        (allowed.subVendorId, pci.subvendor_id),
        (allowed.subDeviceId, pci.subdevice_id),
    )
    return all(wanted is None or wanted & LOW_16_BITS == there for wanted, there in pairs)


def _numbers(pci_id: str) -> tuple[int, int, int]:
    try:
        _, bus, rest = pci_id.split(":")
        slot, function = rest.split(".")
        return int(bus, 16), int(slot, 16), int(function, 16)
    except ValueError:
        return 0, 0, 0


def _hex(text: str) -> int | None:
    try:
        return int(text, 16)
    except ValueError:
        return None


Suits = Callable[[int, Gpu], bool]
"""Whether a GPU would do for the vGPU of a device key, room apart."""

_AUTOMATIC = "Automatic"
"""The prefix of a physical function's id if the host chooses it."""


@dataclass(frozen=True, slots=True)
class Admission:
    """A VM's resources on its host: vGPUs by GPU address, and whole functions by device key."""

    vgpus: tuple[tuple[str, VgpuUse], ...] = ()
    whole: tuple[tuple[int, str], ...] = ()


def admit(
    state: LabState,
    vm: VirtualMachine,
    host: Host,
    pick: Pick,
    forced: Mapping[int, str] | None = None,
    suits: Suits | None = None,
    *,
    has_swap: bool = False,
) -> Admission:
    """Return a VM's resources on a host, or raise vCenter's fault.

    `forced` fixes the GPU of some vGPUs (device key → address), and `has_swap` counts its swap file as made,
    both for estates; `suits` leaves out GPUs, for a VM that moves as it runs.
    """
    if (unusable := refusals.host_unusable(host)) is not None:
        raise unusable
    if vm.hardware_version > hardware.max_hardware_version(host):
        raise refusals.too_new(host)
    _check_size(state, vm, host)
    check(state, vm, host, has_swap=has_swap)
    hardware.check_macs(vm)
    hardware.check_iommu(vm, host)
    placed = place_vgpus(vm, host, pick, forced or {}, suits)
    hardware.check_memory_reserved(vm)
    hardware.check_tpm(vm)
    hardware.check_latency_sensitivity(vm, host, more=state.denies("latency-needs-cpu-and-memory"))
    hardware.check_numa_affinity(vm, host)
    whole = assign_whole_devices(vm, host)
    check_virtual_functions(state, vm, host)
    _check_several(vm, host, [use.profile for _, use in placed])
    boards = _boards_of(host, [pci_id for pci_id, _ in placed], list(whole.values()))
    for pci_id, use in placed:
        gpu = host.gpu(pci_id)
        if gpu is not None and not has_functions(host, gpu):
            raise refusals.plugin_failed(use.profile)
    hardware.check_window(vm, boards)
    return Admission(tuple(placed), tuple(whole.items()))


def start(state: LabState, vm: VirtualMachine, host: Host, admitted: Admission, *, now: float) -> None:
    """Start a VM on a host, with its admitted resources."""
    for pci_id, use in admitted.vgpus:
        gpu = host.gpu(pci_id)
        if gpu is not None:
            gpu.uses.append(use)
    for _, pci_id in admitted.whole:
        held = host.passthrough.setdefault(pci_id, Passthrough())
        held.vm = vm.moid
    assigned = dict(admitted.whole)
    for device in dynamic_of(vm.devices):
        backing = copy_with(device.backing, assignedId=assigned[device.key])
        vm.devices[device.key] = copy_with(device, backing=backing)
    vm.power_state, vm.boot_time, vm.host = "poweredOn", now, host.moid
    state.touch(vm, host)


def stop(state: LabState, vm: VirtualMachine) -> None:
    """Stop a VM, and return its resources."""
    host = state.get(vm.host, Host)
    for gpu in host.gpus:
        if any(use.vm == vm.moid for use in gpu.uses):
            gpu.uses = [use for use in gpu.uses if use.vm != vm.moid]
    for held in host.passthrough.values():
        if held.vm == vm.moid:
            held.vm = None
    for device in dynamic_of(vm.devices):
        vm.devices[device.key] = copy_with(device, backing=copy_with(device.backing, assignedId=None))
    vm.power_state, vm.boot_time = "poweredOff", None
    state.touch(vm, host)


def check_cpu(state: LabState, vm: VirtualMachine, host: Host) -> None:
    """Raise where the CPU that a VM reserves is not left on a host.

    Admission control compares the reservation with the unreserved CPU, at a power-on and when the reservation
    of a running VM grows (vSphere Resource Management, "Resource Allocation Reservation").
    """
    others = (state.get(moid, VirtualMachine) for moid in host.vms if moid != vm.moid)
    left = hardware.cpu_capacity_mhz(host) - sum(other.cpu_reservation_mhz for other in others if other.is_on)
    if vm.cpu_reservation_mhz > left:
        raise refusals.no_cpu(left, vm.cpu_reservation_mhz)


def _check_size(state: LabState, vm: VirtualMachine, host: Host) -> None:
    if vm.cpus > host.threads:
        raise vim.fault.NumVirtualCpusNotSupported(
            maxSupportedVcpusDest=host.threads,
            numCpuVm=vm.cpus,
            msg="The number of virtual CPUs is not supported by the host.",
        )
    if vm.memory_mib > host.memory_mib:
        raise vim.fault.MemorySizeNotSupported(
            memorySizeMB=vm.memory_mib,
            minMemorySizeMB=4,
            maxMemorySizeMB=host.memory_mib,
            msg="The memory size of the virtual machine is not supported by the host.",
        )
    asked = hardware.reservation_mib(vm)
    share = 2 if state.denies("memory-to-reserve") else 1
    left = host.memory_mib // share - hardware.HOST_OWN_MIB - reserved_mib(state, host)
    if asked > left:
        raise refusals.no_memory(left, asked)
    check_cpu(state, vm, host)


def _check_several(vm: VirtualMachine, host: Host, profiles: list[str]) -> None:
    """Several vGPUs in one VM: one board, one series, and before 8.0 only whole GPUs of the C or Q series."""
    if len(profiles) < 2:
        return
    entries = [
        entry for gpu in host.gpus for name in profiles if (entry := entry_of(gpu.board, name)) is not None
    ]
    kinds = {(entry.profile.prefix, entry.profile.series) for entry in entries}
    whole = all(entry.is_full_framebuffer and entry.profile.series in ("C", "Q") for entry in entries)
    if len(kinds) > 1 or (esxi_order(host) < ESXI_8_0 and not whole):
        vm.log.append(f"vmiop_log: the vGPUs {', '.join(profiles)} do not go together in one virtual machine")
        raise refusals.plugin_failed(profiles[-1])


def _boards_of(host: Host, shared: list[str], whole: list[str]) -> list[Board]:
    """Return the board of each physical GPU that a VM would hold, once per GPU."""
    held = {*shared, *whole}
    return [load_catalog().board(gpu.board) for gpu in host.gpus if gpu.pci_id in held]


@dataclass(slots=True)
class _Trial:
    """A host's GPUs as copies that fill up, and what lies where, by device key."""

    vm: VirtualMachine
    host: Host
    pick: Pick
    suits: Suits
    gpus: list[Gpu]
    placed: dict[int, tuple[str, VgpuUse]] = field(default_factory=dict)

    def put(self, key: int, profile: str, gpu: Gpu) -> None:
        slot = find_slot(load_of(self.host, gpu), profile)
        use = VgpuUse(self.vm.moid, key, profile, slot.start if slot is not None else None)
        gpu.uses.append(use)
        self.placed[key] = (gpu.pci_id, use)


def place_vgpus(
    vm: VirtualMachine, host: Host, pick: Pick, forced: Mapping[int, str], suits: Suits | None = None
) -> list[tuple[str, VgpuUse]]:
    """Choose a GPU for each vGPU, or raise the host's refusal; those placed count for those that follow.

    Groups come first, large ones before small ones; then single vGPUs, large ones before small ones.
    `forced` fixes the GPU of some device keys.
    """
    wanted = dict(vgpus_of(vm.devices))
    if not wanted:
        return []

    def does(key: int, gpu: Gpu) -> bool:
        is_meant = forced.get(key, gpu.pci_id) == gpu.pci_id
        return is_meant and serves_vgpus(host, gpu) and (suits is None or suits(key, gpu))

    copies = [replace(gpu, uses=list(gpu.uses)) for gpu in sorted(host.gpus, key=lambda gpu: gpu.pci_id)]
    trial = _Trial(vm, host, pick, does, copies)
    groups = groups_of(vm.devices)
    for group, keys in sorted(groups.items(), key=lambda item: (-len(item[1]), item[0])):
        members = {key: wanted[key] for key in keys if key in wanted}
        if members:
            _place_group(trial, vm.device_groups.get(group, ""), members)
    single = [item for item in wanted.items() if item[0] not in trial.placed]
    for key, profile in sorted(single, key=lambda item: (-_framebuffer(trial.gpus, item[1]), item[0])):
        _place_single(trial, key, profile)
    return [trial.placed[key] for key in wanted]


def _place_group(trial: _Trial, name: str, members: dict[int, str]) -> None:
    """Give a group whole idle GPUs that NVLink joins, its members in the order of their sequence ids.

    The vGPU of a group with NICs lies where any other would.
    """
    profile = next(iter(members.values()))
    free: list[nvlink.GpuSet] = []
    offer = nvlink.offered_groups(trial.host).get(name)
    if offer is not None and offer.nics:
        for key, of in members.items():
            _place_single(trial, key, of)
        return
    if offer is not None:
        able = [
            gpu
            for gpu in trial.gpus
            if serves_vgpus(trial.host, gpu) and find_slot(load_of(trial.host, gpu), profile) is not None
        ]
        free = nvlink.free_sets(nvlink.joined_sets(able))
    room = [gpus for gpus in free if len(gpus) == len(members) and _is_meant(trial, list(members), gpus)]
    if not room:
        trial.vm.log.append(f"No {len(members)} idle GPUs that NVLink joins for the device group '{name}'.")
        raise refusals.no_graphics(refusals.no_gpu_for(profile))
    chosen = trial.pick.joined(room, free)
    for (key, of), gpu in zip(members.items(), chosen, strict=True):
        trial.put(key, of, gpu)


def _is_meant(trial: _Trial, keys: list[int], gpus: nvlink.GpuSet) -> bool:
    return all(trial.suits(key, gpu) for key, gpu in zip(keys, gpus, strict=True))


def _place_single(trial: _Trial, key: int, profile: str) -> None:
    host = trial.host
    room = [
        gpu
        for gpu in trial.gpus
        if trial.suits(key, gpu) and find_slot(load_of(host, gpu), profile) is not None
    ]
    if not room or not knows(host, profile):
        raise refusals.no_graphics(refusals.no_gpu_for(profile))
    trial.put(key, profile, trial.pick.gpu(room, host.assignment_policy))


def _framebuffer(gpus: list[Gpu], profile: str) -> int:
    entries = (entry_of(gpu.board, profile) for gpu in gpus)
    return max((entry.framebuffer_mib for entry in entries if entry is not None), default=0)


def check_virtual_functions(state: LabState, vm: VirtualMachine, host: Host) -> None:
    """Raise the host's refusal where it has no virtual function left for every card of a VM."""
    wanted = _functions_of(vm)
    if not wanted:
        return
    total = {nic.pci.pci_id: nic.num_vfs for nic in host.nics}
    running = (state.get(moid, VirtualMachine) for moid in host.vms)
    taken = Counter(pci_id for one in running if one.is_on and one is not vm for pci_id in _functions_of(one))
    for pci_id in dict.fromkeys(wanted):
        if pci_id is not None and wanted.count(pci_id) > total.get(pci_id, 0) - taken[pci_id]:
            vm.log.append(f"The physical function {pci_id} has no free virtual function.")
            raise refusals.device_power_on_failed()
    if len(wanted) > sum(total.values()) - taken.total():
        vm.log.append("No physical function has a free virtual function.")
        raise refusals.device_power_on_failed()


def _functions_of(vm: VirtualMachine) -> list[str | None]:
    """Return the physical function that each SR-IOV card names, None if the host chooses it."""
    return list(_named(vm.devices.values()))


def _named(devices: Iterable[object]) -> Iterable[str | None]:
    for device in devices:
        if isinstance(device, vim.vm.device.VirtualSriovEthernetCard):
            backing = device.sriovBacking
            physical = None if backing is None else backing.physicalFunctionBacking
            pci_id = "" if physical is None else physical.id or ""
            yield pci_id if pci_id and not pci_id.startswith(_AUTOMATIC) else None
