"""A kind of change is one class that describes itself: what else tells kinds apart may only become less."""

from __future__ import annotations

from typing import get_args

from tests.architecture.size_script import size
from tests.architecture.sources import ROOT
from vgpu_cfg.changes.base import ChangeBase, Face
from vgpu_cfg.changes.change import Change

MOST_BRANCHING = 7
"""Files outside `changes`, `execution`, `model` and the lab that ask which kind a thing is. Only lower it."""
BARS = {"make", "set", "move", "down", "restart", "delete", "hand"}


def kinds() -> tuple[type[ChangeBase], ...]:
    return get_args(get_args(Change)[0])


def test_every_kind_has_a_face() -> None:
    faces = {kind.__name__: kind.__dict__.get("face") for kind in kinds()}
    assert [name for name, face in faces.items() if not isinstance(face, Face)] == []
    assert {kind.face.bar for kind in kinds()} <= BARS
    assert {kind.face.sign for kind in kinds()} <= set("+~-! ")


def test_every_kind_answers_all_that_is_asked() -> None:
    assert {kind.__name__: kind.__abstractmethods__ for kind in kinds() if kind.__abstractmethods__} == {}


def test_kinds_are_told_apart_in_ever_fewer_files() -> None:
    assert len(size().branching(size().read_modules(ROOT))) <= MOST_BRANCHING
