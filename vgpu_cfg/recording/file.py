"""The recording as a file (one JSON document, gzipped if its name ends in `.gz`), and equality of requests.

Two requests ask the same if method, object and arguments are equal, and by nothing else.

Headers, namespace prefixes, white space and the cookie do not count, nor does who logs in. The objects of a
session (views, collectors, page tokens) count by the id in the recorded answers, which is the one that a
playing client sends.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import zlib
from collections.abc import Container
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Annotated, Final, Literal
from xml.parsers import expat

from pydantic import AfterValidator, ValidationError

from vgpu_cfg.documents import MOST_DATA_BYTES, PRIVATE, put_whole, read_bytes, unpacked
from vgpu_cfg.errors import DocumentError, DocumentFault
from vgpu_cfg.model.frozen import Frozen

FORMAT: Final = 5
"""Raised when the fixed set of reads changes: an older recording then lacks answers."""
LATER_PATHS = frozenset(
    {
        *("config.managedBy", 'config.extraConfig["vmservice.namespacedName"]', "summary.maintenanceMode"),
        *(f"runtime.memory.{name}" for name in ("unreservedForVm", "maxUsage", "reservationUsed")),
    }
)
"""Properties added to the reads of this format: a recording made before is played as if none were set."""
_PATH = "pathSet"

_HALF = re.compile("[\ud800-\udfff]")

_BODY = "Body"
_WITHOUT_ARGUMENTS = frozenset({"Login", "Logout", "RetrieveServiceContent"})
_KEPT_ATTRIBUTES = ("type",)


def _whole(text: str) -> str:
    """Return text that can be sent: JSON may hold halves of characters, which no other text can."""
    if not text.isascii() and _HALF.search(text):
        raise ValueError("it contains an incomplete character")
    return text


class Exchange(Frozen):
    """One answer. `call` names the request for a reader, `key` is its lookup key."""

    call: str
    key: str
    status: int
    answer: Annotated[str, AfterValidator(_whole)]


class Recording(Frozen):
    """Everything a vCenter answered to the fixed set of reads.

    `api_version` is the version id on the wire ("8.0.3.0"): a player speaks no other.
    """

    format: Literal[5] = FORMAT
    address: Annotated[str, AfterValidator(_whole)]
    api_version: Annotated[str, AfterValidator(_whole)]
    recorded_at: datetime
    exchanges: tuple[Exchange, ...]


def save_recording(recording: Recording, path: Path) -> None:
    """Write a recording, whole or not at all, for its user alone.

    Raises DocumentError where it cannot be written.
    """
    content = (recording.model_dump_json(indent=1) + "\n").encode()
    if path.suffix == ".gz":
        content = gzip.compress(content, mtime=0)
    try:
        put_whole(path, content, lambda draft: draft.replace(path), mode=PRIVATE)
    except OSError as error:
        fault = DocumentFault(str(path), 1, 1, f"cannot write the recording: {error.strerror or error}")
        raise DocumentError([fault], remedy="specify a different path") from error


def load_recording(path: Path) -> Recording:
    """Read a recording. Raises DocumentError for a file that is none, or a broken one."""
    try:
        content = read_bytes(path, MOST_DATA_BYTES)
        if path.suffix == ".gz":
            content = unpacked(content, MOST_DATA_BYTES)
    except OSError as error:
        raise _broken(path, f"cannot read the recording: {error.strerror or error}") from error
    except (EOFError, zlib.error) as error:
        raise _broken(path, "the recording is damaged: its compressed content is truncated") from error
    try:
        data = json.loads(content)
    except UnicodeDecodeError as error:
        raise _broken(path, "not a recording: the file is not text") from error
    except json.JSONDecodeError as error:
        raise _broken(path, f"not a valid recording: {error.msg}", error.lineno, error.colno) from error
    except (ValueError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else "a number is too long"
        raise _broken(path, f"not a recording: {reason}") from error
    if not isinstance(data, dict) or "exchanges" not in data:
        raise _broken(path, "not a recording: it contains no requests and responses")
    if data.get("format") != FORMAT:
        raise _broken(
            path, f"the recording uses format {data.get('format')}; this version reads format {FORMAT}"
        )
    try:
        return Recording.model_validate(data)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(step) for step in first["loc"])
        raise _broken(path, f"the recording is damaged at {where}: {first['msg']}") from error


def _broken(path: Path, message: str, line: int = 1, column: int = 1) -> DocumentError:
    fault = DocumentFault(str(path), line, column, message)
    return DocumentError([fault], remedy="create a new recording with `vgpu-cfg inventory --record FILE`")


@dataclass(slots=True)
class Node:
    """An XML element, its names without their prefixes."""

    name: str
    attributes: dict[str, str] = field(default_factory=dict)
    children: list[Node] = field(default_factory=list)
    text: str = ""


def request_key(method: str, path: str, body: bytes, *, without: Container[str] = ()) -> tuple[str, str]:
    """Return a request's name for a reader and the key of its answer, as if it lacked some property paths.

    Raises ValueError for a body that is no SOAP.
    """
    if not body:
        return f"{method} {path}", f"{method} {path}"
    call = _call(body)
    target = next((child for child in call.children if child.name == "_this"), Node("_this"))
    name = f"{target.attributes.get('type', '?')}.{call.name}"
    if call.name in _WITHOUT_ARGUMENTS:
        return name, name
    digest = hashlib.sha256(_written(call, without).encode()).hexdigest()[:16]
    return name, f"{name} {digest}"


def _call(body: bytes) -> Node:
    root = _parsed(body)
    content = next((child for child in root.children if child.name == _BODY), None)
    if content is None or not content.children:
        raise ValueError("the request contains no call")
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
        raise ValueError(f"the request is not valid XML: {error}") from error
    return top.children[0]


def _local(name: str) -> str:
    return name.rpartition(":")[2]


def _written(node: Node, without: Container[str]) -> str:
    """Write a node in one way only."""
    if node.name == _PATH and node.text.strip() in without:
        return ""
    attributes = "".join(f" {key}={value!r}" for key, value in sorted(node.attributes.items()))
    if node.children:
        return f"<{node.name}{attributes}>{''.join(_written(child, without) for child in node.children)}</>"
    return f"<{node.name}{attributes}>{node.text.strip()!r}</>"
