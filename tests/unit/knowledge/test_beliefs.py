"""The rows of beliefs: valid, in plain English, and mostly open to a trial."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from vgpu_cfg.errors import DocumentError
from vgpu_cfg.knowledge.beliefs import FOLDER, About, Trial, load_beliefs, read_beliefs

LEAST_TRIED = 0.8
MOST_WORDS = 32
HOST_ROW = "beliefs:\n  a-b:\n    statement: It is so.\n    basis: {{confidence: {}}}\n"


def read(tmp_path: Path, text: str) -> None:
    path = tmp_path / "host.yaml"
    path.write_text(text, encoding="utf-8")
    read_beliefs(path, About.HOST)


def test_every_file_is_about_a_subject() -> None:
    assert sorted(path.stem for path in FOLDER.glob("*")) == sorted(About)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (HOST_ROW.format("read"), "requires a source"),
        (HOST_ROW.format("known"), "host.yaml:4"),
        (HOST_ROW.format("assumed") + "    tried: vm\n", "host.yaml:5"),
        (HOST_ROW.format("assumed").replace("a-b", "A b"), "host.yaml:2"),
        (HOST_ROW.format("assumed") * 2, "host.yaml"),
    ],
)
def test_a_faulty_row_is_refused_with_its_line(text: str, told: str, tmp_path: Path) -> None:
    with pytest.raises(DocumentError) as caught:
        read(tmp_path, text)
    assert told in str([str(fault) for fault in caught.value.faults])


@pytest.mark.parametrize("confidence", ["assumed", "recalled"])
def test_a_row_without_a_document_needs_no_source(confidence: str, tmp_path: Path) -> None:
    read(tmp_path, HOST_ROW.format(confidence))


def test_most_of_what_was_not_read_about_vcenter_can_be_tried() -> None:
    unread = [
        one
        for one in load_beliefs().values()
        if one.about is About.VCENTER and not one.confidence.needs_source
    ]
    assert sum(one.trial is not Trial.NONE for one in unread) >= LEAST_TRIED * len(unread)


def test_a_statement_is_one_short_sentence() -> None:
    wrong = [
        one.id
        for one in load_beliefs().values()
        if not one.statement.endswith(".")
        or re.search(r"\. [A-Z]", one.statement)
        or len(one.statement.split()) > MOST_WORDS
    ]
    assert wrong == []


def test_the_command_line_starts_without_beliefs() -> None:
    code = "import vgpu_cfg.cli.app, sys; print('vgpu_cfg.knowledge.beliefs' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120
    )
    assert done.stdout == "False\n"
