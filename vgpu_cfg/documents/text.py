"""YAML text as plain data that remembers where each key and value stood.

The YAML read here is version 1.2 without its surprises: `off` and `2027-03-31`
are text, keys are always text, tags other than `!!str` are refused, and a key
written twice is a fault. Anchors, aliases and `<<` merges work; top-level keys
that begin with `x-` are a place for anchors and are left out of the data.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeAlias

import yaml

from vgpu_cfg.documents.files import MOST_FILE_BYTES, read_bytes
from vgpu_cfg.errors import DocumentError, DocumentFault

Loc: TypeAlias = tuple[str | int, ...]

_DEEPEST = 60
_MOST_VALUES = 200_000
"""Aliases can multiply a small text into a huge one; no document of ours comes near this."""

_INTEGER = re.compile(r"[-+]?[0-9]{1,40}|0o[0-7]{1,40}|0x[0-9a-fA-F]{1,40}")
_FLOAT = re.compile(r"[-+]?[0-9]{1,40}(\.[0-9]*)?([eE][-+]?[0-9]{1,4})?|[-+]?\.[0-9]+([eE][-+][0-9]{1,4})?")
_WORDS: dict[str, bool | None] = {
    "": None, "~": None, "null": None, "Null": None, "NULL": None,
    "true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False,
}  # fmt: skip
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
"""Control characters of terminals: with them a plan could forge the output. And surrogates."""
_TEXT_TAGS = ("!", "tag:yaml.org,2002:str")
_BREAKS_OF_1_1 = re.compile("[\x85\u2028\u2029]")
"""To libyaml, which reads version 1.1, they end a line."""
_QUICK: Any = getattr(yaml, "CSafeLoader", None)
"""libyaml, twenty times as fast as a parser in Python; PyYAML may have been built without it."""


@dataclass(slots=True)
class Node:
    """One value of a document: its beginning, the place of its key, and its content."""

    value: Any
    line: int
    column: int
    weight: int = 1
    key_line: int = 0
    key_column: int = 0
    children: dict[str | int, Node] = field(default_factory=dict)
    written: str = ""
    """A scalar's text as written: `016`, not 16."""

    def under(self, line: int, column: int) -> Node:
        """Return the same value with a key at this place; an alias may be below several keys."""
        return Node(
            self.value, self.line, self.column, self.weight, line, column, self.children, self.written
        )


@dataclass(frozen=True, slots=True)
class Document:
    """A document's plain data, and the place of everything in it.

    `faults` is empty unless the document was read with `lenient`: it then holds faults that do not prevent
    reading to the end, such as a repeated key.
    """

    name: str
    data: dict[str, Any]
    root: Node
    faults: tuple[DocumentFault, ...] = ()

    def fault(self, loc: Loc, message: str, hint: str = "", *, at_key: bool = False) -> DocumentFault:
        """Make a fault at the value at `loc`, or at its nearest known ancestor.

        A mapping or list is pointed at by its key, a scalar by itself unless `at_key`.
        """
        node = self.node(loc)
        if node.key_line and (at_key or node.children):
            return DocumentFault(self.name, node.key_line, node.key_column, message, hint)
        return DocumentFault(self.name, node.line, node.column, message, hint)

    def node(self, loc: Loc) -> Node:
        """Return the node at `loc`; elements that the text does not have are passed over."""
        node = self.root
        for element in loc:
            node = node.children.get(element, node)
        return node


def _close_file(path: Path) -> str:
    """Suggest the file next to an absent one whose name is closest, "" if there is none."""
    try:
        return did_you_mean(path.name, [one.name for one in path.parent.iterdir() if one.is_file()])
    except OSError:
        return ""


def read_document(path: str | Path, *, name: str = "", lenient: bool = False) -> Document:
    """Read a YAML file; `name` is what complaints call it, the path by default.

    Raises DocumentError with every fault of the text. With `lenient` only what
    stops the reading is raised, and the rest waits in `Document.faults`.
    """
    shown = name or str(path)
    try:
        raw = read_bytes(path, MOST_FILE_BYTES)
    except OSError as error:
        reason = error.strerror or str(error)
        hint = _close_file(Path(path)) if isinstance(error, FileNotFoundError) else ""
        fault = DocumentFault(shown, 1, 1, f"cannot read the file: {reason}", hint)
        raise DocumentError([fault], remedy=hint or "check the path and your permissions") from error
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        column = error.start - (raw.rfind(b"\n", 0, error.start) + 1) + 1
        fault = DocumentFault(shown, line, column, "the file is not UTF-8 text", "save it as UTF-8")
        raise DocumentError([fault]) from error
    return parse_text(text, shown, lenient=lenient)


def parse_text(text: str, name: str, *, lenient: bool = False) -> Document:
    """Read YAML text; see `read_document`.

    The content is never changed: a second reader of the same text shares it.
    """
    return _parsed(text, name, lenient)


