"""Each guard of reach has a test that fails without it, and none of them has gone unlisted."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.mutants.guards import GUARDS

ROOT = Path(__file__).parents[2]
KINDS = {"datacenter", "cluster", "folder", "owner", "protect", "window", "max_hosts_down"}


@pytest.mark.exhaustive("longer runs of what the tests beside them try")
def test_every_guard_of_reach_is_missed_by_its_test() -> None:
    command = [sys.executable, "-m", "tests.mutants.guards"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=200)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (
        0,
        f"{len(GUARDS)} guards, 0 that no test misses",
    ), done.stdout


def test_every_kind_of_guard_is_listed() -> None:
    assert {*KINDS, "--only", "--allow-destroy"} <= {guard.of for guard in GUARDS}


def test_a_guard_that_has_moved_is_noticed() -> None:
    assert all(guard.source for guard in GUARDS)
