"""The course of a trial at one vCenter: its tools, its experiments, and the removal of its objects."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Self

from vgpu_cfg.changes.change import CreateVm
from vgpu_cfg.changes.kinds.move_vm import Destination
from vgpu_cfg.errors import HostShellError, NotPermitted, TaskFailed, Unreachable, VCenterError, VgpuCfgError
from vgpu_cfg.knowledge.beliefs import Trial, load_beliefs
from vgpu_cfg.model.observed.inventory import Host, Inventory
from vgpu_cfg.model.observed.vm import PowerState, Vm, VmDetail
from vgpu_cfg.model.verdicts import Verdict
from vgpu_cfg.planning.doctor.trials import (
    MARK_KEY,
    PREFIX,
    Experiment,
    Left,
    Remaining,
    Step,
    TrialMark,
    instance_uuid,
)
from vgpu_cfg.planning.doctor.tried import TRIALS, Tried
from vgpu_cfg.ports import (
    ChangeWriter,
    HostShell,
    InventoryReader,
    LockKeeper,
    RunClock,
    RunLog,
    TaskState,
    TaskUpdate,
)
from vgpu_cfg.vsphere.writing.throw_away import VCenterThrowAway

_WAIT_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Tools:
    """Readers and writers on one session; `until` is the time by which tasks must end."""

    reader: InventoryReader
    writer: ChangeWriter
    locks: LockKeeper
    run_log: RunLog
    things: VCenterThrowAway
    clock: RunClock
    until: datetime

    @property
    def is_late(self) -> bool:
        """Whether no further task may begin."""
        return self.clock.now() >= self.until

    def longer(self, span: timedelta) -> Self:
        """Return the tools with another limit, from now on."""
        return replace(self, until=self.clock.now() + span)

    def finished(self, task: str, what: str, subject: str) -> TaskUpdate:
        """Wait for the success of a task. Raises TaskFailed if it fails or goes on for too long."""
        update = self.ended(task, what, subject)
        if update.state is TaskState.ERROR:
            raise TaskFailed(f"{what}: {update.error}", subject=subject, remedy=_REMEDY)
        return update

    def ended(self, task: str, what: str, subject: str) -> TaskUpdate:
        """Wait for the end of a task. Raises TaskFailed if it goes on for too long."""
        while not self.is_late:
            for update in self.writer.wait_for_tasks([task], _WAIT_SECONDS):
                if update.state.is_over:
                    return update
        raise TaskFailed(f"{what}: still running at the time limit", subject=subject, remedy=_REMEDY)


_REMEDY = "check the task in vCenter; `vgpu-cfg trial --clean` removes the objects that remain"


_POLL_SECONDS = 1.0
_SHOWS_WITHIN = 10


@dataclass(slots=True)
class Bench:
    """A trial that is under way."""

    tools: Tools
    mark: TrialMark
    planned: Mapping[str, CreateVm] = field(default_factory=dict)
    """The requests that the planner makes for VMs, by the part of their names."""
    vms: dict[str, Vm] = field(default_factory=dict)
    """VMs as they were read last, likewise."""
    expected: tuple[str, ...] = ()
    """The GPUs of which the planner expects one for the VM with a vGPU; empty if there is no choice."""
    most_mib: int = 0
    """The most space of the VMs on the datastore."""
    has_drs: bool = False
    """Whether DRS is enabled in the cluster of these VMs."""
    move_to: Destination | None = None
    observed: Inventory | None = None
    """The estate, if a step reads it."""
    shells: tuple[tuple[Host, Callable[[], HostShell]], ...] = ()
    """The hosts whose shells are read, each with its login."""

    def shown(self, ask: Callable[[], bool], seconds: int = _SHOWS_WITHIN) -> bool:
        """Ask once a second until it is true; False if it does not become true in time."""
        for _ in range(seconds):
            if ask():
                return True
            self.tools.clock.pause(_POLL_SECONDS)
        return ask()


Verdicts = Iterator[Tried]
Course = Callable[[Bench], Verdicts]
"""The course of an experiment: it makes its objects, and yields verdicts on its beliefs."""


def verdict_on(belief: str, seen: str, *, is_so: bool) -> Tried:
    """Return the verdict on a belief by an observation."""
    return Tried(belief, Verdict.HOLDS if is_so else Verdict.FAILS, seen)


def rejection(call: Callable[[], object]) -> str:
    """Make a request, and return vCenter's message if it rejects it. Raises NotPermitted and Unreachable."""
    try:
        call()
    except (NotPermitted, Unreachable):
        raise
    except (VCenterError, TaskFailed) as error:
        return error.message
    return ""


