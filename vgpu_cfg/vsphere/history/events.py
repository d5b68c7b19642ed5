"""vCenter's events of VMs, hosts and clusters: changes with their authors, customizations, maintenance mode.

Past changes are read in bulk by few collectors. A filter names one entity: one that differs is asked for
itself, VMs of one folder through that, and others through the root folder with all that is below it. A
collector begins before the oldest event (vSphere API reference, HistoryCollector), and gives 1000 at most at
once. An alarm or a scheduled task is named in the task that an event belongs to, by its chain (vim
`TaskInfo.eventChainId`, `TaskInfo.reason`). Events require System.View on their entity. That a
VmReconfiguredEvent holds the whole ConfigSpec is LucD's finding (lucd.info, "Events - Part 3"). Removals are
read without an entity, since it no longer exists. Types go by their bare names, as other programs and vcsim
have them.

Belief: event-filter-covers-a-folder, event-filter-finds-removed-vms, no-event-has-host-settings,
event-filter-by-type-id, event-collector-reads-backwards, event-type-spelling.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from pyVmomi import vim, vmodl

from vgpu_cfg.model.locks import SILENT_AFTER, Lock
from vgpu_cfg.model.observed.cordon import MaintenanceEntry
from vgpu_cfg.model.observed.own_items import (
    CUSTOMIZATION_FAILURES,
    CUSTOMIZATION_SUCCEEDED,
    CustomizationSeen,
)
from vgpu_cfg.model.observed.past import Past, PastEvent, PastScope
from vgpu_cfg.model.runs import RunEntry, entry_of_lock
from vgpu_cfg.planning.drift import EVENT_KINDS, MAKINGS, REMOVED
from vgpu_cfg.vsphere.history.collectors import MOST_ENTRIES, RunEntryReader, beginner, held, pages
from vgpu_cfg.vsphere.wire.collector import Paths, Start, collect_from, renewing
from vgpu_cfg.vsphere.wire.faults import is_session_over, to_error, translated
from vgpu_cfg.vsphere.wire.session import Session

NOT_KEPT = "this vCenter does not provide events"
NOT_RECORDED = "recordings contain no events"
NOT_ALLOWED = "the account has no read access to events"
TOO_MANY = f"there are more than {MOST_ENTRIES} events, which is the limit"

_VM = "vim.VirtualMachine"
_CREATED = "config.createDate"
_UNNAMED_TASK = vim.TaskReasonUser | vim.TaskReasonSystem


class _TooManyEvents(Exception):
    """More pages than anybody wants to wait for."""


def read_past(session: Session, scope: PastScope) -> Past:
    """Read the events of a scope's objects, since the first of its VMs was made.

    Some ten round trips, however many VMs there are; parts that vCenter does not permit to read are in
    `unread`.
    """
    try:
        return renewing(session, lambda: _read(session, scope))
    except _TooManyEvents:
        return Past(unread=TOO_MANY)
    except vmodl.MethodFault as fault:
        if is_session_over(fault):
            raise to_error(fault, "reading events", session.address) from fault
        refused = isinstance(fault, vim.fault.NoPermission)
        return Past(unread=NOT_ALLOWED if refused else NOT_KEPT)


def _read(session: Session, scope: PastScope) -> Past:
    manager = session.service_content.eventManager
    if manager is None:
        return Past(unread=NOT_KEPT)
    made_at = _made_at(session, scope.vm_moids)
    wanted = {*scope.vm_moids, *scope.host_moids, *scope.cluster_moids}
    found: list[Any] = []
    if wanted:
        begin = None if scope.host_moids else min(made_at.values(), default=None)
        spec = _filter(session, scope, scope.kinds or EVENT_KINDS, scope.since or begin)
        found += [event for event in _events(manager, spec) if _moid_of(event) in wanted]
    if scope.removed_vms:
        kinds = (REMOVED, *MAKINGS)
        names = {*scope.removed_vms}
        spec = _filter(session, PastScope(), kinds, None)
        found += [
            event for event in _events(manager, spec) if event.vm is not None and event.vm.name in names
        ]
    reasons = _reasons(session, found)
    events = {event.key: _past(event, reasons) for event in found}
    return Past(
        events=tuple(sorted(events.values(), key=lambda event: event.at)),
        since=_oldest(manager),
        made_at=made_at,
    )


def _made_at(session: Session, moids: Sequence[str]) -> dict[str, datetime]:
    """Return when VMs were made, by vCenter's own clock."""
    if not moids:
        return {}
    items = collect_from(session, (Paths(_VM, (_CREATED,)),), [Start(_VM, moid) for moid in moids])
    return {item.moid: item.get(_CREATED) for item in items if item.get(_CREATED) is not None}


