"""Decode the bytes of an answer many times faster than pyvmomi's own reader.

Those of a call are the same that it makes: of the types that pyvmomi describes, unset where it leaves them
unset, and an answer that it refuses is refused here. The description of a type (fields, defaults, conversion
of texts) is looked up once, and values are made without a check of each.

Of a page of properties only the kept part is made, object by object: a table (`Kept`) lists the fields that
are kept of each type. The rest of an answer, most of it, is skipped: no value is made of it. A value has the
API's type and its kept fields alone; texts, numbers and ids of objects are plain.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from sys import intern
from typing import Any
from xml.etree.ElementTree import Element, TreeBuilder, XMLParser, XMLPullParser

from pyVmomi import SoapAdapter, VmomiSupport, vmodl

from vgpu_cfg.vsphere.wire.leaves import TYPE_ATTRIBUTE, Make, converter, leaf_maker, split_tag

Read = Callable[[Element], Any]


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


_ENVELOPE = "{http://schemas.xmlsoap.org/soap/envelope/}"
_BODY = f"{_ENVELOPE}Body"
_OF_A_FAULT = "Fault"
_VIM = f"{{{VmomiSupport.XMLNS_VMODL_BASE}}}"
_RETURNED = f"{_VIM}returnval"
_PAGE = f"{_BODY}/*/{_RETURNED}"
_OBJECTS, _TOKEN, _OBJECT = f"{_VIM}objects", f"{_VIM}token", f"{_VIM}obj"
_PROPERTY, _NAME, _VALUE = f"{_VIM}propSet", f"{_VIM}name", f"{_VIM}val"
_MISSING = f"{_VIM}missingSet"
_MISSING_PROPERTY: Any = vmodl.query.PropertyCollector.MissingProperty
_PIECE = 1 << 15
"""So many bytes of a page are parsed at a time: they are read while they lie in the processor's caches."""
_LOCALIZED = VmomiSupport.GetVmodlType("vmodl.LocalizedMethodFault")
_NAMES_BY_THEMSELVES = (VmomiSupport.ManagedMethod, VmomiSupport.PropertyPath, type)
"""Types whose values are described by their text: the server's statement of their type does not count."""


Found = tuple[str, str, dict[str, Any], dict[str, Any]]
"""An object of a page: its WSDL type, its id, its properties by their paths, and why others were refused."""


_text = leaf_maker(str)


class UnreadableAnswer(ValueError):
    """An answer that is no SOAP, or does not have the types that the API gives it."""


