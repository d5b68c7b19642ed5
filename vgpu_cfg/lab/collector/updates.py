"""Reading on: filters, and what changed below them since a version (WaitForUpdatesEx and its elders).

A filter remembers, as text, its last report of each property; an update is any difference from it. Text,
because pyvmomi's data objects compare by identity.

Making views, changing list views, and dropping either.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from io import StringIO
from typing import Any

from pyVmomi import VmomiSupport, vmodl

from vgpu_cfg.lab.api.answer import VCenterSerializer
from vgpu_cfg.lab.api.references import Service, reference
from vgpu_cfg.lab.collector.read import Reading, read_specs
from vgpu_cfg.lab.estates.lies import SOON_SECONDS
from vgpu_cfg.lab.rules.refusals import object_gone
from vgpu_cfg.lab.simulation import directory
from vgpu_cfg.lab.simulation.context import Context
from vgpu_cfg.lab.simulation.operations import answers
from vgpu_cfg.lab.simulation.views import ContainerView, ListView
from vgpu_cfg.lab.state.inventory import Managed, Task, VirtualMachine

LONGEST_WAIT = 600.0
"""A wait without a limit of the client's ends after this many seconds with no update, as policies may."""

_Collector = vmodl.query.PropertyCollector


@dataclass(slots=True)
class Reported:
    """A filter's last report of one object: its reference, its revision, each property as text."""

    reference: Any
    revision: int
    properties: dict[str, str]


@dataclass(slots=True, kw_only=True)
class Filter(Service):
    """A PropertyFilter."""

    kind: str = "PropertyFilter"
    collector: str
    spec: Any
    reported: dict[str, Reported] = field(default_factory=dict)
    missing: set[str] = field(default_factory=set)
    """The objects reported as gone, if the client wants these reports."""
    made_at: float = 0.0
    checked_at: tuple[int, int] | None = None
    """The revisions (of the state, of the session's views) at which nothing was left to report."""


@dataclass(slots=True, kw_only=True)
class Collector(Service):
    """A PropertyCollector of one session, with its filters and its last update."""

    kind: str = "PropertyCollector"
    filters: dict[str, Filter] = field(default_factory=dict)
    version: int = 0
    last_update: Any = None
    is_cancelled: bool = False


@answers("PropertyCollector", "CreateFilter")
def create_filter(context: Context, thing: Managed, *, spec: Any, partialUpdates: bool) -> Any:
    """Make a filter. Raises InvalidProperty at once for a path that no selected type has."""
    for reading in read_specs(context, [spec]):
        del reading
    collector = _own(context, thing)
    now = context.lab.clock.now()
    made = Filter(moid=_new_moid(context), name="", collector=collector.moid, spec=spec, made_at=now)
    collector.filters[made.moid] = made
    _session_objects(context)[made.moid] = made
    return made


@answers("PropertyFilter", "DestroyPropertyFilter")
def destroy_filter(context: Context, thing: Filter) -> None:
    """Drop a filter; its collector no longer reports it."""
    objects = _session_objects(context)
    objects.pop(thing.moid, None)
    collector = objects.get(thing.collector)
    if isinstance(collector, Collector):
        collector.filters.pop(thing.moid, None)


@answers("PropertyCollector", "CreatePropertyCollector")
def create_collector(context: Context, thing: Managed) -> Any:
    """Make another collector, whose filters are its own."""
    made = Collector(moid=_new_moid(context), name="")
    _session_objects(context)[made.moid] = made
    return made


@answers("PropertyCollector", "DestroyPropertyCollector")
def destroy_collector(context: Context, thing: Managed) -> None:
    """Drop a collector with its filters, and end a wait on it."""
    collector = _own(context, thing)
    collector.is_cancelled = True
    for moid in (*collector.filters, collector.moid):
        _session_objects(context).pop(moid, None)


@answers("PropertyCollector", "CancelWaitForUpdates")
def cancel_wait(context: Context, thing: Managed) -> None:
    """End a wait of another thread with RequestCanceled."""
    _own(context, thing).is_cancelled = True
    context.lab.changed.notify_all()


@answers("PropertyCollector", "CheckForUpdates")
def check_for_updates(context: Context, thing: Managed, *, version: str | None) -> Any:
    """Return what changed since a version, None for nothing."""
    return _update(context, _own(context, thing), version or "", None)


