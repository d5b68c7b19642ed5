"""What preparing a host costs stays bounded, however many hosts there are."""

from __future__ import annotations

import pytest

from tests.bench.guests import measure_guests
from tests.bench.hosts import HostRow, measure_hosts

MOST_TRIPS = {"plan": 20, "plan --open-shell": 25, "apply": 200, "apply again": 25}
FEW_AND_MANY = (2, 4)
COUNTED = pytest.mark.long("what hosts and guests cost, counted on several: tests/bench")
TASKS = {"plan": 0, "plan --open-shell": 0, "apply": 4, "apply again": 0}


@pytest.fixture(scope="module")
def rows() -> dict[int, dict[str, HostRow]]:
    return {count: {row.what: row for row in measure_hosts(count)} for count in FEW_AND_MANY}


@COUNTED
@pytest.mark.parametrize("step", MOST_TRIPS)
def test_a_host_costs_no_more_where_there_are_more_of_them(
    step: str, rows: dict[int, dict[str, HostRow]]
) -> None:
    (few_hosts, few), (many_hosts, many) = ((count, rows[count][step]) for count in FEW_AND_MANY)
    # Hosts are prepared two at a time: the order of the threads decides a few round trips.
    assert many.trips / many_hosts <= few.trips / few_hosts * 1.1
    assert few.trips / few_hosts <= MOST_TRIPS[step]
    assert many.commands / many_hosts == few.commands / few_hosts
    assert many.tasks / many_hosts == few.tasks / few_hosts == TASKS[step]


@pytest.mark.exhaustive("longer runs of what the tests beside them try")
@COUNTED
def test_a_guest_costs_four_tasks_and_one_worker_more_only_marks_the_others() -> None:
    first, again, more = measure_guests(2)
    # A clone, a power-on, a mark for what is public, and one for what is secret.
    assert (first.tasks, first.staged) == (4 * 2, 4)
    assert first.trips <= 100 * 2
    assert first.size <= 40_000
    assert (again.trips, again.tasks, again.staged) == (11, 0, 0)
    # A clone, a power-on and two marks for the new one; for the others a mark.
    assert (more.tasks, more.staged) == (4 + 2, 4)
