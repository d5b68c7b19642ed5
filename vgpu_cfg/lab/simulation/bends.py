"""Carry out the lies that are data: change answers and requests, reject methods, drop events.

Without such a lie, values pass unchanged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeVar

from pyVmomi import VmomiSupport, vmodl

from vgpu_cfg.lab.estates.lies import (
    BENDS,
    Answered,
    Bend,
    Change,
    Faulted,
    Guarded,
    Heard,
    Printed,
    Refused,
    Rejected,
    Unlogged,
    nothing,
)
from vgpu_cfg.lab.simulation.faults import fault_type, make_fault
from vgpu_cfg.lab.state.devices import copy_with, is_set
from vgpu_cfg.lab.state.inventory import LabState, Managed, VirtualMachine

BendT = TypeVar("BendT", bound=Bend)
Changes = Mapping[str, tuple[tuple[str, Change], ...]]
"""The name of a field → the types whose field it is, each with its change."""


@lru_cache(maxsize=64)
def bends_of(lies: frozenset[str], kind: type[BendT]) -> tuple[BendT, ...]:
    """Return the lies of one kind."""
    return tuple(one for lie in sorted(lies) for one in bends_for(lie) if isinstance(one, kind))


def bends_for(lie: str) -> list[Bend]:
    """Return what carries out a lie, nothing where the lab does so in another way."""
    found = BENDS.get(lie, [])
    return found if isinstance(found, list) else [found]


def answered(state: LabState, value: Any) -> Any:
    """Return a method's result as this vCenter has it."""
    bends = bends_of(state.lies, Answered)
    return _changed(value, _by_name(bends)) if bends else value


def at_path(state: LabState, path: Sequence[tuple[Any, str]], key: str | None, value: Any) -> Any:
    """Return a property as this vCenter has it: the types and names of its path, and the key of an item."""
    bends = bends_of(state.lies, Answered)
    for number, (kind, name) in enumerate(path if bends else (), start=1):
        for change in _of(kind, _by_name(bends).get(name, ())):
            if value is None or change is nothing:
                return None
            if number == len(path):
                value = change(value) if key is None else next(iter(change([value])), None)
    return value


def heard(state: LabState, method: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a method as this vCenter takes them."""
    bends = [one for one in bends_of(state.lies, Heard) if one.method == method]
    if not bends:
        return arguments
    return {name: _changed(value, _by_name(bends)) for name, value in arguments.items()}


def refuse(state: LabState, method: str, thing: Managed, arguments: Mapping[str, Any]) -> None:
    """Raise the fault in which a method ends here, if it is one of those."""
    for one in bends_of(state.lies, Rejected):
        if method not in one.method.split("|") or not _has(arguments, one.given):
            continue
        is_stopped = one.running and not (isinstance(thing, VirtualMachine) and thing.is_on)
        is_short = one.most is not None and len(arguments[one.most[0]] or ()) <= one.most[1]
        if not is_stopped and not is_short:
            raise make_fault(one.fault, f"The lab rejects {method}: {', '.join(one.given) or 'always'}.")


def guards(state: LabState, method: str, arguments: Mapping[str, Any]) -> list[str]:
    """Return the privileges that a method requires here in addition."""
    bends = bends_of(state.lies, Guarded)
    return [one.privilege for one in bends if method in one.method.split("|") and _has(arguments, one.given)]


def named(state: LabState, method: str, fault: Any) -> Any:
    """Return the fault in whose place a method ends here."""
    for one in bends_of(state.lies, Faulted):
        if one.method == method and isinstance(fault, fault_type(one.fault)):
            return make_fault(one.instead, getattr(fault, "msg", ""))
    return fault


def refusal_of(
    state: LabState, way: str, command: str, arguments: Mapping[str, Sequence[str]]
) -> tuple[str, ...] | None:
    """Return the lines that an esxcli command fails with here, none if it is unknown; None if it works."""
    for one in bends_of(state.lies, Refused):
        is_meant = f"{command}.".startswith(f"{one.command}." if one.command else "")
        if is_meant and one.way in ("", way) and len(arguments.get("depot", ("",))) >= one.depots:
            lines: tuple[str, ...] = one.lines
            return lines
    return None


def printed(state: LabState, words: Sequence[str], text: str) -> str:
    """Return the output of a command in a host's shell."""
    for one in bends_of(state.lies, Printed):
        if " ".join(words).startswith(one.command):
            text = one.change(text)
    return text


def is_logged(state: LabState, event: str) -> bool:
    """Whether events of a type are kept."""
    return all(event not in one.events for one in bends_of(state.lies, Unlogged))


def _by_name(bends: Sequence[Answered | Heard]) -> Changes:
    found: dict[str, tuple[tuple[str, Change], ...]] = {}
    for field, change in ((field, one.change) for one in bends for field in one.field.split("|")):
        kind, _, name = field.partition(".")
        found[name] = (*found.get(name, ()), (kind, change))
    return found


def _of(kind: Any, changes: Sequence[tuple[str, Change]]) -> Iterator[Change]:
    names = {getattr(base, "_wsdlName", "") for base in kind.__mro__} if changes else ()
    return (change for name, change in changes if name in names)


def _changed(value: Any, changes: Changes) -> Any:
    """Return a value with its parts changed; itself if nothing differs, since parts may be the lab's own."""
    if isinstance(value, list):
        made = [_changed(one, changes) for one in value]
        return value if all(a is b for a, b in zip(value, made, strict=True)) else type(value)(made)
    if not isinstance(value, VmomiSupport.DataObject):
        return value
    new: dict[str, Any] = {}
    for info in value._GetPropertyList():
        known = getattr(value, info.name)
        if not is_set(known):
            continue
        made = _changed(known, changes)
        for change in _of(type(value), changes.get(info.name, ())):
            made = change(made)
        if made is not known:
            new[info.name] = info.type() if made is None and issubclass(info.type, list) else made
    return copy_with(value, **new) if new else value


def _has(value: Any, given: Sequence[str]) -> bool:
    return not given or {*given} <= {*_parts(value)}


def _parts(value: Any) -> Iterator[str]:
    """Yield the types in a request, and the fields that are set, without and with their values."""
    if isinstance(value, (list, dict)):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _parts(one)
    elif isinstance(value, VmomiSupport.DataObject) and not isinstance(value, vmodl.MethodFault):
        kinds = [base._wsdlName for base in type(value).__mro__ if hasattr(base, "_wsdlName")]
        yield from kinds
        for info in value._GetPropertyList():
            known = getattr(value, info.name)
            if is_set(known):
                for kind in kinds:
                    yield from (f"{kind}.{info.name}", f"{kind}.{info.name}={known}")
                yield from _parts(known)