@answers("PropertyCollector", "WaitForUpdates", waits=True)
def wait_for_updates(context: Context, thing: Managed, *, version: str | None) -> Any:
    """Wait for something to change; the elder form cannot answer with nothing, so it gives up."""
    update = wait_for_updates_ex(context, thing, version=version, options=None)
    if update is None:
        raise vmodl.fault.RequestCanceled(msg="Nothing changed for as long as the lab waits.")
    return update


@answers("PropertyCollector", "WaitForUpdatesEx", waits=True)
def wait_for_updates_ex(context: Context, thing: Managed, *, version: str | None, options: Any) -> Any:
    """Return what changed since a version, waiting for it as long as the client allows.

    On a virtual clock the wait is a jump to the next event. None where nothing came.
    """
    lab = context.lab
    most = options.maxObjectUpdates if options is not None else None
    seconds = options.maxWaitSeconds if options is not None else None
    with lab.changed:
        deadline = lab.clock.now() + (LONGEST_WAIT if seconds is None else min(seconds, LONGEST_WAIT))
        collector = _own(context, thing)
        collector.is_cancelled = False
        while True:
            with lab.transaction():
                update = _update(context, collector, version or "", most)
                seen = lab.state.revision
            if update is not None or lab.clock.now() >= deadline:
                return update
            # A task may have ended as the transaction closed: nobody would wake us for that again.
            if lab.state.revision == seen:
                lab.wait(deadline)
            if collector.is_cancelled:
                raise vmodl.fault.RequestCanceled(msg="The task was canceled by a user.")


def _update(context: Context, collector: Collector, version: str, most: int | None) -> Any:
    """Return the next update set after a version. Raises InvalidCollectorVersion.

    A client that never got the last answer asks with the version before it, and gets it again.
    """
    if not version:
        for each in collector.filters.values():
            each.reported.clear()
            each.missing.clear()
            each.checked_at = None
    elif version == str(collector.version - 1) and collector.last_update is not None:
        return collector.last_update
    elif version != str(collector.version):
        raise vmodl.query.InvalidCollectorVersion(msg="The version is not valid.")
    left = most or 0
    filter_updates, truncated = [], False
    for each in collector.filters.values():
        if _is_silent(context, each):
            continue
        updates, missing = [], _missing(context, each)
        for update in _changes(context, each):
            if most and left <= 0:
                truncated = True
                each.checked_at = None
                break
            updates.append(update())
            left -= 1
        if updates or missing:
            filter_updates.append(
                _Collector.FilterUpdate(filter=reference(each), objectSet=updates, missingSet=missing)
            )
    if not filter_updates:
        return None
    collector.version += 1
    collector.last_update = _Collector.UpdateSet(
        version=str(collector.version), filterSet=filter_updates, truncated=truncated or None
    )
    return collector.last_update


def _is_silent(context: Context, each: Filter) -> bool:
    age = context.lab.clock.now() - each.made_at
    return age < SOON_SECONDS and context.state.denies("new-filter-reports-at-the-next-wait")


def _missing(context: Context, each: Filter) -> list[Any]:
    """Report the gone objects with which a filter begins, if the client wants to know, each once."""
    if not each.spec.reportMissingObjectsInResults:
        return []
    begins = {start.obj._moId: start.obj for start in each.spec.objectSet}
    gone = {
        moid: one
        for moid, one in begins.items()
        if moid not in each.missing | each.reported.keys() and directory.find(context, moid) is None
    }
    each.missing.update(gone)
    return [_Collector.MissingObject(obj=one, fault=object_gone(one)) for one in gone.values()]


def _changes(context: Context, each: Filter) -> Iterator[Any]:
    """Yield, for each changed object, a function that reports it and counts it as reported."""
    now = (context.state.revision, context.session.view_changes if context.session is not None else 0)
    if each.checked_at == now:
        return
    each.checked_at = now
    seen: set[str] = set()
    is_blind = context.state.denies("filter-reports-new-change-version")
    for reading in read_specs(context, [each.spec], passes_over=True):
        thing = reading.thing
        seen.add(thing.moid)
        reported = each.reported.get(thing.moid)
        if reported is not None and isinstance(thing, Task) and reported.revision == thing.revision:
            continue
        if reported is not None and isinstance(thing, VirtualMachine) and is_blind:
            continue
        content = reading.content(context)
        texts = {item.name: _text(item, context.version) for item in content.propSet}
        if reported is None or reported.properties != texts:
            yield lambda reading=reading, content=content, texts=texts: _tell(each, reading, content, texts)
    for moid in [moid for moid in each.reported if moid not in seen]:
        yield lambda moid=moid: _Collector.ObjectUpdate(kind="leave", obj=each.reported.pop(moid).reference)