def _filter(session: Session, scope: PastScope, kinds: Iterable[str], begin: datetime | None) -> Any:
    made = vim.event.EventFilterSpec(
        eventTypeId=list(kinds), entity=_entity(session, scope), disableFullMessage=True
    )
    if begin is not None:
        made.time = vim.event.EventFilterSpec.ByTime(beginTime=begin)
    return made


def _entity(session: Session, scope: PastScope) -> Any:
    one: Any = vim.event.EventFilterSpec.ByEntity
    match scope:
        case PastScope(vm_moids=(), host_moids=(), cluster_moids=()):
            return None
        case PastScope(vm_moids=(moid,), host_moids=(), cluster_moids=()):
            return one(entity=vim.VirtualMachine(moid), recursion="self")
        case PastScope(vm_moids=(), host_moids=(moid,), cluster_moids=()):
            return one(entity=vim.HostSystem(moid), recursion="self")
        case PastScope(folder_moid=folder, host_moids=(), cluster_moids=()) if folder:
            return one(entity=vim.Folder(folder), recursion="all")
        case _:
            return one(entity=session.service_content.rootFolder, recursion="all")


def _events(manager: Any, spec: Any) -> Iterator[Any]:
    """Yield the events of a filter, oldest first."""
    with held(manager.CreateCollectorForEvents(spec)) as collector:
        page: Any = ()
        # Belief: event-pages-go-forward, event-pages-of-1000.
        for page in pages(collector.ReadNextEvents):
            yield from page
    if page:
        raise _TooManyEvents


def _oldest(manager: Any) -> datetime | None:
    """Return when the oldest event is of that vCenter keeps and the account sees."""
    with held(manager.CreateCollectorForEvents(vim.event.EventFilterSpec())) as collector:
        first = collector.ReadNextEvents(1) or ()
    return first[0].createdTime if first else None


def _reasons(session: Session, events: Sequence[Any]) -> Mapping[int, str]:
    """Return by chain the alarm or scheduled task that caused these events."""
    manager = session.service_content.taskManager
    if manager is None or not events:
        return {}
    times = [event.createdTime for event in events]
    spec = vim.TaskFilterSpec(
        time=vim.TaskFilterSpec.ByTime(
            timeType=vim.TaskFilterSpec.TimeOption.completedTime, beginTime=min(times)
        )
    )
    chains = {event.chainId for event in events}
    found: dict[int, str] = {}
    with suppress(vmodl.MethodFault), held(manager.CreateCollectorForTasks(spec)) as collector:
        for page in pages(collector.ReadNextTasks):
            # Belief: task-names-its-event-chain, event-shares-its-tasks-chain.
            found |= {
                info.eventChainId: beginner(info.reason)
                for info in page
                if info.eventChainId in chains and not isinstance(info.reason, _UNNAMED_TASK)
            }
        return found
    return {}


def _past(event: Any, reasons: Mapping[int, str]) -> PastEvent:
    about = _about(event)
    return PastEvent(
        kind=type(event)._wsdlName,
        moid=_moid_of(event),
        name=about.name if about is not None else "",
        at=event.createdTime.astimezone(UTC),
        by=reasons.get(event.chainId) or event.userName or "",
        sets=_sets(event),
        words=_words(event),
    )


def _about(event: Any) -> Any:
    """Return what names the entity that an event is about."""
    match event:
        case vim.event.CustomFieldValueChangedEvent():
            return event.entity
        case vim.event.VmEvent():
            return event.vm
        case vim.event.HostEvent():
            return event.host
        case vim.event.ClusterEvent():
            return event.computeResource
        case _:
            return None


