"""The property collector: objects along traversals, their properties, and their updates since a version.

A filter remembers, as text, its last report of each property; an update is any difference from it. Text,
because pyvmomi's data objects compare by identity.
"""

from __future__ import annotations

import itertools
import uuid
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from io import StringIO
from typing import Any

from pyVmomi import VmomiSupport, vim, vmodl

from vgpu_cfg.lab.api.answer import VCenterSerializer
from vgpu_cfg.lab.api.references import Service, reference, vim_class, wire_type
from vgpu_cfg.lab.estates.lies import SOON_SECONDS
from vgpu_cfg.lab.renderers.table import Reader, invalid_property
from vgpu_cfg.lab.renderers.tables import table_of
from vgpu_cfg.lab.rules.refusals import no_permission, object_gone
from vgpu_cfg.lab.simulation import directory
from vgpu_cfg.lab.simulation.directory import ContainerView, ListView
from vgpu_cfg.lab.simulation.operations import Context, answers
from vgpu_cfg.lab.state.inventory import Managed, Task, VirtualMachine

ANONYMOUS = "System.Anonymous"

_Collector = vmodl.query.PropertyCollector

_TraversalSpec = vmodl.query.PropertyCollector.TraversalSpec

PAGE = 2_000
"""How many objects one answer holds where the client sets no limit of its own, or a larger one."""

_Result = vmodl.query.PropertyCollector.RetrieveResult


@dataclass(slots=True)
class Reading:
    """One object with the paths asked of it and their readers."""

    reference: Any
    thing: Managed
    readers: dict[str, Reader] = field(default_factory=dict)

    def content(self, context: Context) -> Any:
        """Read everything into an ObjectContent."""
        properties, missing = [], []
        for path, reader in self.readers.items():
            fault = self.refusal(context, reader)
            if fault is not None:
                missing.append(_Collector.MissingProperty(path=path, fault=fault))
                continue
            value = reader.read(context, self.thing)
            if value is not None:
                properties.append(vmodl.DynamicProperty(name=path, val=value))
        return _Collector.ObjectContent(obj=self.reference, propSet=properties, missingSet=missing)

    def refusal(self, context: Context, reader: Reader) -> Any:
        """Return the fault that keeps a property from the caller, None where it may be read."""
        if reader.privilege == ANONYMOUS:
            return None
        if context.session is None:
            return not_authenticated(self.reference, reader.privilege)
        if context.lab.lacks(self.thing.moid, reader.privilege):
            return no_permission(self.reference, reader.privilege)
        return None


def not_authenticated(subject: Any, privilege: str) -> Any:
    """Return the fault of a call without a session."""
    return vim.fault.NotAuthenticated(
        object=subject, privilegeId=privilege, msg="The session is not authenticated."
    )


def read_specs(context: Context, specs: list[Any], *, passes_over: bool = False) -> Iterator[Reading]:
    """Yield the data that the filter specs request, object by object.

    Raises InvalidProperty for a path that a type does not have, ManagedObjectNotFound as `select` does,
    NotAuthenticated before login (some properties are open to everyone).
    """
    for spec in specs:
        readers: dict[str, dict[str, Reader]] = {}
        for found in select(context, spec, passes_over=passes_over):
            kind = wire_type(found)
            if kind not in readers:
                readers[kind] = _readers(context, spec, kind)
                _require_session(context, found, readers[kind])
            if _is_asked(spec, kind):
                yield Reading(reference(found), found, readers[kind])


def _is_asked(spec: Any, kind: str) -> bool:
    return any(issubclass(vim_class(kind), wanted.type) for wanted in spec.propSet)


def _readers(context: Context, spec: Any, kind: str) -> dict[str, Reader]:
    table = table_of(kind)
    found: dict[str, Reader] = {}
    for wanted in spec.propSet:
        if not issubclass(vim_class(kind), wanted.type):
            continue
        paths = table.paths_at(context.version) if wanted.all else wanted.pathSet
        found.update({path: table.reader(path, context.version) for path in paths})
    return found


def _require_session(context: Context, thing: Managed, readers: dict[str, Reader]) -> None:
    if context.session is not None:
        return
    for reader in readers.values():
        if reader.privilege != ANONYMOUS:
            raise not_authenticated(reference(thing), reader.privilege)


def select(context: Context, spec: Any, *, passes_over: bool = False) -> Iterator[Managed]:
    """Yield the objects of one filter spec, each once, in the order they are reached.

    Raises ManagedObjectNotFound for a starting object that is gone, unless it is passed over: so the client
    may ask, too (`reportMissingObjectsInResults`).
    """
    passes_over = passes_over or bool(spec.reportMissingObjectsInResults)
    named = {selection.name: selection for start in spec.objectSet for selection in _named(start.selectSet)}
    yielded: set[str] = set()
    walked: set[tuple[str, int]] = set()
    for start in spec.objectSet:
        thing = directory.find(context, start.obj._moId)
        if thing is None:
            if not passes_over:
                raise object_gone(start.obj)
            continue
        queue = deque([(thing, not start.skip, start.selectSet)])
        while queue:
            at, wanted, selections = queue.popleft()
            if wanted and at.moid not in yielded:
                yielded.add(at.moid)
                yield at
            for selection in selections:
                traversal = selection if isinstance(selection, _TraversalSpec) else named.get(selection.name)
                if traversal is None or (at.moid, id(traversal)) in walked:
                    continue
                if not issubclass(vim_class(wire_type(at)), traversal.type):
                    continue
                walked.add((at.moid, id(traversal)))
                queue.extend(
                    (reached, not traversal.skip, traversal.selectSet)
                    for reached in _follow(context, at, traversal.path)
                )


