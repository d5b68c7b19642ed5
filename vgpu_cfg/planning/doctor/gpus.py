"""Ailments of GPUs: stranded memory, modes that waste, unused devices."""

from __future__ import annotations

from collections.abc import Iterator

from vgpu_cfg.model.observed.inventory import Host
from vgpu_cfg.model.observed.vm import PassthroughDevice
from vgpu_cfg.model.vgpu import Sharing
from vgpu_cfg.planning.capacity.pci_tree import is_switched
from vgpu_cfg.planning.doctor.ailments import Ailment, Kind
from vgpu_cfg.planning.doctor.patient import Patient
from vgpu_cfg.planning.pool.gpus import PooledGpu, PoolMode
from vgpu_cfg.planning.pool.stranding import StrandedKind

_MOSTLY = 0.75
"""A GPU of which so much is locked to the size of a single small vGPU wastes it: a choice."""


def gpu_ailments(patient: Patient) -> Iterator[Ailment]:
    """Yield the capacity of GPUs that no VM can use, or none does."""
    in_mig = _mig_users(patient)
    for host, gpu in patient.gpus:
        subject = f"gpu:{host.name}/{gpu.pci_id}"
        yield from _stranded(subject, host, gpu, patient)
        if not host.is_usable:
            continue
        if gpu.mode is PoolMode.MIG and not gpu.runs and (host.owner_moid, gpu.board_key) not in in_mig:
            command = patient.type_("inventory", "--gpus", "--host", host.name)
            yield Ailment(Kind.MIG_UNUSED, subject, gpu.board, command)
        board = patient.catalog.board(gpu.board_key) if gpu.board_key else None
        if gpu.mode is PoolMode.PASSTHROUGH and is_switched(host, board):
            yield Ailment(Kind.NVSWITCH_SPLIT, subject, gpu.board)
        if gpu.mode is PoolMode.PASSTHROUGH and not gpu.runs:
            yield _passthrough(subject, host, gpu, patient)


def _stranded(subject: str, host: Host, gpu: PooledGpu, patient: Patient) -> Iterator[Ailment]:
    command = patient.type_("inventory", "--gpus", "--host", host.name)
    found = host.gpu(gpu.pci_id)
    most_kept = found.memory_mib // 8 if found is not None else 0
    most = _MOSTLY * found.memory_mib if found is not None else 0
    for one in gpu.stranded:
        if one.kind is StrandedKind.NVLINK:
            yield Ailment(Kind.NVLINK, subject, one.text, command)
        elif one.lost_mib > most_kept or one.compute_slices > 1:
            yield Ailment(Kind.STRANDED, subject, one.text, command)
        elif one.kind is StrandedKind.SIZE_LOCK and len(gpu.runs) == 1 and one.bound_mib >= most > 0:
            yield Ailment(Kind.LOCKED_SIZE, subject, one.text, command)


def _mig_users(patient: Patient) -> frozenset[tuple[str, str]]:
    """Return the clusters and boards of which a VM, running or not, has a MIG profile."""
    found = set()
    for _, detail, host in patient.gpu_vms:
        for vgpu in detail.vgpus:
            for board, need in patient.reader.needs(vgpu.profile).items():
                if need.sharing is Sharing.MIG:
                    found.add((host.owner_moid, board))
    return frozenset(found)


def _passthrough(subject: str, host: Host, gpu: PooledGpu, patient: Patient) -> Ailment:
    """Report a passed-through GPU without a running VM, with the VM that is off and waits for it."""
    waiting = [
        vm.name
        for vm, detail, at in patient.gpu_vms
        if not vm.is_on
        and at.owner_moid == host.owner_moid
        and any(_could_have(device, at, host, gpu) for device in detail.passthrough_gpus)
    ]
    says = f"{gpu.board}, for {waiting[0]}, which is off" if waiting else f"{gpu.board}, not assigned to a VM"
    command = f"esxcli hardware pci pcipassthru set -d {gpu.pci_id} -e false"
    return Ailment(Kind.PASSTHROUGH_UNUSED, subject, says, command)


def _could_have(device: PassthroughDevice, at: Host, host: Host, gpu: PooledGpu) -> bool:
    if device.pci_id is not None:
        return at.moid == host.moid and device.pci_id == gpu.pci_id
    pci = host.device(gpu.pci_id)
    if pci is None or (pci.vendor_id, pci.device_id) not in device.allowed:
        return False
    return not device.label or device.label == gpu.label
