"""Conversion of managed objects to JSON and back.

Conversion of pyvmomi's values to JSON and back.

A data object is kept by the fields that its type declares and that are set; values other than words, numbers
and data objects are kept as their XML. So nothing is kept that the wire does not know.
"""

from __future__ import annotations

import dataclasses
import types
from functools import cache
from typing import Any, Final, Union, get_args, get_origin, get_type_hints

from pyVmomi import SoapAdapter, VmomiSupport, vmodl

from vgpu_cfg.lab.state import host as host_state
from vgpu_cfg.lab.state import inventory as state
from vgpu_cfg.lab.state import vm as vm_state
from vgpu_cfg.lab.state.managed import Managed

TYPE = "$type"
TUPLE = "$tuple"
KEYED = "$keyed"

_KINDS: dict[str, type[Managed]] = {
    kind.__name__: kind
    for kind in (
        state.Folder, state.StoragePod, state.Datacenter, state.Cluster, state.ResourcePool, state.Datastore,
        state.DistributedSwitch, state.Network, state.Task, state.PastEvent, state.Alarm, host_state.Host,
        vm_state.Snapshot, vm_state.VirtualMachine,
    )
}  # fmt: skip

_HINTS: dict[type, dict[str, Any]] = {}
_NAMES: dict[type, tuple[str, ...]] = {}

_NOT_KEPT = frozenset({"seed"})
_PLAIN = frozenset({str, int, float, bool, type(None)})

KIND = "$kind"
XML = "$xml"

_BASIC = (bool, int, float, str)


def encode_object(thing: Managed) -> dict[str, Any]:
    """Return a managed object as JSON values. A VM's devices are made if they were not yet."""
    if isinstance(thing, vm_state.VirtualMachine):
        _ = thing.devices
    kept = (name for name in _names(type(thing)) if name not in _NOT_KEPT)
    return {TYPE: type(thing).__name__, **{name: _encode(getattr(thing, name)) for name in kept}}


def decode_object(parts: dict[str, Any]) -> Managed:
    """Return the managed object of JSON values."""
    kind = _KINDS[parts[TYPE]]
    hints = _hints(kind)
    return kind(**{name: _decode(value, hints[name]) for name, value in parts.items() if name != TYPE})


def encode_values(values: dict[str, Any]) -> Any:
    """Return plain fields of the state as JSON values."""
    return {name: _encode(value) for name, value in values.items()}