def _named(selections: Iterable[Any]) -> Iterator[Any]:
    """Yield the traversals below, at any depth: a selection elsewhere may refer to them by name."""
    for selection in selections or ():
        if isinstance(selection, _TraversalSpec):
            if selection.name:
                yield selection
            yield from _named(selection.selectSet)


def _follow(context: Context, thing: Managed, path: str) -> Iterator[Managed]:
    value = table_of(wire_type(thing)).reader(path, context.version).read(context, thing)
    for one in value if isinstance(value, list) else [value]:
        reached = directory.find(context, one._moId) if one is not None else None
        if reached is not None:
            yield reached


@answers("PropertyCollector", "RetrievePropertiesEx")
def retrieve_properties_ex(context: Context, thing: Managed, *, specSet: list[Any], options: Any) -> Any:
    """Read, a page at a time; None where nothing matches."""
    limit = options.maxObjects if options is not None and options.maxObjects else PAGE
    readings = list(read_specs(context, specSet))
    return _page(context, iter(readings), len(readings), min(limit, PAGE))


@answers("PropertyCollector", "ContinueRetrievePropertiesEx")
def continue_retrieve_properties_ex(context: Context, thing: Managed, *, token: str) -> Any:
    """Read the next page. A token is good for once."""
    pages = context.session.pages if context.session is not None else {}
    if token not in pages:
        raise vmodl.fault.InvalidArgument(
            invalidProperty="token", msg="A specified parameter was not correct: token"
        )
    readings, count, limit = pages.pop(token)
    return _page(context, readings, count, limit)


@answers("PropertyCollector", "CancelRetrievePropertiesEx")
def cancel_retrieve_properties_ex(context: Context, thing: Managed, *, token: str) -> None:
    """Forget the pages that are left."""
    if context.session is not None:
        context.session.pages.pop(token, None)


@answers("PropertyCollector", "RetrieveProperties")
def retrieve_properties(context: Context, thing: Managed, *, specSet: list[Any]) -> list[Any]:
    """Read everything at once, however much it is."""
    return [reading.content(context) for reading in read_specs(context, specSet)]


def fetch(context: Context, thing: Managed, path: str) -> tuple[Any, Any]:
    """Return one property and the type it is declared as, as pyvmomi's `obj.property` asks for it."""
    if not path.isidentifier():
        raise invalid_property(path)
    reader = table_of(wire_type(thing)).reader(path, context.version)
    subject = Reading(reference(thing), thing)
    fault = subject.refusal(context, reader)
    if fault is not None:
        raise fault
    if context.session is None and reader.privilege != "System.Anonymous":
        raise not_authenticated(subject.reference, reader.privilege)
    return reader.read(context, thing), table_of(wire_type(thing)).kind._GetPropertyInfo(path)


def _page(context: Context, readings: Iterator[Reading], count: int, limit: int) -> Any:
    """Read one page, and keep the rest under a token; None where nothing is left.

    The objects of later pages were chosen with the first; one that is gone by then is left out.
    """
    contents: list[Any] = []
    while count > 0 and not contents:
        contents = [
            reading.content(context)
            for reading in itertools.islice(readings, limit)
            if _is_there(context, reading.thing)
        ]
        count -= limit
    if not contents:
        return None
    token = None
    if count > 0 and context.session is not None:
        token = str(uuid.uuid4())
        context.session.pages[token] = readings, count, limit
    return _Result(objects=contents, token=token)


def _is_there(context: Context, thing: Managed) -> bool:
    objects = context.state.objects
    return thing.moid in objects or thing.moid not in context.state.removed


LONGEST_WAIT = 600.0
"""A wait without a limit of the client's ends after this many seconds with no update, as policies may."""


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
        moid=context.signed_in.new_moid(),
        name="",
        container=container._moId,
        types=tuple(type),
        recursive=recursive,
    )
    return _keep(context, view)


@answers("ViewManager", "CreateListView")
def create_list_view(context: Context, thing: Managed, *, obj: list[Any]) -> Any:
    """Make a view of given objects."""
    view = ListView(
        moid=context.signed_in.new_moid(), name="", moids=dict.fromkeys(item._moId for item in obj)
    )
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
    context.signed_in.objects.pop(thing.moid, None)
    _note_change(context)


def _note_change(context: Context) -> None:
    context.signed_in.view_changes += 1
    context.lab.changed.notify_all()


def _put(context: Context, view: ListView, items: Iterable[Any]) -> list[Any]:
    unresolved = []
    for item in items:
        if directory.find(context, item._moId) is None:
            unresolved.append(item)
        else:
            view.moids[item._moId] = None
    return unresolved


def _keep(context: Context, view: Managed) -> Any:
    context.signed_in.objects[view.moid] = view
    return view
