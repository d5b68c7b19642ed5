"""A dataclass that is made late is the library's to whoever uses it: each question is asked of both."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
import subprocess
import sys
from collections.abc import Callable
from typing import Any, ClassVar

import pytest

from vgpu_cfg.late_dataclasses import dataclass, late_dataclass

Maker = Callable[..., Any]


def made(dataclass: Maker) -> dict[str, Any]:
    """Make one family of classes by either maker."""

    @dataclass(frozen=True, slots=True)
    class Point:
        """A place."""

        x: int
        y: int = 0
        tags: tuple[str, ...] = ()
        secret: str = dataclasses.field(default="s", repr=False, compare=False)
        kind: ClassVar[str] = "point"

        @property
        def total(self) -> int:
            return self.x + self.y

    @dataclass(slots=True)
    class Box:
        name: str
        things: list[str] = dataclasses.field(default_factory=list)
        count: int = dataclasses.field(init=False)
        seen: set[int] = dataclasses.field(init=False, default_factory=set)

        def __post_init__(self) -> None:
            self.count = len(self.things)

    @dataclass(slots=True, kw_only=True)
    class Crate(Box):
        name: str = "crate"
        weight: float = 1.0

    @dataclass(frozen=True, slots=True)
    class Nothing:
        pass

    @dataclass(frozen=True, slots=True)
    class Own:  # noqa: PLW1641 - the maker gives it one
        value: int

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Own) and self.value % 10 == other.value % 10

        def __repr__(self) -> str:
            return f"<{self.value}>"

    return {one.__name__: one for one in (Point, Box, Crate, Nothing, Own)}


LATE, LIBRARYS = made(late_dataclass), made(dataclasses.dataclass)

QUESTIONS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "what it is made of": lambda one: [
        [
            (name, word.kind, word.default is word.empty)
            for name, word in inspect.signature(cls).parameters.items()
        ]
        for cls in one.values()
    ],
    "its fields": lambda one: [
        [(field.name, field.type, field.init, field.repr, field.kw_only) for field in dataclasses.fields(cls)]
        for cls in one.values()
    ],
    "its places in a pattern": lambda one: [cls.__match_args__ for cls in one.values()],
    "its slots": lambda one: [cls.__slots__ for cls in one.values()],
    "its text": lambda one: [
        str(made)
        for made in (one["Point"](1, tags=("a",)), one["Crate"](weight=2.0), one["Nothing"](), one["Own"](3))
    ],
    "as data": lambda one: [
        dataclasses.asdict(one["Point"](1, 2)),
        dataclasses.asdict(one["Box"]("b", ["x"])),
    ],
    "alike": lambda one: [
        one["Point"](1, secret="a") == one["Point"](1, secret="b"),
        one["Point"](1) == one["Point"](2),
        one["Point"](1) == (1, 0, ()),
        one["Nothing"]() == one["Nothing"](),
        one["Own"](3) == one["Own"](13),
        one["Box"]("a") == one["Crate"](name="a"),
    ],
    "its hash": lambda one: [hash(one["Point"](1, 2)), hash(one["Nothing"]()), hash(one["Own"](3))],
    "whether what may change has a hash": lambda one: one["Box"].__hash__ is None,
    "replaced": lambda one: str(dataclasses.replace(one["Point"](1, 2), y=5)),
    "copied": lambda one: [
        copy.deepcopy(one["Point"](1, 2)) == one["Point"](1, 2),
        copy.copy(one["Box"]("b", ["x"])).count,
    ],
    "not shared": lambda one: one["Box"]("a").things is one["Box"]("b").things,
    "made after": lambda one: one["Box"]("a", ["x", "y"]).count,
    "of the class": lambda one: (one["Point"].kind, one["Point"](1, 2).total, one["Point"].__doc__),
}


@pytest.mark.parametrize("question", QUESTIONS)
def test_it_answers_as_the_librarys_does(question: str) -> None:
    asked = QUESTIONS[question]
    assert asked(LATE) == asked(LIBRARYS)


@pytest.mark.parametrize("family", [LATE, LIBRARYS], ids=["late", "the library's"])
def test_what_is_frozen_cannot_be_changed(family: dict[str, Any]) -> None:
    point = family["Point"](1)
    with pytest.raises(dataclasses.FrozenInstanceError, match="assign to field 'x'"):
        point.x = 2
    with pytest.raises(dataclasses.FrozenInstanceError, match="delete field 'x'"):
        del point.x
    assert point.x == 1


@pytest.mark.parametrize("family", [LATE, LIBRARYS], ids=["late", "the library's"])
def test_a_wrong_word_is_refused(family: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match=r"__init__\(\) got an unexpected keyword argument 'z'"):
        family["Point"](1, z=2)
    with pytest.raises(TypeError, match=r"__init__\(\) missing 1 required positional argument: 'x'"):
        family["Point"]()


@dataclass(frozen=True, slots=True)
class Kept:
    """It stands where pickle finds it."""

    name: str


def test_it_goes_through_pickle() -> None:
    assert pickle.loads(pickle.dumps(Kept("a"))) == Kept("a")  # noqa: S301 - our own


def test_nothing_is_compiled_until_it_is_used() -> None:
    """The twin: the library compiles while the module is loaded."""
    assert compiled_by("late_dataclass as dataclass", "vgpu_cfg.late_dataclasses") == "0"
    assert compiled_by("dataclass", "dataclasses") != "0"


def compiled_by(name: str, module: str) -> str:
    """Count what making a class compiles, in a process of its own."""
    code = (
        "from __future__ import annotations\nimport sys\n"
        f"from {module} import {name}\ncount = 0\n"
        "def hook(event, args):\n    global count\n    count += event == 'exec'\n"
        "sys.addaudithook(hook)\n"
        "@dataclass(frozen=True, slots=True)\nclass A:\n    x: int = 0\n"
        "print(count)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    return done.stdout.strip()
