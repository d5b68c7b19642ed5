"""Ranges: one line for many VMs, the text beside it, and names folded back."""

from __future__ import annotations

from typing import Any

import pytest

from vgpu_cfg.model.ranges import SAMPLE_MEMBER, count_members, fill, fold_names, has_templates, read_members


@pytest.mark.parametrize(
    ("name", "names", "written", "numbers"),
    [
        ("db", ["db"], [None], [None]),
        ("a-{1..3}", ["a-1", "a-2", "a-3"], ["1", "2", "3"], [1, 2, 3]),
        ("a-{8..11}", ["a-8", "a-9", "a-10", "a-11"], ["8", "9", "10", "11"], [8, 9, 10, 11]),
        ("a-{08..10}", ["a-08", "a-09", "a-10"], ["08", "09", "10"], [8, 9, 10]),
        ("a-{9..010}", ["a-009", "a-010"], ["009", "010"], [9, 10]),
        ("a-{0..1}", ["a-0", "a-1"], ["0", "1"], [0, 1]),
        ("{01..02}-x-{7..8}", ["01-x-7", "02-x-8"], ["01", "02"], [1, 2]),
    ],
)
def test_a_range_is_written_out_with_its_zeros(
    name: str, names: list[str], written: list[str | None], numbers: list[int | None]
) -> None:
    found = read_members(name)
    assert [one.name for one in found] == names
    assert [one.written for one in found] == written
    assert [one.number for one in found] == numbers
    assert [(one.index, one.size) for one in found] == [(index, len(names)) for index in range(len(names))]
    assert count_members(name) == len(names)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("a-{1-3}", r"'\{1-3\}' in a name is not a valid range\nexample: \{01..14\}"),
        ("a-{1,3}", r"example: \{01..14\}; list other names as separate items"),
        ("a-}", "'}' in a name is not a valid range"),
        ("a-{3..1}", r"the range \{3..1\} counts down\nuse \{1..3\}"),
        ("a-{0..10000}", r"the range \{0..10000\} has more than 10000 elements\nsplit it"),
        ("{1..2}-{1..3}", "have different lengths: 2 and 3\nranges in an item"),
    ],
)
def test_a_range_that_is_none_has_a_hint(name: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        read_members(name)


def test_the_largest_range() -> None:
    assert len(read_members("a-{0..9999}")) == count_members("a-{0..9999}") == 10_000


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        ("plain", "plain"),
        ("10.0.0.{i}", "10.0.0.9"),
        ("rack-{n}/{n}", "rack-09/09"),
        ("10.0.0.{101..103}", "10.0.0.102"),
        ("{k}", "{k}"),
    ],
)
def test_text_of_a_line_runs_along(text: str, filled: str) -> None:
    assert fill(text, read_members("a-{08..10}")[1]) == filled


def test_text_that_does_not_run_along_has_a_hint() -> None:
    with pytest.raises(ValueError, match=r"\{1..2\} has 2 elements, but the item's name has 3\nranges in an"):
        fill("x{1..2}", read_members("a-{1..3}")[0])
    for sign in ("{n}", "{i}"):
        with pytest.raises(ValueError, match=rf"\{sign} requires a range in the item's name\nexample"):
            fill(f"x{sign}", read_members("db")[0])
    assert fill("{n}{i}", SAMPLE_MEMBER) == "11"


@pytest.mark.parametrize(
    ("value", "expected"),
    [("{n}", True), ("n", False), ({"a": ["b", {"c": "{i}"}]}, True), ({"a": ["b", 1]}, False), (7, False)],
)
def test_templates_are_found_at_any_depth(value: Any, *, expected: bool) -> None:
    assert has_templates(value) is expected


@pytest.mark.parametrize(
    ("names", "folded"),
    [
        ((), ""),
        (("db",), "db"),
        (("esx-01.lab", "esx-02.lab", "esx-03.lab"), "esx-{01..03}.lab"),
        (("a9", "a10"), "a{9..10}"),
        (("a09", "a10", "a12"), "a{09..10}, a12"),
        (("a9", "a010"), "a9, a010"),
        (("a1", "b2"), "a1, b2"),
        (("a1-1", "a2-2"), "a1-1, a2-2"),
        (("a1-1", "a1-2", "a2-2"), "a1-{1..2}, a2-2"),
        (("a2", "a1"), "a2, a1"),
    ],
)
def test_names_that_count_on_are_one_range(names: tuple[str, ...], folded: str) -> None:
    assert fold_names(names) == folded
