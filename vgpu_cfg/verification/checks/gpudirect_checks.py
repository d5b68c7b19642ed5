"""GPUDirect checks of a guest: that the NIC may reach GPU memory, and that ATS is on in it.

Belief: ats-enabled-waits-for-a-cold-boot, open-modules-give-gpudirect.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Generator

from vgpu_cfg.catalog.version_pairs import Effect, version_pair
from vgpu_cfg.knowledge.verify_failures import VerifyCode
from vgpu_cfg.parsers.errors import UnreadableOutput
from vgpu_cfg.parsers.guest_system import bus_of, parse_modules
from vgpu_cfg.parsers.lspci import PciFunction, parse_lspci
from vgpu_cfg.parsers.rdma.mlxconfig import parse_firmware
from vgpu_cfg.ports import ShellResult
from vgpu_cfg.verification.asking import (
    Asking,
    Command,
    Step,
    failed,
    is_absent,
    missing,
    passed,
    skipped,
    unproven,
)
from vgpu_cfg.verification.checks.container_checks import in_image
from vgpu_cfg.verification.views import GuestView

MELLANOX = "15b3"
VIRTUAL = "Virtual Function"
"""The name in pci.ids of a function that is cut from a NIC."""

FIRST_KERNEL = (5, 12)
"""The first Linux whose RDMA takes dma-buf: commit bfe0cc6 of torvalds/linux."""

# Belief: nccl-uses-dma-buf-from-213, nccl-before-213-lacks-dma-buf.
DMABUF_WORD = "DMABUF_ENABLE"
"""The text in an NCCL library with dma-buf support: the name of its variable, NCCL_DMABUF_ENABLE."""

FIND_NCCL = (
    "find / -xdev -type f -name 'libnccl.so*' "
    f"-exec grep -aoh -e 'NCCL version [0-9][0-9.]*' -e {DMABUF_WORD} {{}} + 2>/dev/null | sort -u"
)
"""Prints the version text of an NCCL library; seen with 2.18.1 of nvidia-nccl-cu12."""

FIRMWARE_TOOLS = ("mstconfig", "mlxconfig")
"""The distribution's tool for a NIC's firmware, and MFT's; both take a PCI address."""

_OPEN = re.compile(r"open kernel module\D*(?:x86_64|aarch64)?\s+(\d{3,4})\.", re.IGNORECASE)
_KERNEL = re.compile(r"(\d{1,3})\.(\d{1,4})")


def ask_peermem(view: GuestView) -> Asking:
    """See whether nvidia-peermem is loaded, or dma-buf goes: open driver, kernel, and the image's NCCL."""
    if not view.gpudirect:
        return skipped("the VM has no NIC with `rdma: gpudirect`")
    answer = yield Command(("lsmod",))
    modules = parse_modules(answer.stdout)
    loaded = sorted(modules & {"nvidia_peermem", "nv_peer_mem"})
    if loaded:
        return passed(f"{loaded[0]} is loaded")
    version = yield Command(("cat", "/proc/driver/nvidia/version"))
    kernel = yield Command(("uname", "-r"))
    driver = _OPEN.search(version.stdout)
    open_modules = version_pair("open kernel modules", Effect.REQUIRES, "guest driver").rows[0]
    is_open = driver is not None and open_modules.accepts(driver[1])
    number = _KERNEL.match(kernel.stdout.strip())
    if is_open and number is not None and (int(number[1]), int(number[2])) >= FIRST_KERNEL:
        return (yield from _ask_nccl(view, f"dma-buf: the open driver on kernel {kernel.stdout.strip()}"))
    return failed(
        VerifyCode.NO_PEERMEM, "nvidia_peermem is not loaded", "nvidia_peermem, or the open driver's dma-buf"
    )


def _ask_nccl(view: GuestView, so_far: str) -> Asking:
    """Check that the NCCL of the image supports dma-buf, by the text in its library."""
    image = view.image
    if image is None:
        return passed(so_far)
    command = in_image(image.runtime, image.image, ("sh", "-c", FIND_NCCL), gpus=False)
    answer = yield Command(command, timeout_seconds=180)
    versions = [line.split()[-1] for line in answer.stdout.splitlines() if line.startswith("NCCL version ")]
    if not versions:
        return unproven(f"{so_far}; the NCCL version in {image.image} is unknown and must support dma-buf")
    version = versions[0]
    if DMABUF_WORD not in answer.stdout:
        return failed(
            VerifyCode.NO_PEERMEM,
            f"NCCL {version} in {image.image} does not support dma-buf",
            "nvidia_peermem, or an NCCL version that supports dma-buf",
            meaning=(
                "NCCL copies every message through the guest's memory, although the driver and the kernel "
                "support direct transfers"
            ),
            remedy="use an image with a newer NCCL, or `guest.ofed: mlnx` or `doca` for nvidia-peermem",
        )
    return passed(f"{so_far}, NCCL {version}")


def ask_ats(view: GuestView) -> Asking:
    """See in the NIC's own registers whether ATS is enabled."""
    if not view.gpudirect:
        return skipped("the VM has no NIC with `rdma: gpudirect`")
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
        return skipped(
            "the RDMA NIC is not an NVIDIA PCI device; the host controls its ATS setting", is_asked=True
        )
    if any(not one.is_readable for one in controllers):
        return failed(VerifyCode.NOT_UNDERSTOOD, "lspci cannot read the capabilities", "root privileges")
    off = [one for one in controllers if not one.ats]
    if off and all(one.ats is None and VIRTUAL in one.name for one in off):
        return skipped("virtual functions do not report ATS; see the GPU memory bandwidth", is_asked=True)
    if off:
        words = "; ".join(f"{one.pci_id} {_ats_text(one)}" for one in off)
        for one in off:
            if (yield from _waits_for_power(one.pci_id)):
                return failed(
                    VerifyCode.ATS_OFF,
                    words,
                    "ATSCtl: Enable+",
                    meaning="ATS is enabled in the NIC's firmware but not active, because the "
                    "host has not been power-cycled since",
                    remedy=(
                        "shut down the host and power it on again (cold boot); a restart may not be "
                        "sufficient"
                    ),
                )
        return failed(VerifyCode.ATS_OFF, words, "ATSCtl: Enable+")
    return passed("; ".join(f"{one.pci_id} ATSCtl: Enable+" for one in controllers))


def _waits_for_power(pci_id: str) -> Generator[Step, ShellResult, bool]:
    """Return whether the firmware has ATS set for its next start, and runs without it."""
    for tool in FIRMWARE_TOOLS:
        answer = yield Command((tool, "-d", pci_id, "-e", "query", "ATS_ENABLED"), timeout_seconds=60)
        if answer.status != 0:
            continue
        with contextlib.suppress(UnreadableOutput):
            seen = parse_firmware(answer.stdout).parameters.get("ATS_ENABLED")
            return seen is not None and seen.next_boot == "True" and seen.current == "False"
    return False


def _ats_text(function: PciFunction) -> str:
    return "has no ATS capability" if function.ats is None else "ATSCtl: Enable-"
