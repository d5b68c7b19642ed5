"""Reading once: RetrievePropertiesEx with its pages, RetrieveProperties, and pyvmomi's Fetch."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Iterator
from typing import Any

from pyVmomi import vmodl

from vgpu_cfg.lab.api.references import reference, wire_type
from vgpu_cfg.lab.collector.read import Reading, not_authenticated, read_specs
from vgpu_cfg.lab.renderers.table import invalid_property
from vgpu_cfg.lab.renderers.tables import table_of
from vgpu_cfg.lab.simulation.context import Context
from vgpu_cfg.lab.simulation.methods import answers
from vgpu_cfg.lab.state.inventory import Managed

PAGE = 2_000
"""How many objects one answer holds where the client sets no limit of its own, or a larger one."""

_Result = vmodl.query.PropertyCollector.RetrieveResult


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
