"""What each parser refuses, and with which tool, line, place and remedy.

REWRITE_TRANSCRIPTS=1 writes the stored texts anew.
"""

from __future__ import annotations

import ast
import inspect
from pathlib import Path
from traceback import walk_tb

import pytest

import vgpu_cfg.parsers
from tests.sections import left_over, section
from tests.unit.parsers.refused import ALL, Parse
from vgpu_cfg.parsers.text import UnreadableOutput

FOLDER = Path(inspect.getfile(vgpu_cfg.parsers)).parent
FILE = Path(__file__).with_name("refusals.txt")
NAMES = [f"{at} {getattr(parse, '__name__', 'parse_records')}" for at, (parse, _) in enumerate(ALL)]


def refusal(parse: Parse, text: str) -> Exception:
    with pytest.raises((UnreadableOutput, ValueError)) as caught:
        parse(text)
    return caught.value


def told(error: Exception) -> str:
    """Return all that an error of a parser holds, and what it was made from."""
    cause = f" from {type(error.__cause__).__name__}" if error.__cause__ is not None else ""
    if not isinstance(error, UnreadableOutput):
        return f"{type(error).__name__}{cause}\n  {error}"
    assert error.message.startswith(f"{error.tool}: ")
    assert error.message.endswith(f": {error.line!r}" if error.line else error.message[-1])
    assert error.subject.endswith(f", line {error.number}" if error.number else f"output of {error.tool}")
    return f"{type(error).__name__}{cause}: {error.subject}\n  {error.message}\n  {error.remedy}"


@pytest.mark.parametrize(("name", "row"), [*zip(NAMES, ALL, strict=True)], ids=NAMES)
def test_refusals_are_as_they_are_stored(name: str, row: tuple[Parse, tuple[str, ...]]) -> None:
    parse, texts = row
    found = "\n".join(told(refusal(parse, text)) for text in texts)
    assert found == section(FILE, name, found)


def test_no_section_is_left_over() -> None:
    assert left_over(FILE, NAMES) == []


def test_a_line_is_quoted_only_so_far() -> None:
    error = UnreadableOutput("a tool", "why", line=f"  {'a' * 200}b  ", number=3)
    assert error.line == "a" * 200 + "…"
    assert UnreadableOutput("a tool", "why", line=f" {'a' * 200} ").line == "a" * 200


def test_every_raise_has_a_text_that_reaches_it() -> None:
    reached = set()
    for frames in (walk_tb(refusal(parse, text).__traceback__) for parse, texts in ALL for text in texts):
        reached |= {(Path(frame.f_code.co_filename), line) for frame, line in frames}
    raises = [
        (path, node.lineno, node.end_lineno or 0)
        for path in sorted(FOLDER.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Raise)
    ]
    assert len(raises) > 50
    lacking = [
        f"{path.relative_to(FOLDER)}:{first}"
        for path, first, last in raises
        if not any(file == path and first <= line <= last for file, line in reached)
    ]
    assert lacking == []
