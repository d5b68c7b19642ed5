"""The table of failures on the troubleshooting page: generated from results, without an empty cell."""

from __future__ import annotations

import pytest

from tests.faults.harness.mishaps import ALL, Mishap
from tests.faults.harness.outcomes import PAGE, counted, read_outcomes, table, told
from tests.faults.harness.phases import PHASES, phase_of
from tests.faults.harness.results import Key, Point
from tests.faults.harness.scenarios import SCENARIOS
from tests.page_tables import hold_table


def test_the_page_is_what_the_data_say() -> None:
    hold_table(PAGE, table(read_outcomes()))


@pytest.mark.parametrize("phase", PHASES)
def test_every_mishap_was_tried_in_every_phase_and_mended(phase: str) -> None:
    cells = read_outcomes()["phases"][phase]
    for mishap in ALL:
        assert all(told(phase, mishap, cells.get(mishap, {}))), mishap
        assert not cells.get(mishap, {}).get("wrong"), mishap


def test_every_scenario_was_killed_and_broken() -> None:
    assert read_outcomes()["scenarios"].keys() == SCENARIOS.keys()


def test_points_are_counted_by_phase() -> None:
    def point(mishap: Mishap, code: int, again: int, *wrong: str) -> Point:
        return Point(Key("made", 7, "CloneVM_Task", mishap), code, "", again, "", wrong)

    cells = counted([point("reset", 0, 0), point("reset", 6, 1), point("killed after", -9, 2, "x")])["phases"]
    assert cells["making VMs"] == {
        "killed after": {"killed": 1, "typed twice": 1, "wrong": 1},
        "reset": {"exit 0": 1, "exit 6": 1},
    }


def test_a_request_that_no_phase_names_is_told() -> None:
    assert phase_of("esxcli software vib install") == "settings of hosts"
    with pytest.raises(ValueError, match="PaintHost_Task"):
        phase_of("PaintHost_Task")
