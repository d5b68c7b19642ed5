from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import pytest

from tests.fakes.fake_locks import undisputed
from tests.fakes.fake_vcenter import FakeVCenter
from tests.unit.execution import host_makers
from tests.unit.execution.makers import (
    PLAN,
    TEMPLATE,
    TEMPLATE_DETAIL,
    create,
    estate,
    pin,
    plan_of,
    power_on,
    run,
    statuses,
)
from vgpu_cfg.changes.change import ManualStep
from vgpu_cfg.changes.plan import Diagnostic
from vgpu_cfg.changes.report import EventKind
from vgpu_cfg.changes.severity import Severity
from vgpu_cfg.changes.values import Subject
from vgpu_cfg.errors import DoesNotFit, NotPermitted, PlanError, Unreachable, VCenterError
from vgpu_cfg.execution import HostTools, Run, exit_code_of
from vgpu_cfg.model.observed.vm import Vm
from vgpu_cfg.planning.host_settings.table import SETTINGS
from vgpu_cfg.ports import TaskState, TaskUpdate

INSUFFICIENT = ("InsufficientGraphicsResourcesFault", "The amount of graphics resource is insufficient.")


def by_hand(name: str, **fields: object) -> ManualStep:
    return ManualStep.model_validate(
        {"id": name, "subject": Subject(kind="host", name="esx-01"), "text": "switch SR-IOV on", **fields}
    )


def test_an_empty_plan_starts_no_task() -> None:
    server = estate()
    report, events = run(server)
    assert (report.tasks, report.outcomes, events, server.calls) == (0, (), [], [])
    assert exit_code_of(report) == 0


def test_vms_are_made_side_by_side_within_both_caps() -> None:
    server = estate(gpus={f"host-{n}": {f"0000:{n}{m}:00.0": 0 for m in range(3)} for n in range(1, 4)})
    names = [(f"vm-{host}-{n}", f"host-{host}") for host in range(1, 4) for n in range(3)]
    changes = [create(name, host=host) for name, host in names]
    changes_on = [power_on(name, host=host) for name, host in names]
    report, _ = run(server, *changes, *changes_on, options={"parallel": 4, "per_host": 2})
    assert set(statuses(report).values()) == {"done"}
    assert report.tasks == 18
    assert server.most_at_once == 4
    assert set(server.most_on_host.values()) == {2}


def test_one_wait_serves_all_tasks() -> None:
    server = estate(gpus={"host-1": {}, "host-2": {}})
    run(server, create("a", host="host-1"), create("b", host="host-2"))
    assert server._waits == 1


def test_what_fails_takes_along_what_needs_it_and_the_rest_goes_on() -> None:
    server = estate(failures={("create_vm", 1): INSUFFICIENT})
    report, _ = run(server, create("a"), create("b"), power_on("a"), power_on("b"))
    assert statuses(report) == {
        "create a": "failed",
        "create b": "done",
        "power on a": "skipped",
        "power on b": "done",
    }
    skipped = next(outcome for outcome in report.outcomes if outcome.change_id == "power on a")
    assert skipped.message == "requires 'create a', which failed"
    assert exit_code_of(report) == 6


def test_a_call_that_vcenter_refuses_fails_that_change_only() -> None:
    denied = NotPermitted("the account lacks Datastore.AllocateSpace", subject="vsan", remedy="grant it")
    server = estate(refusals={("create_vm", 1): denied})
    report, _ = run(server, create("a"), create("b"))
    assert statuses(report) == {"create a": "failed", "create b": "done"}
    assert report.outcomes[0].remedy == "grant it"


def test_events_tell_the_whole_story_in_order() -> None:
    server = estate()
    _, events = run(server, create("a"), power_on("a"), options={"wait_seconds": 5.0})
    told = [(event.kind, event.change_id, event.task or event.progress or event.status) for event in events]
    assert told == [
        (EventKind.STARTED, "create a", None),
        (EventKind.TASK, "create a", "task-1"),
        (EventKind.PROGRESS, "create a", "task-1"),
        (EventKind.ENDED, "create a", "done"),
        (EventKind.STARTED, "power on a", None),
        (EventKind.TASK, "power on a", "task-2"),
        (EventKind.PROGRESS, "power on a", "task-2"),
        (EventKind.ENDED, "power on a", "done"),
    ]
    assert [event.at for event in events] == sorted(event.at for event in events)


