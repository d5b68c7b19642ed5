"""Work that runs in a guest, from its processes and containers: one line of shell, and what it prints.

A process that uses CUDA holds /dev/nvidia-uvm open, NVIDIA's daemons do not. What `train` starts has its
variables. Containers of this tool are known by their names, and are no work by themselves.
"""

from __future__ import annotations

import re

_FORMAT = "'container {{.Names}} {{.Image}}'"
QUESTION = (
    "find /proc -mindepth 3 -maxdepth 3 -path '/proc/[0-9]*/fd/*' -lname /dev/nvidia-uvm 2>/dev/null; "
    "grep -lsaE 'VGPU_CFG_(TRAIN|JOB)=' /proc/[0-9]*/environ; "
    f"docker ps --no-trunc --format {_FORMAT} 2>/dev/null; "
    f"nerdctl ps --no-trunc --format {_FORMAT} 2>/dev/null; "
    "command -v find"
)
"""Ends with the path of `find`, without which it tells nothing. Root's rights see all processes."""

_PROCESS = re.compile(r"/proc/(\d+)/(fd/\d+|environ)")
_OWN = "vgpu-cfg-"


def parse_guest_work(text: str) -> tuple[str, ...] | None:
    """Return what works in a guest, in words; None if the answer is not whole."""
    lines = text.split("\n")
    if not any(line.strip().endswith("/find") for line in lines):
        return None
    found: dict[str, None] = {}
    for line in lines:
        process = _PROCESS.fullmatch(line.strip())
        words = line.split()
        if process is not None:
            what = "on the GPU" if process[2].startswith("fd") else "of `train`"
            found[f"process {process[1]} {what}"] = None
        elif words[:1] == ["container"] and len(words) > 2 and not words[1].startswith(_OWN):
            found[f"container {words[1]} ({words[2]})"] = None
    return tuple(found)
