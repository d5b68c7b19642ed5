"""How the changes of a host read: a line per setting, what brings it into force, and which hosts are alike.

What a written setting waits for is told by the restart further on that settles it.
"""

from __future__ import annotations

from rich.text import Text

from vgpu_cfg.changes.values import Edit, edit_value
from vgpu_cfg.model.wording import counted
from vgpu_cfg.render.layout.lines import fold
from vgpu_cfg.render.text.plan.change_lines import MOST_TOPIC_WIDTH, change_lines
from vgpu_cfg.render.views.plan.whole import Numbered, effort_of, waits_for

_STEP_WIDTH = 13
_MARGIN = 6


def host_lines(changes: Numbered, width: int, number_width: int, *, with_all: bool = False) -> list[Text]:
    """Lay out a host's changes; each setting's line ends with what brings it into force."""
    keys = [edit.key for _, change in changes if change.writes for edit in change.edits]
    topic_width = min(MOST_TOPIC_WIDTH, max((len(key) + 2 for key in keys), default=0))
    lines: list[Text] = []
    restarts = sum(change.restarts_host for _, change in changes)
    for index, (number, change) in enumerate(changes):
        endings: tuple[str, ...] = ()
        if len(change.edits) == len(change.writes):
            later = changes[index + 1 :]
            endings = tuple(waits_for(target, later, is_numbered=restarts > 1) for target in change.writes)
        lines += change_lines(
            number,
            change,
            None,
            width,
            number_width=number_width,
            topic_width=topic_width if change.writes else _STEP_WIDTH,
            endings=endings,
        )
    return lines + _right(changes, width, with_all=with_all)


def _right(changes: Numbered, width: int, *, with_all: bool) -> list[Text]:
    right = effort_of("", changes, ()).right
    if not right:
        return []
    margin = " " * _MARGIN
    if not with_all:
        verb = "is" if len(right) == 1 else "are"
        return [Text(f"{margin}{counted(len(right), 'more setting')} {verb} right (-v)", "dim")]
    words = Text("right: " + ", ".join(f"{target.id} {target.value}" for target in right), "dim")
    return [Text(margin) + part for part in fold(words, width - _MARGIN, hang=2)]


def host_difference(leader: Numbered, follower: Numbered) -> tuple[str, ...]:
    """List what differs between two hosts of one shape: who is moved away, and values before and after."""
    words: list[str] = []
    for (_, theirs), (_, ours) in zip(leader, follower, strict=True):
        words += ours.differs_from(theirs)
        words += [
            _edit_text(after)
            for before, after in zip(theirs.edits, ours.edits, strict=True)
            if (before.before, before.after, before.is_default)
            != (after.before, after.after, after.is_default)
        ]
    return tuple(dict.fromkeys(words))


def _edit_text(edit: Edit) -> str:
    return f"{edit.key} {edit_value(edit) if edit.before is None else f'{edit.before} -> {edit_value(edit)}'}"