class Decoder:
    """Reads the answers of one server at one version; the objects in them are called on `stub`."""

    def __init__(self, stub: Any) -> None:
        self._stub = stub
        untyped: Any = SoapAdapter.SoapDeserializer
        self._lookup: Callable[..., Any] = untyped(stub).LookupWsdlType
        self._makers: dict[tuple[Any, bool], Make] = {}
        self._dynamic: dict[tuple[str, str], Any] = {}
        self._keeper = Keeper(lambda said: self._kind(object, said, _OBJECTS))
        self._readers: dict[tuple[str, int], dict[str, Read | None]] = {}

    def read(self, answer: bytes, result: Any) -> Any:
        """Return the value of an answer, or the fault that it carries.

        Raises UnreadableAnswer.
        """
        with _uncollected(), _readable():
            parser: XMLPullParser[Any] = XMLPullParser(("start",))
            parser.feed(answer)
            root = next((_element(event) for event in parser.read_events()), None)
            parser.close()
            return self._within(_body(root), result)

    def objects(
        self, answer: bytes, readers: Mapping[str, Read], turn: Callable[[str], None]
    ) -> Iterator[Found]:
        """Yield the objects of a page of properties, in its order, while it is parsed.

        `readers` read the properties of their paths, pyvmomi's values are made of the others. `turn` is
        called with the mark of the next page as soon as that is known. Raises UnreadableAnswer, and the fault
        that the answer carries.
        """
        with _uncollected():
            for element in _parsed(answer):
                if element.tag == _OBJECTS:
                    with _readable():
                        found = self._object(element, readers)
                    yield found
                elif element.tag == _TOKEN:
                    turn(element.text or "")
                elif element.tag == f"{_ENVELOPE}{_OF_A_FAULT}":
                    with _readable():
                        fault = self._fault(element)
                    raise fault

    def readers(self, type_name: str, paths: Iterable[str], kept: Mapping[str, Shape]) -> dict[str, Read]:
        """Return what reads the properties of a type whose kept parts are known, by their paths."""
        key = (type_name, id(kept))
        if key not in self._readers:
            self._readers[key] = {}
        known = self._readers[key]
        for path in paths:
            if path not in known:
                known[path] = self._keeper.reader(type_name, path, kept)
        return {path: read for path in paths if (read := known[path]) is not None}

    def _object(self, element: Element, readers: Mapping[str, Read]) -> Found:
        type_name = moid = ""
        values, faults = dict[str, Any](), dict[str, Any]()
        for child in element:
            tag = child.tag
            if tag == _PROPERTY:
                name, told = child.findtext(_NAME, ""), child.find(_VALUE)
                if told is None:
                    continue  # some servers send what is unset as an empty value
                read = readers.get(name)
                value = self._value(object, told) if read is None else read(told)
                if value is not None:
                    values[name] = value
            elif tag == _OBJECT:
                type_name, moid = child.attrib["type"].rpartition(":")[2], child.text or ""
            elif tag == _MISSING:
                missing = self._value(_MISSING_PROPERTY, child)
                faults[missing.path] = missing.fault
        return type_name, moid, values, faults

    def _within(self, body: Element, result: Any) -> Any:
        for element in body:
            if element.tag == f"{_ENVELOPE}{_OF_A_FAULT}":
                return self._fault(element)
            if element.tag.endswith("Response"):
                return self._result(element, result)
        return None

    def _result(self, response: Element, result: Any) -> Any:
        if not issubclass(result, list):
            return self._value(result, response[0]) if len(response) else None
        found = result()
        for element in response:
            value = self._value(result, element)
            if isinstance(value, list):
                return value
            found.append(value)
        return found

    def _fault(self, element: Element) -> Any:
        fault = None
        for one in element.iterfind("detail/*"):
            namespace, name = split_tag(one.tag)
            fault = self._value(self._lookup(namespace, name.removesuffix(_OF_A_FAULT)), one, is_bare=True)
            break
        if fault is None:
            fault = vmodl.RuntimeFault()
        fault.msg = element.findtext("faultstring", "")
        return fault

    def _value(self, declared: Any, element: Element, *, is_bare: bool = False) -> Any:
        kind = self._kind(declared, element.get(TYPE_ATTRIBUTE), element.tag)
        return self._maker(kind, is_bare=is_bare)(element)

    def _kind(self, declared: Any, said: str | None, tag: str) -> Any:
        """Return the type of an element: its own statement takes precedence over the declaration."""
        kind = declared
        if said is None:
            if issubclass(kind, list):
                kind = kind.Item
        elif kind not in _NAMES_BY_THEMSELVES:
            found = self._said(said, tag)
            if not (issubclass(found, list) and issubclass(kind, list)):
                kind = found
        widened: Any = VmomiSupport.GetCompatibleType
        return widened(kind, self._stub.version)

    def _said(self, said: str, tag: str) -> Any:
        """Look a type up by its name on the wire.

        A prefix is passed over: the names of XML Schema's own types begin with a small letter, and no
        other's do.
        """
        name = said.rpartition(":")[2]
        namespace = VmomiSupport.XMLNS_XSD if name[:1].islower() else split_tag(tag)[0]
        key = (namespace, name)
        found = self._dynamic.get(key)
        if found is None:
            found = self._dynamic[key] = self._lookup(namespace, name, True)
        return found

    def _maker(self, kind: Any, *, is_bare: bool = False) -> Make:
        """Return the maker of a type's values; with `is_bare` a fault lacks its localized message."""
        key = (kind, is_bare)
        found = self._makers.get(key)
        if found is None:
            found = self._makers[key] = self._made_for(kind, is_bare=is_bare)
        return found

    def _made_for(self, kind: Any, *, is_bare: bool) -> Make:
        if issubclass(kind, VmomiSupport.ManagedObject):
            return self._reference
        if issubclass(kind, list):
            return self._list_maker(kind)
        if not issubclass(kind, VmomiSupport.DataObject):
            return leaf_maker(converter(kind))
        if kind is _LOCALIZED or (issubclass(kind, Exception) and not is_bare):
            make = self._object_maker(_LOCALIZED)
            return lambda element: _delocalized(make(element))
        return self._object_maker(kind)

    def _reference(self, element: Element) -> Any:
        namespace = split_tag(element.tag)[0]
        kind = self._said(element.attrib["type"], f"{{{namespace}}}")
        guid = element.get("serverGuid")
        if guid is not None and self._stub.SupportServerGUIDs():
            guid = None
        return kind(_text(element), self._stub, guid)

    def _list_maker(self, kind: Any) -> Make:
        def make(element: Element) -> Any:
            return kind([self._value(kind.Item, child) for child in element])

        return make

    def _object_maker(self, kind: Any) -> Make:
        plain, lists = _starts_as(kind)
        slots: dict[str, _Slot] = {}
        is_localized = kind is _LOCALIZED
        new = kind.__new__

        def make(element: Element) -> Any:
            made = new(kind)
            fields: dict[str, Any] = made.__dict__
            fields.update(plain)
            for name, array in lists:
                fields[name] = array()
            for child in element:
                tag = child.tag
                slot = slots.get(tag)
                if slot is None:
                    slot = slots[tag] = self._slot(kind, tag, is_localized=is_localized)
                said = child.get(TYPE_ATTRIBUTE)
                if said is None:
                    value = slot.make(child)
                    if slot.is_sure:
                        fields[slot.name] = value
                        continue
                else:
                    maker = slot.makers.get(said)
                    if maker is None:
                        kind_said = self._kind(slot.declared, said, tag)
                        maker = slot.makers[said] = self._maker(kind_said, is_bare=slot.is_bare)
                    value = maker(child)
                if slot.is_list and not isinstance(value, list):
                    fields[slot.name].append(value)
                    continue
                if value.__class__ not in slot.fitting or not value:
                    VmomiSupport.CheckField(slot.info, value)
                    slot.fitting.add(value.__class__)
                fields[slot.name] = value
            return made

        return make

    def _slot(self, kind: Any, tag: str, *, is_localized: bool) -> _Slot:
        name = split_tag(tag)[1]
        info = kind._GetPropertyInfo(name)
        is_bare = is_localized and name == "fault"
        static = self._kind(info.type, None, tag)
        make = self._maker(static, is_bare=is_bare)
        return _Slot(info, make, is_bare=is_bare, is_sure=_is_plain(info.type) and info.type is static)


