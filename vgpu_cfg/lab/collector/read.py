"""What a filter spec reads of its objects: property values, and what may not be read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from pyVmomi import vim, vmodl

from vgpu_cfg.lab.api.references import reference, vim_class, wire_type
from vgpu_cfg.lab.collector.select import select
from vgpu_cfg.lab.renderers.table import Reader
from vgpu_cfg.lab.renderers.tables import table_of
from vgpu_cfg.lab.rules.refusals import no_permission
from vgpu_cfg.lab.simulation.context import Context
from vgpu_cfg.lab.state.inventory import Managed

ANONYMOUS = "System.Anonymous"

_Collector = vmodl.query.PropertyCollector


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
    """Yield what the filter specs ask for, object by object.

    Raises InvalidProperty for a path that a type does not have, ManagedObjectNotFound as `select` does,
    NotAuthenticated before login (some properties may be read by anybody).
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