def _tell(each: Filter, reading: Reading, content: Any, texts: dict[str, str]) -> Any:
    moid = content.obj._moId
    reported = each.reported.get(moid)
    before = reported.properties if reported is not None else {}
    changes = [
        _Collector.Change(name=item.name, op="assign", val=item.val)
        for item in content.propSet
        if before.get(item.name) != texts[item.name]
    ]
    changes += [_Collector.Change(name=name, op="assign") for name in before if name not in texts]
    each.reported[moid] = Reported(content.obj, reading.thing.revision, texts)
    return _Collector.ObjectUpdate(
        kind="enter" if reported is None else "modify",
        obj=content.obj,
        changeSet=changes,
        missingSet=list(content.missingSet),
    )


def _text(item: Any, version: str) -> str:
    writer = StringIO()
    serializer: Any = VCenterSerializer(writer, version)
    declared = VmomiSupport.Object(name="val", type=object, version=version, flags=0)
    serializer.Serialize(item.val, declared)
    return writer.getvalue()


def _own(context: Context, thing: Managed) -> Collector:
    """Return the session's collector behind a reference: the default one is a session's own, too."""
    if isinstance(thing, Collector):
        return thing
    made = Collector(moid=thing.moid, name=thing.name)
    _session_objects(context)[made.moid] = made
    return made


def _session_objects(context: Context) -> dict[str, Managed]:
    return context.session.objects if context.session is not None else {}


def _new_moid(context: Context) -> str:
    return context.session.new_moid() if context.session is not None else ""


@answers("ViewManager", "CreateContainerView")
def create_container_view(
    context: Context,
    thing: Managed,
    *,
    container: Any,
    type: list[Any],  # noqa: A002 - named by the WSDL
    recursive: bool,
) -> Any:
    """Make a view of what lies below a folder, datacenter, compute resource, host or pool."""
    if directory.find(context, container._moId) is None:
        raise object_gone(container)
    view = ContainerView(
        moid=_moid(context), name="", container=container._moId, types=tuple(type), recursive=recursive
    )
    return _keep(context, view)


@answers("ViewManager", "CreateListView")
def create_list_view(context: Context, thing: Managed, *, obj: list[Any]) -> Any:
    """Make a view of given objects."""
    view = ListView(moid=_moid(context), name="", moids=dict.fromkeys(item._moId for item in obj))
    return _keep(context, view)


@answers("ListView", "ModifyListView")
def modify_list_view(context: Context, thing: ListView, *, add: list[Any], remove: list[Any]) -> list[Any]:
    """Put objects in and take others out; return those that do not exist."""
    _note_change(context)
    for item in remove:
        thing.moids.pop(item._moId, None)
    return _put(context, thing, add)


@answers("ListView", "ResetListView")
def reset_list_view(context: Context, thing: ListView, *, obj: list[Any]) -> list[Any]:
    """Replace its content."""
    _note_change(context)
    thing.moids.clear()
    return _put(context, thing, obj)


@answers("View", "DestroyView")
def destroy_view(context: Context, thing: Managed) -> None:
    """Drop a view."""
    if context.session is not None:
        context.session.objects.pop(thing.moid, None)
        _note_change(context)


def _note_change(context: Context) -> None:
    if context.session is not None:
        context.session.view_changes += 1
        context.lab.changed.notify_all()


def _put(context: Context, view: ListView, items: Iterable[Any]) -> list[Any]:
    unresolved = []
    for item in items:
        if directory.find(context, item._moId) is None:
            unresolved.append(item)
        else:
            view.moids[item._moId] = None
    return unresolved


def _moid(context: Context) -> str:
    return context.session.new_moid() if context.session is not None else ""


def _keep(context: Context, view: Managed) -> Any:
    if context.session is not None:
        context.session.objects[view.moid] = view
    return view
