"""YAML of other programs: read as version 1.1, and written so that every reader finds the same meaning."""

from __future__ import annotations

from typing import Any

import pytest

from vgpu_cfg.documents.foreign import read_foreign, write_foreign
from vgpu_cfg.errors import DocumentError

REPEATED = ["b"]


@pytest.mark.parametrize(
    ("text", "data"),
    [
        ("", {}),
        ("# nothing but a comment\n", {}),
        ("a: yes\nb: Off", {"a": True, "b": False}),
        ("a: 0644\nb: '0644'\nc: 1:30", {"a": 420, "b": "0644", "c": 90}),
        ("a: &one {b: 1}\nc: {<<: *one, d: 2}", {"a": {"b": 1}, "c": {"b": 1, "d": 2}}),
    ],
)
def test_it_is_read_as_version_1_1(text: str, data: dict[str, Any]) -> None:
    assert read_foreign(text, "user-data") == data


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        ("- a", (1, 1), "the content must be a mapping of names to values"),
        ("1: a", (1, 1), "the content must be a mapping of names to values"),
        ("a: [1", (1, 6), "invalid YAML: expected ',' or ']'"),
        ("a: 1\na: 2", (2, 1), "invalid YAML: found duplicate key"),
        ("a: 1\nc:   *d", (2, 6), "invalid YAML: found undefined alias"),
        ("a: \x00", (1, 1), "invalid YAML: unacceptable character #x0000"),
    ],
)
def test_a_fault_has_its_place_in_the_text(text: str, place: tuple[int, int], message: str) -> None:
    with pytest.raises(DocumentError) as caught:
        read_foreign(text, "user-data")
    (fault,) = caught.value.faults
    assert (fault.file, (fault.line, fault.column)) == ("user-data", place)
    assert fault.message.startswith(message)
    assert "\n" not in fault.message


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ({"z": "yes", "a": "0644", "m": 420}, '"z": "yes"\n"a": "0644"\n"m": 420\n'),
        ({"a": True, "b": None, "c": 1.5}, '"a": true\n"b": null\n"c": 1.5\n'),
        ({"a": REPEATED, "c": REPEATED}, '"a":\n- "b"\n"c":\n- "b"\n'),
        ({"a": {}, "b": []}, '"a": {}\n"b": []\n'),
        ({"a": "one\ntwo\n"}, '"a": |\n  one\n  two\n'),
        ({"a": "one\ntwo"}, '"a": "one\\ntwo"\n'),
        ({"a": " one\ntwo\n"}, '"a": " one\\ntwo\\n"\n'),
        ({"a": "one\x07\ntwo\n"}, '"a": "one\\a\\ntwo\\n"\n'),
        ({"a": "Grüße " * 40}, f'"a": "{"Grüße " * 40}"\n'),
    ],
)
def test_texts_are_quoted_or_blocks_in_the_order_and_lines_of_the_data(
    data: dict[str, Any], text: str
) -> None:
    assert write_foreign(data) == text
    assert read_foreign(text, "x") == data
