"""How the taking back of a failed run ends: what was undone, what was not and why, and what is left."""

from __future__ import annotations

from rich.text import Text

from vgpu_cfg.changes.report import Rollback
from vgpu_cfg.model.wording import counted
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.render.layout.lines import hanging


def render_rollback(rollback: Rollback | None, width: int, *, undo_command: str = "") -> list[Text]:
    """Lay out what became of a rollback; `undo_command` removes by hand the VMs that the run made."""
    if rollback is None:
        return []
    lines = _labelled("ROLLBACK", _head(rollback), width)
    for outcome in rollback.outcomes:
        if outcome.change_id not in rollback.done:
            said = outcome.message.removeprefix(f"{outcome.change_id}: ")
            lines += _labelled("", f"not done: {outcome.change_id}: {said}", width)
            lines += _labelled("", f"do: {outcome.remedy}", width) if outcome.remedy else []
    for one in rollback.kept:
        word = "not undone" if one.code == Code.NOT_UNDONE else "left on purpose"
        lines += _labelled("", f"{word}: {one.subject.name}: {one.message} ({one.code})", width)
        lines += _labelled("", f"do: {one.remedy}", width) if one.remedy else []
    for text in rollback.left_behind:
        lines += _labelled("", f"left: {text}", width)
    lines += _labelled("", f"by hand: {undo_command}", width) if undo_command else []
    return [Text(""), *lines]


def _head(rollback: Rollback) -> str:
    if rollback.why_not:
        return f"not made: {rollback.why_not}"
    if not rollback.changes:
        return "nothing to take back" if not rollback.kept else "nothing could be taken back"
    done, total = len(rollback.done), len(rollback.changes)
    if rollback.is_interrupted:
        return f"stopped: {done} of {counted(total, 'change')} made"
    return f"{f'{done} of ' if done < total else ''}{counted(total, 'change')} made"


def _labelled(label: str, text: str, width: int) -> list[Text]:
    return hanging(label, text, width, indent=0, label_width=9, style="bold yellow")
