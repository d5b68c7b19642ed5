"""A host's system id from `QueryConfigTarget`, which a fixed passthrough device must carry.

Every entry of `pciPassthrough`, the functions that are handed out, and of `sriov`, the NICs that can have
virtual functions, names it; a recorded host has it in the second list before anything is handed out.

Belief: passthrough-reports-system-id.
"""

from __future__ import annotations

from typing import Any

_LISTS = ("pciPassthrough", "sriov")


def system_id_of(target: Any) -> str:
    """Return the system id that a `ConfigTarget` names, "" where it names none."""
    entries = (entry for name in _LISTS for entry in getattr(target, name, None) or ())
    return next((str(entry.systemId) for entry in entries if getattr(entry, "systemId", None)), "")
