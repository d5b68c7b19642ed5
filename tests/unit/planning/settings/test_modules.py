"""Option strings of kernel modules: one word changes, all others stay as they stood."""

from __future__ import annotations

import pytest

from vgpu_cfg.planning.host_settings.modules import merge_options, option_of, parse_options


@pytest.mark.parametrize(
    ("before", "changes", "after"),
    [
        ("", {"pfctx": "0x08"}, "pfctx=0x08"),
        ("pfctx=0x08", {"pfctx": "0x08"}, "pfctx=0x08"),
        ("dcbx=1 pfctx=0 max_vfs=4,4", {"pfctx": "0x08"}, "dcbx=1 pfctx=0x08 max_vfs=4,4"),
        ("a=1 b=2", {"c": "3", "d": "4"}, "a=1 b=2 c=3 d=4"),
        ("a=1 b=2 c=3", {"b": None}, "a=1 c=3"),
        ("a=1", {"b": None}, "a=1"),
        ("a=1 b=2 a=3", {"a": "4"}, "a=4 b=2"),
        ("a=1 b=2 a=3", {"a": None}, "b=2"),
        ("  a=1\t b=2  ", {}, "a=1 b=2"),
        ('quoted="x y" a=1', {"a": "2"}, 'quoted="x y" a=2'),
        ("quoted='x y' a=1", {"quoted": "z"}, "quoted=z a=1"),
        ("a=1", {"b": "two words"}, 'a=1 b="two words"'),
        ("verbose a=1", {"a": "2"}, "verbose a=2"),
        ('"a=1" b=2', {"a": "3"}, "a=3 b=2"),
        ("a=", {"b": "1"}, "a= b=1"),
        ('a="never closed b=2', {"c": "1"}, 'a="never closed b=2 c=1'),
    ],
)
def test_merging(before: str, changes: dict[str, str | None], after: str) -> None:
    assert merge_options(before, changes) == after


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ("a=1 b=2,3", "b", "2,3"),
        ("a=1 a=2", "a", "2"),
        ('a="x y"', "a", "x y"),
        ("key=x=1;y=2", "key", "x=1;y=2"),
        ("verbose", "verbose", ""),
        ("a=", "a", ""),
        ("a=1", "A", None),
        ("", "a", None),
    ],
)
def test_reading_one_option(text: str, name: str, value: str | None) -> None:
    assert option_of(text, name) == value


def test_words_keep_their_order_and_their_text() -> None:
    words = parse_options('b=2 a="1 2" c')
    assert [(word.name, word.value, word.text) for word in words] == [
        ("b", "2", "b=2"),
        ("a", "1 2", 'a="1 2"'),
        ("c", None, "c"),
    ]
