"""The files that make up a plan (the file itself, and its includes, weakest first), and those it may name.

A plan file may name files in its own folder, and in allowed folders.

The runner of a plan may be able to read more than its author. Links are followed first, so that none leads
out.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from vgpu_cfg.documents import Document, parse_text, read_document
from vgpu_cfg.errors import DocumentError, DocumentFault

_VARIABLE = "VGPU_CFG_READ_FOLDERS"
_HINT = f"move it to the plan file's folder, or add its folder to {_VARIABLE}"


@dataclass(slots=True)
class Reach:
    """The files within reach of a plan file; `outside` are allowed ones outside, as messages name them."""

    folder: Path
    outside: set[str] = field(default_factory=set)

    def problem(self, path: Path, reported: str, shown: str) -> tuple[str, str] | None:
        """Return why a file is not read, and what to do; None where it is, which is noted."""
        target = path.resolve()
        if target.is_relative_to(self.folder.resolve()):
            return None
        if any(target.is_relative_to(one) for one in _with_leave()):
            self.outside.add(shown)
            return None
        return f"the file {reported!r} is outside the plan file's folder", _HINT

    def without_content(self, faults: Iterable[DocumentFault]) -> list[DocumentFault]:
        """Return faults that quote nothing of a file outside: only their places are shown."""
        message = "invalid content (details withheld: the file is outside the plan file's folder)"
        hint = "ask the file's owner to validate it with a plan in the same folder"
        return [
            replace(fault, message=message, hint=hint) if fault.file in self.outside else fault
            for fault in faults
        ]


def _with_leave() -> list[Path]:
    texts = os.environ.get(_VARIABLE, "").split(os.pathsep)
    return [Path(text).expanduser().resolve() for text in texts if text]


_ONLY_IN_PLANS = ("name", "id", "vms", "training")


@dataclass(slots=True)
class Sources:
    """The documents in the order they are merged, the plan file last, and the faults of their text."""

    reach: Reach
    documents: list[Document] = field(default_factory=list)
    faults: list[DocumentFault] = field(default_factory=list)

    @property
    def main(self) -> Document:
        """The plan file."""
        return self.documents[-1]


def read_sources(path: Path, text: str | None, reach: Reach) -> Sources:
    """Read a plan file and all that it includes within reach; `text` replaces the plan file's content.

    Raises DocumentError if the plan file itself cannot be read to its end; for an included file that is a
    fault among the others.
    """
    found = Sources(reach)
    name = str(path)
    document = (
        read_document(path, name=name, lenient=True) if text is None else parse_text(text, name, lenient=True)
    )
    _take(document, path, name, found, ())
    return found


def _take(document: Document, path: Path, name: str, found: Sources, including: tuple[Path, ...]) -> None:
    found.faults += document.faults
    document = replace(document, faults=())
    if including:
        document = _without_plan_keys(document, found)
    chain = (*including, path.resolve())
    for index, text in includes_of(document):
        loc = ("include", index) if isinstance(document.data["include"], list) else ("include",)
        shown = os.path.normpath(Path(name).parent / text)
        problem = _include_problem(path.parent / text, text, shown, chain, found.reach)
        if problem:
            found.faults.append(document.fault(loc, *problem))
            continue
        if any(known.name == shown for known in found.documents):
            continue
        try:
            included = read_document(path.parent / text, name=shown, lenient=True)
            _take(included, path.parent / text, shown, found, chain)
        except DocumentError as error:
            found.faults += error.faults
    found.documents.append(document)


def includes_of(document: Document) -> Iterator[tuple[int, str]]:
    """Yield the usable texts of `include`; the header's model reports the others."""
    included = document.data.get("include")
    texts = [included] if isinstance(included, str) else included
    if isinstance(texts, list):
        yield from ((index, text) for index, text in enumerate(texts) if isinstance(text, str) and text)


def _include_problem(
    path: Path, text: str, shown: str, chain: tuple[Path, ...], reach: Reach
) -> tuple[str, str] | None:
    if "${" in text:
        return "variables cannot be used in include paths", "write the full path"
    if problem := reach.problem(path, text, shown):
        return problem
    if path.resolve() in chain:
        circle = chain[chain.index(path.resolve()) :]
        names = " -> ".join([*(step.name for step in circle), path.name])
        return f"the file {text!r} includes itself: {names}", "remove one of the includes"
    if path.is_dir() or not path.exists():
        what = "is a folder" if path.is_dir() else "does not exist"
        return f"the included file {text!r} {what}", "the path is relative to the file that includes it"
    return None


def _without_plan_keys(document: Document, found: Sources) -> Document:
    data = dict(document.data)
    for key in _ONLY_IN_PLANS:
        if key in data:
            del data[key]
            message = f"`{key}` is not allowed in an included file"
            found.faults.append(document.fault((key,), message, "move it to the plan file", at_key=True))
    return replace(document, data=data)
