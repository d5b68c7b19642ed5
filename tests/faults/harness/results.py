"""What became of each point, kept in a file of lines with which a run that was broken off goes on.

What was tried with the same code is not tried again: a line counts for the digest of the code that it names.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

from tests.cli.command_line import ROOT
from tests.faults.harness.mishaps import Mishap


@dataclass(frozen=True, slots=True)
class Key:
    """What tells a point from others: a mishap at one request, by number and name, of a scenario."""

    scenario: str
    number: int
    request: str
    mishap: Mishap


@dataclass(frozen=True, slots=True)
class Point:
    """How a run ended that a mishap befell, and what is wrong after the same was typed again.

    `code` is the exit code of the run, negative for a signal; `again` is how often it was typed again. Its
    `situation` is what vCenter and the run's files were like when it ended: what mends one mends all others.
    """

    key: Key
    code: int
    said: str
    again: int
    situation: str
    wrong: tuple[str, ...] = ()


class Results:
    """The points of a file that were tried with this code; new ones are added to it as they come."""

    def __init__(self, path: Path) -> None:
        self._path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        self._known = {point.key: point for point in self.read()}
        self._mended = {
            (point.key.scenario, point.situation): point for point in self._known.values() if point.again
        }

    def has(self, key: Key) -> bool:
        """Whether a point was tried."""
        return key in self._known

    def mended(self, scenario: str, situation: str) -> Point | None:
        """Return a point that was mended from the same situation."""
        return self._mended.get((scenario, situation))

    def add(self, point: Point) -> None:
        """Keep a point; a line is one write, so that shares may keep theirs in one file."""
        if point.again:
            self._mended.setdefault((point.key.scenario, point.situation), point)
        line = json.dumps({"code_digest": code_digest(), **asdict(point)}) + "\n"
        file = os.open(self._path, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o644)
        try:
            os.write(file, line.encode())
        finally:
            os.close(file)

    def read(self) -> Iterator[Point]:
        """Yield the points that were tried with the code as it is."""
        return read_points(self._path)


def read_points(path: Path, *, is_any_code: bool = False) -> Iterator[Point]:
    """Yield the points of a file that were tried with the code as it is, or with any."""
    if not path.exists():
        return
    for line in path.read_text(encoding="utf-8").splitlines():
        parts = json.loads(line)
        if parts.pop("code_digest") == code_digest() or is_any_code:
            yield Point(**{**parts, "key": Key(**parts["key"]), "wrong": tuple(parts["wrong"])})


def default_file() -> Path:
    """Return where results are kept between runs."""
    return ROOT / ".cache" / "faults.jsonl"


@cache
def code_digest() -> str:
    """Return the digest of what the results depend on: the product, its data, and the harness."""
    digest = hashlib.sha256()
    for folder in ("vgpu_cfg", "profiles", "tests/faults/harness"):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                digest.update(path.read_bytes())
    return digest.hexdigest()[:16]
