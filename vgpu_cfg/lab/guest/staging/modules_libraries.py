"""The modules that need driver and NIC: the CUDA Toolkit, NCCL's settings."""

from __future__ import annotations

from vgpu_cfg.lab.guest.staging.work import DONE, ModuleFailedError, Work, WorkResult, applies, fetch
from vgpu_cfg.lab.guest.system import files
from vgpu_cfg.lab.guest.system.nics import SeenNic
from vgpu_cfg.lab.guest.system.rdma import gids_of

SETTINGS, PROGRAM, UNIT = "/opt/vgpu-cfg/nccl.env", "/opt/vgpu-cfg/nccl-env", "vgpu-cfg-nccl"
TOPOLOGY = "/opt/vgpu-cfg/nccl-topo.xml"


def _gid(nic: SeenNic) -> int | None:
    return next((one.index for one in gids_of(nic) if one.ipv4 and one.version == "v2"), None)


def nccl_settings(work: Work) -> str:
    """Return the program's findings: the interface, RDMA devices, and their GID of RoCE v2."""
    seen = [work.nic(part) for part in work.parts("nics")]
    gids = {nic.rdma: _gid(nic) for nic in seen if nic.rdma}
    lines = [f"NCCL_SOCKET_IFNAME='={seen[0].name}'"] if seen else []
    devices = [rdma for rdma, gid in gids.items() if gid is not None]
    if devices:
        lines.append(f"NCCL_IB_HCA='={','.join(f'{rdma}:1' for rdma in devices)}'")
        found = {gids[rdma] for rdma in devices}
        lines += [f"NCCL_IB_GID_INDEX={found.pop()}"] if len(found) == 1 else []
        if work.value("traffic_class") is not None:
            lines.append(f"NCCL_IB_TC={work.value('traffic_class')}")
        if not work.value("is_direct"):
            lines.append("NCCL_NET_GDR_LEVEL=LOC")
        elif work.guest.peermem:
            lines.append("NCCL_NET_GDR_LEVEL=SYS")
    if work.parts("gpu_wires"):
        lines.append(f"NCCL_TOPO_FILE={TOPOLOGY}")
    return "".join(f"export {line}\n" for line in lines)


def _has_nccl(work: Work) -> bool:
    found = work.guest.files.get(SETTINGS)
    try:
        return work.is_written() and found is not None and found.content == nccl_settings(work)
    except ModuleFailedError:
        return False


@applies("nccl", _has_nccl)
def write_nccl(work: Work) -> WorkResult:
    """Write NCCL's settings from the current devices, and the program that does so at every boot."""
    now = work.lab.clock.now()
    program = work.bundle_file("nccl-env") or "#!/bin/sh\n"
    files.write(work.guest, PROGRAM, program.encode(), mode=0o755, now=now, parents=True)
    files.write(work.guest, SETTINGS, nccl_settings(work).encode(), now=now, parents=True)
    if work.parts("gpu_wires"):
        files.write(work.guest, TOPOLOGY, b'<system version="1">\n</system>\n', now=now, parents=True)
    work.guest.services[UNIT] = True
    work.mark_written()
    return DONE


CUDA_MIB = 12 * 1024
CUDA_FILES = ("/etc/profile.d/vgpu-cfg-cuda.sh", "/opt/vgpu-cfg/cuda.env")


def _toolkit(work: Work) -> str:
    return f"/usr/local/cuda-{work.text('version')}/bin/nvcc"


def _has_cuda(work: Work) -> bool:
    return work.is_written() and _toolkit(work) in work.guest.files


@applies("cuda", _has_cuda, seconds=180.0)
def install_cuda(work: Work) -> WorkResult:
    """Install the toolkit from NVIDIA's repository or a package, and set PATH."""
    guest, now = work.guest, work.lab.clock.now()
    if _toolkit(work) not in guest.files:
        if guest.free_mib < CUDA_MIB:
            raise ModuleFailedError(
                f"the disk has {guest.free_mib // 1024} GiB free, but the CUDA Toolkit needs 12"
            )
        fetch(work, work.text("package") or work.text("repository"), work.text("sha256"))
        guest.free_mib -= CUDA_MIB
        files.write(guest, _toolkit(work), b"#!/bin/sh\n", mode=0o755, now=now, parents=True)
    text = work.bundle_file("cuda.sh") or "# the CUDA Toolkit\n"
    for path in CUDA_FILES:
        files.write(guest, path, text.encode(), now=now, parents=True)
    work.mark_written()
    return DONE
