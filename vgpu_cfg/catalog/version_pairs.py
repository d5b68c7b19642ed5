"""Versions: what does or does not go together (profiles/versions/pairs.yaml), and driver branches.

The facts of each branch are in profiles/drivers/branches.yaml. Data only: planning decides on findings, and
on the guest drivers that a host's driver accepts. A combination that no row covers is unknown, not
compatible.

Belief: nccl-needs-unified-memory, no-forward-compatibility-on-vgpus, images-of-a-month-share-a-base,
long-term-branch-470.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable
from enum import StrEnum
from functools import cache
from typing import Literal

from pydantic import Field

from vgpu_cfg.catalog.board import Board
from vgpu_cfg.catalog.data_files import data_path
from vgpu_cfg.documents import build, read_document
from vgpu_cfg.model.frozen import Frozen
from vgpu_cfg.model.wording import version_tuple

Basis = Literal["read", "field", "recalled", "assumed"]


class Effect(StrEnum):
    """The relation of two parts."""

    REQUIRES = "requires"
    RELEASED_WITH = "released with"
    CONTAINS = "contains"
    TESTED_WITH = "tested with"
    EQUALS = "equals"
    EXCLUDES = "excludes"


class VersionRow(Frozen):
    """Versions of the first part, inclusive, and the versions of the other; "" is without a limit.

    `source` and `basis` replace those of the pair.
    """

    since: str = ""
    until: str = ""
    needs: str = ""
    needs_until: str = ""
    source: str = ""
    basis: Basis | None = None

    def holds(self, version: str) -> bool:
        """Whether a version of the first part is among those of the row."""
        return _is_within(version, self.since, self.until)

    def accepts(self, version: str) -> bool:
        """Whether a version of the other part is among those of the row."""
        return _is_within(version, self.needs, self.needs_until)


class VersionPair(Frozen):
    """Two parts: `what` has an `effect` on `other` in `where` ("" is everywhere). `means` is the symptom."""

    what: str
    effect: Effect
    other: str
    where: str = ""
    means: str
    source: str
    basis: Basis
    read: dt.date
    rows: tuple[VersionRow, ...] = Field(min_length=1)

    def at(self, version: str) -> VersionRow | None:
        """Return the row of a version of the first part, None if no row covers it."""
        return next((row for row in reversed(self.rows) if row.holds(version)), None)


class VersionPairs(Frozen):
    """The whole file."""

    pairs: tuple[VersionPair, ...]


class ImageContents(Frozen):
    """The least versions in a container image by its tag, "" if unknown."""

    cuda: str = ""
    nccl: str = ""
    torch: str = ""


@cache
def load_version_pairs() -> tuple[VersionPair, ...]:
    """Return the pairs that come with the program."""
    return build(read_document(data_path("versions", "pairs.yaml")), VersionPairs).pairs


def version_pair(what: str, effect: Effect, other: str) -> VersionPair:
    """Return the pair of two parts."""
    pairs = load_version_pairs()
    return next(one for one in pairs if (one.what, one.effect, one.other) == (what, effect, other))


def version_number(text: str) -> tuple[int, ...]:
    """Return the numbers of a version's start: (24, 1) of `24.1-0ubuntu1`."""
    found = re.match(r"\d+(\.\d+)*", text)
    return tuple(int(word) for word in found[0].split(".")) if found else ()


def contents_of(image: str) -> ImageContents:
    """Return the known contents of a published image by its tag.

    `nvcr.io/nvidia/pytorch:25.06-py3` names a month, `pytorch/pytorch:2.7.0-cuda12.6-cudnn9-runtime` the
    versions themselves. A mirror in place of `nvcr.io` keeps the rest of the name.
    """
    if month := re.search(r"(?:^|/)(?:nvidia|nvaie)/[a-z0-9_-]+:(\d\d\.\d\d)-", image):
        return ImageContents(
            cuda=_contained("NVIDIA image", month[1], "CUDA"),
            nccl=_contained("NVIDIA image", month[1], "NCCL"),
        )
    if torch := re.search(r"(?:^|/)pytorch/pytorch:(\d+(?:\.\d+)+)-cuda(\d+\.\d+)", image):
        return ImageContents(cuda=torch[2], nccl=_contained("PyTorch", torch[1], "NCCL"), torch=torch[1])
    return ImageContents()