def _moid_of(event: Any) -> str:
    match _about(event):
        case vim.event.ManagedEntityEventArgument() as found:
            return str(found.entity._moId)
        case vim.event.VmEventArgument() as found:
            return str(found.vm._moId)
        case vim.event.HostEventArgument() as found:
            return str(found.host._moId)
        case vim.event.ComputeResourceEventArgument() as found:
            return str(found.computeResource._moId)
        case _:
            return ""


def _sets(event: Any) -> dict[str, str]:
    # Belief: reconfigured-event-has-the-request.
    match event:
        case vim.event.VmReconfiguredEvent() if event.configSpec is not None:
            return dict(_leaves(event.configSpec, ""))
        case vim.event.CustomFieldValueChangedEvent():
            return {f"customValue[{event.name}]": event.value}
        case vim.event.VmUpgradeCompleteEvent():
            return {"version": event.version}
        case vim.event.VmRenamedEvent():
            return {"newName": event.newName}
        case _:
            return {}


def _words(event: Any) -> str:
    # Belief: cluster-event-names-the-override.
    if isinstance(event, vim.event.ClusterReconfiguredEvent) and event.configChanges is not None:
        changes = event.configChanges
        return "\n".join((changes.modified or "", changes.added or "", changes.deleted or ""))
    return ""


def _leaves(value: Any, path: str) -> Iterator[tuple[str, str]]:
    """Yield the content of a request as paths with values, spelled as edits spell them."""
    for one in value._GetPropertyList():
        found = getattr(value, one.name)
        at = f"{path}.{one.name}" if path else one.name
        if found is None or one.name in ("dynamicType", "dynamicProperty"):
            continue
        if at == "extraConfig":
            yield from ((f"extraConfig[{pair.key}]", str(pair.value)) for pair in found)
        elif at == "deviceChange":
            yield from (_device(change) for change in found)
        elif isinstance(found, vmodl.DynamicData):
            yield from _leaves(found, at)
        elif not isinstance(found, list):
            yield at, str(found).lower() if isinstance(found, bool) else str(found)


def _device(change: Any) -> tuple[str, str]:
    device = change.device
    profile = ""
    match device:
        case vim.vm.device.VirtualPCIPassthrough():
            backing: Any = device.backing
            is_vgpu = isinstance(backing, vim.vm.device.VirtualPCIPassthrough.VmiopBackingInfo)
            kind, profile = ("vgpu", backing.vgpu) if is_vgpu else ("pci", "")
        case vim.vm.device.VirtualEthernetCard():
            kind = "nic"
        case vim.vm.device.VirtualDisk():
            kind = "disk"
        case vim.vm.device.VirtualTPM():
            kind = "tpm"
        case _:
            kind = type(device).__name__
    return f"device[{kind}]", f"{change.operation or 'edit'} {profile or ''}".rstrip()


STARTED: Final = "CustomizationStartedEvent"


def read_customization(session: Session, vm_moid: str) -> CustomizationSeen:
    """Return how far a guest's customization is, by the newest event of it: one round trip.

    Source: vSphere API reference, CustomizationEvent and the types below it. vcsim has the same ones.
    """
    one: Any = vim.event.EventFilterSpec.ByEntity
    spec = vim.event.EventFilterSpec(
        entity=one(entity=vim.VirtualMachine(vm_moid), recursion="self"),
        eventTypeId=[STARTED, CUSTOMIZATION_SUCCEEDED, *CUSTOMIZATION_FAILURES],
    )
    with translated("reading guest customization progress", vm_moid):
        events = session.service_content.eventManager.QueryEvents(spec) or ()
    newest = max(events, key=lambda event: (event.createdTime, event.key), default=None)
    return CustomizationSeen() if newest is None else _seen(newest)


def _seen(event: Any) -> CustomizationSeen:
    kind = str(type(event)._wsdlName)
    words = (event.fullFormattedMessage or "", getattr(event, "reason", None) or "")
    return CustomizationSeen(
        state="running" if kind == STARTED else "succeeded" if kind == CUSTOMIZATION_SUCCEEDED else "failed",
        event=kind,
        message=" ".join(word for word in words if word),
        log=event.logLocation or "",
    )


