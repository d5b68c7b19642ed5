"""The branches of NVIDIA's driver, and the documents' facts of each: profiles/drivers/branches.yaml.

Data only: planning decides on the guest drivers that a host's driver accepts. Undocumented facts are absent.

Belief: long-term-branch-470.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from pydantic import Field

from vgpu_cfg.catalog.board import Board
from vgpu_cfg.catalog.data_files import data_path
from vgpu_cfg.documents import build, read_document
from vgpu_cfg.model.frozen import Frozen
from vgpu_cfg.model.wording import version_tuple


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