def impossible_tag(image: str) -> str:
    """Return why no published image can have this tag, "" if one can.

    Source: the tags of NVIDIA's images on NGC, and of its CUDA images (from memory).
    """
    if month := re.search(r"(?:^|/)(?:nvidia|nvaie)/[a-z0-9_-]+:\d\d\.(\d\d)-", image):
        if not 1 <= int(month[1]) <= 12:
            return f"tags of NVIDIA's images begin with the year and month, but {month[1]} is not a month"
    elif cuda := re.search(
        r"(?:^|/)nvidia/cuda:(\d+(?:\.\d+)*(?:-(?:base|runtime|devel|cudnn\d*))*)$", image
    ):
        return f"tags of NVIDIA's CUDA images end with the OS, such as {cuda[1]}-ubuntu22.04"
    return ""


def _contained(what: str, version: str, other: str) -> str:
    row = version_pair(what, Effect.CONTAINS, other).at(version)
    return row.needs if row is not None else ""


def _is_within(version: str, least: str, most: str) -> bool:
    number, end = version_number(version), version_number(most)
    return number >= version_number(least) and (not end or number[: len(end)] <= end)


class DatedFact(Frozen):
    """A month, as `2028-06`, and the document that names it."""

    date: str = Field(pattern=r"20\d\d-(0[1-9]|1[0-2])")
    source: str


class RuleSource(Frozen):
    """Whether the release's own notes were read for which guests it takes, and where."""

    read: bool
    source: str = ""


class DriverBranch(Frozen):
    """A branch of the driver, and the release of vGPU software that it came with."""

    number: str = Field(pattern=r"\d{3}")
    release: int
    long_term: bool
    rule: RuleSource
    released: DatedFact | None = None
    end_of_life: DatedFact | None = None
    sources: dict[str, str]

    @property
    def kind(self) -> str:
        """NVIDIA's name for it."""
        return "long-term support branch" if self.long_term else "production branch"


class BoardEnd(Frozen):
    """The last release of vGPU software that serves a board, or all boards of an architecture.

    `names` are words of the names that hosts show, for boards that the catalogue does not have.
    """

    board: str = ""
    architecture: str = ""
    names: tuple[str, ...] = ()
    release: int
    source: str


class KnownFault(Frozen):
    """A fault of the host drivers of a branch before version `fixed`, on boards of `architectures`."""

    branch: str
    fixed: str
    release: str
    architectures: tuple[str, ...]
    means: str
    source: str


class LicenceServers(Frozen):
    """The documented facts of license servers, for every release."""

    note: str
    source: str


class DriverBranches(Frozen):
    """The whole file."""

    branches: tuple[DriverBranch, ...]
    rule: str
    boards_end: tuple[BoardEnd, ...]
    known_faults: tuple[KnownFault, ...] = ()
    licence_servers: LicenceServers
    sources: dict[str, str]
    date: str

    def find(self, number: str) -> DriverBranch | None:
        """Return a branch by its number, None where the file has none."""
        return next((one for one in self.branches if one.number == number), None)

    def faults_of(self, version: str, boards: Iterable[Board | None]) -> tuple[KnownFault, ...]:
        """Return the known faults of a host's driver with these boards."""
        found = {board.architecture for board in boards if board is not None}
        return tuple(
            one
            for one in self.known_faults
            if version.startswith(f"{one.branch}.") and version_tuple(version) < version_tuple(one.fixed)
            if found.intersection(one.architectures)
        )

    def end_of(self, board: Board | None, shown_name: str = "") -> BoardEnd | None:
        """Return the end of a board's support, None if no document names one.

        `shown_name` is the host's name for a GPU of an unknown board: `Tesla P40`.
        """
        if board is None:
            words = set(shown_name.replace("-", " ").split())
            return next((one for one in self.boards_end if words.intersection(one.names)), None)
        own = (one for one in self.boards_end if board.key == one.board)
        by_architecture = (one for one in self.boards_end if board.architecture == one.architecture)
        return next(own, None) or next(by_architecture, None)


@cache
def load_driver_branches() -> DriverBranches:
    """Return the branches that come with the program."""
    return build(read_document(data_path("drivers", "branches.yaml")), DriverBranches)
