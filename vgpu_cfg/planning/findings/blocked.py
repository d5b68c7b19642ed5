"""Which changes of a plan an error stands against: the plan shows them marked, and is not carried out."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from vgpu_cfg.changes.change import Change
from vgpu_cfg.changes.plan import Diagnostic
from vgpu_cfg.changes.severity import Severity


def blocked_changes(
    changes: Sequence[Change], findings: Iterable[Diagnostic], vms: Collection[str]
) -> tuple[str, ...]:
    """Return the ids of the changes that errors are about, and of those that need them.

    `vms` are the names of the VMs with an error: a finding about several of a line names them together. A VM
    that is switched off only for what is blocked stays on.
    """
    refused = {(one.subject.kind, one.subject.name) for one in findings if one.severity is Severity.ERROR} | {
        ("vm", name) for name in vms
    }
    found = {change.id for change in changes if (change.subject.kind, change.subject.name) in refused}
    before = -1
    while before != len(found):
        before = len(found)
        found |= {change.id for change in changes if found & {*change.needs}}
    needing: dict[str, set[str]] = {}
    for change in changes:
        for need in change.needs:
            needing.setdefault(need, set()).add(change.id)
    found |= {
        change.id
        for change in changes
        if change.stops and needing.get(change.id, set()) & found
        if needing[change.id] <= found
    }
    return tuple(change.id for change in changes if change.id in found)
