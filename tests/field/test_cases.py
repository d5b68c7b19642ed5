"""Each case comes to what its table says; one that is open does not, for the reason that stands there."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from tests.cli.command_line import CommandLine
from tests.field.hands import HANDS
from tests.field.table import Case, Run, cases, count

README = Path(__file__).parents[1] / "README.md"

OPEN = [name for name, case in cases().items() if case.open]
RIGHT = [name for name, case in cases().items() if not case.open]


def play(case: Case, vgpu_cfg: CommandLine) -> list[str]:
    """Run a case's commands; return what is not as its table says."""
    case.write(vgpu_cfg.folder)
    wrong = []
    for run in case.runs:
        if run.by_hand:
            HANDS[run.by_hand](vgpu_cfg)
        else:
            wrong += differences(run, vgpu_cfg, case.environment)
    return wrong


def differences(run: Run, vgpu_cfg: CommandLine, environment: dict[str, str]) -> list[str]:
    words = shlex.split(run.run) if isinstance(run.run, str) else run.run
    ran = vgpu_cfg(*words, **environment)
    found = [f"says: {text}" for text in run.says if text not in ran.told]
    found += [f"never: {text}" for text in run.never if text in ran.told]
    if run.exit is not None and ran.code != run.exit:
        found.append(f"exit: {run.exit}")
    return [f"{' '.join(words)}: {one}; exit {ran.code}\n{ran.out}{ran.err}" for one in found]


@pytest.mark.parametrize("name", RIGHT)
def test_a_case_comes_to_what_its_table_says(name: str, vgpu_cfg: CommandLine) -> None:
    assert play(cases()[name], vgpu_cfg) == []


@pytest.mark.parametrize("name", OPEN)
def test_an_open_case_is_still_open(name: str, vgpu_cfg: CommandLine) -> None:
    assert play(cases()[name], vgpu_cfg) != [], "it is right by now: remove `open`"


def test_the_docs_have_the_count() -> None:
    assert f"\nField: {count()}.\n" in README.read_text(encoding="utf-8")
