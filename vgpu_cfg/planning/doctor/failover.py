"""VMs with GPUs that no other host of their cluster could take if their host failed: each host alone."""

from __future__ import annotations

from collections.abc import Iterator

from vgpu_cfg.model.wording import counted
from vgpu_cfg.planning.doctor.ailments import Ailment, Kind
from vgpu_cfg.planning.doctor.patient import Patient, owner_name
from vgpu_cfg.planning.pool.spare import load_of, lost_by_host, room_of


def failover_ailments(patient: Patient) -> Iterator[Ailment]:
    """Yield the VMs that no other host could take, or their cluster if that holds for each of its hosts."""
    for cluster, hosts in patient.clusters():
        usable = [host for host in hosts if host.is_usable]
        rooms = [room_of(host, patient.capacity(host), patient.observed) for host in usable]
        found = (load_of(vm, cluster) for vm, _, _ in patient.gpu_vms)
        lost = lost_by_host(rooms, [load for load in found if load is not None], patient.reader)
        if lost and all(lost.values()):
            count = sum(map(len, lost.values()))
            says = f"{counted(count, 'GPU VM')} on {counted(len(lost), 'host')} cannot run on another host"
            command = patient.type_("fit", "--without", f"host:{next(iter(lost))}")
            yield Ailment(Kind.NO_SPARE, f"cluster:{cluster.name}", says, command)
            continue
        for name, left in lost.items():
            for load, why in left:
                command = patient.type_("fit", "--without", f"host:{name}")
                owner = owner_name(load.vm) if load.vm is not None else ""
                yield Ailment(Kind.NO_RESTART, f"vm:{load.name}", f"on {name}: {why}", command, owner)
