"""The modules about a guest's GPU and NICs: NVIDIA's driver and license, CUDA, NCCL, OFED, firmware, RoCE."""

from __future__ import annotations

import re
from collections.abc import Mapping

from vgpu_cfg.lab.guest.staging.work import (
    DONE,
    ModuleFailedError,
    Work,
    WorkResult,
    applies,
    check_packages,
    fetch,
    licence_refusal,
    names,
)
from vgpu_cfg.lab.guest.system import files
from vgpu_cfg.lab.guest.system.gpus import branch_of, driver_loads, gpus_of_guest
from vgpu_cfg.lab.guest.system.nics import SeenNic
from vgpu_cfg.lab.guest.system.rdma import gids_of, has_dcb
from vgpu_cfg.lab.guest.system.sysfs import FULL_STACKS
from vgpu_cfg.lab.guest.system.workloads import end_gpu_users
from vgpu_cfg.lab.nvidia.mlxconfig import canonical
from vgpu_cfg.lab.rules.refusals import text_of
from vgpu_cfg.lab.state.guest import Guest, RoceSetting
from vgpu_cfg.lab.state.host import Host, Nic

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
    work.written()
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
    return work.written()


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
    return work.written()


OFED_MIB = 4096
NAMES = {"mlnx": "MLNX_OFED", "doca": "DOCA-OFED", "inbox": "the distribution's RDMA stack"}
NO_DCB = (
    "is not lossless: configuring it requires mlnx_qos (OFED) or dcb (iproute2 5.11 or later), and neither "
    "is installed"
)


def _has_ofed(work: Work) -> bool:
    guest, stack = work.guest, work.text("stack")
    return guest.ofed == stack or (stack == "inbox" and guest.ofed != "none")


@applies("ofed", _has_ofed, seconds=240.0)
def install_ofed(work: Work) -> WorkResult:
    """Install the stack."""
    guest, stack, package = work.guest, work.text("stack"), work.text("package")
    if guest.ofed != stack and not (stack == "inbox" and guest.ofed != "none"):
        if stack == "inbox":
            check_packages(work)
        elif not package:
            raise ModuleFailedError(f"the template has no {NAMES[stack]}, and no package is named")
        else:
            if guest.free_mib < OFED_MIB:
                raise ModuleFailedError(
                    f"the disk has {guest.free_mib // 1024} GiB free, {NAMES[stack]} needs 4"
                )
            fetch(work, package, work.text("sha256"))
            guest.free_mib -= OFED_MIB
            for nic in work.seen_nics():
                if nic.rdma:  # openibd restarts, which takes the NICs' drivers out and in
                    work.lab.note(work.vm, "link", nic.name)
        guest.ofed = stack
    return DONE


def _has_peermem(work: Work) -> bool:
    return work.guest.peermem


@applies("peermem", _has_peermem, seconds=5.0)
def load_peermem(work: Work) -> WorkResult:
    """Load nvidia-peermem at boot; the kernel's own RDMA takes peers in Ubuntu alone."""
    guest = work.guest
    if not (guest.driver and driver_loads(work.lab.state, work.vm)):
        raise ModuleFailedError("nvidia-peermem does not load, and NVIDIA's driver is not loaded either")
    if guest.ofed not in FULL_STACKS and not guest.os.startswith("ubuntu"):
        raise ModuleFailedError(
            "this kernel's RDMA stack does not support peer memory: GPUDirect requires guest.ofed mlnx or "
            "doca"
        )
    guest.peermem = True
    return DONE


def _whole(work: Work, part: Mapping[str, object]) -> tuple[SeenNic, Nic]:
    seen = work.nic(part)
    if not seen.is_whole or seen.nic is None:
        raise ModuleFailedError(f"{seen.name} is not passed through entirely: the host controls its firmware")
    return seen, seen.nic


def _wanted_firmware(work: Work) -> dict[str, str]:
    found = work.value("parameters")
    return {str(name): str(value) for name, value in found.items()} if isinstance(found, dict) else {}


def _values(nic: Nic, wanted: Mapping[str, str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, text in wanted.items():
        known = nic.firmware.get(name)
        if known is None:
            raise ModuleFailedError(f"the firmware is too old for {name}")
        value = canonical(known, text)
        if value is None:
            raise ModuleFailedError(f"the firmware rejects {name}={text}")
        found[name] = value
    return found


def _has_firmware(work: Work) -> bool:
    try:
        for part in work.parts("nics"):
            _, nic = _whole(work, part)
            if any(
                nic.firmware[name].current != value
                for name, value in _values(nic, _wanted_firmware(work)).items()
            ):
                return False
    except ModuleFailedError:
        return False
    return True


@applies("nic-firmware", _has_firmware, seconds=10.0)
def set_firmware(work: Work) -> WorkResult:
    """Set firmware parameters of the handed-through NICs; they hold after the host's restart."""
    changed: list[str] = []
    for part in work.parts("nics"):
        seen, nic = _whole(work, part)
        for name, value in _values(nic, _wanted_firmware(work)).items():
            if nic.firmware[name].next_boot != value:
                nic.firmware[name].next_boot = value
            if nic.firmware[name].current != value:
                changed.append(f"{name} of {seen.name}")
    work.lab.state.touch(work.lab.state.get(work.vm.host, Host))
    if not changed:
        return DONE
    return WorkResult(
        "hand", f"restart the host (or power it off and on): {', '.join(changed)} is set but not active"
    )


def _wanted_roce(work: Work) -> dict[str, RoceSetting]:
    found: dict[str, RoceSetting] = {}
    for part in work.parts("nics"):
        nic = work.nic(part)
        owns = bool(work.value("owns_port")) and _sets_ports(work.guest)
        dscp, priority = int(work.value("dscp")), int(work.value("priority"))
        found[nic.mac] = (
            RoceSetting(work.text("trust"), priority, dscp) if owns else RoceSetting("pcp", None, dscp)
        )
    return found


def _sets_ports(guest: Guest) -> bool:
    return guest.ofed in FULL_STACKS or has_dcb(guest)


def _roce_warning(work: Work) -> str:
    """Say which port is not lossless for want of a tool."""
    if not work.value("owns_port") or _sets_ports(work.guest):
        return ""
    return "; ".join(f"{work.nic(part).name} {NO_DCB}" for part in work.parts("nics"))


def _has_roce(work: Work) -> bool:
    try:
        wanted = _wanted_roce(work)
    except ModuleFailedError:
        return False
    return all(work.guest.roce.get(mac) == setting for mac, setting in wanted.items())


@applies("roce", _has_roce, seconds=3.0, warning=_roce_warning)
def set_roce(work: Work) -> WorkResult:
    """Set trust, PFC and marking; without a tool for ports only what packets are marked with."""
    if work.guest.ofed == "none":
        raise ModuleFailedError("no RDMA stack is installed")
    work.guest.roce |= _wanted_roce(work)
    work.guest.services["vgpu-cfg-roce"] = True
    return DONE
