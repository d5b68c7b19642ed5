"""What `nvidia-smi mig -lgi` lists: the GPU instances that there are, and where each stands.

Sources: NVIDIA Multi-Instance GPU User Guide; NVIDIA AI Enterprise User Guide, chapter on MIG-backed
vGPUs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from vgpu_cfg.model.observed.host_facts import MigInstance
from vgpu_cfg.parsers.errors import UnreadableOutput
from vgpu_cfg.parsers.nvidia.tree import raise_failure
from vgpu_cfg.parsers.text import Line, lines_with_content

INSTANCES = "nvidia-smi mig -lgi"

_RULE = re.compile(r"[+|]?[-=+]{5,}[+|]?")
_INSTANCE = re.compile(r"\|\s*(?P<gpu>\d+)\s+MIG\s+\S+\s+\d+\s+\d+\s+(?P<start>\d+):(?P<size>\d+)\s*\|")
_HEADS = ("GPU instances", "GPU ", "ID ")
_NONE = ("No MIG-enabled devices found", "No MIG-supported devices found", "No GPU instances found")


def parse_mig_instances(text: str) -> Mapping[int, tuple[MigInstance, ...]]:
    """Read `mig -lgi`, by nvidia-smi's numbers of the GPUs; empty where there are none, as where MIG is off.

    Raises ToolFailed where the tool failed, UnreadableOutput for a row that is not understood.
    """
    found: dict[int, tuple[MigInstance, ...]] = {}
    for line in _rows(text):
        row = _INSTANCE.fullmatch(line.text.strip())
        if row is None:
            raise UnreadableOutput(INSTANCES, "no GPU instance", line=line.text, number=line.number)
        gpu, start, size = (_int(row[name], line) for name in ("gpu", "start", "size"))
        found[gpu] = (*found.get(gpu, ()), MigInstance(start=start, size=size))
    return found


def _rows(text: str) -> tuple[Line, ...]:
    """Return the rows between the rules; none where the tool says that there are none."""
    lines = lines_with_content(text)
    if lines and lines[0].text.strip().startswith(_NONE):
        return ()
    raise_failure(INSTANCES, lines)
    rows: list[Line] = []
    for line in lines:
        shown = line.text.strip()
        inner = shown.strip("|").strip()
        is_frame = bool(_RULE.fullmatch(shown)) or not inner or inner.startswith(_HEADS)
        if not is_frame and not shown.startswith("Warning:"):
            rows.append(line)
    if not rows:
        raise UnreadableOutput(INSTANCES, "no table", line=lines[0].text, number=lines[0].number)
    return tuple(rows)


def _int(digits: str, line: Line) -> int:
    if len(digits) > 18 or not digits.isascii():
        raise UnreadableOutput(INSTANCES, "no number", line=line.text, number=line.number)
    return int(digits)