@lru_cache(maxsize=64)
def _parsed(text: str, name: str, lenient: bool) -> Document:  # noqa: FBT001 - the key of a cache
    builder = _Builder(name)
    try:
        root = builder.document(_events(text, name))
    except _StopReading as error:
        builder.faults.append(error.fault)
        root = None
    if root is None or (builder.faults and not lenient):
        raise DocumentError(builder.faults)
    data = {key: value for key, value in root.value.items() if not key.startswith("x-")}
    return Document(name, data, root, tuple(builder.faults))


def _events(text: str, name: str) -> Iterator[Any]:
    """Return the parser's events: libyaml's, and ruamel's where libyaml finds a fault; it explains better."""
    if _QUICK is not None and not _BREAKS_OF_1_1.search(text):
        with suppress(yaml.YAMLError, UnicodeError):
            return iter(list(yaml.parse(text, Loader=_QUICK)))
    return _slow_events(text, name)


def _slow_events(text: str, name: str) -> Iterator[Any]:
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError
    from ruamel.yaml.reader import ReaderError

    try:
        yield from YAML(typ="safe", pure=True).parse(text)
    except ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        column = error.position - text.rfind("\n", 0, error.position)
        message = f"the character U+{error.character:04X} is not allowed in YAML"
        raise _StopReading(DocumentFault(name, line, column, message, "delete it")) from error
    except YAMLError as error:
        raise _StopReading(_syntax_fault(error, name)) from error


class _StopReading(Exception):
    def __init__(self, fault: DocumentFault) -> None:
        super().__init__(fault.message)
        self.fault = fault


