"""Known failures that NVIDIA's driver reports by a number: Xid, in dmesg of hosts and guests.

Numbers and names: nverror.h of NVIDIA's open kernel modules; what to do first: NVIDIA's Xid catalog.
121, 140 and 154 are recalled.
"""

from __future__ import annotations

from vgpu_cfg.knowledge.fault_rows import Confidence, FaultRow

_CATALOG = "https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html"
_NAMES = "github.com/NVIDIA/open-gpu-kernel-modules: nverror.h"
_SOURCE = f"{_CATALOG}; {_NAMES}"
_ADDRESS = r"(?:[0-9a-f]{4,8}:[0-9a-f]{2}(?::[0-9a-f]{2})?(?:\.[0-7])?\D{0,4})?"
_GREP = "dmesg | grep -i xid, where the driver runs (vmkernel.log on ESXi): the number, the GPU, the process"
_DRAIN = (
    "move the VMs off this GPU, reset it (on ESXi: restart the host), and have it replaced if it comes back"
)


def _xid(  # noqa: PLR0913  # a row's columns
    number: int,
    name: str,
    cause: str,
    check: str,
    remedy: str,
    *,
    also: tuple[str, ...] = (),
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
        source=_SOURCE if is_seen else f"{_CATALOG}; recalled: not looked up for this number",
        confidence=Confidence.SEEN if is_seen else Confidence.INFERRED,
        words=words,
    )


