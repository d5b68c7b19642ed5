"""A plan's changes as few short rows, where there is no room for more: like VMs and hosts are one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from vgpu_cfg.changes.change import Change
from vgpu_cfg.changes.plan import Plan
from vgpu_cfg.model.ranges import fold_names
from vgpu_cfg.model.wording import as_counted
from vgpu_cfg.render.layout.lines import short
from vgpu_cfg.render.views.plan.whole import effort_of

_KINDS = {"host": "host", "vm": "VM", "cluster": "cluster", "network": "network", "plan": "plan"}
_MOST_EDITS = 8


@dataclass(frozen=True, slots=True)
class ChangeRow:
    """What becomes of one or of several things that are treated alike.

    `verb` is "new", "changed", "removed", "switched", "guest" or "by hand"; `where` the hosts that VMs
    go to or stay on; `what` the values that change, of a new VM only those that the plan file states.
    """

    kind: str
    names: str
    verb: str
    where: str
    what: str
    is_blocked: bool


def change_rows(plan: Plan) -> tuple[ChangeRow, ...]:
    """Return a row for each host, VM, cluster and network that changes, in the plan's order."""
    subjects: dict[tuple[str, str], list[tuple[int, Change]]] = {}
    for number, change in enumerate(plan.changes, 1):
        subjects.setdefault((change.subject.kind, change.subject.name), []).append((number, change))
    hosts = {placement.vm: placement.host_name for placement in plan.placements}
    alike: dict[ChangeRow, list[str]] = {}
    for (kind, name), numbered in subjects.items():
        changes = [change for _, change in numbered]
        effort = effort_of(name, numbered, plan.changes).text if kind == "host" else ""
        row = ChangeRow(
            kind=_KINDS.get(kind, kind),
            names="",
            verb=verb_of(changes),
            where="",
            what="; ".join(part for part in (effort, _what(changes)) if part),
            is_blocked=any(change.id in plan.blocked for change in changes),
        )
        alike.setdefault(row, []).append(name)
    return tuple(
        replace(row, names=fold_names(names), where=_where(row, names, hosts)) for row, names in alike.items()
    )


def _where(row: ChangeRow, names: Sequence[str], hosts: Mapping[str, str]) -> str:
    """Name the hosts that VMs go to or stay on."""
    found = {hosts[name] for name in names if name in hosts} if row.kind == _KINDS["vm"] else set()
    return fold_names(sorted(found, key=as_counted))


def verb_of(changes: Sequence[Change]) -> str:
    """Say in a word what becomes of something."""
    if any(change.makes for change in changes):
        return "new"
    if any(change.deletes for change in changes):
        return "removed"
    if all(change.starts or change.stops for change in changes):
        return "switched"
    if all(change.staged for change in changes):
        return "guest"
    if all(change.face.is_by_hand for change in changes):
        return "by hand"
    return "changed"


def _what(changes: Sequence[Change]) -> str:
    words = Counter(text for change in changes for text in change.in_short)
    return short((f"{count} x {text}" if count > 1 else text for text, count in words.items()), _MOST_EDITS)
