from __future__ import annotations

import pytest

from tests.unit.execution.makers import create, pin, power_on
from vgpu_cfg.changes.change import Change
from vgpu_cfg.changes.plan import GpuLoad, StartQueue
from vgpu_cfg.errors import PlanError
from vgpu_cfg.execution.run.scheduler import Scheduler, StartQueues
from vgpu_cfg.model.vgpu import Sharing


def begin_all(scheduler: Scheduler) -> list[str]:
    begun = []
    while (change := scheduler.next_change()) is not None:
        begun.append(change.id)
    return begun


def names(changes: tuple[Change, ...]) -> list[str]:
    return [change.id for change in changes]


def test_what_needs_nothing_begins_in_the_plans_order_up_to_the_cap() -> None:
    changes: list[Change] = [create(f"vm-{number}", host=f"host-{number}") for number in range(5)]
    scheduler = Scheduler(changes, parallel=3, per_host=2)
    assert begin_all(scheduler) == ["create vm-0", "create vm-1", "create vm-2"]
    scheduler.succeed(changes[1])
    assert begin_all(scheduler) == ["create vm-3"]


def test_a_host_takes_no_more_than_its_share_and_others_pass_by() -> None:
    changes: list[Change] = [create("a"), create("b"), create("c"), create("d", host="host-2")]
    scheduler = Scheduler(changes, parallel=8, per_host=2)
    assert begin_all(scheduler) == ["create a", "create b", "create d"]
    scheduler.succeed(changes[3])
    assert begin_all(scheduler) == []
    scheduler.fail(changes[0])
    assert begin_all(scheduler) == ["create c"]


def test_a_change_begins_when_all_that_it_needs_has_come_true() -> None:
    changes: list[Change] = [create("a"), create("b"), power_on("c", needs=("create a", "create b"))]
    scheduler = Scheduler(changes, parallel=8, per_host=8)
    begin_all(scheduler)
    scheduler.succeed(changes[0])
    assert begin_all(scheduler) == []
    scheduler.succeed(changes[1])
    assert begin_all(scheduler) == ["power on c"]


def test_power_ons_share_a_host_unless_one_of_them_has_a_pin() -> None:
    free: list[Change] = [power_on("a", needs=()), power_on("b", needs=())]
    assert len(begin_all(Scheduler(free, parallel=8, per_host=8))) == 2
    pinned: list[Change] = [power_on("a", needs=(), pin=pin()), power_on("b", needs=(), pin=pin())]
    assert begin_all(Scheduler(pinned, parallel=8, per_host=8)) == ["power on a"]
    mixed: list[Change] = [power_on("a", needs=()), power_on("b", needs=(), pin=pin())]
    assert begin_all(Scheduler(mixed, parallel=8, per_host=8)) == ["power on a"]
    elsewhere: list[Change] = [
        power_on("a", needs=(), pin=pin()),
        power_on("b", needs=(), pin=pin(), host="host-2"),
    ]
    assert len(begin_all(Scheduler(elsewhere, parallel=8, per_host=8))) == 2


def test_a_pinned_power_on_does_not_hold_up_a_clone_on_its_host() -> None:
    changes: list[Change] = [power_on("a", needs=(), pin=pin()), create("b")]
    assert len(begin_all(Scheduler(changes, parallel=8, per_host=2))) == 2


def test_a_failure_drops_all_that_needs_it_however_far_away() -> None:
    changes: list[Change] = [
        create("a"),
        power_on("a"),
        power_on("z", needs=("power on a",)),
        create("b", host="host-2"),
    ]
    scheduler = Scheduler(changes, parallel=8, per_host=2)
    begin_all(scheduler)
    assert names(scheduler.fail(changes[0])) == ["power on a", "power on z"]
    scheduler.succeed(changes[3])
    assert scheduler.next_change() is None


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ([create("a"), create("a")], "two changes have the ID"),
        ([power_on("a", needs=("create z",))], "this change requires 'create z', which is not in the plan"),
        (
            [power_on("a", needs=("power on b",)), power_on("b", needs=("power on a",))],
            "depend on each other: power on a, power on b",
        ),
    ],
)
def test_needs_that_have_no_order_are_refused(changes: list[Change], words: str) -> None:
    with pytest.raises(PlanError, match=words):
        Scheduler(changes, parallel=8, per_host=2)


def test_a_vm_that_drs_started_elsewhere_holds_up_no_other_of_its_contest() -> None:
    queue = StartQueue(
        host_moid="host-1",
        gpus=(
            GpuLoad(pci_id="0000:10:00.0", board="A100", sharing=Sharing.TIME_SLICED),
            GpuLoad(pci_id="0000:11:00.0", board="A100", sharing=Sharing.TIME_SLICED),
        ),
        starts={"large": (("grid_a100-20c", None),), "small": (("grid_a100-10c", None),)},
    )
    changes: list[Change] = [power_on("large", needs=()), power_on("small", needs=())]
    scheduler = Scheduler(changes, parallel=8, per_host=8, start_queues=StartQueues([queue]))
    assert begin_all(scheduler) == ["power on large"]
    scheduler.succeed(changes[0])  # no GPU of this host was noted for it
    assert begin_all(scheduler) == ["power on small"]
