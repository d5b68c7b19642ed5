"""Faults of hardware, each in the words of a vendor's document, and healthy events that look like them.

A fault names the rule that reports it; none of these texts comes from the program.

Sources: CATALOG is NVIDIA's "Analyzing Xid Errors with the Xid Catalog"; MEMORY its "GPU Memory Error
Management"; SMI the manual page of nvidia-smi; NVML nvml.h; COUNTERS the kernel's mlx5 counters.rst.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.unit.parsers.printed import printed
from tests.unit.verification.two_workers import Scene, failing
from vgpu_cfg.ports import ShellResult

CATALOG, MEMORY, SMI, NVML, COUNTERS = "catalog", "memory", "nvidia-smi", "nvml.h", "counters.rst"
SOUND = printed("guest-query-a100-whole-sound.txt")
QUIET = "".join(f"{line}\n" for line in printed("dmesg-sound.txt").splitlines() if "Xid" not in line)
GPU = "0000:3B:00"


def xid(number: int, words: str) -> str:
    return f"[ 6021.517312] NVRM: Xid (PCI:{GPU}): {number}, {words}"


def changed(before: str, after: str) -> str:
    """Return nvidia-smi's report of a sound GPU with the first line of a key changed."""
    lines = SOUND.splitlines()
    place = next(number for number, line in enumerate(lines) if " ".join(line.split()) == before)
    indent = lines[place][: len(lines[place]) - len(lines[place].lstrip())]
    lines[place] = indent + after
    return "\n".join(lines) + "\n"


def recovery(action: str) -> str:
    return SOUND.replace("    PCI\n", f"    GPU Recovery Action : {action}\n    PCI\n", 1)


def fabric(state: str) -> str:
    words = f"    Fabric\n        State : {state}\n        Status : Success\n    PCI\n"
    return SOUND.replace("    PCI\n", words, 1)


@dataclass(frozen=True)
class Fault:
    """A fault as a guest's kernel log or `nvidia-smi -q` shows it; `rule` must report it."""

    rule: str
    source: str
    log: str = ""
    smi: str = SOUND
    plant: Callable[[Scene], None] = lambda _scene: None

    def put(self, scene: Scene) -> None:
        scene.answer("nvidia-smi", "-q", by=self.smi)
        if self.log:
            scene.answer("dmesg", by=f"{QUIET}{self.log}\n")
        self.plant(scene)


def answers(*words: str, by: ShellResult | str) -> Callable[[Scene], None]:
    return lambda scene: scene.answer(*words, by=by)


ECC = "            DRAM Uncorrectable            : 2\n"
"""The last line of the aggregate counts."""
LOST = "Unable to determine the device handle for GPU0000:3B:00.0: GPU is lost.  Reboot the system to recover"
OF_VGPU = printed("guest-query-a100-40c-licensed.txt")
FAULTS: tuple[Fault, ...] = (
    Fault("gpu-lost", CATALOG, xid(79, "pid=2817, GPU has fallen off the bus.")),
    Fault("gpu-lost", SMI, smi=f"{LOST} this GPU\n"),
    Fault(
        "memory-errors", CATALOG, xid(48, "pid=1, An uncorrectable double bit error (DBE) has been detected")
    ),
    Fault("memory-errors", CATALOG, xid(95, "pid=2817, Uncontained: LTC TAG (0x2,0x0)")),
    Fault("memory-errors", CATALOG, xid(140, "pid='<unknown>', An uncorrectable ECC error detected")),
    Fault("memory-errors", MEMORY, smi=changed("DRAM Uncorrectable : 0", "DRAM Uncorrectable : 2")),
    Fault(
        "memory-repair",
        CATALOG,
        xid(63, "Row Remapper: New row (0x1) marked for remapping, reset gpu to activate"),
    ),
    Fault("memory-repair", CATALOG, xid(94, "pid=7194, Contained: SM (0x1). RST: No, D-RST: No")),
    Fault("memory-repair", MEMORY, smi=changed("Pending : No", "Pending : Yes")),
    Fault("memory-failed", CATALOG, xid(64, "Row Remapper: Failed to remap row")),
    Fault(
        "memory-failed",
        MEMORY,
        smi=changed("Remapping Failure Occurred : No", "Remapping Failure Occurred : Yes"),
    ),
    Fault(
        "memory-failed", MEMORY, smi=SOUND.replace(ECC, f"{ECC}            SRAM Threshold Exceeded : Yes\n")
    ),
    *(
        Fault("gpu-reset", NVML, smi=recovery(action))
        for action in ("Reset", "Reboot", "Drain P2P", "Drain and Reset")
    ),
    Fault(
        "gpu-reset",
        CATALOG,
        xid(154, "GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)"),
    ),
    *(
        Fault("gpu-reset", CATALOG, xid(number, "pid=1, a"))
        for number in (46, 62, 109, 110, 119, 120, 143, 158)
    ),
    Fault("nvlink", CATALOG, xid(74, "pid=1, NVLink: fatal error detected on link 2(0x10000, 0x0)")),
    Fault("nvlink", CATALOG, xid(145, "RLW_CTRL Fatal XC0 i0 Link 14 (0x00000003 0x80000000)")),
    Fault("nvlink", CATALOG, xid(136, "pid=1, Link training failed")),
    Fault("fabric", NVML, smi=fabric("In Progress")),
    Fault("thermal", SMI, smi=changed("HW Thermal Slowdown : Not Active", "HW Thermal Slowdown : Active")),
    Fault("thermal", SMI, smi=changed("SW Thermal Slowdown : Not Active", "SW Thermal Slowdown : Active")),
    Fault(
        "power", SMI, smi=changed("HW Power Brake Slowdown : Not Active", "HW Power Brake Slowdown : Active")
    ),
    Fault("power", CATALOG, xid(54, "Auxiliary power is not connected to the GPU board")),
    Fault("pcie", SMI, smi=changed("Current : 16x", "Current : 8x")),
    Fault("other-xid", CATALOG, xid(167, "PCIE_FATAL_TIMEOUT")),
    *(
        Fault("application", CATALOG, xid(number, "pid=4711, name=python, a"))
        for number in (13, 31, 43, 45, 69)
    ),
    Fault("licence", SMI, smi=OF_VGPU.replace(": Licensed (", ": Unlicensed (Restricted) (")),
    Fault("guest-gpus", SMI, smi=OF_VGPU, plant=lambda scene: scene.change(gpus=2)),
    Fault(
        "nic",
        COUNTERS,
        plant=answers(
            "ibv_devinfo",
            by=printed("ibv-devinfo-one-up-one-down.txt").replace("PORT_ACTIVE (4)", "PORT_DOWN (1)"),
        ),
    ),
    Fault(
        "nic",
        COUNTERS,
        plant=answers("ethtool", "ens192", by=printed("ethtool-100g.txt").replace("100000Mb/s", "25000Mb/s")),
    ),
    Fault("guest-silent", SMI, plant=answers("uname", "-r", by=failing("ssh: connection refused", 255))),
)
