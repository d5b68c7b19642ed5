"""A part of a document whose data may have been replaced while its places stayed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from vgpu_cfg.documents.text import Document, Loc
from vgpu_cfg.errors import DocumentFault


@dataclass(frozen=True, slots=True)
class Part:
    """What stands at `loc` of a document. `data` keeps the document's shape, not always its values."""

    document: Document
    loc: Loc
    data: Any

    def fault(self, loc: Loc, message: str, hint: str = "", *, at_key: bool = False) -> DocumentFault:
        """Make a fault at `loc`, counted from this part."""
        return self.document.fault((*self.loc, *loc), message, hint, at_key=at_key)

    def refused(self, loc: Loc, error: ValueError, *, at_key: bool = False) -> DocumentFault:
        """Make a fault at `loc` of an error whose lines are what is wrong and what to do."""
        message, _, hint = str(error).partition("\n")
        return self.fault(loc, message, hint, at_key=at_key)

    def child(self, key: str | int) -> Part:
        """Return the part below, which must be there."""
        return Part(self.document, (*self.loc, key), self.data[key])

    @property
    def origin(self) -> str:
        """Where it begins, as `file:line:column`."""
        node = self.document.node(self.loc)
        return f"{self.document.name}:{node.line}:{node.column}"