def test_outcomes_stand_in_the_plans_order_with_their_times() -> None:
    server = estate()
    report, _ = run(server, create("a"), create("b"), power_on("b"), power_on("a"))
    assert [outcome.change_id for outcome in report.outcomes] == [
        "create a",
        "create b",
        "power on b",
        "power on a",
    ]
    first = report.outcomes[0]
    assert first.started_at is not None
    assert first.ended_at is not None
    assert (first.ended_at - first.started_at).total_seconds() == 10.0


# ------------------------------------------------------------- manual steps


def test_a_run_stops_before_what_needs_a_manual_step_and_does_the_rest() -> None:
    server = estate()
    report, _ = run(
        server, by_hand("bios esx-01"), create("a", needs=("bios esx-01",)), power_on("a"), create("b")
    )
    assert report.waiting_for == ("bios esx-01",)
    assert statuses(report) == {
        "bios esx-01": "skipped",
        "create a": "skipped",
        "power on a": "skipped",
        "create b": "done",
    }
    assert exit_code_of(report) == 7


def test_a_manual_step_that_was_done_opens_the_way() -> None:
    server = estate()
    report, _ = run(
        server,
        by_hand("bios esx-01"),
        create("a", needs=("bios esx-01",)),
        options={"done_by_hand": frozenset({"bios esx-01"})},
    )
    assert statuses(report) == {"bios esx-01": "not_needed", "create a": "done"}
    assert exit_code_of(report) == 0


def test_a_manual_step_whose_own_needs_failed_is_not_waited_for() -> None:
    server = estate(failures={("create_vm", 1): INSUFFICIENT})
    report, _ = run(server, create("a"), by_hand("cable a", needs=("create a",)))
    assert report.waiting_for == ()
    assert exit_code_of(report) == 6


# ------------------------------------------------------------- stopping


def test_a_stop_lets_running_tasks_end_and_begins_nothing_more() -> None:
    server = estate()
    report, _ = run(
        server,
        create("a"),
        create("b"),
        power_on("a"),
        options={"per_host": 1},
        stop=lambda: bool(server.calls),
    )
    assert [method for method, _ in server.calls] == ["create_vm"]
    assert statuses(report) == {"create a": "done", "create b": "skipped", "power on a": "skipped"}
    assert report.is_interrupted
    assert exit_code_of(report) == 130
    assert tuple(map(str, report.left_behind)) == ("a: created, but not completed: power on a",)


def test_a_stop_in_the_middle_of_a_vm_names_it_as_half_made() -> None:
    server = estate(drops=frozenset({"firmware"}))
    report, _ = run(server, create("a"), stop=lambda: bool(server.calls))
    assert [method for method, _ in server.calls] == ["create_vm"]
    assert statuses(report) == {"create a": "failed"}
    assert tuple(map(str, report.left_behind)) == ("a: created, but without firmware",)


def test_the_first_ctrl_c_waits_for_what_runs() -> None:
    server = estate(raise_at_wait={1: KeyboardInterrupt()})
    report, _ = run(server, create("a"), power_on("a"))
    assert statuses(report) == {"create a": "done", "power on a": "skipped"}
    assert exit_code_of(report) == 130


def test_the_second_ctrl_c_leaves_at_once_and_names_what_still_runs() -> None:
    server = estate(raise_at_wait={1: KeyboardInterrupt(), 2: KeyboardInterrupt()})
    report, _ = run(server, create("a"), power_on("a"))
    assert statuses(report) == {"create a": "failed", "power on a": "skipped"}
    assert tuple(map(str, report.left_behind)) == (
        "a: vCenter had not finished creating it",
        "task-1: 'create a' was still running in vCenter",
    )
    assert server._waits == 2


def test_ctrl_c_amid_a_call_fails_that_change_and_stops() -> None:
    server = estate()

    def interrupted(moid: str, host_moid: str | None = None) -> str:
        raise KeyboardInterrupt

    server.power_on_vm = interrupted  # type: ignore[method-assign]  # the fake is bent for this test
    report, _ = run(server, create("a"), power_on("a"), create("b", needs=("power on a",)))
    assert statuses(report) == {"create a": "done", "power on a": "failed", "create b": "skipped"}
    assert report.is_interrupted


# ------------------------------------------------------------- a lost vCenter


