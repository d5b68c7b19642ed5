"""How pyvmomi's values become JSON, and come back.

A data object is kept by the fields that its type declares and that are set; what is no word, number or
data object is kept as the XML that the wire would carry. So nothing is kept that the wire does not know.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from pyVmomi import SoapAdapter, VmomiSupport, vmodl

KIND = "$kind"
XML = "$xml"

_BASIC = (bool, int, float, str)


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
    """Return what a type declares: names, types, and the types of items where they are arrays."""
    return tuple(
        (info.name, info.type, info.type.Item if issubclass(info.type, list) else None)
        for info in kind._GetPropertyList()
    )


@cache
def _unset(kind: Any) -> tuple[dict[str, Any], tuple[tuple[str, Any], ...]]:
    """Return what a new object of a type has: values, and its empty arrays' types."""
    fields = vars(kind())
    arrays = tuple((name, type(value)) for name, value in fields.items() if isinstance(value, list))
    return {name: value for name, value in fields.items() if not isinstance(value, list)}, arrays


def _to_xml(value: Any) -> str:
    info = VmomiSupport.Object(name="value", type=object, version=_VERSION, flags=0)
    return str(SoapAdapter.SerializeToStr(value, info, _VERSION))


_IN_THEIR_OWN_WAY: Final = (vmodl.MethodFault, SoapAdapter.LocalizedMethodFault)
"""Faults: pyvmomi writes and reads them otherwise than other data objects."""
_VERSION: Final = VmomiSupport.newestVersions.GetName("vim")
