"""How an edit reads in running text: the key and its two values."""

from __future__ import annotations

from collections.abc import Iterator

from vgpu_cfg.changes.change import DestroyVm
from vgpu_cfg.changes.values import Edit


def edit_text(edit: Edit) -> str:
    """Say an edit in a few words: "cpus 16 -> 32"."""
    if edit.before is None:
        return f"{edit.key} {edit.after}"
    if edit.after is None:
        return f"{edit.key} {edit.before} -> none"
    return f"{edit.key} {edit.before} -> {edit.after}"


def edit_value(edit: Edit) -> str:
    """Write the value after an edit, "none" where it goes, with the mark of a default."""
    return f"{'none' if edit.after is None else edit.after}{'*' if edit.is_default else ''}"


def goes_along(change: DestroyVm) -> Iterator[str]:
    """Yield what is deleted or disconnected with a VM besides its own disks: "disk [vsan] x.vmdk (…)"."""
    return (f"{one.key} {one.before}, {one.note}" for one in change.edits if one.key != "vm")
