"""A kind of change is one class that describes itself: what else tells kinds apart may only become less."""

from __future__ import annotations

from tests.architecture.size_script import size
from tests.architecture.sources import ROOT
from vgpu_cfg.changes.base import Face
from vgpu_cfg.changes.change import KINDS

MOST_BRANCHING = 7
"""Files outside `changes`, `execution`, `model` and the lab that ask which kind a thing is. Only lower it."""
MOST_NAMING = 2
"""Files outside those that name a kind of change by its word, `change.kind == "create_vm"`. Only lower it."""
BARS = {"make", "set", "move", "down", "restart", "delete", "hand"}


def test_every_kind_has_a_face() -> None:
    faces = {kind.__name__: kind.__dict__.get("face") for kind in KINDS}
    assert [name for name, face in faces.items() if not isinstance(face, Face)] == []
    assert {kind.face.bar for kind in KINDS} <= BARS
    assert {kind.face.sign for kind in KINDS} <= set("+~-! ")


def test_every_kind_answers_all_that_is_asked() -> None:
    assert {kind.__name__: kind.__abstractmethods__ for kind in KINDS if kind.__abstractmethods__} == {}


def test_kinds_are_told_apart_in_ever_fewer_files() -> None:
    assert len(size().branching(size().read_modules(ROOT))) <= MOST_BRANCHING


def test_kinds_are_named_by_their_words_in_ever_fewer_files() -> None:
    words = [f'"{kind.model_fields["kind"].default}"' for kind in KINDS]
    know = tuple(f"{room}." for room in size().KNOW_THE_KINDS)
    naming = [
        name
        for name, source in size().read_modules(ROOT).items()
        if not f"{name}.".startswith(know) and any(word in source for word in words)
    ]
    assert len(naming) <= MOST_NAMING, naming
