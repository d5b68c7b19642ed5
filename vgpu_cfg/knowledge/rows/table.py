"""All known failures, by their places; the order is from specific to general."""

from __future__ import annotations

from vgpu_cfg.knowledge.fault_rows import FaultRow
from vgpu_cfg.knowledge.rows.containers import CONTAINER_ROWS
from vgpu_cfg.knowledge.rows.data import in_other_languages, read_rows
from vgpu_cfg.knowledge.rows.drivers import DRIVER_ROWS
from vgpu_cfg.knowledge.rows.general import GENERAL_ROWS
from vgpu_cfg.knowledge.rows.guests import GUEST_ROWS
from vgpu_cfg.knowledge.rows.hosts import GPU_ROWS
from vgpu_cfg.knowledge.rows.licences import LICENCE_ROWS
from vgpu_cfg.knowledge.rows.power_on import POWER_ON_ROWS
from vgpu_cfg.knowledge.rows.running import VM_ROWS
from vgpu_cfg.knowledge.rows.training import TRAINING_ROWS
from vgpu_cfg.knowledge.rows.xid import XID_ROWS

_BY_PLACE: dict[str, tuple[FaultRow, ...]] = {
    "vCenter, hostd, and vmware.log: a VM does not start": POWER_ON_ROWS,
    "vCenter: a VM cannot be migrated, stopped, snapshotted, or changed": VM_ROWS,
    "ESXi: nvidia-smi, esxcli, vmkernel.log": GPU_ROWS,
    "the guest driver: dmesg, modprobe, nvidia-smi, CUDA": DRIVER_ROWS,
    "the guest: topology, RDMA, firmware": GUEST_ROWS,
    "licenses: nvidia-gridd and vCenter's own": (*LICENCE_ROWS, *read_rows("licences")),
    "containers: Docker and the NVIDIA Container Toolkit": CONTAINER_ROWS,
    "training: NCCL, mlx5, Horovod": TRAINING_ROWS,
    "Xid: error numbers from the NVIDIA driver, on hosts and in guests": XID_ROWS,
    "the guest's kernel: PCIe, disks, NICs": read_rows("kernel"),
    "vCenter: clones, storage, HA, and VMware Tools": read_rows("vsphere"),
    "ESXi: packages and esxcli": read_rows("esxcli"),
    "the guest: driver packages, cloud-init, and containers": read_rows("runtimes"),
    "Windows guests": read_rows("windows"),
    "the guest: packages, compilers, SSH, NFS, and networks": read_rows("linux"),
    "jobs: rendezvous, MPI, Slurm, Fabric Manager, DCGM": read_rows("jobs"),
    "training and serving: PyTorch, DeepSpeed, Ray, vLLM": read_rows("frameworks"),
    "numbers: RDMA, CUDA, VIX, and further Xids": read_rows("numbers"),
    "vCenter: any VM": GENERAL_ROWS,
    "vCenter: faults by their type": read_rows("faults"),
}

PLACES = {place: in_other_languages(rows) for place, rows in _BY_PLACE.items()}
"""The places of texts, and their rows."""

ROWS: tuple[FaultRow, ...] = tuple(row for rows in PLACES.values() for row in rows)


def place_of(key: str) -> str:
    """Return where the text of a row is met."""
    return next(place for place, rows in PLACES.items() if any(row.key == key for row in rows))
