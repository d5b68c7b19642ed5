"""Rows of a sampled test: a run of all tests has one of so many, and always the first."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from tests import extent


@dataclass
class Item:
    """What is asked of a test."""

    nodeid: str
    count: int
    own: list[pytest.MarkDecorator] = field(default_factory=list)

    def get_closest_marker(self, name: str) -> Any:
        return pytest.mark.sampled(self.count).mark if self.count and name == extent.SAMPLED else None

    def add_marker(self, marker: pytest.MarkDecorator) -> None:
        self.own.append(marker)


@pytest.mark.parametrize(
    ("count", "kept"), [(0, ["a", "b", "c", "d"]), (1, ["a", "b", "c", "d"]), (2, ["a", "c"]), (9, ["a"])]
)
def test_one_of_so_many_rows_is_kept(count: int, kept: list[str]) -> None:
    rows = [Item(f"t.py::test[{row}]", count) for row in "abcd"]
    other = Item("t.py::test_other[a]", count)
    items: Any = [*rows, other]
    extent._sample(items)
    assert [one.nodeid[-2] for one in rows if not one.own] == kept
    assert other.own == []
