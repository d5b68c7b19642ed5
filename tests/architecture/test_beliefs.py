"""Code names the beliefs that it relies on, `Belief: ID.`, and every belief has code that relies on it."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.architecture.sources import named, project_files
from vgpu_cfg.knowledge.beliefs import FOLDER, load_beliefs

ID = r"[a-z0-9][a-z0-9-]*"
NEXT = r",\s*(?:#\s*)?"
MARK = re.compile(rf"\bBelief: ({ID}(?:{NEXT}{ID})*)\.")
NOT_IN_CODE = {
    "example-pipelines": "files of examples/",
    "packer-build": "a how-to",
}
"""Beliefs that no code of the package relies on, and where they count. Only make it shorter."""


def marks(text: str) -> list[str]:
    """Return the IDs that a text names; they may go on over lines of a comment."""
    return [one for found in MARK.findall(text) for one in re.split(NEXT, found)]


def relied_on() -> Iterator[tuple[str, str]]:
    """Yield each file with each belief that it names."""
    for path in project_files():
        is_code = path.suffix in {".py", ".yaml", ".j2"} and named(path).startswith(
            ("vgpu_cfg/", "profiles/")
        )
        if is_code and path.parent != FOLDER:
            for one in marks(path.read_text(encoding="utf-8")):
                yield named(path), one


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("# Belief: a-b.\n", ["a-b"]),
        ('"""It is so. Belief: a-b, c2.\n"""', ["a-b", "c2"]),
        ("    # Belief: a-b,\n    # c-d.\n", ["a-b", "c-d"]),
        ("Belief: a-b,\nc-d.\n", ["a-b", "c-d"]),
        ("Beliefs: a-b.", []),
        ("Belief: ID.", []),
    ],
)
def test_marks_are_found(text: str, found: list[str]) -> None:
    assert marks(text) == found


def test_no_code_relies_on_a_belief_that_is_unknown() -> None:
    known = load_beliefs()
    assert [f"{path}: {one}" for path, one in relied_on() if one not in known] == []


def test_code_relies_on_every_belief() -> None:
    used = {one for _, one in relied_on()}
    assert sorted(load_beliefs().keys() - used) == sorted(NOT_IN_CODE)
