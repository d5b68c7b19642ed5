"""Make values of the kept parts of a bulk answer straight from its elements.

A table says which fields are kept of which types. The rest of an answer, most of it, is skipped: no value is
made of it. A value has the API's type and its kept fields alone; texts, numbers and ids of objects are plain.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from sys import intern
from typing import Any
from xml.etree.ElementTree import Element

from pyVmomi import VmomiSupport

from vgpu_cfg.vsphere.wire.leaves import TYPE_ATTRIBUTE, converter, leaf_maker

Read = Callable[[Element], Any]

_NAMESPACE = f"{{{VmomiSupport.XMLNS_VMODL_BASE}}}"
_SHORT = 24
_NUMBERS = ("int", "long", "short", "byte")


class Moid(str):
    """The id of a managed object that a property refers to, for which pyvmomi has a stub."""

    __slots__ = ()

    @property
    def _moId(self) -> str:
        return str(self)


@dataclass(frozen=True, slots=True)
class Kept:
    """The fields that are kept of a type, by its vmodl name, and of its subtypes.

    `inner` says of fields that hold parts which of these are kept. If several rows fit a value's type, the
    first one counts; a value that none fits is left out.
    """

    type_name: str
    fields: tuple[str, ...] = ()
    inner: Mapping[str, Shape] = field(default_factory=dict)

    @property
    def kind(self) -> Any:
        """The type."""
        return VmomiSupport.GetVmodlType(self.type_name)


Shape = tuple[Kept, ...]


class Keeper:
    """Makes what reads the kept values of one server's answers. `look_up` finds a type by its wire name."""

    def __init__(self, look_up: Callable[[str], Any]) -> None:
        self._look_up = look_up
        self._moids: dict[str, Moid] = {}

    def reader(self, type_name: str, path: str, shapes: Mapping[str, Shape]) -> Read | None:
        """Return what reads the value of a property, None where its parts are in no table."""
        declared = _declared(type_name, path)
        shape = shapes.get(path.partition("[")[0], ())
        is_one = "[" in path or not issubclass(declared, list)
        kind = declared.Item if issubclass(declared, list) else declared
        if not shape and issubclass(kind, VmomiSupport.DataObject):
            return None
        read = self._reader(kind, shape)
        return read if is_one else _each(read)

    def _reader(self, declared: Any, shape: Shape) -> Read:
        if issubclass(declared, VmomiSupport.DataObject):
            return self._object_reader(declared, shape)
        if issubclass(declared, VmomiSupport.ManagedObject):
            return leaf_maker(self._moid)
        return _any_leaf if declared is object else leaf_maker(_plain_converter(declared))

    def _moid(self, text: str) -> Moid:
        """Return an id, which thousands of objects may refer to, as one and the same text."""
        return self._moids.get(text) or self._moids.setdefault(text, Moid(text))

    def _object_reader(self, declared: Any, shape: Shape) -> Read:
        makers: dict[str | None, Read] = {}

        def read(element: Element) -> Any:
            said = element.get(TYPE_ATTRIBUTE)
            make = makers.get(said)
            if make is None:
                kind = declared if said is None else self._look_up(said)
                kept = next((row for row in shape if issubclass(kind, row.kind)), None)
                make = makers[said] = _nothing if kept is None else self._maker(kind, kept)
            return make(element)

        return read

    def _maker(self, kind: Any, kept: Kept) -> Read:
        names = (*kept.fields, *kept.inner)
        infos = {name: kind._GetPropertyInfo(name) for name in names}
        lists = {name for name, info in infos.items() if issubclass(info.type, list)}
        starts = {name: () if name in lists else None for name in names}
        made_kind: Any = type(kind.__name__, (kind,), {**starts, "__module__": __name__})
        slots: dict[str, tuple[str, Read, bool]] = {}
        for name, info in infos.items():
            of_one = info.type.Item if name in lists else info.type
            read = self._reader(of_one, kept.inner.get(name, ()))
            slots[_NAMESPACE + name] = (name, read, name in lists)
        new = kind.__new__

        def make(element: Element) -> Any:
            made = new(made_kind)
            fields: dict[str, Any] = made.__dict__
            for child in element:
                slot = slots.get(child.tag)
                if slot is None:
                    continue
                name, read, is_list = slot
                value = read(child)
                if not is_list:
                    fields[name] = value
                elif value is not None:
                    fields.setdefault(name, []).append(value)
            return made

        return make


def _declared(type_name: str, path: str) -> Any:
    """Return the type that the API gives a property. Raises AttributeError for one that it has not."""
    owner: Any = VmomiSupport.GetVmodlType(type_name)
    for step in path.partition("[")[0].split("."):
        owner = owner._GetPropertyInfo(step).type
    return owner


def _each(read: Read) -> Read:
    """Return what reads a list whose elements `read` reads."""

    def read_all(element: Element) -> list[Any]:
        return [value for child in element if (value := read(child)) is not None]

    return read_all


def _nothing(element: Element) -> None:
    del element


def _plain_converter(kind: Any) -> Callable[[str], Any]:
    """Return what makes a plain value of a text: a word of an enumeration stays a text, known here or not."""
    if kind is bool:
        return converter(kind)
    if issubclass(kind, int):
        return int
    return _shared if issubclass(kind, str) else converter(kind)


def _shared(text: str) -> str:
    """Return a short text, which is likely to come again, as one and the same."""
    return intern(text) if len(text) <= _SHORT else text


_text = leaf_maker(str)
_number = leaf_maker(int)
_truth = leaf_maker(converter(bool))


def _any_leaf(element: Element) -> Any:
    """Read a value that states its type; all but numbers and booleans are text."""
    said = (element.get(TYPE_ATTRIBUTE) or "").rpartition(":")[2]
    if said == "boolean":
        return _truth(element)
    return _number(element) if said in _NUMBERS else _text(element)
