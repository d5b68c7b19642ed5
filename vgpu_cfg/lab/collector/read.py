"""The properties that a filter spec reads of its objects: values, and those that may not be read.

The objects of a filter spec: its object sets, followed along their traversals.

Reading once: RetrievePropertiesEx with its pages, RetrieveProperties, and pyvmomi's Fetch.
"""

from __future__ import annotations

import itertools
import uuid
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from pyVmomi import vim, vmodl

from vgpu_cfg.lab.api.references import reference, vim_class, wire_type
from vgpu_cfg.lab.renderers.table import Reader, invalid_property
from vgpu_cfg.lab.renderers.tables import table_of
from vgpu_cfg.lab.rules.refusals import no_permission, object_gone
from vgpu_cfg.lab.simulation import directory
from vgpu_cfg.lab.simulation.context import Context
from vgpu_cfg.lab.simulation.operations import answers
from vgpu_cfg.lab.state.inventory import Managed

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
