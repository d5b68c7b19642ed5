"""One test of many cases reports each that fails, and is silent if none does."""

from __future__ import annotations

import pytest

from tests.every import every


def test_each_case_that_fails_is_reported_with_its_words() -> None:
    tried = []

    @every(["a", "b", "c"], str.upper)
    def check(letter: str) -> None:
        tried.append(letter)
        assert letter == "B", f"no {letter}"

    with pytest.raises(AssertionError) as failed:
        check()
    assert tried == ["A", "B", "C"]
    assert [f"{one}: " in str(failed.value) for one in "abc"] == [True, False, True]
    assert "no C" in str(failed.value)


def test_none_that_fails_is_no_failure() -> None:
    every(["a", "b"])(lambda letter: None)()
