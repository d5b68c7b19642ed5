"""Every file of tests/cli/transcripts is a session at the command line that must read just so.

REWRITE_TRANSCRIPTS=1 writes them anew from their commands; read the difference before keeping it.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.cli.command_line import CommandLine
from tests.cli.transcript import commands_of, comment_of, play, replaced

FOLDER = Path(__file__).with_name("transcripts")
CASES = sorted(path.stem for path in FOLDER.glob("*.txt"))
MUST_REWRITE = os.environ.get("REWRITE_TRANSCRIPTS", "")


@pytest.mark.sampled(3)
@pytest.mark.parametrize("case", CASES)
def test_it_reads_as_its_transcript(case: str, vgpu_cfg: CommandLine) -> None:
    path = FOLDER / f"{case}.txt"
    expected = path.read_text(encoding="utf-8")
    happened = play(comment_of(expected), commands_of(expected), vgpu_cfg)
    if MUST_REWRITE:
        path.write_text(happened, encoding="utf-8")
        pytest.skip("written anew")
    assert happened == expected


@pytest.mark.parametrize("case", CASES)
def test_no_line_is_wider_than_the_terminal(case: str) -> None:
    lines = (FOLDER / f"{case}.txt").read_text(encoding="utf-8").splitlines()
    # A fault stays on one line, however long: editors and CI find file:line:column there.
    assert [line for line in lines if len(line) > 112 and ".yaml:" not in line and line[:2] != "$ "] == []


@pytest.mark.parametrize(
    ("line", "stays"),
    [
        ("12:13:14   [3/4] done    make a  1.2 s, 2 tasks", "hh:mm:ss  [3/4] done  make a  N s, 2 tasks"),
        ("DONE in 0.2 s.  1 made      plan b7996bf9", "DONE in N s.  1 made  plan <digest>"),
        ("LOG  a/b-b7996bf9-20260302T210411Z.jsonl", "LOG  a/b-<digest>-<moment>.jsonl"),
        ("LOG  a/b-febdbfea-20260302T210411Z.jsonl", "LOG  a/b-<digest>-<moment>.jsonl"),
        ("DONE in 0.2 s.  1 made      plan febdbfea", "DONE in N s.  1 made  plan <digest>"),
        ("  VM      STATE  TIME", "  VM  STATE  TIME"),
        ("  a-deadbeef  keeps   its margins  ", "  a-deadbeef  keeps   its margins"),
    ],
)
def test_what_differs_from_run_to_run_is_replaced(line: str, stays: str) -> None:
    assert replaced(line) == stays
