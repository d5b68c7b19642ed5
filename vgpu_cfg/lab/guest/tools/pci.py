"""lspci in a guest: the devices on the bus, and the capability for address translation.

The lines about the capability are pciutils' own; other capabilities are left out. With `-Dnn` an entry is
one line, with the class and ids in brackets.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vgpu_cfg.lab.guest.shell.session import Result, Session
from vgpu_cfg.lab.guest.system.gpus import gpus_of_guest
from vgpu_cfg.lab.guest.system.nics import PVRDMA, VMXNET3, SeenNic, nics_of_guest
from vgpu_cfg.lab.guest.system.rdma import has_ats_capability, is_ats_on
from vgpu_cfg.lab.guest.tools.base import out

VMWARE, MELLANOX, NVIDIA = 0x15AD, 0x15B3, 0x10DE
VMXNET3_ID, PVRDMA_ID, MLX5_FUNCTION = 0x07B0, 0x0820, 0x101E


@dataclass(frozen=True, slots=True)
class Function:
    """One function on the guest's bus."""

    address: str
    class_id: int
    class_name: str
    vendor_id: int
    device_id: int
    name: str
    driver: str = ""
    ats: bool | None = None
    """Whether the capability's switch is on; None without the capability."""


def _functions(session: Session) -> list[Function]:
    state, vm = session.lab.state, session.vm
    found = [_nic(session, nic) for nic in nics_of_guest(state, vm)]
    for gpu in gpus_of_guest(state, vm):
        pci = gpu.gpu.pci
        driver = "nvidia" if session.guest.driver else "nouveau" if session.guest.has_nouveau else ""
        name = f"NVIDIA Corporation {gpu.gpu.name.removeprefix('NVIDIA ')}"
        found.append(
            Function(gpu.pci_id, 0x0302, "3D controller", NVIDIA, pci.device_id, name, driver, ats=None)
        )
    return sorted(found, key=lambda one: one.address)


def _nic(session: Session, nic: SeenNic) -> Function:
    kind = (0x0200, "Ethernet controller")
    if nic.driver in (VMXNET3, PVRDMA):
        return Function(nic.pci_id, *kind, VMWARE, VMXNET3_ID, "VMware VMXNET3 Ethernet Controller", VMXNET3)
    if nic.is_whole and nic.nic is not None:
        ats = is_ats_on(session.lab.state, session.vm, nic) if has_ats_capability(nic) else None
        pci = nic.nic.pci
        return Function(
            nic.pci_id,
            *kind,
            MELLANOX,
            pci.device_id,
            f"{pci.vendor_name} {pci.device_name}",
            nic.driver,
            ats,
        )
    name = "Mellanox Technologies ConnectX Family mlx5Gen Virtual Function"
    return Function(nic.pci_id, *kind, MELLANOX, MLX5_FUNCTION, name, nic.driver)


def lspci(session: Session, arguments: Sequence[str], _stdin: bytes) -> Result:
    """List the bus, or a part of it: `-s` an address, `-d` ids, `-nn` with numbers, `-D` with the domain."""
    words, slot, ids, letters = list(arguments), "", "", ""
    while words:
        word = words.pop(0)
        if word == "-s" and words:
            slot = words.pop(0)
        elif word == "-d" and words:
            ids = words.pop(0)
        elif word.startswith("-s"):
            slot = word[2:]
        elif word.startswith("-d"):
            ids = word[2:]
        else:
            letters += word.lstrip("-")
    found = [one for one in _functions(session) if _is_meant(one, slot, ids)]
    lines: list[str] = []
    for one in found:
        lines.append(
            _heading(
                one, with_domain="D" in letters, with_ids="nn" in letters, only_ids=letters.count("n") == 1
            )
        )
        if "v" in letters:
            lines += [*_details(one, very="vv" in letters, is_root=session.user == "root"), ""]
        elif "k" in letters and one.driver:
            lines.append(f"\tKernel driver in use: {one.driver}")
    return out(*lines)


def _is_meant(one: Function, slot: str, ids: str) -> bool:
    if slot and slot not in (one.address, one.address.removeprefix("0000:")):
        return False
    vendor, _, device = ids.partition(":")
    if vendor and int(vendor, 16) != one.vendor_id:
        return False
    return not device or int(device, 16) == one.device_id


def _heading(one: Function, *, with_domain: bool, with_ids: bool, only_ids: bool) -> str:
    address = one.address if with_domain else one.address.removeprefix("0000:")
    ids = f"{one.vendor_id:04x}:{one.device_id:04x}"
    if with_ids:
        return f"{address} {one.class_name} [{one.class_id:04x}]: {one.name} [{ids}]"
    if only_ids:
        return f"{address} {one.class_id:04x}: {ids}"
    return f"{address} {one.class_name}: {one.name}"


def _details(one: Function, *, very: bool, is_root: bool) -> list[str]:
    lines = ["\tControl: I/O- Mem+ BusMaster+ SpecCycle- MemWINV- VGASnoop- ParErr- Stepping- SERR- DisINTx+"]
    if not is_root:
        lines.append("\tCapabilities: <access denied>")
    elif one.ats is not None:
        lines.append("\tCapabilities: [1c0 v1] Address Translation Service (ATS)")
        if very:
            switch = "+" if one.ats else "-"
            lines.append("\t\tATSCap:\tInvalidate Queue Depth: 00")
            lines.append(f"\t\tATSCtl:\tEnable{switch}, Smallest Translation Unit: 00")
    if one.driver:
        lines.append(f"\tKernel driver in use: {one.driver}")
    return lines
