"""When two requests ask the same: method, object and arguments, and nothing else.

Headers, namespace prefixes, white space and the cookie do not count, nor does who logs in.
What a session made (views, collectors, page tokens) counts by the id that the recorded
answers gave it, which is the one that a playing client sends.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from xml.parsers import expat

_BODY = "Body"
_WITHOUT_ARGUMENTS = frozenset({"Login", "Logout", "RetrieveServiceContent"})
_KEPT_ATTRIBUTES = ("type",)


@dataclass(slots=True)
class Node:
    """An XML element, its names without their prefixes."""

    name: str
    attributes: dict[str, str] = field(default_factory=dict)
    children: list[Node] = field(default_factory=list)
    text: str = ""


def request_key(method: str, path: str, body: bytes) -> tuple[str, str]:
    """Return a request's name for a reader and the key of its answer.

    Raises ValueError for a body that is no SOAP.
    """
    if not body:
        return f"{method} {path}", f"{method} {path}"
    call = _call(body)
    target = next((child for child in call.children if child.name == "_this"), Node("_this"))
    name = f"{target.attributes.get('type', '?')}.{call.name}"
    if call.name in _WITHOUT_ARGUMENTS:
        return name, name
    digest = hashlib.sha256(_written(call).encode()).hexdigest()[:16]
    return name, f"{name} {digest}"


def _call(body: bytes) -> Node:
    root = _parsed(body)
    content = next((child for child in root.children if child.name == _BODY), None)
    if content is None or not content.children:
        raise ValueError("the request holds no call")
    return content.children[0]


def _parsed(body: bytes) -> Node:
    top = Node("")
    open_nodes = [top]

    def start(name: str, attributes: dict[str, str]) -> None:
        kept = {
            local: value.rpartition(":")[2]
            for key, value in attributes.items()
            if (local := _local(key)) in _KEPT_ATTRIBUTES
        }
        node = Node(_local(name), kept)
        open_nodes[-1].children.append(node)
        open_nodes.append(node)

    def end(_name: str) -> None:
        open_nodes.pop()

    def text(data: str) -> None:
        open_nodes[-1].text += data

    parser = expat.ParserCreate()
    parser.StartElementHandler = start
    parser.EndElementHandler = end
    parser.CharacterDataHandler = text
    try:
        parser.Parse(body, True)
    except expat.ExpatError as error:
        raise ValueError(f"the request is no XML: {error}") from error
    return top.children[0]


def _local(name: str) -> str:
    return name.rpartition(":")[2]


def _written(node: Node) -> str:
    """Write a node in one way only."""
    attributes = "".join(f" {key}={value!r}" for key, value in sorted(node.attributes.items()))
    if node.children:
        return f"<{node.name}{attributes}>{''.join(_written(child) for child in node.children)}</>"
    return f"<{node.name}{attributes}>{node.text.strip()!r}</>"
