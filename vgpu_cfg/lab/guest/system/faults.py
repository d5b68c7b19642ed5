"""The faults of a guest in an exercise: the lab shows each at the same place as a real guest.

That is in a tool's output, or in measurements.
"""

from __future__ import annotations

import re

from vgpu_cfg.lab.estates.guests import WORDS
from vgpu_cfg.lab.state.guest import Guest


def fault_of(guest: Guest, word: str) -> str:
    """Return how much of a fault a guest has, "" for none."""
    if word not in WORDS:
        raise KeyError(word)
    return guest.faults.get(word, "")


def altered(guest: Guest, tool: str, text: bytes) -> bytes:
    """Return a tool's output with the replacements of a fault, line by line."""
    for line in fault_of(guest, "prints").splitlines():
        name, _, rest = line.partition(": ")
        if name == tool:
            pattern, _, new = rest.partition(" => ")
            text = re.sub(pattern.encode(), new.encode(), text, flags=re.MULTILINE)
    return text


def altered_files(guest: Guest) -> dict[str, str]:
    """Return made-up files that have another content, by path."""
    pairs = (line.partition(" ") for line in fault_of(guest, "files").splitlines())
    return {path: f"{content}\n" for path, _, content in pairs}


def counted_besides(guest: Guest) -> dict[str, int]:
    """Return the extra growth of NIC counters in each transfer, by name."""
    pairs = (line.split() for line in fault_of(guest, "counts").splitlines())
    return {name: int(amount) for name, amount in pairs}
