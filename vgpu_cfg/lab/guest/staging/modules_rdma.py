"""The modules about RDMA: the OFED stack, a handed-through NIC's firmware, RoCE settings."""

from __future__ import annotations

from collections.abc import Mapping

from vgpu_cfg.lab.guest.staging.work import (
    DONE,
    ModuleFailedError,
    Work,
    WorkResult,
    applies,
    check_packages,
    fetch,
)
from vgpu_cfg.lab.guest.system.gpus import driver_loads
from vgpu_cfg.lab.guest.system.nics import SeenNic
from vgpu_cfg.lab.guest.system.rdma import has_dcb
from vgpu_cfg.lab.nvidia.mlxconfig import canonical
from vgpu_cfg.lab.state.guest import Guest, RoceSetting
from vgpu_cfg.lab.state.host import Host, Nic

OFED_MIB = 4096
NAMES = {"mlnx": "MLNX_OFED", "doca": "DOCA-OFED", "inbox": "the distribution's RDMA stack"}
FULL_STACKS = frozenset({"mlnx", "doca"})
NO_DCB = "is not lossless: neither mlnx_qos (OFED) nor dcb (iproute2 5.11) is installed to configure it"


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
            "this kernel's RDMA does not support peers: GPUDirect requires guest.ofed mlnx or doca"
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
