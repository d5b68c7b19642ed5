"""Two machines at once, with one plan, with two, on one host: nothing is lost, doubled or left over.

The second machine begins at a request of the first one, within ten seconds of vCenter's time. Whom the locks
turn away runs again; then both plans are in sync.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.harness.scenarios import RACES
from tests.faults.test_points import DEADLINE_SECONDS, module_ran

FIRST = "one plan"
LATER = pytest.mark.exhaustive("two machines at once, at some of their requests: tests/faults/test_races.py")


@pytest.mark.parametrize("race", [FIRST, pytest.param("two plans", marks=LATER)])
def test_two_machines_at_once(race: str, results_file: Path) -> None:
    code, told = module_ran("races", race, "--orders", "1", results_file=results_file)
    assert code == 0, told


@pytest.mark.exhaustive("two machines that begin at twenty moments: tests/faults/test_races.py")
@pytest.mark.timeout(DEADLINE_SECONDS)
@pytest.mark.parametrize("race", RACES)
def test_two_machines_in_every_order(race: str, results_file: Path) -> None:
    code, told = module_ran("races", race, results_file=results_file)
    assert code == 0, told
