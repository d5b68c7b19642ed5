"""The differences that a plan tells of, one for each value of a VM or a host.

They are the edits of its changes, and what it leaves to people: so `plan` and `status` cannot disagree. What
a run does on the way (off for the changes, on again) is no difference.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from vgpu_cfg.changes.base import of_kind
from vgpu_cfg.changes.change import (
    Change,
    ChangeHost,
    CreateVm,
    ManualStep,
    PowerOffVm,
    PowerOnVm,
    SetOverrides,
    StageGuest,
)
from vgpu_cfg.changes.difference import Difference
from vgpu_cfg.changes.plan import Plan
from vgpu_cfg.changes.severity import Severity
from vgpu_cfg.changes.values import Edit, Impact, Subject
from vgpu_cfg.model.ranges import fold_names
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.findings.differences import DIFFERENCES_OF_HOSTS, DIFFERENCES_OF_VMS
from vgpu_cfg.planning.vms.compare import goes_along

THE_VM = "VM"
"""What differs of a VM that is not there, or should not be."""
POWER = "power"
GUEST = "guest"
BY_HAND = "by hand"
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
    """Return where a difference stands: hosts first, then VMs in the order of the plan file."""
    is_vm = one.subject.kind == "vm"
    return (
        one.subject.kind != "host",
        places.get(one.subject.name, len(places)) if is_vm else 0,
        one.subject.name,
    )


def only_about(change: SetOverrides, name: str) -> SetOverrides:
    """Return the part of a cluster's change that is about one VM, its edits named without the VM."""
    own = f"{name} "
    edits = (edit for edit in change.edits if edit.key.startswith(own))
    return change.model_copy(
        update={
            "overrides": tuple(one for one in change.overrides if one.vm.name == name),
            "edits": tuple(edit.model_copy(update={"key": edit.key.removeprefix(own)}) for edit in edits),
        }
    )


def _orphans(plan: Plan) -> Iterator[Difference]:
    for name in plan.orphans:
        subject = Subject(kind="vm", name=name)
        yield Difference(subject=subject, what=THE_VM, found="not in the plan file")


def _of_changes(plan: Plan) -> Iterator[Difference]:
    new = {change.vm.name for change in of_kind(plan.changes, CreateVm)}
    lost = {one.host.moid for one in plan.lost_hosts}
    for change in plan.changes:
        if isinstance(change, SetOverrides):
            for one in change.overrides:
                if one.vm.name not in new:
                    subject = Subject(kind="vm", name=one.vm.name, moid=one.vm.moid)
                    yield from _edits(subject, only_about(change, one.vm.name).edits)
        elif isinstance(change, CreateVm):
            yield Difference(subject=change.subject, what=THE_VM, wanted="there", found=None)
        elif change.subject.kind == "vm" and change.subject.name not in new:
            yield from _of_vm(change)
        elif change.subject.kind == "host" and change.subject.moid not in lost:
            yield from _of_host(change)


def _lost(plan: Plan) -> Iterator[Difference]:
    """Yield the hosts that do not respond and have VMs of the plan: all else there is unknown."""
    for one in plan.lost_hosts:
        subject = Subject(kind="host", name=one.host.name, moid=one.host.moid)
        words = f"{one.connection.words}, with {fold_names(vm.name for vm in one.vms)} on it"
        yield Difference(subject=subject, what=CONNECTION, wanted="connected", found=words)


def _of_vm(change: Change) -> Iterator[Difference]:
    match change:
        case StageGuest():
            yield Difference(subject=change.subject, what=GUEST, wanted=", ".join(change.modules), found="")
        case ManualStep():
            yield Difference(subject=change.subject, what=BY_HAND, wanted=change.id, found="")
        case PowerOnVm() | PowerOffVm() if change.impact is Impact.POWER_CYCLE:
            return
        case _:
            yield from _edits(change.subject, change.edits)


def _of_host(change: Change) -> Iterator[Difference]:
    """Yield what is to be written or done by hand; what a reboot would drop is right until one comes."""
    match change:
        case ChangeHost():
            pairs = zip(change.edits, change.settings, strict=False)
            written = tuple(edit for edit, target in pairs if edit.before or target.before is None)
            yield from _edits(change.subject, written)
        case ManualStep() if change.edits:
            yield from _edits(change.subject, change.edits)
        case ManualStep():
            yield Difference(subject=change.subject, what=BY_HAND, wanted=change.id, found="")
        case _:
            return


def _edits(subject: Subject, edits: tuple[Edit, ...]) -> Iterator[Difference]:
    """Yield what edits change. One of equal words, or a mark that goes along with others, says nothing."""
    telling = tuple(one for one in edits if one.before != one.after and not goes_along(one))
    for edit in telling or edits:
        found = edit.before if telling else edit.note or edit.before
        yield Difference(subject=subject, what=edit.key, wanted=edit.after, found=found, sets=edit.sets)


def _reported(plan: Plan) -> Iterator[Difference]:
    """Yield what findings tell of and no change brings about."""
    for one in plan.diagnostics:
        if one.code in _REPORTED and one.severity is not Severity.INFO:
            yield Difference(subject=one.subject, what=one.code, wanted="", found=SEE_FINDINGS)
