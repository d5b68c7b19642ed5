"""A command line's words, and what a shell would do that this one does not."""

from __future__ import annotations

import pytest

from vgpu_cfg.lab.shell.shell import BadLineError, split_line


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("", []),
        ("  nvidia-smi   -q ", ["nvidia-smi", "-q"]),
        ("a 'b c' \"d e\"", ["a", "b c", "d e"]),
        ("-p 'pfctx=0x08 pfcrx=0x08'", ["-p", "pfctx=0x08 pfcrx=0x08"]),
        ("a '$HOME' '`id`' '*' '|'", ["a", "$HOME", "`id`", "*", "|"]),
        (r"a \$HOME \* \|", ["a", "$HOME", "*", "|"]),
        ("a 'it'\"'\"'s'", ["a", "it's"]),
        ('a "b*|;"', ["a", "b*|;"]),
        ("a=b#c", ["a=b#c"]),
        ("''", [""]),
    ],
)
def test_quoted_words_are_taken_as_they_are(line: str, words: list[str]) -> None:
    assert split_line(line) == words


@pytest.mark.parametrize(
    "line",
    [
        "a | b",
        "a;b",
        "a && b",
        "a > b",
        "a < b",
        "$(id)",
        "`id`",
        '"$HOME"',
        "a *",
        "a [b]",
        "~/x",
        "a #b",
        "a\nb",
    ],
)
def test_what_is_no_plain_command_is_not_found(line: str) -> None:
    with pytest.raises(BadLineError, match="not found") as caught:
        split_line(line)
    assert caught.value.status == 127


@pytest.mark.parametrize("line", ["a 'b", 'a "b', "a \\"])
def test_an_open_quote_is_a_syntax_error(line: str) -> None:
    with pytest.raises(BadLineError, match="unterminated") as caught:
        split_line(line)
    assert caught.value.status == 2
