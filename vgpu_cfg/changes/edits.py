"""How an edit reads: in running text, and as a line of a plan."""

from __future__ import annotations

from vgpu_cfg.changes.values import Edit, Words, plain


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


def changed(edit: Edit) -> Words:
    """Write an edit's two values: "+ new", "- old", or "old -> new"."""
    if edit.before is None:
        return (*plain(f"+ {edit_value(edit)}"), *_note(edit))
    if edit.after is None:
        return ((f"- {edit.before}", "red"), *_note(edit))
    return (*plain(f"{edit.before} -> {edit_value(edit)}"), *_note(edit))


def set_to(edit: Edit, *, unset: str) -> Words:
    """Write the two values of a setting; `unset` is said of one that had none."""
    before = unset if edit.before is None else edit.before
    return (*plain(f"{before} -> {edit_value(edit)}".lstrip()), *_note(edit))


def plain_rows(edits: tuple[Edit, ...]) -> tuple[tuple[str, str, str], ...]:
    """Return edits as the rows of a table: what, before, after, as they are."""
    return tuple((edit.key, edit.before or "", edit.after or "") for edit in edits)


def table_rows(edits: tuple[Edit, ...]) -> tuple[tuple[str, str, str], ...]:
    """Return edits as the rows of a table: what, before, after; a default is marked."""
    return tuple((edit.key, edit.before or "", edit_value(edit)) for edit in edits)


def _note(edit: Edit) -> Words:
    return ((f"  {edit.note}", "dim"),) if edit.note else ()
