"""Runs each test in a frame that is as large as a thousand others, for their sake.

Python 3.11 keeps frames in pieces of 16 KiB, takes a piece from the system when a call needs it, and gives it
back when that call ends. Where a piece ends under a loop, each call in it does so: a tenth of the CPU time of
tests of commands. A frame that fits in no such piece gets a large one, and what is called from there has the
rest of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from types import FunctionType
from typing import Any

import pytest

SLOTS = 1 << 17
"""So many words make 1 MiB, and Python doubles a piece until they fit: as much is left for other frames."""


def _call(function: Any, /, *positional: Any, **named: Any) -> Any:
    return function(*positional, **named)


_call_with_room = FunctionType(_call.__code__.replace(co_stacksize=SLOTS), globals())


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Iterator[None]:
    function = pyfuncitem.obj
    pyfuncitem.obj = partial(_call_with_room, function)
    try:
        return (yield)
    finally:
        pyfuncitem.obj = function
