"""Which objects a filter spec means: its object sets, followed along their traversals."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any

from pyVmomi import vmodl

from vgpu_cfg.lab.api.references import vim_class, wire_type
from vgpu_cfg.lab.renderers.tables import table_of
from vgpu_cfg.lab.rules.refusals import object_gone
from vgpu_cfg.lab.simulation import directory
from vgpu_cfg.lab.simulation.context import Context
from vgpu_cfg.lab.state.inventory import Managed

_TraversalSpec = vmodl.query.PropertyCollector.TraversalSpec


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
    for reference in value if isinstance(value, list) else [value]:
        reached = directory.find(context, reference._moId) if reference is not None else None
        if reached is not None:
            yield reached
