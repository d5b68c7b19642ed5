from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.text import Text

from vgpu_cfg.model.ranges import fold_names
from vgpu_cfg.model.wording import duration
from vgpu_cfg.render.layout.console import plain
from vgpu_cfg.render.layout.lines import (
    Column,
    both_ends,
    fold,
    hanging,
    short,
    size,
    table,
    table_rows,
    without_domain,
)


@pytest.mark.parametrize(
    ("names", "folded"),
    [
        ([], ""),
        (["hvd-01"], "hvd-01"),
        (["hvd-01", "hvd-02", "hvd-03"], "hvd-{01..03}"),
        (["hvd-01", "hvd-03"], "hvd-01, hvd-03"),
        (["a-9", "a-10"], "a-{9..10}"),
        (["a-09", "a-10"], "a-{09..10}"),
        (["a-9", "a-010"], "a-9, a-010"),
        (["a-1", "b-2"], "a-1, b-2"),
        (["web", "db", "hvd-1", "hvd-2"], "web, db, hvd-{1..2}"),
        (["esx-01.lab", "esx-02.lab", "esx-04.lab"], "esx-{01..02}.lab, esx-04.lab"),
        (["a1-1", "a1-2", "a2-2"], "a1-{1..2}, a2-2"),
        (["1-1", "1-2", "2-2", "3-2"], "1-{1..2}, {2..3}-2"),
    ],
)
def test_names_fold_into_ranges_as_a_plan_file_writes_them(names: list[str], folded: str) -> None:
    assert fold_names(names) == folded


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0 s"),
        (0.44, "0.4 s"),
        (32.4, "32 s"),
        (60, "1 min"),
        (250, "4 min 10 s"),
        (3599.9, "1 h"),
        (3900, "1 h 5 min"),
    ],
)
def test_a_duration_is_told_in_the_unit_that_fits(seconds: float, words: str) -> None:
    assert duration(seconds) == words


@pytest.mark.parametrize(
    ("mib", "words"), [(512, "512 MiB"), (65536, "64 GiB"), (1536, "1.5 GiB"), (2097152, "2 TiB")]
)
def test_a_size_is_told_in_the_unit_that_fits(mib: int, words: str) -> None:
    assert size(mib) == words


def test_a_shared_domain_is_left_out_and_addresses_stay() -> None:
    assert without_domain(["a.x.org", "b.x.org", ""]) == {"a.x.org": "a", "b.x.org": "b"}
    assert without_domain(["a.x.org", "b.y.org"]) == {"a.x.org": "a.x.org", "b.y.org": "b.y.org"}
    assert without_domain(["10.0.0.1"]) == {"10.0.0.1": "10.0.0.1"}
    assert without_domain([]) == {}


def test_the_first_few_are_named_and_the_rest_counted() -> None:
    assert short("abc") == "a, b, c"
    assert short("abcde") == "a, b, c and 2 more"


def test_a_table_drops_columns_only_when_folding_does_not_help() -> None:
    columns = [Column("A"), Column("B", drop=1), Column("C", is_flexible=True)]
    rows = [["a" * 30, "b" * 20, "c c c c c c c c c c c c c c c c c c"]]
    assert plain(table(columns, rows, 80)).splitlines()[0].split() == ["A", "B", "C"]
    assert plain(table(columns, rows, 60)).splitlines()[0].split() == ["A", "C"]


def test_a_column_that_says_nothing_is_left_out() -> None:
    columns = [Column("A"), Column("B"), Column("C")]
    assert plain(table(columns, [["1", "", "3"]], 80)) == "  A  C\n  1  3\n"
    assert table(columns, [], 80) == []


def test_rows_are_gathered_with_their_folded_lines() -> None:
    columns = [Column("A"), Column("B", is_flexible=True)]
    rows = table_rows(columns, [["1", "word " * 20], ["2", "x"]], 40)
    assert [len(row) for row in rows] == [1, 3, 1]


def test_a_row_whose_words_do_not_fit_beside_each_other_is_laid_out_below_itself() -> None:
    columns = [Column("DEVICE"), Column("PATH", is_flexible=True), Column("SIZE", is_right=True)]
    rows = [["vmnic0", "/vmfs/volumes/vsan/NVD-AIE-800.zip", "5"], ["vmnic1", "", "12"]]
    assert plain(table(columns, rows, 44)) == (
        "  vmnic0\n    PATH /vmfs/volumes/vsan/NVD-AIE-800.zip\n    SIZE 5\n  vmnic1\n    SIZE 12\n"
    )


def test_two_ends_share_a_line_where_they_fit() -> None:
    assert plain(both_ends(Text("left"), Text("right"), 20)) == "left           right\n"
    assert plain(both_ends(Text("left" * 4), Text("right"), 20)) == "leftleftleftleft\n               right\n"
    long = Text("one two three four five six")
    assert plain(both_ends(Text("left"), long, 20)) == "left\none two three four\nfive six\n"


def test_a_path_to_copy_is_not_broken_and_a_line_break_is_written_out() -> None:
    path = "/x" * 60
    assert plain(hanging("LOG", path, 80, indent=0)) == f"LOG\n  {path}\n"
    assert plain(hanging("says", "one\ntwo", 80)) == "  says     one\\ntwo\n"


def test_styles_survive_folding() -> None:
    text = Text.assemble("plain ", ("red " * 10, "red"))
    styled = [span.style for line in fold(text, 20) for span in line.spans]
    assert styled == ["red"] * len(fold(text, 20))


@given(
    st.text(st.characters(codec="ascii", exclude_categories=["Cc"]), max_size=300),
    st.integers(20, 60),
    st.integers(0, 8),
)
def test_folding_loses_no_word_and_keeps_to_the_width(text: str, width: int, hang: int) -> None:
    lines = fold(Text(text), width, hang=hang)
    assert text.split() == [word for line in lines for word in line.plain.split()]
    assert all(line.cell_len <= width or len(line.plain.split()) == 1 for line in lines)


def test_a_column_without_room_is_named() -> None:
    columns = (Column("NAME"), Column("CLUSTER"), Column("SERIAL", drop=1))
    row = ("esx-01", "gpu", "x" * 60)
    assert "not shown" not in plain(table(columns, [row], 100))
    assert plain(table(columns, [row], 40)).splitlines()[1:] == [
        "  esx-01  gpu",
        "  not shown at this width: SERIAL",
    ]
