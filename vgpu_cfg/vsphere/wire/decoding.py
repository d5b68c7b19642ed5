"""How the bytes of an answer become pyvmomi's values, many times faster than by its own reader.

The values are the same: those of the types that pyvmomi describes, unset where it leaves them unset, and
an answer that it refuses is refused here. What is known of a type (its fields, what they start as, how a
text becomes a value) is looked up once, and values are made without asking again for each whether it fits.
"""

from __future__ import annotations

import base64
import gc
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Any
from xml.etree.ElementTree import Element, XMLPullParser

from pyVmomi import Iso8601, SoapAdapter, VmomiSupport, vmodl

Make = Callable[[Element], Any]

_ENVELOPE = "{http://schemas.xmlsoap.org/soap/envelope/}"
_TYPE = "{http://www.w3.org/2001/XMLSchema-instance}type"
_BODY = f"{_ENVELOPE}Body"
_OF_A_FAULT = "Fault"
_VIM = f"{{{VmomiSupport.XMLNS_VMODL_BASE}}}"
_RETURNED = f"{_VIM}returnval"
_OBJECTS = f"{_VIM}objects"
_PAGE: Any = vmodl.query.PropertyCollector.RetrieveResult
_PIECE = 1 << 18
"""So many bytes are parsed at a time."""
_LOCALIZED = VmomiSupport.GetVmodlType("vmodl.LocalizedMethodFault")
_BOOLEANS = {"1": True, "true": True, "0": False, "false": False}
_NAMES_BY_THEMSELVES = (VmomiSupport.ManagedMethod, VmomiSupport.PropertyPath, type)
"""Types whose values say what they are by their text: what a server says of their type does not count."""


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

    def read(self, answer: bytes, result: Any) -> Any:
        """Return the value of an answer, or the fault that it carries.

        Raises UnreadableAnswer.
        """
        try:
            with _uncollected():
                return self._read(answer, result)
        except (SyntaxError, AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
            raise UnreadableAnswer(str(error)) from error

    def _read(self, answer: bytes, result: Any) -> Any:
        parser: XMLPullParser[Any] = XMLPullParser(("start",))
        root: Element | None = None
        objects: list[Any] = []
        for at in range(0, len(answer), _PIECE):
            parser.feed(answer[at : at + _PIECE])
            for event in parser.read_events():
                root = _element(event) if root is None else root
            if result is _PAGE and root is not None:
                objects.extend(self._whole_objects(root))
        parser.close()
        body = None if root is None else root.find(_BODY)
        if body is None:
            raise ValueError("it is no SOAP")
        value = self._within(body, result)
        if objects:
            value.objects[:0] = objects
        return value

    def _whole_objects(self, root: Element) -> list[Any]:
        """Take what is there as a whole of a page's objects out of the tree, which never holds a page."""
        page = root.find(f"{_BODY}/*/{_RETURNED}")
        if page is None:
            return []
        whole = page[:-1]
        page[:-1] = [element for element in whole if element.tag != _OBJECTS]
        objects = self._slot(_PAGE, _OBJECTS, is_localized=False).declared
        return [self._value(objects, element) for element in whole if element.tag == _OBJECTS]

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
            namespace, name = _split(one.tag)
            fault = self._value(self._lookup(namespace, name.removesuffix(_OF_A_FAULT)), one, is_bare=True)
            break
        if fault is None:
            fault = vmodl.RuntimeFault()
        fault.msg = element.findtext("faultstring", "")
        return fault

    def _value(self, declared: Any, element: Element, *, is_bare: bool = False) -> Any:
        kind = self._kind(declared, element.get(_TYPE), element.tag)
        return self._maker(kind, is_bare=is_bare)(element)

    def _kind(self, declared: Any, said: str | None, tag: str) -> Any:
        """Return the type that an element has: what it says itself goes before what is declared."""
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
        namespace = VmomiSupport.XMLNS_XSD if name[:1].islower() else _split(tag)[0]
        key = (namespace, name)
        found = self._dynamic.get(key)
        if found is None:
            found = self._dynamic[key] = self._lookup(namespace, name, True)
        return found

    def _maker(self, kind: Any, *, is_bare: bool = False) -> Make:
        """Return what makes values of a type; with `is_bare` a fault stands without what localises it."""
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
            return _leaf_maker(_converter(kind))
        if kind is _LOCALIZED or (issubclass(kind, Exception) and not is_bare):
            make = self._object_maker(_LOCALIZED)
            return lambda element: _delocalized(make(element))
        return self._object_maker(kind)

    def _reference(self, element: Element) -> Any:
        namespace = _split(element.tag)[0]
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
                said = child.get(_TYPE)
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
        name = _split(tag)[1]
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
        """Whether what is made always fits: nothing need be checked."""
        self.fitting: set[type] = set()
        """Types of values that were checked and fit."""
        self.make = make
        self.makers: dict[str, Make] = {}
        """What makes values that say their type, by that type."""


def _starts_as(kind: Any) -> tuple[Mapping[str, Any], tuple[tuple[str, Any], ...]]:
    """Return what the fields of a new value of a type are, and those that start as a list of their own."""
    fields: dict[str, Any] = vars(kind())
    infos = {info.name: info for info in kind._GetPropertyList()}
    lists = tuple((name, info.type) for name, info in infos.items() if issubclass(info.type, list))
    return {name: fields[name] for name in infos if not isinstance(fields[name], list)}, lists


def _is_plain(kind: Any) -> bool:
    return issubclass(kind, (str, int, float, datetime, bytes)) and not issubclass(kind, type)


def _leaf_maker(convert: Callable[[str], Any]) -> Make:
    def make(element: Element) -> Any:
        if len(element):
            raise TypeError(f"the value of {_split(element.tag)[1]} has parts")
        return convert(element.text or "")

    return make


_text = _leaf_maker(str)


def _converter(kind: Any) -> Callable[[str], Any]:
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
    if found is None:
        raise TypeError(f"{text!r} is no moment")
    return found


def _type_named(text: str) -> Any:
    return VmomiSupport.GuessWsdlType(text.rpartition(":")[2]) if text else None


def _method_named(text: str) -> Any:
    name = text.rpartition(":")[2]
    try:
        return VmomiSupport.GuessWsdlMethod(name)
    except KeyError:
        return VmomiSupport.UnknownManagedMethod(name)


def _delocalized(value: Any) -> Any:
    """Return the fault inside of what localises it, with its message."""
    value.fault.msg = value.localizedMessage
    return value.fault


def _element(event: Any) -> Element:
    """Return what begins in an event of the parser."""
    element: Element = event[1]
    return element


def _split(tag: str) -> tuple[str, str]:
    """Return namespace and name of a tag."""
    namespace, _, name = tag.rpartition("}")
    return namespace[1:], name
