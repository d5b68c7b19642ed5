"""Known failures that NVIDIA's driver reports by a number: Xid, in dmesg of hosts and guests.

Numbers and names: nverror.h of NVIDIA's open kernel modules; what to do first: NVIDIA's Xid catalog.
121, 140 and 154 are recalled.
"""

from __future__ import annotations

from vgpu_cfg.knowledge.fault_rows import Confidence, FaultRow

_CATALOG = "https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html"
_NAMES = "github.com/NVIDIA/open-gpu-kernel-modules: nverror.h"
_SOURCE = f"{_CATALOG}; {_NAMES}"
_ADDRESS = r"(?:[0-9a-f]{4,8}:[0-9a-f]{2}(?::[0-9a-f]{2})?(?:\.[0-7])?(?: GPU-C?I:\d\d)*\D{0,4})?"
_GREP = (
    "dmesg | grep -i xid on the machine with the driver (vmkernel.log on ESXi): the number, GPU, and process"
)
_DRAIN = (
    "move the VMs to a different GPU and reset this one (on ESXi, reboot the host); if the Xid recurs,"
    " have the GPU replaced"
)


def _xid(  # noqa: PLR0913  # a row's columns
    number: int,
    name: str,
    cause: str,
    check: str,
    remedy: str,
    *,
    also: tuple[str, ...] = (),
    kernel: tuple[str, ...] = (),
    words: str = "",
    is_seen: bool = True,
) -> FaultRow:
    """Make the row of a number; `also` are patterns of texts that come without it."""
    return FaultRow(
        f"xid-{number}",
        (rf"\bXid\b\D{{0,16}}{_ADDRESS}{number}\b", *also),
        sample=f"NVRM: Xid (PCI:0000:3b:00): {number}, pid=2817, {name}",
        symptom=f"Xid {number}: {name}",
        cause=cause,
        check=(_GREP, check),
        remedy=remedy,
        source=_SOURCE if is_seen else f"{_CATALOG} (from memory, not verified for this number)",
        confidence=Confidence.SEEN if is_seen else Confidence.INFERRED,
        words=words,
        kernel=kernel,
    )


