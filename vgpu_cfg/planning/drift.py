"""Differences from the plan file, one for each value of a VM or a host, and their authors from events.

Differences are the edits of a plan's changes, and the manual steps it leaves: so `plan` and `status` cannot
disagree. Intermediate steps of a run (off for the changes, on again) are no differences.

An event names the values it wrote, and so does a difference: both by the paths of the request. The author is
that of this value, not of the last touch. If the newest event that wrote the value wrote the plan file's
value, a later change left no event, as from a host's shell.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from vgpu_cfg.changes.kinds.create_vm import THE_VM
from vgpu_cfg.changes.kinds.guest import GUEST
from vgpu_cfg.changes.plan import Plan
from vgpu_cfg.changes.severity import Severity
from vgpu_cfg.changes.suggestion import Difference
from vgpu_cfg.changes.values import Edit, Subject
from vgpu_cfg.model.observed.inventory import Inventory
from vgpu_cfg.model.observed.past import Past, PastEvent, PastScope
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


_ON = frozenset(
    {"VmPoweredOnEvent", "DrsVmPoweredOnEvent", "VmRestartedOnAlternateHostEvent", "VmStartingEvent"}
)
_OFF = frozenset({"VmPoweredOffEvent", "VmGuestShutdownEvent", "VmSuspendedEvent", "VmDasBeingResetEvent"})
_POOL_MOVED = frozenset({"VmResourcePoolMovedEvent"})
_MOVED = frozenset({"VmMigratedEvent", "DrsVmMigratedEvent", "VmRelocatedEvent"})
# Belief: creation-events-name-the-creator, clone-event-is-of-the-new-vm.
MAKINGS = ("VmCreatedEvent", "VmClonedEvent", "VmDeployedEvent", "VmRegisteredEvent")
_AWAY = frozenset({"HostConnectionLostEvent", "HostDisconnectedEvent", "HostShutdownEvent"})
REMOVED = "VmRemovedEvent"
REMOVED_TEXT = "removed"
EVENT_KINDS = tuple(
    sorted(
        {
            "VmReconfiguredEvent", "VmRenamedEvent", "VmUpgradeCompleteEvent", "CustomFieldValueChangedEvent",
            "ClusterReconfiguredEvent", "EnteredMaintenanceModeEvent",
        }
        | _ON | _OFF | _MOVED | _POOL_MOVED | _AWAY
    )
)  # fmt: skip
"""The kinds of events that are asked for, but for makings and removals."""

_BY_KIND: Mapping[str, frozenset[str]] = {
    "host": _MOVED,
    "datastore": _MOVED,
    "resource pool": _POOL_MOVED,
    Code.ELSEWHERE: _MOVED,
    Code.HOST_FORBIDDEN: _MOVED,
    Code.SPREAD_UNMET: _MOVED,
    Code.HOST_SILENT: _AWAY,
    Code.HOST_LOST: _AWAY,
    Code.OTHERS_MAINTENANCE: frozenset({"EnteredMaintenanceModeEvent"}),
}
"""By kind of difference, the kinds of events that report it, regardless of the values they wrote."""
_DEVICES = {
    "gpu": ("vgpu", "pci"),
    "nic": ("nic", "pci"),
    "nic mac": ("nic",),
    "disk": ("disk",),
    "vtpm": ("tpm",),
}
"""By the key of an edit, the kinds of devices whose events report it."""

NO_EVENT = "no vCenter event shows this"
IN_GUEST = "vCenter does not record changes in guests"
NOT_MADE = "not created yet, or removed too long ago"


def past_scope(differences: Iterable[Difference], observed: Inventory) -> PastScope:
    """Return the objects whose events report differences."""
    found = list(differences)
    vms = {one.subject.moid: None for one in found if one.subject.kind == "vm" and one.subject.moid}
    hosts = {one.subject.moid: None for one in found if one.subject.kind == "host" and one.subject.moid}
    clusters = [
        observed.host_by_moid[host].cluster_moid
        for one in found
        if _is_override(one) and (host := _host_of(one, observed)) in observed.host_by_moid
    ]
    folders = {observed.vm_by_moid[moid].folder_moid for moid in vms if moid in observed.vm_by_moid}
    return PastScope(
        folder_moid=(folders.pop() or "") if len(folders) == 1 else "",
        vm_moids=tuple(vms),
        host_moids=tuple(hosts),
        cluster_moids=tuple(dict.fromkeys(moid for moid in clusters if moid)),
        removed_vms=tuple(one.subject.name for one in found if _is_missing(one)),
    )


def with_authors(differences: Iterable[Difference], past: Past) -> tuple[Difference, ...]:
    """Say of each difference who brought it about and when, or why that is not known."""
    newest_first = sorted(past.events, key=lambda event: event.at, reverse=True)
    return tuple(_told(one, newest_first, past) for one in differences)


@dataclass(frozen=True, slots=True)
class _Question:
    """Which events are about a difference, and which of them say that it is not so."""

    concerns: Callable[[PastEvent], bool]
    denies: Callable[[PastEvent], bool] = lambda _event: False


def _told(one: Difference, newest_first: Sequence[PastEvent], past: Past) -> Difference:
    if past.unread:
        return one.model_copy(update={"why_unknown": past.unread})
    question = _question(one)
    event = next((event for event in newest_first if question.concerns(event)), None)
    if event is not None and not question.denies(event):
        found = REMOVED_TEXT if event.kind == REMOVED else one.found
        return one.model_copy(update={"by": event.by or "vCenter itself", "at": event.at, "found": found})
    return one.model_copy(update={"why_unknown": _why(one, event, past)})


def _why(one: Difference, event: PastEvent | None, past: Past) -> str:
    if one.what == GUEST:
        return IN_GUEST
    if _is_missing(one) and event is None:
        return NOT_MADE
    made = past.made_at.get(one.subject.moid or "")
    if event is None and past.since is not None and (made is None or made < past.since):
        return f"older than the oldest vCenter event ({past.since:%Y-%m-%d %H:%M})"
    return NO_EVENT


def _question(one: Difference) -> _Question:
    moid, name = one.subject.moid, one.subject.name
    if _is_missing(one):
        return _Question(
            lambda event: event.name == name and event.kind in {REMOVED, *MAKINGS},
            lambda event: event.kind != REMOVED,
        )
    if one.what == POWER:
        wanted = _ON if one.wanted == "on" else _OFF
        return _Question(
            lambda event: event.moid == moid and event.kind in _ON | _OFF, lambda event: event.kind in wanted
        )
    if one.what in _BY_KIND:
        kinds = _BY_KIND[one.what]
        return _Question(lambda event: event.moid == moid and event.kind in kinds)
    if _is_override(one):
        lists = {path.partition(".")[0] for path in one.sets}
        return _Question(
            lambda event: (
                moid is not None
                and event.kind == "ClusterReconfiguredEvent"
                and moid in event.words
                and any(word in event.words for word in lists)
            )
        )
    written = _written(one)
    return _Question(
        lambda event: event.moid == moid and not written.keys().isdisjoint(event.sets),
        lambda event: all(event.sets[path] == written[path] for path in written.keys() & event.sets.keys()),
    )


def _written(one: Difference) -> Mapping[str, str]:
    """Return the values that would correct the difference, by the paths that events have."""
    kinds = _DEVICES.get(one.what)
    if kinds is None:
        return one.sets
    done = "remove" if any(path.endswith(".operation") for path in one.sets) else "add"
    profile = next((value for path, value in one.sets.items() if path.endswith(".backing.vgpu")), "")
    return {f"device[{kind}]": f"{done} {profile}".rstrip() for kind in kinds}


def _is_missing(one: Difference) -> bool:
    return one.what == THE_VM and one.wanted is not None


def _is_override(one: Difference) -> bool:
    return any(path.startswith(("drsVmConfig", "dasVmConfig")) for path in one.sets)


def _host_of(one: Difference, observed: Inventory) -> str:
    vm = observed.vm_by_moid.get(one.subject.moid or "")
    return (vm.host_moid or "") if vm is not None else ""