def run_all(experiments: Sequence[Experiment], courses: Mapping[str, Course], bench: Bench) -> Verdicts:
    """Run experiments in turn, and yield a verdict on each of their beliefs.

    An experiment that vCenter refuses ends there, with the reason. Raises Unreachable if vCenter is away.
    """
    for one in experiments:
        left, reason = dict.fromkeys(one.beliefs), "the time limit was reached"
        try:
            for tried in () if bench.tools.is_late else courses[one.does](bench):
                left.pop(tried.belief)
                yield tried
                reason = ""
        except Unreachable:
            raise
        except (VCenterError, TaskFailed, HostShellError) as error:
            reason = error.message
        yield from (Tried(belief, Verdict.OPEN, reason) for belief in left)


def all_tried(found: Iterable[Tried], steps: Iterable[Step]) -> tuple[Tried, ...]:
    """Return one verdict on each belief that these steps could try; one that does not hold goes first."""
    best: dict[str, Tried] = {
        one.id: Tried(one.id, Verdict.OPEN, "")
        for one in load_beliefs().values()
        if one.trial in {step.trial for step in steps}
        and not (one.trial is Trial.READING and one.id in TRIALS)
    }
    order = (Verdict.OPEN, Verdict.HOLDS, Verdict.FAILS)
    for tried in found:
        known = best.get(tried.belief)
        if known is None or order.index(tried.verdict) >= order.index(known.verdict):
            best[tried.belief] = tried
    return tuple(best.values())


_BUSY_POLL_SECONDS = 5.0


def find_left(tools: Tools, start: str = PREFIX) -> tuple[Left, ...]:
    """Find the objects whose names begin so, once their tasks have ended."""
    while not tools.is_late and tools.things.is_busy(start):
        tools.clock.pause(_BUSY_POLL_SECONDS)
    vms = tools.reader.read_vms(tools.things.vms(start), frozenset({MARK_KEY}))
    names = tools.things.made | {one.moid: one.name for one in tools.things.alarms(start)}
    alarms = (
        Left("alarm", moid, name, mark)
        for moid, name in names.items()
        if (mark := TrialMark.of(name)) is not None
    )
    attributes = (
        Left("attribute", moid, name, mark)
        for moid, name in tools.things.attributes(start).items()
        if (mark := TrialMark.of(name)) is not None
    )
    return (*(left for vm in vms if (left := _left_vm(vm)) is not None), *alarms, *attributes)


def _left_vm(vm: Vm) -> Left | None:
    mark = TrialMark.of(vm.name)
    if mark is None or vm.is_template:
        return None
    detail = vm.detail or VmDetail()
    is_marked = detail.extra_config.get(MARK_KEY, "").startswith(mark.start)
    has_others_disk = any(mark.start not in disk.file for disk in detail.disks)
    is_proven = not has_others_disk and (is_marked or vm.instance_uuid.lower() == instance_uuid(vm.name))
    return Left("VM", vm.moid, vm.name, mark, vm.power_state is not PowerState.OFF, is_proven)


def remove(found: Iterable[Left], tools: Tools) -> Iterator[Remaining]:
    """Remove objects, and yield each that remains with the reason; the others are removed all the same."""
    for left in found:
        try:
            if left.kind == "alarm":
                tools.locks.remove(left.moid)
                continue
            if left.kind == "attribute":
                tools.things.remove_attribute(left.moid)
                continue
            if left.is_on:
                task = tools.writer.power_off_vm(left.moid)
                tools.finished(task, f"power off {left.name}", left.name)
            tools.finished(tools.writer.destroy_vm(left.moid), f"delete {left.name}", left.name)
        except VgpuCfgError as error:
            yield left, error.message
