"""What every parser makes of every output, and of the first half of it, as stored texts.

REWRITE_TRANSCRIPTS=1 writes them anew.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from pprint import pformat

import pytest

from tests.sections import left_over, section
from tests.unit.parsers.printed import printed
from tests.unit.parsers.test_garbage import NAMES, PARSERS
from vgpu_cfg.parsers.text import UnreadableOutput

SET = re.compile(r"frozenset\(\{(.*?)\}\)", re.DOTALL)
FILE = Path(__file__).with_name("transcripts.txt")


OF_TOOLS = {
    "parse_gpu_csv": "query-gpu",
    "parse_kernel_log": "dmesg",
    "parse_statistics": "ethtool",
    "transports": "nccl",
}
"""Parsers that read nearly any text, with the names of what is theirs."""
NAMED = {
    parse.__name__ if parse.__name__ != "<lambda>" else f"parser {number}": parse
    for number, parse in enumerate(PARSERS)
}


def in_order(found: re.Match[str]) -> str:
    members = sorted(re.split(r",\s+", found[1]))
    return f"{{{', '.join(members)}}}"


def readers_of(name: str) -> list[str]:
    """List the parsers that read an output."""
    return [
        key for key, parse in NAMED.items() if OF_TOOLS.get(key, "") in name and read(parse, name) is not None
    ]


def read(parse: Callable[[str], object], name: str) -> object:
    try:
        return parse(printed(name)) or None
    except UnreadableOutput:
        return None


def made_of(text: str, readers: Iterable[str]) -> str:
    """Return what these parsers make of a text, or why they refuse it."""
    lines = []
    for key in readers:
        try:
            lines.append(f"{key}: {SET.sub(in_order, pformat(NAMED[key](text), width=110))}")
        except UnreadableOutput as error:
            lines.append(f"{key} refuses it: {error.message}; {error.subject}; {error.remedy}")
    return "\n".join(lines)


def refusals_of(name: str) -> str:
    """Return why the other parsers refuse an output."""
    readers = readers_of(name)
    return made_of(printed(name), (key for key in NAMED if key not in readers and key not in OF_TOOLS))


@pytest.mark.parametrize("name", NAMES)
def test_an_output_is_read_as_it_is_stored(name: str) -> None:
    text = made_of(printed(name), readers_of(name))
    assert text == section(FILE, name, text)


@pytest.mark.parametrize("name", NAMES)
def test_half_of_an_output_is_read_as_it_is_stored(name: str) -> None:
    whole = printed(name)
    text = made_of(whole[: len(whole) // 2], readers_of(name))
    assert text == section(FILE, f"half of {name}", text)


def test_the_output_of_another_tool_is_refused_as_it_is_stored() -> None:
    text = "\n".join(map(refusals_of, (NAMES[0], NAMES[-1])))
    assert text == section(FILE, "refused", text)


def test_no_section_is_left_over() -> None:
    assert left_over(FILE, ["refused", *NAMES, *(f"half of {name}" for name in NAMES)]) == []
