"""Which VMs with GPUs no other host of their cluster could take if their host failed.

Each host is assumed to fail alone. Its VMs are placed on the free capacity of the other usable hosts, the
largest first: profiles by the rules of placement, memory by the reservations. A VM that names a device of its
host, whose restart is disabled, or that a mandatory rule keeps there is left out: that was decided.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from vgpu_cfg.model.observed.inventory import Cluster, Host
from vgpu_cfg.model.observed.vm import Vm, VmDetail
from vgpu_cfg.model.wording import counted, gib, listed
from vgpu_cfg.planning.capacity.gpu_state import GpuState
from vgpu_cfg.planning.doctor.ailments import Ailment, Kind
from vgpu_cfg.planning.doctor.patient import Patient, owner_name
from vgpu_cfg.planning.moves.movables import HostRules
from vgpu_cfg.planning.placement.host_state import HOST_MEMORY_SHARE
from vgpu_cfg.planning.vms.lookup.moving import HA_RESTART


@dataclass(slots=True)
class Room:
    """The free capacity of a host."""

    host: Host
    gpus: list[GpuState]
    free_mib: int
    dynamic: list[tuple[int, int]]

    def copy(self) -> Room:
        """Return capacity that can be taken without changing this one."""
        return Room(self.host, [gpu.copy() for gpu in self.gpus], self.free_mib, list(self.dynamic))


def failover_ailments(patient: Patient) -> Iterator[Ailment]:
    """Yield the VMs that no other host could take, or their cluster if that holds for each of its hosts."""
    for cluster, hosts in patient.clusters():
        usable = [host for host in hosts if host.is_usable]
        lost: dict[str, list[tuple[Vm, str]]] = {}
        rooms = [room_of(host, patient) for host in usable]
        for host in usable:
            vms = _moving(host, cluster, patient)
            if vms:
                others = [room.copy() for room in rooms if room.host.moid != host.moid]
                lost[host.name] = list(left_over(vms, others, cluster, patient))
        if lost and all(lost.values()):
            count = sum(map(len, lost.values()))
            says = f"{counted(count, 'GPU VM')} on {counted(len(lost), 'host')} cannot run on another host"
            command = patient.type_("fit", "--without", f"host:{next(iter(lost))}")
            yield Ailment(Kind.NO_SPARE, f"cluster:{cluster.name}", says, command)
            continue
        for name, vms_lost in lost.items():
            for vm, why in vms_lost:
                command = patient.type_("fit", "--without", f"host:{name}")
                yield Ailment(Kind.NO_RESTART, f"vm:{vm.name}", f"on {name}: {why}", command, owner_name(vm))


def room_of(host: Host, patient: Patient) -> Room:
    """Return the free capacity of a host now."""
    found = patient.capacity(host)
    reserved = sum(
        vm.detail.reserved_mib
        for vm in patient.observed.vms_by_host.get(host.moid, ())
        if vm.is_on and vm.detail is not None
    )
    dynamic = [
        (slot.pci.vendor_id, slot.pci.device_id)
        for slot in found.slots
        if slot.pci.passthrough_active and slot.holder is None and not slot.is_cordoned
    ]
    gpus = list(found.gpus) if host.takes_vms else []
    return Room(
        host, gpus, int(HOST_MEMORY_SHARE * host.memory_mib) - reserved, dynamic if host.takes_vms else []
    )


def _moving(host: Host, cluster: Cluster, patient: Patient) -> list[tuple[Vm, VmDetail]]:
    """Return the running VMs with GPUs of a host that are to run elsewhere, the largest first."""
    found = [
        (vm, detail)
        for vm, detail, at in patient.gpu_vms
        if at.moid == host.moid
        and vm.is_on
        and not any(device.is_fixed for device in detail.passthrough)
        and cluster.overrides_of(vm.moid).get(HA_RESTART) != "disabled"
    ]
    return sorted(found, key=lambda one: (-_size(one[1], patient), one[0].name))


def _size(detail: VmDetail, patient: Patient) -> int:
    needs = (patient.reader.needs(vgpu.profile) for vgpu in detail.vgpus)
    return sum(max((need.framebuffer_mib for need in by_board.values()), default=0) for by_board in needs)


def left_over(
    vms: Sequence[tuple[Vm, VmDetail]], rooms: Sequence[Room], cluster: Cluster, patient: Patient
) -> Iterator[tuple[Vm, str]]:
    """Place VMs, one after the other, into `rooms`, which it changes; yield those left over, and why."""
    for vm, detail in vms:
        rules = HostRules.of(vm, cluster)
        allowed = [room for room in rooms if rules.allow(room.host.moid)]
        if len(allowed) < len(rooms) and not allowed:
            continue
        reasons: dict[str, None] = {}
        for room in allowed:
            why = _take(room, vm, detail, patient)
            if not why:
                break
            reasons[why] = None
        else:
            yield vm, listed(reasons) or "no other host with GPUs is usable"


def _take(room: Room, vm: Vm, detail: VmDetail, patient: Patient) -> str:
    """Put a VM on a host if it has the room; return why not otherwise, "" if it has."""
    gpus = [gpu.copy() for gpu in room.gpus]
    for vgpu in detail.vgpus:
        needs = patient.reader.needs(vgpu.profile)
        for gpu in gpus:
            need = needs.get(gpu.board_key or "")
            if need is not None and gpu.refuse(need) is None:
                gpu.take(need, vm.name)
                break
        else:
            return f"no capacity for {vgpu.profile}"
    dynamic = list(room.dynamic)
    for device in detail.passthrough:
        fitting = next((one for one in dynamic if one in device.allowed), None)
        if fitting is None:
            return f"no free {device.text}"
        dynamic.remove(fitting)
    if detail.memory_mib > room.free_mib:
        return f"less than {gib(detail.memory_mib)} of free memory"
    room.gpus, room.dynamic = gpus, dynamic
    room.free_mib -= detail.memory_mib
    return ""
