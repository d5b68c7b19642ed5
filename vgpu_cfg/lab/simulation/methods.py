"""Which methods the wire answers by itself, without an operation on the state: reads, views, sessions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Method = Callable[..., Any]

METHODS: dict[tuple[str, str], Method] = {}
"""(wsdl type, method) → `method(context, thing, **arguments)`; answers pyvmomi values or state objects."""

UNLOCKED: set[str] = set()
"""Methods that take the lab's lock by themselves, because they wait."""


def answers(wsdl_type: str, *methods: str, waits: bool = False) -> Callable[[Method], Method]:
    """Register a function as one or several methods of a managed type."""

    def register(function: Method) -> Method:
        for name in methods:
            METHODS[wsdl_type, name] = function
            if waits:
                UNLOCKED.add(name)
        return function

    return register
