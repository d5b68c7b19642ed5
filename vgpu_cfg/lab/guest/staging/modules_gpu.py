"""The modules about a guest's GPU: nouveau kept off, NVIDIA's driver, its license, CUDA and NCCL."""

from __future__ import annotations

import re

from vgpu_cfg.lab.guest.staging.work import (
    DONE,
    ModuleFailedError,
    Work,
    WorkResult,
    applies,
    fetch,
    licence_refusal,
    names,
)
from vgpu_cfg.lab.guest.system import files
from vgpu_cfg.lab.guest.system.gpus import branch_of, driver_loads, gpus_of_guest
from vgpu_cfg.lab.guest.system.nics import SeenNic
from vgpu_cfg.lab.guest.system.rdma import gids_of
from vgpu_cfg.lab.guest.system.workloads import end_gpu_users
from vgpu_cfg.lab.rules.from_the_field import text_of

DRIVER_MIB = 3072
VERSION = re.compile(r"\d{3}\.\d+(?:\.\d+)?")
DATA_CENTER = re.compile(r"NVIDIA-Linux-x86_64-[\d.]+\.run$|cuda-drivers|nvidia-(driver|open|dkms)-")
"""Names of NVIDIA's packages for data centers; those for vGPU guests have `grid` in theirs."""
GRIDD, TOKENS = "/etc/nvidia/gridd.conf", "/etc/nvidia/ClientConfigToken"
TOKEN_MODE = 0o744
FIRST_SENTENCE = "the client configuration token"


def _is_without_nouveau(work: Work) -> bool:
    return not work.guest.nouveau and not work.guest.has_nouveau


@applies("nouveau", _is_without_nouveau, seconds=20.0)
def keep_nouveau_off(work: Work) -> WorkResult:
    """Keep it from loading; where it drives a GPU the guest restarts."""
    work.guest.nouveau = False
    if work.guest.has_nouveau:
        return WorkResult("reboot", "the guest restarts without nouveau")
    return DONE


def _has_driver(work: Work) -> bool:
    return bool(work.guest.driver) and _fits(work) and driver_loads(work.lab.state, work.vm)


def _fits(work: Work) -> bool:
    return str(branch_of(work.guest.driver)) not in work.texts("refused")


@applies("driver", _has_driver, seconds=120.0)
def install_driver(work: Work) -> WorkResult:
    """Install the package's driver. Fails where it does not fit the host's, or nothing would bring one."""
    package, branches = work.text("package"), work.texts("branches")
    if not package:
        if not work.guest.driver:
            raise ModuleFailedError("the template has no NVIDIA driver, and no package is specified")
        raise ModuleFailedError(_wrong_branch(work.guest.driver, branches))
    version = VERSION.search(package.rpartition("/")[2])
    if version is None:
        raise ModuleFailedError("the package name does not contain a driver version")
    if str(branch_of(version[0])) in work.texts("refused"):
        raise ModuleFailedError(_wrong_branch(version[0], branches))
    if work.guest.free_mib < DRIVER_MIB:
        raise ModuleFailedError(
            f"the disk has {work.guest.free_mib // 1024} GiB free, but the driver needs 3"
        )
    fetch(work, package, work.text("sha256"))
    end_gpu_users(work.lab, work.vm)
    work.guest.driver = version[0]
    work.guest.has_grid_driver = DATA_CENTER.match(package.rpartition("/")[2]) is None
    work.guest.free_mib -= DRIVER_MIB
    if work.guest.has_nouveau:
        raise ModuleFailedError("nouveau is using the GPU")
    if work.vm.secure_boot and not work.guest.signs_modules:
        raise ModuleFailedError(text_of("unsigned-module"))
    shared = next((gpu for gpu in gpus_of_guest(work.lab.state, work.vm) if gpu.profile), None)
    if shared is not None and not work.guest.has_grid_driver:
        ids = f"{shared.gpu.pci.vendor_id:04x}:{shared.gpu.pci.device_id:04x}"
        why = {"pci_id": shared.pci_id, "ids": ids, "version": version[0]}
        raise ModuleFailedError(text_of("data-center-driver-on-vgpu", **why))
    if gpus_of_guest(work.lab.state, work.vm) and not driver_loads(work.lab.state, work.vm):
        raise ModuleFailedError(f"the driver {version[0]} does not load: the host runs another branch")
    return DONE


def _wrong_branch(version: str, branches: tuple[str, ...]) -> str:
    wanted = names(branches) or "another"
    return f"the guest driver {version} is from branch {branch_of(version)}, but the host supports {wanted}"


def _has_licence(work: Work) -> bool:
    return work.is_written() and bool(work.guest.licence)


@applies("licence", _has_licence, seconds=15.0)
def set_licence(work: Work) -> WorkResult:
    """Write gridd.conf and the token, and see that the guest gets its licence."""
    if not work.guest.driver:
        raise ModuleFailedError("no NVIDIA driver is installed, so nothing can be licensed")
    token = work.secret(work.text("token"))
    if token is None:
        raise ModuleFailedError(f"{FIRST_SENTENCE} is missing")
    now = work.lab.clock.now()
    feature = work.text("feature_type")
    work.guest.touch_file(GRIDD, f"FeatureType={feature}\n", now=now)
    work.guest.folders.setdefault("/etc/nvidia", 0o755)
    work.guest.folders.setdefault(TOKENS, 0o755)
    path = f"{TOKENS}/client_configuration_token_vgpu-cfg.tok"
    work.guest.touch_file(path, token, mode=TOKEN_MODE, now=now)
    work.guest.licence = token
    work.mark_written()
    refusal = licence_refusal(work.lab.state.internet, token)
    if refusal is not None:
        work.guest.blocks.pop(work.kind, None)
        raise ModuleFailedError(refusal)
    return DONE


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