class _Builder:
    """Turns a parser's events into nodes, collecting the faults that do not stop it.

    PyYAML and ruamel.yaml name the classes of their events alike.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.faults: list[DocumentFault] = []
        self.anchors: dict[str, Node | None] = {}
        self.depth = 0

    def document(self, events: Iterator[Any]) -> Node | None:
        root: Node | None = None
        for event in events:
            if not _is_a(event, "DocumentStart"):
                continue
            if root is not None:
                fault = self._fault(
                    event, "a second document starts here", "a file must contain a single document"
                )
                raise _StopReading(fault)
            root = self._node(next(events), events)
        if root is None or (root.value is None and not root.children):
            self.faults.append(DocumentFault(self.name, 1, 1, "the document is empty"))
            return None
        if not isinstance(root.value, dict):
            message = "the document must be a mapping of keys to values"
            self.faults.append(DocumentFault(self.name, root.line, root.column, message))
            return None
        return root

    def _fault(self, event: Any, message: str, hint: str = "") -> DocumentFault:
        mark = event.start_mark
        return DocumentFault(self.name, mark.line + 1, mark.column + 1, message, hint)

    def _node(self, event: Any, events: Iterator[Any]) -> Node:
        if _is_a(event, "Alias"):
            return self._aliased(event)
        if event.anchor:
            self.anchors[event.anchor] = None
        self._check_tag(event)
        self.depth += 1
        if self.depth > _DEEPEST:
            raise _StopReading(self._fault(event, f"values are nested deeper than {_DEEPEST} levels"))
        line, column = event.start_mark.line + 1, event.start_mark.column + 1
        if _is_a(event, "Scalar"):
            if _CONTROL.search(event.value):
                fault = self._fault(
                    event,
                    "the text contains a control character",
                    "remove it; only tabs and line breaks are allowed",
                )
                self.faults.append(fault)
            node = Node(_scalar(event), line, column, written=event.value)
        elif _is_a(event, "SequenceStart"):
            node = self._sequence(Node([], line, column), events)
        else:
            node = self._mapping(Node({}, line, column), events)
        self.depth -= 1
        if node.weight > _MOST_VALUES:
            raise _StopReading(self._fault(event, "aliases expand the document beyond the limit"))
        if event.anchor:
            self.anchors[event.anchor] = node
        return node

    def _aliased(self, event: Any) -> Node:
        if event.anchor not in self.anchors:
            raise _StopReading(self._fault(event, f"the alias *{event.anchor} is used before it is defined"))
        node = self.anchors[event.anchor]
        if node is None:
            raise _StopReading(self._fault(event, f"the anchor &{event.anchor} contains itself"))
        return node

    def _check_tag(self, event: Any) -> None:
        tag = event.tag or ""
        if tag and not (_is_a(event, "Scalar") and tag in _TEXT_TAGS):
            self.faults.append(self._fault(event, f"the tag {tag} is not supported", "remove it"))

    def _sequence(self, node: Node, events: Iterator[Any]) -> Node:
        while not _is_a(event := next(events), "SequenceEnd"):
            child = self._node(event, events)
            node.children[len(node.value)] = child
            node.value.append(child.value)
            node.weight += child.weight
        return node

    def _mapping(self, node: Node, events: Iterator[Any]) -> Node:
        merged: list[Node] = []
        while not _is_a(event := next(events), "MappingEnd"):
            line, column = event.start_mark.line + 1, event.start_mark.column + 1
            if not _is_a(event, "Scalar"):
                self.faults.append(self._fault(event, "a key must be text", 'quote it, as in "{n}": 1'))
                self._node(event, events)
                self._node(next(events), events)
                continue
            key: str = event.value
            self._check_tag(event)
            child = self._node(next(events), events).under(line, column)
            if key == "<<" and not event.style:
                merged.extend(self._merge_sources(child))
            elif key in node.children:
                first = node.children[key]
                message = f"the key {key!r} is repeated (first on line {first.key_line})"
                self.faults.append(self._fault(event, message, "keep one of them"))
            else:
                node.children[key] = child
                node.value[key] = child.value
                node.weight += child.weight
        for source in merged:
            for name, inherited in source.children.items():
                if name not in node.children:
                    node.children[name] = inherited
                    node.value[name] = inherited.value
                    node.weight += inherited.weight
        return node

    def _merge_sources(self, node: Node) -> list[Node]:
        sources = list(node.children.values()) if isinstance(node.value, list) else [node]
        for source in sources:
            if not isinstance(source.value, dict):
                message = "<< requires an alias for a mapping, or a list of aliases for mappings"
                self.faults.append(DocumentFault(self.name, node.key_line, node.key_column, message))
                return []
        return sources


def _is_a(event: Any, kind: str) -> bool:
    return type(event).__name__ == f"{kind}Event"


def _scalar(event: Any) -> str | int | float | bool | None:
    text: str = event.value
    if event.style or event.tag is not None:
        return text
    if text in _WORDS:
        return _WORDS[text]
    if text[0] in "0123456789+-.":
        if _INTEGER.fullmatch(text):
            return int(text, {"0o": 8, "0x": 16}.get(text[:2], 10))
        if _FLOAT.fullmatch(text):
            return float(text)
    return text


_SYNTAX: tuple[tuple[str, str, str], ...] = (
    ("'\\t'", "tabs cannot be used for YAML indentation", "indent with spaces"),
    ("mapping values are not allowed here", "a second ': ' on this line, or the line is indented too far",
     "quote text that contains ': ', and align keys"),
    ("could not find expected ':'", "this key is not followed by ': '", "write it as key: value"),
    ("expected <block end>", "this line is not aligned with the lines above", "fix its indentation"),
    ("expected ',' or", "missing comma or closing bracket",
     "inside [] and {}, quote text that contains any of []{},"),
    ("<stream end>", "the file ends inside [] or {}", "close the bracket"),
    ("unexpected end of stream", "this quoted text is not closed", "close the quote"),
    ("cannot start any token", "a value cannot begin with this character", "quote the value"),
)  # fmt: skip


def _syntax_fault(error: Any, name: str) -> DocumentFault:
    from ruamel.yaml.error import MarkedYAMLError

    if not isinstance(error, MarkedYAMLError):
        return DocumentFault(name, 1, 1, f"invalid YAML: {error}")
    problem = str(error.problem or error.context or "invalid YAML")
    mark: Any = error.problem_mark or error.context_mark
    message, hint = f"invalid YAML: {problem}", ""
    for sign, text, advice in _SYNTAX:
        if sign in problem:
            message, hint = text, advice
            break
    if "end of stream" in problem and error.context_mark is not None:
        mark = error.context_mark
    line, column = (mark.line + 1, mark.column + 1) if mark is not None else (1, 1)
    return DocumentFault(name, line, column, message, hint)


_LONGEST_LIST = 12
_CLOSE = 0.6


def close_to(word: str, known: Iterable[str], most: int = 3) -> list[str]:
    """Return the known words closest to `word`, whatever the case, the closest first.

    A typing error rarely hits the first letter, and a glob is not a mistyped name.
    """
    if set(word) & set("*?["):
        return []
    typed = word.casefold()
    folded = {choice.casefold(): choice for choice in sorted(set(known))}
    close = difflib.get_close_matches(typed, folded, most, _CLOSE)
    return [folded[one] for one in close if one[:1] == typed[:1] or one in typed or typed in one[1:]]


def by_word(meanings: Mapping[str, str]) -> dict[str, str]:
    """Return the meaning of each word: {"cpus": "vcpu cores"} gives "cpus" for both words."""
    return {word: meant for meant, words in meanings.items() for word in words.split()}


def did_you_mean(word: str, known: Iterable[str], *, noun: str = "") -> str:
    """Suggest the known word closest to `word`.

    If nothing is close, the known words are listed if they are few and `noun` (such as "keys") is given;
    otherwise the answer is empty.
    """
    choices = sorted(set(known))
    close = close_to(word, choices, 1)
    if close:
        return f"did you mean {close[0]!r}?"
    if noun and 0 < len(choices) <= _LONGEST_LIST:
        return f"available {noun}: {', '.join(choices)}"
    return ""
