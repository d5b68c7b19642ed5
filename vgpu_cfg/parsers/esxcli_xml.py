"""Results of esxcli through vCenter: the XML inside ExecuteSoap's response.

A list is `<obj xsi:type="ArrayOfDataObject">` with one DataObject per row, one thing is its fields
directly under `obj`; a plain result is text of an xsd type, and nothing here asks for one. vCenter may
hand the whole thing over inside `<reflect:response>`, as elements or as escaped text. Sources:
vmware/govmomi `cli/esx` (responses recorded from a host), and clients that report the reflect form from a
live vCenter.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from xml.sax.saxutils import unescape

from vgpu_cfg.parsers.text import UnreadableOutput

Record = Mapping[str, str]
"""One row: values as printed, by the name of the field."""

_TYPE = "{http://www.w3.org/2001/XMLSchema-instance}type"
_LIST = "ArrayOfDataObject"
_ENVELOPE = (
    '<r xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xmlns:xsd="http://www.w3.org/2001/XMLSchema"'
    ' xmlns:reflect="urn:reflect">'
)
_WRAPPED = re.compile(r"<(?P<tag>\w+:response|response)(?:\s[^>]*)?>(?P<inside>.*)</(?P=tag)>", re.DOTALL)
_DECLARATION = re.compile(r"<\?xml[^>]*\?>")
_QUOTES = {"&quot;": '"', "&apos;": "'"}


def parse_records(command: str, response: str) -> tuple[Record, ...]:
    """Read a list, or one thing as a list of one: values by their element's name ("VMkernelName").

    Repeated elements are joined with a comma, as in esxcli's own text; nested ones are named "Outer.Inner".
    An empty list is empty.
    Raises UnreadableOutput where it is no XML, or a plain result.
    """
    root = _root(command, response)
    kind = root.get(_TYPE, "")
    if kind == _LIST or (not kind and len(root) and all(_name(child) == "DataObject" for child in root)):
        strangers = [_name(child) for child in root if _name(child) != "DataObject"]
        if strangers:
            raise UnreadableOutput(command, "a list with items other than DataObject", line=strangers[0])
        return tuple(_record(child) for child in root)
    if kind.startswith("xsd:") or not len(root):
        raise UnreadableOutput(command, "a single value, but a list was expected", line=response)
    return (_record(root),)


def _root(command: str, response: str) -> ET.Element:
    text = response.strip()
    if "<!DOCTYPE" in text or "<!ENTITY" in text:
        raise UnreadableOutput(command, "XML with a document type, which esxcli never sends", line=text)
    text = _DECLARATION.sub("", text).strip()
    found = _WRAPPED.fullmatch(text)
    if found is not None:
        text = found["inside"].strip()
        if text.startswith("&lt;"):
            text = _DECLARATION.sub("", unescape(text, _QUOTES)).strip()
    if not text.startswith("<"):
        raise UnreadableOutput(command, "not XML" if text else "an empty response", line=text)
    try:
        envelope = ET.fromstring(f"{_ENVELOPE}{text}</r>")  # noqa: S314 - a document type, and with it entities, is refused above
    except (ET.ParseError, ValueError) as error:
        raise UnreadableOutput(command, "malformed XML", line=text) from error
    if len(envelope) != 1:
        raise UnreadableOutput(command, "several results, but one was expected", line=text)
    return envelope[0]


def _record(element: ET.Element, prefix: str = "") -> Record:
    fields: dict[str, str] = {}
    for child in element:
        name = prefix + _name(child)
        values = _record(child, f"{name}.") if len(child) else {name: (child.text or "").strip()}
        for key, value in values.items():
            fields[key] = f"{fields[key]}, {value}" if key in fields else value
    return fields


def _name(element: ET.Element) -> str:
    return element.tag.rpartition("}")[2]
