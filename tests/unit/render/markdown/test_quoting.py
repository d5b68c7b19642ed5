from __future__ import annotations

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from vgpu_cfg.changes.by_hand import Part, as_typed, command, filled
from vgpu_cfg.model import wording
from vgpu_cfg.render.markdown.quoting import Markdown, block, cell, code, environment, inline, prose, tidy

READER = MarkdownIt("commonmark").enable(["table", "strikethrough"])
NASTY = st.text(alphabet="ab1 `*_[]<>|~&#+-=.!\\()'\"$:/{}é\n", max_size=30)


def shown(text: str) -> str:
    """Return what a reader of Markdown shows as text."""
    return "".join(
        child.content
        for token in READER.parse(text)
        for child in token.children or ()
        if child.type in ("text", "code_inline", "text_special")
    )


@given(NASTY)
def test_quoted_text_is_shown_as_it_was_also_at_the_start_of_a_line(text: str) -> None:
    assert shown(inline(text)) == " ".join(wording.shown(text).split())


@given(NASTY)
def test_a_sentence_keeps_its_words_whatever_it_holds(text: str) -> None:
    assert sorted(shown(prose(text)).replace("`", "").split()) == sorted(
        wording.shown(text).replace("`", "").split()
    )


def test_what_a_sentence_has_between_backticks_is_code() -> None:
    assert prose("set `a_b|c` and _d_") == "set `a_b|c` and \\_d\\_"
    assert cell("set `a_b|c`") == "set `a_b\\|c`"
    assert prose("an odd ` stays") == "an odd \\` stays"


@given(NASTY)
def test_quoted_text_stays_in_its_cell(text: str) -> None:
    table = f"| a | b |\n|---|---|\n| {inline(text)} | x |\n"
    cells = [token.children or [] for token in READER.parse(table) if token.type == "inline"]
    assert len(cells) == 4
    assert "".join(child.content for child in cells[2]) == " ".join(wording.shown(text).split())


@given(st.text(alphabet="ab `*|_<", min_size=1, max_size=20).filter(lambda text: text.strip()))
def test_code_in_a_cell_is_one_span(text: str) -> None:
    table = f"| a |\n|---|\n| x {code(text, in_cell=True)} y |\n"
    spans = [
        child
        for token in READER.parse(table)
        for child in token.children or ()
        if child.type == "code_inline"
    ]
    assert [span.content.strip() for span in spans] == [text.strip()]


@given(st.lists(st.text(alphabet="ab `~", max_size=12), min_size=1, max_size=4))
def test_a_code_block_holds_whatever_it_is_given(lines: list[str]) -> None:
    (fence,) = READER.parse(block(lines, "sh"))
    assert fence.type == "fence"
    assert fence.content == "\n".join(lines) + "\n"


def test_a_template_quotes_whatever_it_prints() -> None:
    template = environment().from_string("{{ plain }} {{ ready }} {{ number }} {{ plain | code }}")
    assert template.render(plain="a|b*", ready=Markdown("**a**"), number=3) == "a\\|b\\* **a** 3 `a|b*`"


def test_empty_lines_are_tidied_but_not_in_code() -> None:
    assert tidy("\n\na  \n\n\n\nb\n```sh\nx  \n\n\n\ny\n```\n\n\n") == "a\n\nb\n```sh\nx  \n\n\n\ny\n```\n"


@given(st.lists(NASTY, min_size=1, max_size=5))
def test_a_command_reaches_the_tool_word_by_word(words: list[str]) -> None:
    assert shlex.split(command(*words)) == words


@pytest.mark.parametrize("name", ["esx 01", "x; rm -rf /", "$(reboot)", "a'b", "`id`"])
def test_names_in_a_settings_commands_are_quoted_and_in_its_sentences_not(name: str) -> None:
    part = Part(
        client="{host} > Configure",
        commands=("govc host.info -host {host}",),
        undo=("in the vSphere Client, look at {host}",),
    )
    made = filled(part, host=name, device="", value="", before=None)
    assert shlex.split(made.commands[0]) == ["govc", "host.info", "-host", name]
    assert made.client == f"{name} > Configure"
    assert made.undo == (f"in the vSphere Client, look at {name}",)


def test_what_was_there_before_is_named_or_called_so() -> None:
    part = Part(expected="{value} instead of {before} on {device}")
    assert filled(part, host="", device="vmnic4", value="on", before="off").expected == (
        "on instead of off on vmnic4"
    )
    assert (
        "instead of the previous value" in filled(part, host="", device="", value="on", before=None).expected
    )


def test_a_sentence_among_commands_is_a_comment() -> None:
    assert as_typed("esxcli graphics host get") == "esxcli graphics host get"
    assert as_typed("in the vSphere Client, see") == "# in the vSphere Client, see"
