"""GPUDirect checks of a guest: that the NIC may reach GPU memory, and that NCCL's settings leave RDMA on.

NCCL's settings must match the facts of this run. NCCL reads /etc/nccl.conf first; the image's environment,
nccl.env and the plan's own variables come later and win (NVIDIA, NCCL documentation, "Environment
Variables").

Belief: ats-enabled-waits-for-a-cold-boot, open-modules-give-gpudirect.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Generator

from vgpu_cfg.catalog.version_pairs import Effect, version_pair
from vgpu_cfg.knowledge.verify_failures import VerifyCode
from vgpu_cfg.model.guests.modules import NcclModule
from vgpu_cfg.parsers.frameworks import SETTINGS, NcclSettings, parse_nccl_settings
from vgpu_cfg.parsers.guest_system import PciFunction, bus_of, parse_lspci, parse_modules
from vgpu_cfg.parsers.rdma.mlxconfig import parse_firmware
from vgpu_cfg.parsers.text import UnreadableOutput
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
from vgpu_cfg.verification.learned import Learned
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
        return (
            yield from _ask_nccl_library(view, f"dma-buf: the open driver on kernel {kernel.stdout.strip()}")
        )
    return failed(
        VerifyCode.NO_PEERMEM, "nvidia_peermem is not loaded", "nvidia_peermem, or the open driver's dma-buf"
    )


def _ask_nccl_library(view: GuestView, so_far: str) -> Asking:
    """Check that the NCCL of the image supports dma-buf, by the text in its library."""
    image = view.image
    if image is None:
        return passed(so_far)
    command = in_image(image.runtime, image.image, ("sh", "-c", FIND_NCCL), gpus=False)
    answer = yield Command(command, timeout_seconds=180)
    versions = [line.split()[-1] for line in answer.stdout.splitlines() if line.startswith("NCCL version ")]
    if not versions:
        return unproven(f"{so_far}; the NCCL version in {image.image} is unknown, but must support dma-buf")
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


CONF, OWN = "/etc/nccl.conf", "/opt/vgpu-cfg/training.env"
_WITHOUT_RDMA = re.compile(
    r"(?:(?P<file>/[^:]+):)?\s*(?:export )?(?P<name>NCCL_IB_DISABLE|NCCL_NET)\s*=\s*(?P<value>\S*)"
)


def ask_nccl(view: GuestView) -> Asking:
    """See whether NCCL's settings name the interface, devices and GIDs that are there now."""
    module = view.spec.get(NcclModule)
    if module is None:
        return skipped("no training is running in the VM")
    answer = yield Command(("cat", SETTINGS))
    if answer.status != 0:
        return failed(VerifyCode.NCCL_SETTINGS, f"{SETTINGS} does not exist", "NCCL settings")
    settings = parse_nccl_settings(answer.stdout)
    wanted = _wanted(view.learned, module)
    given = settings.variables
    wrong = [
        f"{name} is {given.get(name) or 'not set'}" for name in wanted if given.get(name) != wanted[name]
    ]
    topology = given.get("NCCL_TOPO_FILE", "")
    if topology:
        there = yield Command(("cat", topology))
        if there.status != 0 or "<system " not in there.stdout:
            wrong.append(f"NCCL_TOPO_FILE points to {topology}, which contains no topology")
    elif module.gpu_wires:
        wrong.append(_without_topology(settings))
    off = yield from _turned_off(view)
    if off:
        return failed(
            VerifyCode.NCCL_SETTINGS,
            off,
            "RDMA, as planned",
            meaning="NCCL uses TCP instead of the planned RDMA",
            remedy="remove the variable there, or from `training.environment` if the plan sets it",
        )
    if wrong:
        expected = ", ".join(f"{name}={value}" for name, value in wanted.items())
        return failed(VerifyCode.NCCL_SETTINGS, "; ".join(wrong), expected or "settings for the hardware")
    words = ", ".join(f"{name}={value}" for name, value in sorted(given.items()))
    return passed(words or "no topology information available")


def _turned_off(view: GuestView) -> Generator[Step, ShellResult, str]:
    """Say which variable keeps NCCL from RDMA, and where it is set; "" for none."""
    if not view.learned.rdma:
        return ""
    answer = yield Command(("grep", "-HsE", "^[^#]*(NCCL_IB_DISABLE|NCCL_NET) *=", CONF, SETTINGS, OWN))
    lines = answer.stdout.splitlines()
    if view.image is not None:
        command = in_image(view.image.runtime, view.image.image, ("env",), gpus=False)
        answer = yield Command(command, timeout_seconds=180)
        lines = [*answer.stdout.splitlines(), *lines]
    set_at: dict[str, tuple[str, str]] = {}
    for found in filter(None, map(_WITHOUT_RDMA.fullmatch, lines)):
        name, place = found["name"], found["file"] or "the image"
        if place != CONF or name not in set_at:
            set_at[name] = found["value"].strip("'\""), place
    return "; ".join(
        f"{name} is {value} in {place}"
        for name, (value, place) in set_at.items()
        if (value.casefold() == "socket" if name == "NCCL_NET" else value not in ("", "0"))
    )


def _wanted(learned: Learned, module: NcclModule) -> dict[str, str]:
    """Return the expected content of the file, by the facts of this run."""
    devices = [f"{nic.device}:{nic.port}" for nic in learned.rdma if nic.gid is not None]
    interfaces = [seen.name for nic in module.nics if (seen := learned.interface_of(nic)) is not None]
    own = [
        one.name
        for one in learned.interfaces
        if module.address in [word.partition("/")[0] for word in one.addresses]
    ]
    found: dict[str, str] = {}
    if own or interfaces:
        found["NCCL_SOCKET_IFNAME"] = f"={(own or interfaces)[0]}"
    if devices:
        found["NCCL_IB_HCA"] = f"={','.join(dict.fromkeys(devices))}"
        gids = {nic.gid for nic in learned.rdma if nic.gid is not None}
        if len(gids) == 1:
            found["NCCL_IB_GID_INDEX"] = str(gids.pop())
        if module.traffic_class is not None:
            found["NCCL_IB_TC"] = str(module.traffic_class)
    return found


def _without_topology(settings: NcclSettings) -> str:
    why = settings.remarks.get("NCCL_TOPO_FILE", "")
    return f"NCCL_TOPO_FILE is not set{f' ({why})' if why else ''}"
