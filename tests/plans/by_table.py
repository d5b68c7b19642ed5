"""Checks of one case, made into a test for each table: it reports every case of the table that fails."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest

from tests.every import try_every
from tests.plans.tables import CASES as ALL
from tests.plans.tables import TABLE_OF

TABLES = sorted({path.stem for path in TABLE_OF.values()})
Check = Callable[[str], None]


def cases_of(table: str) -> list[str]:
    """Return the names of a table's cases, in its order."""
    return [case for case in ALL if TABLE_OF[case].stem == table]


def by_table(cases: Callable[[str], Iterable[str]] = cases_of) -> Callable[[Check], Check]:
    """Try a check with each of a table's cases; `cases` chooses them."""

    def made(check: Check) -> Check:
        @pytest.mark.parametrize("table", TABLES)
        def test(table: str) -> None:
            try_every(check, {case: case for case in cases(table)})

        test.__name__, test.__doc__, test.__module__ = check.__name__, check.__doc__, check.__module__
        return test

    return made


def some(part: int, of: int) -> Callable[[str], list[str]]:
    """Choose from a table so many of each so many cases."""
    return lambda table: [case for number, case in enumerate(cases_of(table)) if number % of < part]