XID_ROWS = (
    _xid(
        13,
        "Graphics Engine Exception",
        (
            "a program on the GPU performed an invalid operation (index out of bounds, illegal"
            " instruction), rarely because of faulty hardware"
        ),
        (
            "compute-sanitizer PROGRAM, or the same job with the same input on a different GPU: it also"
            " fails there"
        ),
        "fix the program; if it fails only on this GPU, run NVIDIA's diagnostics (dcgmi diag -r 3)",
    ),
    _xid(
        31,
        "GPU memory page fault",
        (
            "a program read or wrote GPU memory that does not belong to it; if several programs fail in"
            " the same way, the driver may be the cause"
        ),
        (
            "compute-sanitizer PROGRAM: the invalid access; journalctl -k: whether it is always the"
            " same process"
        ),
        "fix the program or its library; if all programs fail, but only on one GPU, check that GPU",
        also=(r"MMU fault occurred",),
        words="MMU fault illegal address access",
    ),
    _xid(
        32,
        "Invalid or corrupted push buffer stream",
        (
            "commands were corrupted before they reached the GPU, because of PCIe errors, the driver,"
            " or, on Hopper and Ada hosts, a bug that is fixed in vGPU 16.10"
        ),
        "nvidia-smi -q -d PCIE: an increasing replay count; nvidia-smi on the host: its driver version",
        (
            "update the host driver (Broadcom KB 394974); if the replay count increases, reseat or replace"
            " the board"
        ),
        words="PBDMA",
    ),
    _xid(
        43,
        "GPU stopped processing",
        (
            "a program's channel was stopped after an error in that program; the GPU is healthy, and"
            " other programs continue"
        ),
        "dmesg | grep -i xid: an Xid 13 or 31 from the same process immediately before this one",
        "find and fix the error in the program; the GPU does not require any action",
        words="reset channel verification",
    ),
    _xid(
        44,
        "Graphics Engine fault during context switch",
        (
            "the GPU failed while switching between programs because of its firmware, the driver, or"
            " the hardware"
        ),
        "nvidia-smi -q -d ECC: whether memory errors are also reported",
        _DRAIN,
    ),
    _xid(
        45,
        "Preemptive cleanup, due to previous errors",
        (
            "the driver removed a program's work from the GPU because the program was killed or another"
            " error occurred first"
        ),
        "dmesg | grep -i xid: an earlier Xid, such as 48, unless the job was stopped manually",
        "look up the preceding Xid; if there is none because a job was killed, no action is required",
        words="preemptive removal channel teardown",
    ),
    _xid(
        48,
        "Double Bit ECC Error",
        (
            "a double-bit error occurred in GPU memory, so affected results are wrong and the programs"
            " are stopped"
        ),
        "nvidia-smi -q -d ECC,ROW_REMAPPER: Uncorrectable counts, and rows pending remapping",
        _DRAIN,
        words="DBE uncorrectable memory",
    ),
    _xid(
        61,
        "PMU Breakpoint",
        "the GPU's power controller stopped because of its firmware or the board",
        "nvidia-smi: whether the GPU still responds, and its clock speeds",
        (
            "reboot the machine that has the GPU; if the error recurs, update the driver and firmware,"
            " and then have the board replaced"
        ),
        words="internal micro-controller warning power management unit",
    ),
    _xid(
        62,
        "PMU Halt Error",
        "the GPU's power controller has halted, and the GPU does not work until it is reset",
        "nvidia-smi: the GPU is not responding, or its clock speeds do not change",
        _DRAIN,
        words="internal micro-controller halt power management unit",
    ),
    _xid(
        63,
        "Row Remapper: New row marked for remapping, reset gpu to activate",
        (
            "the GPU has retired a bad row of its memory (before Ampere, a page), which takes effect"
            " after a reset"
        ),
        "nvidia-smi -q -d ROW_REMAPPER: Pending is Yes until the GPU is reset",
        (
            "reboot the host during the next maintenance window; if many rows fail in a short time,"
            " replace the board"
        ),
        also=(r"marked for remapping", r"remapp(er|ed rows?)[^\n]*pending[^\n]*yes"),
        words="page retirement recorded ECC row remap pending",
    ),
    _xid(
        64,
        "Row Remapper: Failed to remap row",
        (
            "a bad row of GPU memory could not be retired because no spare rows are left or the"
            " remapping could not be recorded"
        ),
        "nvidia-smi -q -d ROW_REMAPPER: Remapping Failure Occurred is Yes",
        "stop using the GPU, whose memory cannot be trusted, and have it replaced",
        also=(r"remapping failure occurred[^\n]*yes", r"failed to remap (a )?row"),
        words="page retirement failure ECC",
    ),
    _xid(
        68,
        "NVDEC0 Exception",
        (
            "the video decoder encountered an error, usually because of a corrupt stream or an error in"
            " the program that sends it"
        ),
        (
            "run the same job on a different GPU with nvidia-smi dmon -s u: the dec column shows usage"
            " when the job fails"
        ),
        "fix the stream or the program; if only one GPU fails, run NVIDIA's diagnostics on that GPU",
        words="video decoder",
    ),
    _xid(
        69,
        "Graphics Engine class error",
        (
            "because of a program or driver error, a program sent a command that the GPU's engine class"
            " does not support"
        ),
        "nvidia-smi in the guest and on the host: both driver versions",
        "use compatible driver and CUDA versions; if the program fails on every GPU, fix the program",
    ),
    _xid(
        74,
        "NVLink Error",
        (
            "a link between GPUs or to an NVSwitch failed because of a bridge, a connector, a board, or"
            " Fabric Manager"
        ),
        (
            "nvidia-smi nvlink -e and -s on the machine that sees the link: which link is down or"
            " reports errors"
        ),
        (
            "reseat the bridge or cable and reboot the host; if the same link fails again, have the"
            " part replaced"
        ),
    ),
    _xid(
        78,
        "vGPU device cannot be started",
        "the host's vGPU manager could not start the vGPU for a VM",
        "grep vmiop_log vmware.log in the VM's folder: the reason that the vGPU manager reports",
        (
            "fix the cause that those lines show (mode, ECC, memory reservation, or a guest driver from"
            " a different branch)"
        ),
        words="start error",
    ),
    _xid(
        79,
        "GPU has fallen off the bus",
        "the GPU no longer responds over PCIe because of power, heat, a riser or slot, or the board itself",
        (
            "lspci or esxcli hardware pci list: the GPU is missing or its revision is ff; the BMC log:"
            " power and PCIe errors"
        ),
        (
            "power-cycle the host (a reset is not sufficient) and reseat the board, riser, and power"
            " cables; if the error recurs, replace the board"
        ),
        also=(r"\b(fallen|fell) off the bus",),
        kernel=(r"NVRM: .*fallen off the bus",),
        words="PCIe link lost not reachable",
    ),
    _xid(
        92,
        "Excessive SBE interrupts",
        "single-bit errors occur in GPU memory at a high rate, but are still corrected",
        "nvidia-smi -q -d ECC: increasing Correctable counts",
        (
            "because there is no immediate impact, plan a reset, and have the board tested if the error"
            " rate remains high"
        ),
        words="high single-bit ECC error rate",
    ),
    _xid(
        94,
        "Contained error",
        "an uncorrectable memory error affected only one program, which was stopped; other programs continue",
        "nvidia-smi -q -d ROW_REMAPPER: a row pending remapping",
        (
            "restart the program, and reboot the host during the next maintenance window so that the"
            " row is remapped"
        ),
        words="contained ECC",
    ),
    _xid(
        95,
        "Uncontained error",
        (
            "an uncorrectable memory error may have affected every program on the GPU, so no results"
            " can be trusted"
        ),
        "nvidia-smi -q -d ECC,ROW_REMAPPER: Uncorrectable counts, a row pending remapping",
        (
            "stop all programs on the GPU, reset the GPU (on ESXi, reboot the host), and check that the"
            " row has been remapped"
        ),
        words="uncontained ECC",
    ),
    _xid(
        119,
        "Timeout waiting for RPC from GSP",
        (
            "the GPU System Processor (GSP) did not respond to the driver because of its firmware, a"
            " driver error, or a GPU that is no longer reachable"
        ),
        "nvidia-smi -q: GSP Firmware Version; dmesg | grep -i xid: an Xid 79 at about the same time",
        (
            "reset the GPU (on ESXi, reboot the host) and update the driver; if the error recurs, send"
            " nvidia-bug-report.sh output to NVIDIA support"
        ),
        words="GSP RPC timeout",
    ),
    _xid(
        120,
        "GSP task exception",
        "the firmware of the GPU System Processor (GSP) failed",
        "nvidia-smi -q: GSP Firmware Version, which must match the driver",
        (
            "reset the GPU (on ESXi, reboot the host) and update the driver; if the error recurs, send"
            " nvidia-bug-report.sh output to NVIDIA support"
        ),
        words="GSP error crash",
    ),
    _xid(
        121,
        "C2C link corrected error",
        "the link between the GPU and its CPU (Grace) corrected an error, and no data was lost",
        "nvidia-smi c2c -e, if the tool supports this option: increasing error counts",
        "no immediate action is required; if the error recurs, contact the vendor",
        is_seen=False,
    ),
    _xid(
        154,
        "GPU Recovery Action Changed",
        (
            "this is not an error itself; after another Xid, the driver reports the action that the GPU"
            " requires (none, reset, reboot, or drain)"
        ),
        "nvidia-smi -q: GPU Recovery Action; dmesg | grep -i xid: the Xid before it",
        "take the reported action, and look up the preceding Xid",
        is_seen=False,
    ),
    FaultRow(
        "xid-other",
        (rf"\bXid\b\D{{0,16}}{_ADDRESS}\d{{1,3}}\b(?!:)",),
        sample="NVRM: Xid (PCI:0000:3b:00): 999, pid=1",
        symptom="the Xid has a number that is not in this table",
        cause=(
            "the NVIDIA driver reports errors by number, and NVIDIA's catalog lists the meaning and"
            " first action for each number"
        ),
        check=(
            _GREP,
            "nvidia-smi -q, on the driver's machine: ECC counts, row remapper, GSP firmware, recovery action",
        ),
        remedy=(
            "look up the number in NVIDIA's Xid catalog, and save nvidia-bug-report.sh output before"
            " you reset anything"
        ),
        source=_CATALOG,
        is_general=True,
    ),
)
