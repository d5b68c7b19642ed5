"""Beliefs about vCenter, hosts, guests and hardware: what vgpu-cfg relies on, its source, and its trial.

Each file of `rows/beliefs` is about one subject. Code that relies on a belief names it: `Belief: ID.`
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Self

from pydantic import Field, StringConstraints, model_validator

from vgpu_cfg.documents import build, read_document
from vgpu_cfg.model.frozen import Frozen

FOLDER = Path(__file__).parent / "rows" / "beliefs"
Id = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$")]
Text = Annotated[str, StringConstraints(min_length=1)]


class About(StrEnum):
    """The subject of a belief; `tools` are programs and formats outside vSphere and its guests."""

    VCENTER = "vcenter"
    HOST = "host"
    NIC = "nic"
    HARDWARE = "hardware"
    GUEST = "guest"
    TOOLS = "tools"


class Confidence(StrEnum):
    """The basis of a belief."""

    READ = "read"
    TRIED = "tried"
    DERIVED = "derived"
    FIELD = "field"
    RECALLED = "recalled"
    ASSUMED = "assumed"

    @property
    def needs_source(self) -> bool:
        return self not in {Confidence.RECALLED, Confidence.ASSUMED}


class Trial(StrEnum):
    """The least that shows whether a belief holds.

    A reading with a read-only account; an alarm, event, tag or attribute that is made and removed;
    a temporary VM without a GPU; one with a vGPU; a shell of the host or guest; nothing.
    """

    READING = "reading"
    OBJECT = "object"
    VM = "vm"
    GPU = "gpu"
    SHELL = "shell"
    NONE = "none"


class Basis(Frozen):
    """The basis of a belief, and how it can be tried."""

    confidence: Confidence
    source: str = ""
    """A document, a URL, or the system that it was tried on."""
    releases: str = ""
    """The releases that the source covers, if it names them."""
    trial: Trial = Trial.NONE
    irreversible: bool = False
    """Whether a step that cannot be undone relies on it."""

    @model_validator(mode="after")
    def _has_source(self) -> Self:
        if self.confidence.needs_source and not self.source:
            raise ValueError(f"a belief that is {self.confidence} requires a source")
        return self


class _Row(Frozen):
    """A row of a file; its key there is the belief's ID."""

    statement: Text
    basis: Basis
    affects: str = ""
    if_wrong: str = ""
    steps: tuple[str, ...] = ()


class Belief(Basis):
    """A belief, with its ID and its subject."""

    id: str
    about: About
    statement: str
    affects: str = ""
    if_wrong: str = ""
    steps: tuple[str, ...] = ()
    """The kinds of changes that cannot be undone and do harm if it is wrong."""


class _File(Frozen):
    """The beliefs about one subject."""

    beliefs: dict[Id, _Row] = Field(min_length=1)


@cache
def load_beliefs() -> Mapping[str, Belief]:
    """Return all beliefs by ID, in the order of the subjects and files."""
    found: dict[str, Belief] = {}
    for about in About:
        for belief in read_beliefs(FOLDER / f"{about}.yaml", about):
            if belief.id in found:
                raise ValueError(f"two beliefs have the ID {belief.id}")
            found[belief.id] = belief
    return MappingProxyType(found)


def read_beliefs(path: Path, about: About) -> tuple[Belief, ...]:
    """Read a file of beliefs. Raises DocumentError with the line of each fault."""
    rows = build(read_document(path, name=path.name), _File).beliefs
    return tuple(
        Belief(id=key, about=about, **row.basis.model_dump(), **row.model_dump(exclude={"basis"}))
        for key, row in rows.items()
    )
