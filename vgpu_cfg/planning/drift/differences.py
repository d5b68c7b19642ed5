"""The differences that a plan reports, one for each value of a VM or a host.

They are the edits of its changes, and the manual steps it leaves: so `plan` and `status` cannot disagree.
Intermediate steps of a run (off for the changes, on again) are no differences.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from vgpu_cfg.changes.kinds.create_vm import THE_VM
from vgpu_cfg.changes.plan import Plan
from vgpu_cfg.changes.severity import Severity
from vgpu_cfg.changes.suggestion import Difference
from vgpu_cfg.changes.values import Edit, Subject
from vgpu_cfg.model.ranges import fold_names
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.findings.collection import DIFFERENCES_OF_HOSTS, DIFFERENCES_OF_VMS
from vgpu_cfg.planning.vms.compare import goes_along

POWER = "power"
CONNECTION = "connection"
SEE_FINDINGS = "see the findings"

_REPORTED = (
    DIFFERENCES_OF_VMS
    | DIFFERENCES_OF_HOSTS - {Code.HOST_LOST}
    | {Code.SETTING_DIFFERS, Code.SHELL_LEFT_OPEN}
)


def differences_of(plan: Plan) -> tuple[Difference, ...]:
    """List what differs from the plan file, each once, in the order of the plan's changes."""
    found = [*_orphans(plan), *_of_changes(plan), *_lost(plan), *_reported(plan)]
    known = {(one.subject.kind, one.subject.name) for one in found}
    errors = [one for one in plan.errors if one.subject.kind in ("vm", "host")]
    found += [
        Difference(subject=one.subject, what=one.code, wanted="", found=SEE_FINDINGS)
        for one in errors
        if (one.subject.kind, one.subject.name) not in known
    ]
    by_words = {(one.subject.kind, one.subject.name, one.what, one.wanted, one.found): one for one in found}
    places = {vm.name: index for index, vm in enumerate(plan.desired.vms)}
    return tuple(sorted(by_words.values(), key=lambda one: _place(one, places)))


def _place(one: Difference, places: Mapping[str, int]) -> tuple[bool, int, str]:
    """Return the place of a difference: hosts first, then VMs in the order of the plan file."""
    is_vm = one.subject.kind == "vm"
    return (
        one.subject.kind != "host",
        places.get(one.subject.name, len(places)) if is_vm else 0,
        one.subject.name,
    )


def _orphans(plan: Plan) -> Iterator[Difference]:
    for name in plan.orphans:
        subject = Subject(kind="vm", name=name)
        yield Difference(subject=subject, what=THE_VM, found="not in the plan file")


def _of_changes(plan: Plan) -> Iterator[Difference]:
    new = {vm.name for change in plan.changes if (vm := change.makes) is not None}
    lost = {one.host.moid for one in plan.lost_hosts}
    for change in (part for whole in plan.changes for part in whole.parts()):
        kind, name, moid = change.subject.kind, change.subject.name, change.subject.moid
        is_of_vm = kind == "vm" and (change.makes or name not in new)
        if is_of_vm or (kind == "host" and moid not in lost):
            yield from _edits(change.subject, change.differing)


def _lost(plan: Plan) -> Iterator[Difference]:
    """Yield the hosts that do not respond and have VMs of the plan: all else there is unknown."""
    for one in plan.lost_hosts:
        subject = Subject(kind="host", name=one.host.name, moid=one.host.moid)
        words = f"{one.connection.words}, with {fold_names(vm.name for vm in one.vms)} on it"
        yield Difference(subject=subject, what=CONNECTION, wanted="connected", found=words)


def _edits(subject: Subject, edits: tuple[Edit, ...]) -> Iterator[Difference]:
    """Yield what edits change. One of equal words, or a mark that goes along with others, says nothing."""
    telling = tuple(one for one in edits if one.before != one.after and not goes_along(one))
    for edit in telling or edits:
        found = edit.before if telling else edit.note or edit.before
        yield Difference(subject=subject, what=edit.key, wanted=edit.after, found=found, sets=edit.sets)


def _reported(plan: Plan) -> Iterator[Difference]:
    """Yield the differences that findings report and no change corrects."""
    for one in plan.diagnostics:
        if one.code in _REPORTED and one.severity is not Severity.INFO:
            yield Difference(subject=one.subject, what=one.code, wanted="", found=SEE_FINDINGS)