XID_ROWS = (
    _xid(
        13,
        "Graphics Engine Exception",
        (
            "a program on the GPU did what it must not (an index out of bounds, a wrong instruction); rarely"
            " hardware"
        ),
        "compute-sanitizer PROGRAM, or the same job on another GPU: with the same input it fails there, too",
        "fix the program; where only this GPU fails, run NVIDIA's diagnostics (dcgmi diag -r 3) on it",
    ),
    _xid(
        31,
        "GPU memory page fault",
        "a program read or wrote GPU memory that is not its own; with several programs alike, the driver",
        "compute-sanitizer PROGRAM: names the access; journalctl -k: whether it is always the same process",
        "fix the program or its library; where everything fails on one GPU only, suspect that GPU",
        also=(r"MMU fault occurred",),
        words="MMU fault illegal address access",
    ),
    _xid(
        32,
        "Invalid or corrupted push buffer stream",
        (
            "commands reached the GPU damaged: PCIe errors, or the driver; on Hopper and Ada hosts a fault"
            " fixed in vGPU 16.10"
        ),
        "nvidia-smi -q -d PCIE: replays that grow; nvidia-smi on the host: its driver's version",
        "update the host driver (Broadcom KB 394974); where replays grow, reseat or replace the board",
        words="PBDMA",
    ),
    _xid(
        43,
        "GPU stopped processing",
        "a program's channel was stopped after a fault of its own; the GPU is well and others go on",
        "dmesg | grep -i xid: an Xid 13 or 31 of the same process just before",
        "see the program's own error, and fix that; nothing is to be done to the GPU",
        words="reset channel verification",
    ),
    _xid(
        44,
        "Graphics Engine fault during context switch",
        "the GPU failed while it changed from one program to another: firmware, driver or hardware",
        "nvidia-smi -q -d ECC: whether memory errors stand beside it",
        _DRAIN,
    ),
    _xid(
        45,
        "Preemptive cleanup, due to previous errors",
        "the driver took down what a program had on the GPU: it was killed, or another error came first",
        "dmesg | grep -i xid: what came before it, such as 48; or that the job was stopped by hand",
        "explain the Xid before it; alone, after a job was killed, it needs nothing",
        words="preemptive removal channel teardown",
    ),
    _xid(
        48,
        "Double Bit ECC Error",
        "memory of the GPU lost two bits: what was computed with it is wrong, and its programs are stopped",
        "nvidia-smi -q -d ECC,ROW_REMAPPER: Uncorrectable counts, and rows that wait to be remapped",
        _DRAIN,
        words="DBE uncorrectable memory",
    ),
    _xid(
        61,
        "PMU Breakpoint",
        "the GPU's power controller stopped: its firmware, or the board",
        "nvidia-smi: whether the GPU still answers, and its clocks",
        "restart what runs the GPU; on repetition update driver and firmware, then have the board replaced",
        words="internal micro-controller warning power management unit",
    ),
    _xid(
        62,
        "PMU Halt Error",
        "the GPU's power controller has halted: the GPU does not work until it is reset",
        "nvidia-smi: the GPU does not answer, or its clocks stand still",
        _DRAIN,
        words="internal micro-controller halt power management unit",
    ),
    _xid(
        63,
        "Row Remapper: New row marked for remapping, reset gpu to activate",
        (
            "the GPU has taken a bad row of its memory out of use (before Ampere: a page); a reset puts that"
            " in force"
        ),
        "nvidia-smi -q -d ROW_REMAPPER: Pending is Yes until the GPU is reset",
        "restart the host at the next maintenance; many rows in a short time mean a board to replace",
        also=(r"marked for remapping", r"remapp(er|ed rows?)[^\n]*pending[^\n]*yes"),
        words="page retirement recorded ECC row remap pending",
    ),
    _xid(
        64,
        "Row Remapper: Failed to remap row",
        (
            "a bad row of GPU memory could not be taken out of use: no spare is left, or it could not be"
            " written down"
        ),
        "nvidia-smi -q -d ROW_REMAPPER: Remapping Failure Occurred is Yes",
        "take the GPU out of use and have it replaced: its memory is not to be trusted",
        also=(r"remapping failure occurred[^\n]*yes", r"failed to remap (a )?row"),
        words="page retirement failure ECC",
    ),
    _xid(
        68,
        "NVDEC0 Exception",
        "the video decoder met an error: most often a broken stream or the program that feeds it",
        "the same job on another GPU, with nvidia-smi dmon -s u: dec is used when it fails",
        "fix the stream or the program; on one GPU only, run NVIDIA's diagnostics on it",
        words="video decoder",
    ),
    _xid(
        69,
        "Graphics Engine class error",
        "a program sent the GPU what its class of engine does not know: a program or driver error",
        "nvidia-smi in the guest and on the host: the versions of both drivers",
        "take a driver and CUDA version that belong together; fix the program where it fails on every GPU",
    ),
    _xid(
        74,
        "NVLink Error",
        (
            "a link between GPUs, or to an NVSwitch, failed: a bridge, a connector, a board, or the Fabric"
            " Manager"
        ),
        "nvidia-smi nvlink -e and -s, where the link is seen: the link that counts errors or is down",
        (
            "reseat the bridge or cable and restart the host; have the part replaced where the same link"
            " fails again"
        ),
    ),
    _xid(
        78,
        "vGPU device cannot be started",
        "the host's vGPU manager could not start the vGPU for a VM",
        "grep vmiop_log vmware.log, in the VM's folder: the manager's own reason",
        "fix what those lines name: mode, ECC, memory reservation, or a guest driver of another branch",
        words="start error",
    ),
    _xid(
        79,
        "GPU has fallen off the bus",
        "the GPU no longer answers over PCIe: power, heat, a riser or slot, or the board itself",
        (
            "lspci or esxcli hardware pci list: the GPU is gone, or its revision reads ff; the BMC's log of"
            " power and PCIe"
        ),
        (
            "switch the host's power off and on (a reset does not reach it); reseat board, riser and power;"
            " replace it if it comes back"
        ),
        also=(r"has fallen off the bus",),
        words="PCIe link lost not reachable",
    ),
    _xid(
        92,
        "Excessive SBE interrupts",
        "single bits of the GPU's memory fail at a high rate; they are still corrected",
        "nvidia-smi -q -d ECC: Correctable counts that grow",
        "nothing breaks yet: plan a reset, and have the board tested if the rate stays high",
        words="high single-bit ECC error rate",
    ),
    _xid(
        94,
        "Contained error",
        "an uncorrectable memory error hit one program only, which was stopped; others go on",
        "nvidia-smi -q -d ROW_REMAPPER: a row that waits to be remapped",
        "start the program again; restart the host at the next maintenance so that the row is remapped",
        words="contained ECC",
    ),
    _xid(
        95,
        "Uncontained error",
        "an uncorrectable memory error may have hit every program on the GPU: nothing on it is to be trusted",
        "nvidia-smi -q -d ECC,ROW_REMAPPER: Uncorrectable counts, a row that waits to be remapped",
        (
            "stop all that runs on it, reset the GPU (on ESXi: restart the host), and see that the row is"
            " remapped then"
        ),
        words="uncontained ECC",
    ),
    _xid(
        119,
        "Timeout waiting for RPC from GSP",
        (
            "the GPU's own processor (GSP) did not answer the driver: its firmware, a driver fault, or a GPU"
            " that is gone"
        ),
        "nvidia-smi -q: GSP Firmware Version; dmesg | grep -i xid: a 79 near it",
        (
            "reset the GPU (on ESXi: restart the host), update the driver; where it comes back, ask NVIDIA"
            " with nvidia-bug-report.sh"
        ),
        words="GSP RPC timeout",
    ),
    _xid(
        120,
        "GSP task exception",
        "the firmware of the GPU's own processor (GSP) failed",
        "nvidia-smi -q: GSP Firmware Version, which belongs to the driver's",
        (
            "reset the GPU (on ESXi: restart the host) and update the driver; ask NVIDIA with"
            " nvidia-bug-report.sh if it repeats"
        ),
        words="GSP error crash",
    ),
    _xid(
        121,
        "C2C link corrected error",
        "the link between the GPU and its CPU (Grace) corrected an error; nothing was lost",
        "nvidia-smi c2c -e, where the tool has it: errors that grow",
        "nothing now; tell the vendor where it repeats",
        is_seen=False,
    ),
    _xid(
        154,
        "GPU Recovery Action Changed",
        (
            "not a failure of its own: the driver says what the GPU needs after another Xid (none, reset,"
            " reboot, drain)"
        ),
        "nvidia-smi -q: GPU Recovery Action; dmesg | grep -i xid: the Xid before it",
        "do what it names, and explain the Xid before it",
        is_seen=False,
    ),
    FaultRow(
        "xid-other",
        (rf"\bXid\b\D{{0,16}}{_ADDRESS}\d{{1,3}}\b(?!:)",),
        sample="NVRM: Xid (PCI:0000:3b:00): 999, pid=1",
        symptom="an Xid whose number this table does not have",
        cause=(
            "NVIDIA's driver reports an error by its number; the catalog says what each is and what to do"
            " first"
        ),
        check=(
            _GREP,
            "nvidia-smi -q, where the driver runs: ECC counts, row remapper, GSP firmware, recovery action",
        ),
        remedy=(
            "look the number up in NVIDIA's Xid catalog; keep nvidia-bug-report.sh before anything is reset"
        ),
        source=_CATALOG,
        is_general=True,
    ),
)
