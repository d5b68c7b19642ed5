"""Which lines of the kernel's log tell of hardware that fails: GPUs by Xid, PCIe, NICs, disks.

Sources: Xid numbers: NVIDIA's Xid catalogue, and this tool's own rows of them; PCIe: kernel,
`drivers/pci/pcie/aer.c` (`PCIe Bus Error: severity=Uncorrected (Fatal)`); NICs: `mlx5/core/health.c`
("device's health compromised - reached miss count") and `mlx5/core/events.c` ("Port module event[error]");
disks: `block/blk-core.c`, `fs/ext4/super.c`, `fs/xfs`.
"""

from __future__ import annotations

import re

from vgpu_cfg.model.frozen import Frozen
from vgpu_cfg.parsers.errors import ToolFailed, UnreadableOutput
from vgpu_cfg.parsers.text import lines_with_content

DMESG = "dmesg"
OF_PROGRAMS = frozenset({13, 31, 43, 45})
"""Xids that a program on the GPU causes by its own fault, or by being stopped (NVIDIA's Xid catalogue)."""

MOST_CORRECTED = 10
"""So many corrected PCIe errors since the boot are no chance any more; a number of this tool's own."""

_XID = re.compile(r"NVRM: Xid \(PCI:(?P<gpu>[0-9a-fA-F:.]+)\): (?P<number>\d{1,4})\b")
_UNCORRECTED = re.compile(r"PCIe Bus Error: severity=Uncorrected")
_CORRECTED = re.compile(r"PCIe Bus Error: severity=Corrected")
_BAD = (
    re.compile(r"NVRM: .*(?:fallen off the bus|RmInitAdapter failed)"),
    re.compile(r"mlx5_core .*(?:health compromised|Port module event\[error\]|High Temperature)"),
    re.compile(r"(?:blk_update_request: )?(?:critical medium|I/O) error, dev "),
    re.compile(r"EXT4-fs error|XFS \(.*\): .*(?:[Cc]orruption|I/O error)|Remounting filesystem read-only"),
)
_STAMP = re.compile(r"^\[[^\]]{1,40}\]\s*")


class KernelLog(Frozen):
    """What the log tells. `troubles` are whole lines, `of_programs` Xids that prove nothing of the GPU."""

    troubles: tuple[str, ...] = ()
    of_programs: tuple[int, ...] = ()


def parse_kernel_log(text: str) -> KernelLog:
    """Read `dmesg`. Raises ToolFailed where it may not be read, UnreadableOutput where it is empty."""
    lines = lines_with_content(text)
    if not lines:
        raise UnreadableOutput(DMESG, "printed nothing")
    if lines[0].text.startswith("dmesg:"):
        raise ToolFailed(DMESG, line=lines[0].text)
    troubles: dict[str, None] = {}
    programs: list[int] = []
    corrected: list[str] = []
    for line in lines:
        words = _STAMP.sub("", line.text.strip())
        if (xid := _XID.search(words)) is not None:
            number = int(xid["number"])
            if number in OF_PROGRAMS:
                programs.append(number)
            else:
                troubles[words] = None
        elif _UNCORRECTED.search(words) or any(pattern.search(words) for pattern in _BAD):
            troubles[words] = None
        elif _CORRECTED.search(words):
            corrected.append(words)
    if len(corrected) > MOST_CORRECTED:
        troubles[f"{len(corrected)} times {corrected[-1]}"] = None
    return KernelLog(troubles=tuple(troubles), of_programs=tuple(dict.fromkeys(programs)))