def decode_values(values: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of the state."""
    hints = _hints(state.LabState)
    return {name: _decode(value, hints[name]) for name, value in values.items()}


def _encode(value: Any) -> Any:
    kind: Any = type(value)
    if kind in _PLAIN:  # nearly all are
        return value
    if kind is list:
        return [_encode(item) for item in value]
    if isinstance(value, tuple):
        return {TUPLE: [_encode(item) for item in value]}
    if isinstance(value, dict):
        if all(isinstance(key, str) and not key.startswith("$") for key in value):
            return {key: _encode(item) for key, item in value.items()}
        return {KEYED: [[key, _encode(item)] for key, item in value.items()]}
    if dataclasses.is_dataclass(kind):
        return {name: _encode(getattr(value, name)) for name in _names(kind)}
    if isinstance(value, (int, float, str)):
        return kind.__mro__[1](value)
    return encode_value(value)


def _decode(value: Any, hint: Any) -> Any:
    if isinstance(value, dict):
        if KIND in value or XML in value:
            return decode_value(value)
        if TUPLE in value:
            inner = get_args(hint)
            items = [_decode(item, inner[0] if inner else Any) for item in value[TUPLE]]
            return tuple(items)
        kind = _dataclass_of(hint)
        if kind is not None:
            hints = _hints(kind)
            return kind(**{name: _decode(item, hints[name]) for name, item in value.items()})
        inner = get_args(hint)
        of = inner[1] if get_origin(hint) is dict and len(inner) > 1 else Any
        if KEYED in value:
            return {key: _decode(item, of) for key, item in value[KEYED]}
        return {key: _decode(item, of) for key, item in value.items()}
    if isinstance(value, list):
        inner = get_args(hint)
        return [_decode(item, inner[0] if inner else Any) for item in value]
    return value


def _dataclass_of(hint: Any) -> Any:
    if dataclasses.is_dataclass(hint):
        return hint
    if get_origin(hint) in (Union, types.UnionType):
        return next((found for arg in get_args(hint) if (found := _dataclass_of(arg)) is not None), None)
    return None


def _names(kind: Any) -> tuple[str, ...]:
    if kind not in _NAMES:
        _NAMES[kind] = tuple(field.name for field in dataclasses.fields(kind))
    return _NAMES[kind]


def _hints(kind: type) -> dict[str, Any]:
    if kind not in _HINTS:
        _HINTS[kind] = get_type_hints(kind)
    return _HINTS[kind]


def encode_value(value: Any) -> dict[str, Any]:
    """Return a value as a JSON object that has KIND or XML."""
    kind: Any = type(value)
    if not isinstance(value, VmomiSupport.DataObject) or issubclass(kind, _IN_THEIR_OWN_WAY):
        return {XML: _to_xml(value)}
    kept: dict[str, Any] = {KIND: kind.__name__}
    for name, declared, item in _fields(kind):
        field = getattr(value, name)
        if field is None or (not field and isinstance(field, list)):
            continue
        if item is None:
            kept[name] = _encode_field(field, declared)
        elif isinstance(field, list):
            kept[name] = [_encode_field(one, item) for one in field]
        else:
            kept[name] = {XML: _to_xml(field)}
    return kept


def decode_value(kept: dict[str, Any]) -> Any:
    """Return the value of such a JSON object."""
    if XML in kept:
        return SoapAdapter.Deserialize(kept[XML], object, None)
    kind: Any = VmomiSupport.GetVmodlType(kept[KIND])
    made = kind.__new__(kind)
    fields, unset, arrays = made.__dict__, *_unset(kind)
    fields.update(unset)
    for name, array in arrays:
        fields[name] = array()
    for name, declared, item in _fields(kind):
        if name not in kept:
            continue
        one = kept[name]
        if isinstance(one, list):
            fields[name].extend([_decode_field(each, item) for each in one])
        else:
            fields[name] = _decode_field(one, declared)
    return made


def _encode_field(value: Any, declared: Any) -> Any:
    if isinstance(value, _BASIC) and declared is not object:
        kind: Any = type(value)
        return _basic(kind)(value)
    return encode_value(value)


def _decode_field(kept: Any, declared: Any) -> Any:
    if isinstance(kept, dict):
        return decode_value(kept)
    return kept if type(kept) is declared else declared(kept)


@cache
def _basic(kind: Any) -> type:
    return next(one for one in _BASIC if issubclass(kind, one))


@cache
def _fields(kind: Any) -> tuple[tuple[str, Any, Any], ...]:
    """Return a type's declarations: names, types, and the types of items of arrays."""
    return tuple(
        (info.name, info.type, info.type.Item if issubclass(info.type, list) else None)
        for info in kind._GetPropertyList()
    )


@cache
def _unset(kind: Any) -> tuple[dict[str, Any], tuple[tuple[str, Any], ...]]:
    """Return the content of a new object of a type: values, and its empty arrays' types."""
    fields = vars(kind())
    arrays = tuple((name, type(value)) for name, value in fields.items() if isinstance(value, list))
    return {name: value for name, value in fields.items() if not isinstance(value, list)}, arrays


def _to_xml(value: Any) -> str:
    info = VmomiSupport.Object(name="value", type=object, version=_VERSION, flags=0)
    return str(SoapAdapter.SerializeToStr(value, info, _VERSION))


_IN_THEIR_OWN_WAY: Final = (vmodl.MethodFault, SoapAdapter.LocalizedMethodFault)
"""Faults: pyvmomi writes and reads them otherwise than other data objects."""
_VERSION: Final = VmomiSupport.newestVersions.GetName("vim")
