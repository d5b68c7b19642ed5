"""Values without parts: converted from an element's text as pyvmomi does, and set in data objects by path.

A value in one of vSphere's data objects is written and read by its path.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any
from xml.etree.ElementTree import Element

from pyVmomi import Iso8601, VmomiSupport
from pyVmomi.VmomiSupport import DataObject

from vgpu_cfg.model.observed.vm import SettingValue

Make = Callable[[Element], Any]

TYPE_ATTRIBUTE = "{http://www.w3.org/2001/XMLSchema-instance}type"
"""In which an element says its type."""
_BOOLEANS = {"1": True, "true": True, "0": False, "false": False}

_FIRST_YEAR, _LAST_YEAR = 1900, 9000
"""Moments are compared, moved and written in other zones; at the ends of Python's calendar that fails."""


def split_tag(tag: str) -> tuple[str, str]:
    """Return namespace and name of a tag."""
    namespace, _, name = tag.rpartition("}")
    return namespace[1:], name


def api_words() -> frozenset[str]:
    """Return the names of all types of the vSphere API, and the values of its enumerations."""
    names = {*VmomiSupport._wsdlDefMap, *VmomiSupport._wsdlTypeMap}  # noqa: SLF001 - no other list of them
    kinds = [VmomiSupport.GetWsdlType(*name) for name in names]
    values = (getattr(kind, "values", ()) for kind in kinds if issubclass(kind, VmomiSupport.Enum))
    return frozenset(name for _, name in names).union(*values)


def leaf_maker(convert: Callable[[str], Any]) -> Make:
    """Return what reads an element without parts by converting its text."""

    def make(element: Element) -> Any:
        if len(element):
            raise TypeError(f"the value of {split_tag(element.tag)[1]} has child elements")
        return convert(element.text or "")

    return make


def converter(kind: Any) -> Callable[[str], Any]:
    """Return what makes a value of a type without parts from its text, as pyvmomi does."""
    if kind is bool:
        return _bool
    if kind is VmomiSupport.binary:
        return lambda text: kind(base64.b64decode(text))
    if kind is datetime:
        return _moment
    if kind is type:
        return _type_named
    if kind is VmomiSupport.ManagedMethod:
        return _method_named
    if issubclass(kind, VmomiSupport.Enum):
        return lambda text: getattr(kind, text)
    return kind  # type: ignore[no-any-return]  # a type that makes its values from text itself


def _bool(text: str) -> bool:
    found = _BOOLEANS.get(text.lower())
    if found is None:
        raise TypeError(f"{text!r} is neither true nor false")
    return found


def _moment(text: str) -> datetime:
    found: datetime | None = Iso8601.ParseISO8601(text)
    if found is None or not _FIRST_YEAR <= found.year <= _LAST_YEAR:
        raise TypeError(f"{text!r} is not a timestamp")
    return found


def _type_named(text: str) -> Any:
    return VmomiSupport.GuessWsdlType(text.rpartition(":")[2]) if text else None


def _method_named(text: str) -> Any:
    name = text.rpartition(":")[2]
    try:
        return VmomiSupport.GuessWsdlMethod(name)
    except KeyError:
        return VmomiSupport.UnknownManagedMethod(name)


def set_path(target: Any, path: str, value: SettingValue) -> None:
    """Set the field of a data object at a dotted path; objects on the way are made where they are not there.

    The names are the API's: "bootOptions.bootDelay".
    """
    *way, last = path.split(".")
    for name in way:
        inner = getattr(target, name)
        if inner is None:
            inner = target._GetPropertyInfo(name).type()
            setattr(target, name, inner)
        target = inner
    setattr(target, last, value)


def leaves_of(target: Any, path: str = "") -> Iterator[tuple[str, SettingValue]]:
    """Yield the fields of a data object that hold plain values, by their dotted paths; lists are left out."""
    for info in target._GetPropertyList():
        value = getattr(target, info.name)
        below = f"{path}.{info.name}" if path else info.name
        if isinstance(value, DataObject):
            yield from leaves_of(value, below)
        elif isinstance(value, bool | int | str):
            yield below, plain(value)


def plain(value: Any) -> SettingValue:
    """Return a value as a plain one; pyvmomi has number and text types of its own."""
    if isinstance(value, bool):
        return value
    return int(value) if isinstance(value, int) else str(value)
