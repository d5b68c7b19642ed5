"""Every command that pages, transcripts, and cases print is parsed by the program: none is mistyped.

Nothing is run: `tests/cli/test_pages.py`, `test_transcripts.py`, and `fixes_on_the_lab.py` run theirs.
"""

from __future__ import annotations

import ast
import re
import shlex
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.cli.command_line import ROOT
from tests.cli.test_help import top
from vgpu_cfg.cli.app import UsageError
from vgpu_cfg.cli.options.old_words import renewed

if TYPE_CHECKING:
    import pytest

PLACES = {
    "pages": ("README.md", "docs/**/*.md", "examples/**/*.md"),
    "transcripts": ("tests/**/transcripts*.txt", "tests/cli/transcripts/*.txt", "tests/plans/whole/*.txt"),
    "messages": ("vgpu_cfg/**/*.py", "vgpu_cfg/**/*.toml", "vgpu_cfg/**/*.yaml"),
    "cases": ("tests/plans/cases/*.yaml", "tests/field/cases/*.yaml", "tests/cli/*.yaml"),
}
QUOTED = re.compile(r"`(?:\$ )?(vgpu-cfg\s[^`]+)`")
LINE = re.compile(r"^[!\s]*(?:\$|NEXT|DO|do|CHECK|then|UNDO)\s+(vgpu-cfg [^`\n]+)$", re.MULTILINE)
IN_FENCE = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)
NOT_TYPED = re.compile(r"…|\.\.\.|[{}<>|;&()\[]|  |\bCOMMAND\b|vgpu-cfg.*vgpu-cfg")
"""Forms, other programs' parts, and several lines in one."""
NAMED_ONLY = re.compile(r"Missing argument|requires an argument")
"""What is wrong with a command that a sentence mentions without what belongs to it."""
TYPED = re.compile(r"^(\$|! NOTE) .*$", re.MULTILINE)
"""Lines that a transcript types, some of them wrong on purpose, and names of old words."""
FORM = re.compile(r"[ =](FORMAT|N|KIND:NAME)\b")
FEWEST = {"pages": 500, "transcripts": 50, "messages": 100, "cases": 10}
TOP: Any = top()


def literals(source: str) -> Iterator[str]:
    """Yield a module's texts, with a word for each value that is filled in."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(one.value) if isinstance(one, ast.Constant) else "x1" for one in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def printed(place: str) -> Iterator[tuple[Path, str]]:
    for pattern in PLACES[place]:
        for path in sorted(ROOT.glob(pattern)):
            if path.parts[-2] == "decisions":
                continue
            text = path.read_text(encoding="utf-8")
            if path.suffix == ".py":
                text = "\n".join(literals(text))
            if path.suffix == ".txt":
                text = TYPED.sub("", text)
            fences = "\n".join(IN_FENCE.findall(text))
            found = {*QUOTED.findall(text), *LINE.findall(text)}
            found |= {line for line in fences.splitlines() if line.startswith("vgpu-cfg ")}
            for command in sorted(" ".join(one.split("  # ")[0].split()) for one in found):
                yield path, command


def fault_of(command: str, *, is_whole: bool = False) -> str:
    """Return the usage error of a command line, empty if it has none; a part is enough if not `is_whole`."""
    if NOT_TYPED.search(command) or FORM.search(command):
        return "-"
    try:
        words = renewed(shlex.split(command, comments=True)[1:])
    except ValueError:
        return "-"
    group: Any = TOP
    while words and hasattr(group, "commands"):
        if words[0].startswith("-"):
            return ""
        if words[0] == "x1":
            return "-"
        if words[0] not in group.commands:
            return f"there is no command {words[0]}"
        group, words = group.commands[words[0]], words[1:]
    if hasattr(group, "commands") or "--help" in words:
        return ""
    try:
        group.make_context("vgpu-cfg", list(words))
    except UsageError as error:
        is_named = NAMED_ONLY.search(error.format_message()) and not is_whole
        return "" if is_named else error.format_message()
    return ""


def test_no_printed_command_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    wrong, counts = {}, Counter[str]()
    for place in PLACES:
        for path, command in printed(place):
            fault = fault_of(command, is_whole=path.parent.name == "transcripts")
            counts[place] += fault == ""
            if fault not in ("", "-"):
                wrong[f"{path.relative_to(ROOT)}: {command}"] = fault
    with capsys.disabled():
        sys.stdout.write(f"printed commands that were parsed: {dict(counts)}\n")
    assert wrong == {}
    assert {place: counts[place] >= fewest for place, fewest in FEWEST.items()} == dict.fromkeys(FEWEST, True)