_ENTERED = ("EnteredMaintenanceModeEvent", "vim.event.EnteredMaintenanceModeEvent")
_LONGEST = timedelta(days=1)
"""So long a run that left no end may have gone on."""
_LONGEST_LOCKED = SILENT_AFTER
"""The maximum length of a run of which only a lock is left: it may have died before any change."""
_BY_ANOTHER_CLOCK = timedelta(minutes=1)
"""The time that may pass at vCenter, beyond the machine's clock, between a beginning and its entry."""
_MOST_LATE = timedelta(days=366)
"""The maximum delay of an entry: each account that may log events can write one for any time."""


def read_maintenance(
    session: Session, host_moids: Sequence[str], read_locks: Callable[[], Sequence[Lock]]
) -> Mapping[str, MaintenanceEntry]:
    """Return how hosts came into maintenance mode, without those that no event records.

    A run leaves word of its end among the events, and of its beginning unless it is short; one that has left
    none yet has a lock. Changes by its account in between were the run's own, or those of another user of the
    account.

    Three round trips for each host and some five for the runs, plus their locks. Nothing where events are not
    kept, or not shown to the account. Raises VCenterError where the connection or the session is lost.
    """
    try:
        found = renewing(session, lambda: _entries(session, host_moids))
        if not found:
            return found
        oldest = min(one.at for one in found.values())
        locked = [
            (lock.beat_at, entry) for lock in read_locks() if (entry := entry_of_lock(lock)) is not None
        ]
        runs, _ = RunEntryReader(session).read_timed(lambda: oldest - _LONGEST)
        runs += locked
    except vmodl.MethodFault as fault:
        if is_session_over(fault):
            raise to_error(fault, "reading events", session.address) from fault
        return {}
    return {moid: _with_run(one, runs) for moid, one in found.items()}


def _entries(session: Session, host_moids: Sequence[str]) -> dict[str, MaintenanceEntry]:
    events = {moid: _last_entry(session, moid) for moid in host_moids}
    return {
        moid: MaintenanceEntry(at=event.createdTime, by=event.userName or "")
        for moid, event in events.items()
        if event is not None
    }


def _last_entry(session: Session, moid: str) -> Any | None:
    manager = session.service_content.eventManager
    if manager is None:
        return None
    entity = vim.event.EventFilterSpec.ByEntity(entity=vim.HostSystem(moid), recursion="self")
    spec = vim.event.EventFilterSpec(entity=entity, eventTypeId=list(_ENTERED))
    with held(manager.CreateCollectorForEvents(spec)) as collector:
        events = [event for page in pages(collector.ReadNextEvents) for event in page]
    return max(events, key=lambda event: event.createdTime, default=None)


def _with_run(entry: MaintenanceEntry, runs: Sequence[tuple[datetime, RunEntry]]) -> MaintenanceEntry:
    """Add the run that went on then under the same account: the one that began last."""
    ended = {run.run: at for at, run in runs if run.result is not None}
    own = [
        (began, run)
        for at, run in runs
        if run.command == "apply" and _account(run.account) == _account(entry.by)
        if (began := _began(at, run)) is not None
        if began <= entry.at <= ended.get(run.run, began + (_LONGEST if run.digest else _LONGEST_LOCKED))
    ]
    if not own:
        return entry
    _, last = max(own, key=lambda pair: pair[0])
    return entry.model_copy(update={"plan": last.plan, "plan_id": last.plan_id, "run": last.run})


def _began(at: datetime, run: RunEntry) -> datetime | None:
    """Return when a run began, by an entry that vCenter took `at` a time by its own clock; None where untold.

    Of a lock it is when the run was last heard of.
    """
    if run.result is not None and run.began_at is None:
        return None
    seconds = (run.at - run.began_at).total_seconds() if run.began_at is not None else run.late_seconds
    later = timedelta(seconds=min(max(0.0, seconds), _MOST_LATE.total_seconds()))
    return at - later - _BY_ANOTHER_CLOCK if later else at


def _account(name: str) -> tuple[str, str]:
    r"""Return (name, domain) of an account, written as NAME@DOMAIN or as events have it: DOMAIN\NAME."""
    if "\\" in name:
        domain, _, user = name.partition("\\")
    else:
        user, _, domain = name.partition("@")
    return user.casefold(), domain.casefold()
