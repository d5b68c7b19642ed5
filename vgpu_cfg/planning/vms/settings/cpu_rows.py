"""CPUs and memory of a VM, what of them is reserved, and how both are tied to NUMA nodes.

Sources: vSphere API reference, VirtualMachineConfigSpec, ResourceAllocationInfo, LatencySensitivity,
VirtualNuma; vSphere Resource Management 8.0: a VM of latency sensitivity high needs all its memory and, of
CPU, at least the number of its CPUs times the clock of the host's cores reserved.
"""

from __future__ import annotations

from vgpu_cfg.model.observed.vm import AFFINITY_KEY, SettingValue, VmDetail
from vgpu_cfg.model.plan_file import size_text
from vgpu_cfg.model.wording import counted, gib, node_list
from vgpu_cfg.planning.capacity.hardware import nodes_of_affinity
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.findings.collection import Objection
from vgpu_cfg.planning.vms.lookup.placed import PlacedVm
from vgpu_cfg.planning.vms.lookup.wanted import PVRDMA, has_pinning_nics
from vgpu_cfg.planning.vms.settings.edits import current
from vgpu_cfg.planning.vms.settings.setting import (
    Carrier,
    FoundVm,
    Topic,
    VmSetting,
    Wanted,
    as_it_is,
    as_stated,
)

_CONFIG_SPEC = "vSphere API reference, VirtualMachineConfigSpec"
_CPU_COUNT = "VirtualMachine.Config.CPUCount"
_MEMORY = "VirtualMachine.Config.Memory"
_RESOURCE = "VirtualMachine.Config.Resource"
HIGH, NORMAL = "high", "normal"
MOST_SOCKETS = 128


def _final_cpus(vm: PlacedVm) -> int:
    return vm.desired.cpus if vm.manages("cpus") and vm.desired.cpus else vm.base.cpus


def _final_memory(vm: PlacedVm) -> int:
    return vm.desired.memory_mib if vm.manages("memory") and vm.desired.memory_mib else vm.base.memory_mib


def _cpus(vm: PlacedVm) -> Wanted | None:
    if not vm.manages("cpus") or vm.desired.cpus is None:
        return None
    return Wanted(vm.desired.cpus, is_default=vm.is_default("cpus"))


