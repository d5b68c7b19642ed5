"""How a value is put into, and read from, one of vSphere's data objects by its path."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyVmomi.VmomiSupport import DataObject

from vgpu_cfg.model.observed.vm import SettingValue


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