def test_losing_sight_of_the_tasks_ends_the_run_and_says_what_ran() -> None:
    server = estate(raise_at_wait={1: Unreachable("no answer from vc01", remedy="see its network")})
    report, _ = run(server, create("a"), create("b", needs=("create a",)))
    assert statuses(report) == {"create a": "failed", "create b": "skipped"}
    assert report.outcomes[0].message == "its state is unknown: no answer from vc01"
    assert "task-1: 'create a' was still running in vCenter" in map(str, report.left_behind)
    assert not report.is_interrupted
    assert exit_code_of(report) == 6


def test_a_request_that_may_or_may_not_have_arrived_says_so_and_nothing_more_is_begun() -> None:
    server = estate(refusals={("create_vm", 1): Unreachable("the connection broke")})
    report, _ = run(server, create("a"), *(create(f"vm-{n}") for n in range(20)))
    assert "it is unknown whether vCenter received the request" in report.outcomes[0].message
    assert len(server.started("create_vm")) == 1
    assert set(statuses(report).values()) == {"failed", "skipped"}


# ------------------------------------------------------------- refusals before the first touch


def test_a_plan_with_errors_is_not_run() -> None:
    server = estate()
    found = Diagnostic(
        code="VG101", severity=Severity.ERROR, subject=Subject(kind="vm", name="a"), message="does not fit"
    )
    with pytest.raises(DoesNotFit, match="VG101"):
        Run(
            plan_of(create("a"), diagnostics=(found,)), server, server, server, locks=undisputed()
        ).carry_out()
    assert server.calls == []


def test_a_plan_that_prepares_hosts_is_not_run_without_what_changes_them() -> None:
    server = estate()
    with pytest.raises(ValueError, match="prepares hosts requires `hosts`"):
        run(server, create("a"), host_makers.enter())
    assert server.calls == []


def test_settings_come_from_the_table() -> None:
    server = host_makers.estate()
    tools = HostTools(PLAN, server, server, undisputed(), host_makers.view)
    assert tools.settings(SETTINGS[0].key) is SETTINGS[0]


def test_a_plan_whose_needs_make_a_circle_is_not_run() -> None:
    server = estate()
    with pytest.raises(PlanError):
        run(server, create("a"), power_on("b", needs=("power on b",)))
    assert server.calls == []


@pytest.mark.parametrize("count", [1, 40])
def test_pinned_power_ons_of_one_host_never_overlap(count: int) -> None:
    gpus = {"host-1": {f"0000:{n:02x}:00.0": n % 2 for n in range(count)}}
    server = FakeVCenter(gpus=gpus)
    server.add_vm("ubuntu-22.04-efi", "vm-template")
    nodes = pin().model_copy(update={"node_by_pci_id": gpus["host-1"]})
    changes = [create(f"vm-{n:02}") for n in range(count)]
    report, events = run(server, *changes, *(power_on(f"vm-{n:02}", pin=nodes) for n in range(count)))
    assert set(statuses(report).values()) == {"done"}
    powering = 0
    for event in events:
        if event.change_id.startswith("power on"):
            powering += {EventKind.STARTED: 1, EventKind.ENDED: -1}.get(event.kind, 0)
            assert powering <= 1
    for vm in server.vms.values():
        if vm.is_on:
            held = server._held[vm.moid][0]
            assert vm.detail is not None
            assert vm.detail.extra_config["numa.nodeAffinity"] == str(gpus["host-1"][held])


# ------------------------------------------------------------- what is read together


def on_four_hosts(**fields: object) -> FakeVCenter:
    return estate(gpus={f"host-{n}": {f"0000:{n}b:00.0": 0} for n in range(4)}, **fields)


MADE = [create(f"vm-{n}", host=f"host-{n}") for n in range(4)]
STARTED = [power_on(f"vm-{n}", host=f"host-{n}") for n in range(4)]


def test_what_ends_together_is_read_back_in_one_call_and_not_read_again_before_it_is_started() -> None:
    server = on_four_hosts()
    report, _ = run(server, *MADE, *STARTED)
    assert set(statuses(report).values()) == {"done"}
    made = tuple(server.vm(f"vm-{n}").moid for n in range(4))
    # Once after all were made, which is right before they are started, and once after that.
    assert server.looks == [made, made]


def test_a_vm_that_waited_for_its_turn_is_read_again_before_it_is_started() -> None:
    server = on_four_hosts()
    run(server, *MADE, *STARTED, options={"parallel": 1})
    later = server.vm("vm-3").moid
    # Read back, read again once the other three were started, read back.
    assert [looked for looked in server.looks if later in looked] == [(later,)] * 3


