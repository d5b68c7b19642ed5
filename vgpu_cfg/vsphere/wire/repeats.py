"""What stands in a page of properties word for word as before: it is neither parsed nor read again.

VMs that are alike have most properties and devices alike, to the byte. Of each object those are left out that
an earlier one had, by their bytes, and the rest is parsed. What is left out was parsed before, as a whole
element within the same ones: the page is as well formed without it as with it, and it means what it meant.
From where on bytes may look like elements and be none (a comment, CDATA), and where a server writes otherwise
than servers do, all is parsed.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from xml.etree.ElementTree import Element

from vgpu_cfg.vsphere.wire.kept import Each, Read

_OBJECT, _OBJECT_END = b"<objects><obj ", b"</objects>"
_PROPERTY, _PROPERTY_END = b"<propSet>", b"</propSet>"
_LIST = re.compile(rb'<name>([^<]*)</name><val xsi:type="ArrayOf(\w+)">')
_LIST_END = b"</val></propSet>"
_LONG = 1024
"""A list of so many bytes is taken apart: its elements come again more often than it does as a whole."""
_ODD = (b"<!", b"<?")
"""How comments, CDATA and instructions begin."""
_PIECE = 1 << 18
"""So many bytes are parsed at a time of what is parsed whole."""


class New:
    """A property that is parsed. Another one of the same bytes need not be, where these are all of it."""

    __slots__ = ("_known", "_text")

    def __init__(self, known: dict[bytes, tuple[str, Any]], text: bytes) -> None:
        self._known = known
        self._text = text

    def read(self, name: str, read: Read, told: Element) -> Any:
        """Return its value."""
        value = read(told)
        if self._text.endswith(_PROPERTY_END):
            self._known[self._text] = (name, value)
        return value


class NewParts:
    """A list of which those elements are parsed that are new."""

    __slots__ = ("_known", "_one", "_texts", "new")

    def __init__(self, known: dict[bytes, Any], texts: list[bytes], one: Read) -> None:
        self._known = known
        self._texts = texts
        self._one = one
        self.new = [text for text in texts if text not in known]

    def read(self, name: str, read: Read, told: Element) -> Any:  # noqa: ARG002 - as of what is whole
        """Return the values of all elements; `told` has those that are new."""
        self._known.update(zip(self.new, map(self._one, told), strict=True))
        return [value for text in self._texts if (value := self._known[text]) is not None]


class Left:
    """What of an object is known by its bytes, and its properties that are parsed, in their order."""

    __slots__ = ("properties", "values")

    def __init__(self, properties: Iterable[New | NewParts] = ()) -> None:
        self.values: dict[str, Any] = {}
        self.properties = list(properties)


class Repeats:
    """The bytes of a page that are parsed, piece by piece; `next` tells object by object what is known."""

    def __init__(self, page: bytes, readers: Mapping[str, Read]) -> None:
        self._page = page
        self._is_read = bool(readers)
        self._lists = {path.encode(): read for path, read in readers.items() if isinstance(read, Each)}
        self._known: dict[bytes, tuple[str, Any]] = {}
        self._parts: dict[bytes, dict[bytes, Any]] = {path: {} for path in self._lists}
        self._left: deque[Left] = deque()
        self._unnoted = New(self._known, b"")

    def __iter__(self) -> Iterator[bytes]:
        page, at = self._page, 0
        if self._is_read:
            at = max(page.find(_OBJECT), 0)
            yield page[:at]
        while page.startswith(_OBJECT, at) and (end := page.find(_OBJECT_END, at)) > 0:
            left = Left()
            unknown = self._unknown(page[at:end], left)
            if any(sign in unknown for sign in _ODD):
                break
            self._left.append(left)
            yield unknown + _OBJECT_END
            at = end + len(_OBJECT_END)
        for start in range(at, len(page), _PIECE):
            yield page[start : start + _PIECE]

    def next(self, count: int) -> Left:
        """Return what is known of the next object, of which so many properties were parsed."""
        left = self._left.popleft() if self._left else Left([self._unnoted] * count)
        if len(left.properties) != count:
            raise ValueError("the properties of an object cannot be told apart")
        return left

    def end(self) -> None:
        """See that each object was told what is known of it."""
        if self._left:
            raise ValueError("the objects of a page cannot be told apart")

    def _unknown(self, text: bytes, left: Left) -> bytes:
        """Return what of an object is parsed, and note what is known."""
        head, *properties = text.split(_PROPERTY)
        parsed, known = [head], self._known
        for one in properties:
            name, value = known.get(one, ("", None))
            if not name:
                parsed.append(self._new(one, left.properties))
            elif value is not None:
                left.values[name] = value
        return _PROPERTY.join(parsed)

    def _new(self, text: bytes, properties: list[New | NewParts]) -> bytes:
        """Return what is parsed of a property that is not known as a whole, and note it."""
        found = _LIST.match(text) if len(text) >= _LONG else None
        if found is not None and found[1] in self._lists:
            end = b"</%b>" % found[2]
            *texts, after = text[found.end() :].split(end)
            if after == _LIST_END:
                parts = NewParts(self._parts[found[1]], texts, self._lists[found[1]].one)
                properties.append(parts)
                return found[0] + b"".join(one + end for one in parts.new) + _LIST_END
        properties.append(New(self._known, text))
        return text
