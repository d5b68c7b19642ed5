"""What is asked of a guest about GPUDirect: that the NIC may reach GPU memory, and that ATS is on in it."""

from __future__ import annotations

import re

from vgpu_cfg.knowledge.verify_failures import VerifyCode
from vgpu_cfg.parsers.guest_system import bus_of, parse_modules
from vgpu_cfg.parsers.lspci import PciFunction, parse_lspci
from vgpu_cfg.verification.asking import Asking, Command, failed, is_absent, missing, passed, skipped
from vgpu_cfg.verification.views import GuestView

MELLANOX = "15b3"
VIRTUAL = "Virtual Function"
"""What pci.ids calls a function that is cut from a NIC."""

_KERNEL = re.compile(r"(\d{1,3})\.(\d{1,4})")


def ask_peermem(view: GuestView) -> Asking:
    """See whether nvidia-peermem is loaded, or the open driver on a kernel that shares buffers by dma-buf."""
    if not view.gpudirect:
        return skipped("no NIC of it asks for `rdma: gpudirect`")
    answer = yield Command(("lsmod",))
    modules = parse_modules(answer.stdout)
    loaded = sorted(modules & {"nvidia_peermem", "nv_peer_mem"})
    if loaded:
        return passed(f"{loaded[0]} is loaded")
    version = yield Command(("cat", "/proc/driver/nvidia/version"))
    kernel = yield Command(("uname", "-r"))
    is_open = "Open Kernel Module" in version.stdout
    number = _KERNEL.match(kernel.stdout.strip())
    if is_open and number is not None and (int(number[1]), int(number[2])) >= (5, 12):
        return passed(f"dma-buf: the open driver on kernel {kernel.stdout.strip()}")
    return failed(
        VerifyCode.NO_PEERMEM, "nvidia_peermem is not loaded", "nvidia_peermem, or the open driver's dma-buf"
    )


def ask_ats(view: GuestView) -> Asking:
    """See in the NIC's own registers whether ATS is enabled."""
    if not view.gpudirect:
        return skipped("no NIC of it asks for `rdma: gpudirect`")
    functions: list[PciFunction] = []
    for nic in view.learned.rdma:
        answer = yield Command(("ethtool", "-i", nic.interface))
        address = bus_of(answer.stdout) if answer.status == 0 else None
        where = ("-s", address) if address is not None else ("-d", f"{MELLANOX}:")
        answer = yield Command(("lspci", "-vvv", *where))
        if is_absent(answer):
            return missing("lspci", "pciutils")
        functions += (one for one in parse_lspci(answer.stdout or answer.stderr) if one not in functions)
    controllers = [one for one in functions if "controller" in one.kind and not one.kind.startswith("Memory")]
    if not controllers:
        return skipped("its RDMA NIC is no PCI function of NVIDIA's: the host owns it, and its ATS")
    if any(not one.is_readable for one in controllers):
        return failed(VerifyCode.NOT_UNDERSTOOD, "lspci may not read the capabilities", "root's rights")
    off = [one for one in controllers if not one.ats]
    if off and all(one.ats is None and VIRTUAL in one.name for one in off):
        return skipped("its virtual functions show no ATS of their own: the bandwidth from GPU memory tells")
    if off:
        words = "; ".join(f"{one.pci_id} {_ats_text(one)}" for one in off)
        return failed(VerifyCode.ATS_OFF, words, "ATSCtl: Enable+")
    return passed("; ".join(f"{one.pci_id} ATSCtl: Enable+" for one in controllers))


def _ats_text(function: PciFunction) -> str:
    return "has no ATS capability" if function.ats is None else "ATSCtl: Enable-"
