"""Changed code in a process that has loaded the tests: it is put into functions there, in a fork."""

from __future__ import annotations

import gc
import json
import os
import traceback
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pytest

Living = Mapping[CodeType, Sequence[FunctionType]]
"""The functions that this process has, by their code."""


def living_functions(folder: Path) -> Living:
    """Find the functions of a folder's modules that this process has."""
    found: defaultdict[CodeType, list[FunctionType]] = defaultdict(list)
    gc.unfreeze()  # what is frozen is not among the objects
    for thing in gc.get_objects():
        if type(thing) is FunctionType and Path(thing.__code__.co_filename).is_relative_to(folder):
            found[thing.__code__].append(thing)
    return found


def put_in(path: Path, source: str, living: Living) -> bool:
    """Give the code of a file's changed source to the functions that it changes; False if none changes.

    Whoever holds a function has the changed one then, tables and decorators too.
    """
    name = str(path.resolve())
    original = compile(path.read_text(encoding="utf-8"), name, "exec", dont_inherit=True)
    return _swap(original, compile(source, name, "exec", dont_inherit=True), living)


def _swap(before: CodeType, after: CodeType, living: Living) -> bool:
    if before == after:
        return False
    functions = living.get(before, ())
    for function in functions:
        function.__code__ = after
    inner = [_swap(*pair, living) for pair in zip(_codes_in(before), _codes_in(after), strict=False)]
    return bool(functions) or any(inner)


def _codes_in(code: CodeType) -> list[CodeType]:
    return [constant for constant in code.co_consts if isinstance(constant, CodeType)]


def run(items: Sequence[pytest.Item], index: int) -> None:
    following = items[index + 1] if index + 1 < len(items) else None
    items[index].ihook.pytest_runtest_protocol(item=items[index], nextitem=following)


def apart(work: Callable[[], dict[str, Any] | None]) -> Any:
    """Do some work in a process of its own, and return what it found; a process that dies is a failure."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            nowhere = os.open(os.devnull, os.O_RDWR)
            os.dup2(nowhere, 1)
            os.dup2(nowhere, 2)
            with os.fdopen(writing, "w", encoding="utf-8") as out:
                try:
                    found = work()
                except BaseException:  # noqa: BLE001 - a mutant may end pytest itself
                    found = {"killer": "an exception", "message": traceback.format_exc()}
                out.write(json.dumps(found))
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, encoding="utf-8") as told:
        answer = told.read()
    _, status = os.waitpid(child, 0)
    return json.loads(answer) if answer else {"killer": "its process ended", "message": f"status {status}"}