def _cores_per_socket(vm: PlacedVm) -> Wanted | None:
    """Request one socket per NUMA node; one socket if the template's number does not divide.

    vSphere allows at most 128 sockets; for more, sockets have up to 64 cores.
    """
    if not vm.manages("cpus"):
        return None
    cpus, found = _final_cpus(vm), vm.base.cores_per_socket
    if vm.nodes > 1 and cpus % vm.nodes == 0:
        return Wanted(cpus // vm.nodes, is_default=True)
    if cpus and found and cpus // found > MOST_SOCKETS:
        return Wanted(next(one for one in range(64, 0, -1) if cpus % one == 0), is_default=True)
    return Wanted(cpus, is_default=True) if cpus and found and cpus % found else None


def _memory(vm: PlacedVm) -> Wanted | None:
    if not vm.manages("memory") or vm.desired.memory_mib is None:
        return None
    return Wanted(vm.desired.memory_mib, is_default=vm.is_default("memory"))


def _reservation(vm: PlacedVm) -> Wanted | None:
    """Ask for all memory: a VM with a device that reads and writes it cannot start with less."""
    is_resized = vm.manages("memory")
    is_asked = bool(vm.resolved.gpus) and (vm.manages("gpus") or is_resized)
    is_asked |= _pins_memory(vm) and (vm.manages("nics") or is_resized)
    is_asked |= vm.stated("latency_sensitivity") == HIGH
    return Wanted(_final_memory(vm), is_default=True) if is_asked else None


def _is_all_reserved(value: SettingValue, detail: VmDetail) -> bool:
    """Whether no memory is left unreserved, by the flag or the amount; of 0, whether the flag is off."""
    if not value:
        return not detail.memory_reservation_locked
    return detail.memory_reservation_locked or detail.memory_reservation_mib >= int(value) > 0


def _pins_memory(vm: PlacedVm) -> bool:
    """Whether a NIC needs all of the VM's memory reserved: a function of a physical one, or PVRDMA."""
    if not vm.manages("nics"):
        return has_pinning_nics(vm.base)
    return bool(vm.functions) or any(nic.kind == PVRDMA for nic in vm.nics or ())


def _hot_add(vm: PlacedVm, key: str) -> Wanted | None:
    stated = vm.stated(key)
    if isinstance(stated, bool):
        return Wanted(stated)
    return Wanted(value=False, is_default=True) if vm.is_new else None


def _objects_to_cpu_hot_add(vm: PlacedVm, value: SettingValue) -> Objection | None:
    if not value or not vm.resolved.gpus or vm.nodes == 1:
        return None
    message = f"`cpu_hot_add` hides the {counted(vm.nodes, 'NUMA node')} from the guest"
    return Objection(Code.HOT_ADD, message, "remove `cpu_hot_add`")


def _objects_to_memory_hot_add(vm: PlacedVm, value: SettingValue) -> Objection | None:
    if not value or not (vm.resolved.gpus or vm.functions):
        return None
    message = "`memory_hot_add` is not available for a VM with passthrough devices"
    return Objection(Code.HOT_ADD, message, "remove `memory_hot_add`")


def _needed_mhz(vm: PlacedVm) -> int | None:
    """Return the MHz of all CPUs on the VM's host, None if the host's clock is unknown."""
    # Belief: latency-needs-cpu-and-memory, core-clock-is-cpu-mhz.
    clock = vm.host.cpu_mhz if vm.host is not None else None
    return _final_cpus(vm) * clock if clock else None


def _objects_to_latency(vm: PlacedVm, value: SettingValue) -> Objection | None:
    """Refuse if the CPU to reserve is unknown, or is more than the host has."""
    if value != HIGH or vm.host is None:
        return None
    cpus, mhz = _final_cpus(vm), _needed_mhz(vm)
    remedy = "use fewer `cpus`, or set `latency_sensitivity: normal`"
    if mhz is None:
        message = (
            f"`latency_sensitivity: high` requires a full CPU reservation, but {vm.host.name} does not "
            "report its clock rate"
        )
        return Objection(
            Code.LATENCY_NEEDS_CPU, message, "make sure that the host is connected, then run `plan` again"
        )
    if cpus > vm.host.cores:
        has = counted(vm.host.cores, "core")
        message = (
            f"`latency_sensitivity: high` requires a core for each of the {cpus} CPUs; {vm.host.name} has "
            f"{has}"
        )
        return Objection(Code.LATENCY_NEEDS_CPU, message, remedy)
    return None


def _cpu_reservation(vm: PlacedVm) -> Wanted | None:
    """Follow the latency sensitivity: all CPU for high; what came with it goes where it is normal again.

    A VM that has it and of which the plan file does not say so needs all of its new CPUs reserved, too.
    """
    stated = vm.stated("latency_sensitivity")
    was_high = vm.base.options.get("latency_sensitivity") == HIGH
    is_resized = vm.is_new or _final_cpus(vm) != vm.base.cpus
    if stated == HIGH or (stated is None and was_high and is_resized):
        mhz = _needed_mhz(vm)
        note = f"{_final_cpus(vm)} CPUs at {vm.host.cpu_mhz} MHz" if mhz and vm.host is not None else ""
        return Wanted(mhz, is_default=True, note=note) if mhz else None
    return Wanted(0, is_default=True) if stated == NORMAL and was_high else None


def _is_reserved(value: SettingValue, detail: VmDetail) -> bool:
    found = int(detail.options.get("cpu_reservation", 0))
    return found >= int(value) if value else found == 0


def _affinity(vm: PlacedVm) -> Wanted | None:
    if not vm.manages("numa") or vm.affinity is None:
        return None
    return Wanted(node_list(vm.affinity), is_default=vm.is_default("numa"), note=vm.affinity_note)


def _numa_in_file(value: SettingValue) -> object:
    nodes = nodes_of_affinity(str(value))
    return list(nodes) if len(nodes) > 1 else nodes[0] if nodes else "off"


def _is_off_its_gpus(vm: FoundVm, value: SettingValue) -> bool:
    """Whether the affinity is not the one that follows from the GPUs; of a VM without GPUs that is none."""
    nodes = nodes_of_affinity(str(value))
    if vm.has_gpus and nodes:
        return bool(vm.gpu_nodes) and set(nodes) != vm.gpu_nodes
    return vm.has_gpus != bool(nodes)


def _virtual_nodes(vm: PlacedVm) -> Wanted | None:
    """Follow `numa`, and the number of CPUs where the nodes were shaped before."""
    is_resized = vm.manages("cpus") and vm.desired.cpus not in (None, vm.base.cpus)
    # Belief: virtual-nodes-are-cpus-divided, one-virtual-node.
    is_asked = vm.manages("numa") or (is_resized and bool(vm.base.cores_per_numa_node))
    if not is_asked or vm.cores_per_numa_node is None:
        return None
    return Wanted(vm.cores_per_numa_node, is_default=True)


def _brought_reservation(vm: PlacedVm) -> bool:
    """Whether a VM's memory is reserved for devices alone that go, all of them."""
    is_needed = bool(vm.resolved.gpus) or _pins_memory(vm)
    is_for_latency = HIGH in (vm.stated("latency_sensitivity"), vm.base.options.get("latency_sensitivity"))
    return vm.base.memory_reservation_locked and not (is_needed or is_for_latency)


def _brought_affinity(vm: PlacedVm) -> bool:
    return vm.resolved.sheds_gpus and vm.follows_held_gpus and not vm.manages("numa")


def _brought_cores(vm: PlacedVm) -> bool:
    nodes = nodes_of_affinity(current(AFFINITY_KEY, vm.base) or "")
    is_split = len(nodes) > 1 and vm.base.cores_per_socket == vm.base.cpus // len(nodes)
    return is_split and _brought_affinity(vm)


def _brought_virtual_nodes(vm: PlacedVm) -> bool:
    nodes = nodes_of_affinity(current(AFFINITY_KEY, vm.base) or "")
    is_split = bool(nodes) and vm.base.cores_per_numa_node == vm.base.cpus // len(nodes)
    return is_split and _brought_affinity(vm)


def _virtual_nodes_client(value: SettingValue) -> str:
    nodes = f"with {value} CPUs each" if value else "assigned at power-on"
    return f"the NUMA nodes of the CPU topology: {nodes}"


# Belief: missing-hot-add-is-off.
CPU_SETTINGS = (
    VmSetting(
        key="cpus",
        topic=Topic.CPU,
        name="CPUs",
        source=_CONFIG_SPEC,
        desired=_cpus,
        path="numCPUs",
        read=lambda detail: detail.cpus or None,
        plan_key="cpus",
        default="the template's",
        in_file=as_it_is,
        privilege=_CPU_COUNT,
        govc=lambda value: ("vm.change", "-c", str(value)),
    ),
    VmSetting(
        key="cores_per_socket",
        topic=Topic.CPU,
        name="cores per socket",
        source=_CONFIG_SPEC,
        desired=_cores_per_socket,
        path="numCoresPerSocket",
        read=lambda detail: detail.cores_per_socket,
        default="one socket per NUMA node if the VM spans several",
        follows=("cpus",),
        brought=_brought_cores,
        privilege=_CPU_COUNT,
        client=lambda value: f"CPU > Cores per Socket: {value}",
    ),
    VmSetting(
        key="memory",
        topic=Topic.CPU,
        name="memory",
        source=_CONFIG_SPEC,
        desired=_memory,
        path="memoryMB",
        read=lambda detail: detail.memory_mib or None,
        text=lambda value: gib(int(value)),
        plan_key="memory",
        default="the template's",
        in_file=lambda value: size_text(int(value)),
        privilege=_MEMORY,
        govc=lambda value: ("vm.change", "-m", str(value)),
    ),
    VmSetting(
        key="memory_reservation",
        topic=Topic.CPU,
        name="memory reserved:",
        source=f"{_CONFIG_SPEC}; the amount is also set for servers that ignore the flag",
        desired=_reservation,
        leaves=lambda value: {
            "memoryReservationLockedToMax": bool(value),
            "memoryAllocation.reservation": value,
        },
        read=lambda detail: detail.memory_mib if detail.memory_reservation_locked else None,
        same=_is_all_reserved,
        text=lambda value: "all" if value else "none",
        found_text=lambda detail: gib(detail.memory_reservation_mib),
        default=(
            "all, for VMs with GPUs or with NICs that access all of a VM's memory; otherwise, the "
            "template's value"
        ),
        follows=("memory", "gpus", "nics", "latency_sensitivity"),
        brought=_brought_reservation,
        privilege=_RESOURCE,
        is_always=True,
        govc=lambda value: ("vm.change", f"-memory-pin={str(bool(value)).lower()}"),
    ),
    VmSetting(
        key="cpu_hot_add",
        topic=Topic.CPU,
        name="CPU hot-add",
        source=f"{_CONFIG_SPEC}; CPU hot-add hides the virtual NUMA nodes (vSphere Resource Management)",
        desired=lambda vm: _hot_add(vm, "cpu_hot_add"),
        path="cpuHotAddEnabled",
        read_path="config.cpuHotAddEnabled",
        unset=False,
        plan_key="cpu_hot_add",
        in_file=as_it_is,
        default="off, so that the guest sees its NUMA nodes",
        privilege=_CPU_COUNT,
        is_always=True,
        govc=lambda value: ("vm.change", f"-cpu-hot-add-enabled={str(value).lower()}"),
        objects=_objects_to_cpu_hot_add,
    ),
    VmSetting(
        key="memory_hot_add",
        topic=Topic.CPU,
        name="memory hot-add",
        source=f"{_CONFIG_SPEC}; memory cannot be added to a running VM with passthrough devices",
        desired=lambda vm: _hot_add(vm, "memory_hot_add"),
        path="memoryHotAddEnabled",
        read_path="config.memoryHotAddEnabled",
        unset=False,
        plan_key="memory_hot_add",
        in_file=as_it_is,
        default="off: not supported with passthrough devices",
        privilege=_MEMORY,
        is_always=True,
        govc=lambda value: ("vm.change", f"-memory-hot-add-enabled={str(value).lower()}"),
        objects=_objects_to_memory_hot_add,
    ),
    VmSetting(
        key="latency_sensitivity",
        topic=Topic.CPU,
        name="latency sensitivity",
        source="vSphere API reference, LatencySensitivity; vSphere Resource Management 8.0",
        desired=as_stated("latency_sensitivity"),
        path="latencySensitivity.level",
        read_path="config.latencySensitivity.level",
        unset=NORMAL,
        text=str,
        plan_key="latency_sensitivity",
        in_file=as_it_is,
        default="the template's",
        privilege=_RESOURCE,
        govc=lambda value: ("vm.change", "-latency", str(value)),
        objects=_objects_to_latency,
    ),
    VmSetting(
        key="cpu_reservation",
        topic=Topic.CPU,
        name="CPU reserved:",
        source="vSphere Resource Management 8.0: number of CPUs times the host's clock rate, in MHz",
        desired=_cpu_reservation,
        path="cpuAllocation.reservation",
        read_path="config.cpuAllocation.reservation",
        unset=0,
        same=_is_reserved,
        text=lambda value: f"{value} MHz",
        default="all if latency sensitivity is high; otherwise, the template's value",
        follows=("latency_sensitivity", "cpus"),
        privilege=_RESOURCE,
        govc=lambda value: ("vm.change", "-cpu.reservation", str(value)),
    ),
    VmSetting(
        key=AFFINITY_KEY,
        topic=Topic.CPU,
        name="nodeAffinity",
        source="vSphere Resource Management 8.0, numa.nodeAffinity",
        desired=_affinity,
        path=AFFINITY_KEY,
        carrier=Carrier.EXTRA_CONFIG,
        read=lambda detail: current(AFFINITY_KEY, detail) or "",
        same=lambda value, detail: (current(AFFINITY_KEY, detail) or "").replace(" ", "") == value,
        text=str,
        plan_key="numa",
        default="the nodes of its GPUs",
        in_file=_numa_in_file,
        needs_saying=_is_off_its_gpus,
        brought=_brought_affinity,
        privilege="VirtualMachine.Config.AdvancedConfig",
    ),
    VmSetting(
        key="cores_per_numa_node",
        topic=Topic.CPU,
        name="cores per vNUMA node",
        source="vSphere API reference, VirtualNuma (API 8.0.0.1, hardware version 20); 0 lets ESXi decide",
        desired=_virtual_nodes,
        path="virtualNuma.coresPerNumaNode",
        read=lambda detail: detail.cores_per_numa_node or 0,
        text=lambda value: str(value) if value else "",
        default="the number of VM cores per NUMA node",
        follows=("numa", "cpus"),
        brought=_brought_virtual_nodes,
        privilege=_CPU_COUNT,
        api="8.0.0.1",
        hardware=20,
        client=_virtual_nodes_client,
    ),
)
