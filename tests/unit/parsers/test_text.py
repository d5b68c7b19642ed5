from __future__ import annotations

import pytest

from vgpu_cfg.errors import ReachError
from vgpu_cfg.parsers.text import (
    Line,
    ToolFailed,
    UnreadableOutput,
    int_or_error,
    lines_of,
    pci_id_of,
    value_or_none,
)


@pytest.mark.parametrize(
    ("printed", "house"),
    [
        ("00000000:4A:00.0", "0000:4a:00.0"),
        ("0000:4a:00.0", "0000:4a:00.0"),
        ("4A:00.1", "0000:4a:00.1"),
        ("00010000:01:1F.7", "10000:01:1f.7"),
        (" 0000:4a:00.0\n", "0000:4a:00.0"),
        ("0000:4a:00.8", None),
        ("0000:4a:00", None),
        ("000:4a:00.0", None),
        ("vmnic4", None),
        ("", None),
    ],
)
def test_addresses_are_spelled_one_way(printed: str, house: str | None) -> None:
    assert pci_id_of(printed) == house


def test_lines_keep_their_number_and_indentation_and_nothing_invisible() -> None:
    text = "\x1b]0;title\x07one  \r\n\x1b[1;31m  two\x1b[0m\r\n\n\tthree\0"
    assert lines_of(text) == (Line(1, "one"), Line(2, "  two"), Line(3, ""), Line(4, "\tthree"))
    assert [line.indent for line in lines_of(text)] == [0, 2, 0, 8]


@pytest.mark.parametrize("text", ["", "N/A", "[N/A]", " n/a ", "Not Found", "[Not Supported]"])
def test_no_value_has_many_spellings(text: str) -> None:
    assert value_or_none(text) is None
    assert value_or_none(f" {text}7 ") == f"{text}7".strip()


@pytest.mark.parametrize(("text", "number"), [("7", 7), (" -1 ", -1), ("0x3B", 59)])
def test_numbers(text: str, number: int) -> None:
    assert int_or_error("tool", text, Line(3, text)) == number


@pytest.mark.parametrize("text", ["", "seven", "²", "7.5", "0x", "9" * 30])
def test_what_is_no_number(text: str) -> None:
    with pytest.raises(UnreadableOutput, match="no number"):
        int_or_error("tool", text, Line(3, text))


def test_an_error_says_what_where_and_what_to_do() -> None:
    error = UnreadableOutput("nvidia-smi -q", "no GPU section", line="  hello  ", number=3)
    assert isinstance(error, ReachError)
    assert error.message == "nvidia-smi -q: no GPU section: 'hello'"
    assert error.subject == "output of nvidia-smi -q, line 3"
    assert "manually" in error.remedy
    assert (error.tool, error.line, error.number, error.exit_code) == ("nvidia-smi -q", "hello", 3, 5)


def test_a_long_line_is_shortened() -> None:
    error = UnreadableOutput("mlxconfig query", "not understood", line="x" * 1000)
    assert len(error.message) < 300
    assert error.subject == "output of mlxconfig query"


def test_a_tools_own_error_is_of_the_same_kind() -> None:
    error = ToolFailed("mlxconfig query", line="-E- Failed to open device", number=1)
    assert isinstance(error, UnreadableOutput)
    assert error.message == "mlxconfig query: failed with: '-E- Failed to open device'"
