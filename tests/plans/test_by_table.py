"""A test of a table reports every case that fails, and is silent if none does."""

from __future__ import annotations

import pytest

from tests.plans.by_table import TABLES, by_table, cases_of, some
from tests.plans.tables import CASES


def test_every_case_is_in_one_table() -> None:
    assert sorted(case for table in TABLES for case in cases_of(table)) == sorted(CASES)


def test_each_case_that_fails_is_reported() -> None:
    table = next(table for table in TABLES if len(cases_of(table)) > 2)
    first, second, *others = cases_of(table)

    @by_table()
    def check(case: str) -> None:
        assert case in others, "fails"

    with pytest.raises(AssertionError) as failed:
        check(table)
    assert [first in str(failed.value), second in str(failed.value)] == [True, True]
    assert not [case for case in others if f"{case}:" in str(failed.value)]

    @by_table(lambda one: cases_of(one)[2:])
    def passes(case: str) -> None:
        assert case in others

    passes(table)


def test_some_are_so_many_of_each_so_many() -> None:
    table = max(TABLES, key=lambda one: len(cases_of(one)))
    cases = cases_of(table)
    assert some(2, of=8)(table) == [case for number, case in enumerate(cases) if number % 8 in (0, 1)]
    assert some(8, of=8)(table) == cases
