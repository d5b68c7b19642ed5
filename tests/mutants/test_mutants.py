from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("mutmut", reason="the extra `mutants` is not installed")

ROOT = Path(__file__).parents[2]
CODE = """
class Host:
    @property
    def gpus(self):
        return 8


def fits(asked):
    return asked < 1 or asked <= Host().gpus
"""
TESTS = """
import gc
from functools import cache

from room.code import fits

gc.freeze()  # as a conftest may do


@cache
def answers():
    return {asked: fits(asked) for asked in (8, 9)}


def test_both_are_answered():
    assert len(answers()) == 2


def test_eight_fit():
    assert answers()[8]


def test_nine_do_not_fit():
    assert not answers()[9]
"""


def test_wrong_bounds_are_killed_and_what_changes_nothing_survives(tmp_path: Path) -> None:
    room = tmp_path / "room"
    room.mkdir()
    (room / "code.py").write_text(CODE, encoding="utf-8")
    nested = tmp_path / "nested"
    nested.mkdir()
    (nested / "conftest.py").write_text("def pytest_collection_finish(): pass\n", encoding="utf-8")
    (nested / "test_code.py").write_text(TESTS, encoding="utf-8")
    command = [sys.executable, "-m", "tests.mutants", "room", "--per-function", "9", "--", "nested"]
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{tmp_path}"}
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=120
    )
    lines = done.stdout.splitlines()
    assert {line for line in lines if line.startswith("+ ")} == {
        "+    return asked <= 1 or asked <= Host().gpus",
        "+    return asked < 2 or asked <= Host().gpus",
    }, done
    assert lines[-1] == "5 tried: 3 killed, 2 survived"
    assert done.returncode == 1
