"""Which faults of an exercise a guest has: the lab shows each where the real thing would show.

That is in what a tool prints, or in what is measured.
"""

from __future__ import annotations

from vgpu_cfg.lab.estates.guest_faults import WORDS
from vgpu_cfg.lab.state.guest import Guest


def fault_of(guest: Guest, word: str) -> str:
    """Return how much of a fault a guest has, "" for none."""
    if word not in WORDS:
        raise KeyError(word)
    return guest.faults.get(word, "")
