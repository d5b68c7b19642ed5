"""One test that tries many cases, and reports every one that fails.

Cases that take less than a millisecond cost more as tests of their own: pytest sets up, reports and sends
each of them to the process that prints.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

T = TypeVar("T")


def try_every(check: Callable[[T], None], cases: Mapping[str, T]) -> None:
    """Try a check with each case. Raises AssertionError with the name and the words of every failure."""
    found: dict[str, Exception] = {}
    for name, case in cases.items():
        try:
            check(case)
        except Exception as error:  # noqa: BLE001 - whatever it is, the other cases are tried, too
            found[name] = error
    if found:
        words = "\n\n".join(f"{name}: {type(one).__name__}: {one}" for name, one in found.items())
        raise AssertionError(words) from next(iter(found.values()))


def every(
    cases: Iterable[str], value: Callable[[str], Any] = lambda name: name
) -> Callable[[Callable[[Any], None]], Callable[[], None]]:
    """Make a check of one case a test that tries it with what `value` returns for each name."""

    def made(check: Callable[[Any], None]) -> Callable[[], None]:
        def test() -> None:
            try_every(lambda name: check(value(name)), {name: name for name in cases})

        test.__name__, test.__doc__, test.__module__ = check.__name__, check.__doc__, check.__module__
        return test

    return made