@contextmanager
def _uncollected() -> Iterator[None]:
    """Keep the garbage collector out while values are made: it would look at all that were, time and again.

    Nothing is lost by it: neither elements nor values refer to each other in circles.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


class _Slot:
    """One field of a type: what pyvmomi says of it, and what makes values that do not say their type."""

    __slots__ = ("declared", "fitting", "info", "is_bare", "is_list", "is_sure", "make", "makers", "name")

    def __init__(self, info: Any, make: Make, *, is_bare: bool, is_sure: bool) -> None:
        self.info = info
        self.name: str = info.name
        self.declared = info.type
        self.is_list = issubclass(info.type, list)
        self.is_bare = is_bare
        self.is_sure = is_sure
        """Whether the made value always fits: no check is needed."""
        self.fitting: set[type] = set()
        """Types of values that were checked and fit."""
        self.make = make
        self.makers: dict[str, Make] = {}
        """The functions that make values with a stated type, by that type."""


def _starts_as(kind: Any) -> tuple[Mapping[str, Any], tuple[tuple[str, Any], ...]]:
    """Return the fields of a new value of a type, and those that start as a list of their own."""
    fields: dict[str, Any] = vars(kind())
    infos = {info.name: info for info in kind._GetPropertyList()}
    lists = tuple((name, info.type) for name, info in infos.items() if issubclass(info.type, list))
    return {name: fields[name] for name in infos if not isinstance(fields[name], list)}, lists


def _is_plain(kind: Any) -> bool:
    return issubclass(kind, (str, int, float, datetime, bytes)) and not issubclass(kind, type)


def _delocalized(value: Any) -> Any:
    """Return the fault inside of what localises it, with its message."""
    value.fault.msg = value.localizedMessage
    return value.fault


@contextmanager
def _readable() -> Iterator[None]:
    """Raise UnreadableAnswer for errors while an answer is read."""
    try:
        yield
    except (
        SyntaxError,
        AttributeError,
        KeyError,
        TypeError,
        ValueError,
        ArithmeticError,
        RecursionError,
    ) as error:
        raise UnreadableAnswer(str(error)) from error


def _parsed(answer: bytes) -> Iterator[Element]:
    """Yield the parts of a page once each is whole, or the fault; the tree never holds a page."""
    builder = TreeBuilder()
    parser = XMLParser(target=builder)  # noqa: S314 - what entities may grow to, expat limits itself
    root: Any = None
    page: Any = None
    for start in range(0, len(answer), _PIECE):
        with _readable():
            parser.feed(answer[start : start + _PIECE])
        if page is None:
            # CPython gives the root away before it has ended; to be told of each element takes longer.
            root = builder.close()
            page = None if root is None else root.find(_PAGE)
        if page is not None and len(page) > 1:
            whole = page[:-1]
            del page[:-1]
            yield from whole
    with _readable():
        parser.close()
        body = _body(root)
    page = body.find(f"*/{_RETURNED}")
    yield from body if page is None else page


def _body(root: Element | None) -> Element:
    body = None if root is None else root.find(_BODY)
    if body is None:
        raise ValueError("it is not SOAP")
    return body


def _element(event: Any) -> Element:
    """Return what begins in an event of the parser."""
    element: Element = event[1]
    return element


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
            slots[_VIM + name] = (name, read, name in lists)
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


_SHORT = 24


_NUMBERS = ("int", "long", "short", "byte")


_number = leaf_maker(int)


_truth = leaf_maker(converter(bool))


def _any_leaf(element: Element) -> Any:
    """Read a value that states its type; all but numbers and booleans are text."""
    said = (element.get(TYPE_ATTRIBUTE) or "").rpartition(":")[2]
    if said == "boolean":
        return _truth(element)
    return _number(element) if said in _NUMBERS else _text(element)