def test_of_vms_that_are_read_together_only_the_one_fails_that_cannot_be_read() -> None:
    class Unreadable(FakeVCenter):
        def read_vms(
            self, moids: Iterable[str], extra_config_keys: frozenset[str] = frozenset()
        ) -> tuple[Vm, ...]:
            wanted = tuple(moids)
            if any(moid in self.vms and self.vms[moid].name == "vm-2" for moid in wanted):
                raise VCenterError("the answer cannot be read")
            return super().read_vms(wanted, extra_config_keys)

    server = Unreadable(gpus=on_four_hosts().gpus)
    server.add_vm(TEMPLATE.name, "vm-template", TEMPLATE_DETAIL, is_template=True)
    report, _ = run(server, *MADE)
    assert statuses(report) == {f"create vm-{n}": "failed" if n == 2 else "done" for n in range(4)}


def test_where_vcenter_does_not_answer_each_is_told_so_after_one_call() -> None:
    class Away(FakeVCenter):
        def read_vms_and_holders(
            self, moids: Iterable[str], hosts: Iterable[str], keys: frozenset[str] = frozenset()
        ) -> tuple[tuple[Vm, ...], Mapping[str, Mapping[str, tuple[str, ...]]]]:
            self.looks.append(tuple(moids))
            raise Unreachable("no connection")

    server = Away(gpus=on_four_hosts().gpus)
    server.add_vm(TEMPLATE.name, "vm-template", TEMPLATE_DETAIL, is_template=True)
    report, _ = run(server, *MADE)
    assert set(statuses(report).values()) == {"failed"}
    assert len(server.looks) == 1


@pytest.mark.parametrize(
    ("at_once", "under_way"),
    [(2, [8, 6, 4, 2, 2]), (8, [8, 2])],
    ids=["tasks queue", "none does"],
)
def test_no_more_vms_are_made_while_vcenter_keeps_tasks_in_its_queue(
    at_once: int, under_way: list[int]
) -> None:
    loads: list[int] = []

    class Queueing(FakeVCenter):
        def wait_for_tasks(self, tasks: Sequence[str], timeout_seconds: float) -> tuple[TaskUpdate, ...]:
            loads.append(len(tasks))
            self.pause(10)
            ended = (self._end(self._tasks[task]) for task in tasks[:at_once])
            return (*ended, *(TaskUpdate(task=task, state=TaskState.QUEUED) for task in tasks[at_once:]))

    server = Queueing(gpus={})
    server.add_vm(TEMPLATE.name, "vm-template", TEMPLATE_DETAIL, is_template=True)
    report, _ = run(
        server, *(create(f"vm-{n}", host=f"host-{n}") for n in range(10)), options={"parallel": 8}
    )
    assert set(statuses(report).values()) == {"done"}
    assert loads == under_way


@pytest.mark.parametrize(("count", "waited"), [(2, 1.0), (1, 0.0)], ids=["several tasks", "one task"])
def test_news_of_several_tasks_are_let_come_together(count: int, waited: float) -> None:
    pauses: list[float] = []

    class Watched(FakeVCenter):
        def pause(self, seconds: float) -> None:
            pauses.append(seconds)
            super().pause(seconds)

    server = Watched(gpus={}, task_seconds=15.0)
    server.add_vm(TEMPLATE.name, "vm-template", TEMPLATE_DETAIL, is_template=True)
    run(server, *(create(f"vm-{n}", host=f"host-{n}") for n in range(count)))
    # The first wait ends after ten seconds; a tenth of them passes before the next.
    assert sum(pauses) == waited


@pytest.mark.parametrize(
    ("seconds", "pauses"),
    # Four tasks, two at once. Of the first two nothing is known; of the others that none ends sooner.
    [(4.0, [0.0, 4.0]), (8.0, [0.0, 5.0])],
    ids=["the wait begins when they end", "it is not put off for long"],
)
def test_news_of_tasks_are_not_waited_for_before_such_tasks_have_ever_ended(
    seconds: float, pauses: list[float]
) -> None:
    paused: list[float] = []

    class Watched(FakeVCenter):
        def pause(self, seconds: float) -> None:
            paused.append(seconds)
            super().pause(seconds)

    server = Watched(gpus={}, task_seconds=seconds)
    server.add_vm(TEMPLATE.name, "vm-template", TEMPLATE_DETAIL, is_template=True)
    run(server, *(create(f"vm-{n}", host=f"host-{n}") for n in range(4)), options={"parallel": 2})
    assert paused == pauses
