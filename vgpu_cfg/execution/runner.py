"""The runner of a plan: one thread, many tasks, one wait over all of them, and a list of incomplete objects.

Changes begin as the scheduler hands them out, each as a step (a generator) that is resumed whenever its task
has ended. Readings that steps request at one moment are made in one call. A failure skips the changes that
need the failed one, and the rest goes on. Nothing here knows a kind of change but the manual step.

Incomplete objects of a run are half-made VMs, guests, hosts that are down, and tasks still running.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import TypeAlias

from vgpu_cfg.changes.change import Change, CreateVm, ManualStep, MarkVm, ReconfigureVm, StageGuest
from vgpu_cfg.changes.plan import Canary, Plan
from vgpu_cfg.changes.report import (
    CanaryResult,
    Event,
    EventKind,
    LeftBehind,
    Outcome,
    OutcomeStatus,
    Report,
    in_place,
)
from vgpu_cfg.errors import (
    AnswerLost,
    DoesNotFit,
    Interrupted,
    LockLost,
    LoginFailed,
    TaskFailed,
    TasksForgotten,
    Unreachable,
    VCenterError,
    VgpuCfgError,
)
from vgpu_cfg.execution.guests.session import GuestSession, GuestTools, OfGuest
from vgpu_cfg.execution.hosts.manual import settle
from vgpu_cfg.execution.hosts.session import HostSession
from vgpu_cfg.execution.hosts.shell_access import HostTools
from vgpu_cfg.execution.records.lock import RunLocks
from vgpu_cfg.execution.records.run_record import result_of
from vgpu_cfg.execution.run.scheduler import Scheduler, Windows, is_provisioning
from vgpu_cfg.execution.run.session import RunOptions, RunSession
from vgpu_cfg.execution.run.step import HeldBack, Look, NeedsManualStep, Pause, Step, StepResult, look_at
from vgpu_cfg.execution.steps import is_for_hosts, make_step
from vgpu_cfg.execution.vms.owner_marks import is_marking
from vgpu_cfg.model.identity import new_id
from vgpu_cfg.model.observed.inventory import Inventory
from vgpu_cfg.model.ranges import fold_names
from vgpu_cfg.model.runs import OnFailure, RunResult
from vgpu_cfg.model.wording import counted
from vgpu_cfg.ports import ChangeWriter, InventoryReader, MakeId, RunClock, TaskState, TaskUpdate

__all__ = ["Run", "RunClock", "RunOptions", "exit_code_of"]

PassCanary: TypeAlias = Callable[[Canary], CanaryResult]
"""Verifies a canary whose changes are done, and asks whether to go on where it is as planned."""


@dataclass(frozen=True, slots=True)
class Run:
    """A plan to carry out, with its tools, options and observers.

    A plan that prepares hosts takes `hosts`, one that sets guests up `guests`. `locks` keep other runs away;
    once they have gone nothing more is begun. `user` is the account at vCenter, which owner marks name,
    `observed` the planning data, and `make_id` makes the instance UUIDs of new VMs.
    A plan with canaries takes `pass_canary`, which verifies one and says whether others may begin; it is
    asked while nothing is under way.
    """

    plan: Plan
    reader: InventoryReader
    writer: ChangeWriter
    clock: RunClock
    locks: RunLocks
    hosts: HostTools | None = None
    guests: GuestTools | None = None
    options: RunOptions = field(default_factory=RunOptions)
    user: str = ""
    observed: Inventory | None = None
    make_id: MakeId = new_id
    on_event: Callable[[Event], None] = lambda _: None
    stop: Callable[[], bool] = lambda: False
    pass_canary: PassCanary | None = None

    def carry_out(self) -> Report:
        """Carry the plan out and report what became of each change; shells are closed at the end.

        If `stop` becomes true, or at a first KeyboardInterrupt, no further task is started and the running
        ones are waited for; a second KeyboardInterrupt leaves them running. Failures of changes are in the
        report, not raised. Raises PlanError before any change if the plan has findings of severity error or
        its changes have no order, VCenterError if its hosts cannot be read, and GuestError if a guest's
        content cannot be made.
        """
        self._check()
        session = RunSession(
            self.plan,
            self.reader,
            self.writer,
            self.clock,
            self.options,
            self.locks,
            user=self.user,
            make_id=self.make_id,
            observed=self.observed,
        )
        guests = GuestSession(session, self.guests) if self.guests is not None else None
        try:
            hosts = HostSession(session, self.hosts) if self.hosts is not None else None
            return _Course(session, hosts, guests, self).carry_out()
        finally:
            if guests is not None:
                guests.close()
            if self.hosts is not None:
                self.hosts.shells.close()

    def _check(self) -> None:
        plan = self.plan
        if plan.errors:
            found = plan.errors[0]
            raise DoesNotFit(
                f"{found.code}: {found.message}", subject=found.subject.name, remedy=found.remedy
            )
        if self.hosts is None and any(is_for_hosts(change) for change in plan.changes):
            raise ValueError("a plan that prepares hosts requires `hosts`")
        if self.guests is None and any(isinstance(change, OfGuest) for change in plan.changes):
            raise ValueError("a plan that sets up guests requires `guests`")
        if self.pass_canary is None and plan.canaries:
            raise ValueError("a plan with canaries requires `pass_canary`")
        if not plan.desired.id and any(_is_marking(change) for change in plan.changes):
            raise ValueError("a plan that marks VMs requires an ID")


def _is_marking(change: Change) -> bool:
    return isinstance(change, CreateVm | ReconfigureVm | MarkVm) and is_marking(change.spec)


def exit_code_of(report: Report) -> int:
    """Return the exit code that a run alone calls for: 130, 6, 7 or 0, the first that holds."""
    codes = {
        RunResult.STOPPED: Interrupted.exit_code,
        RunResult.FAILED: 6,
        RunResult.WAITING: 7,
        RunResult.DONE: 0,
    }
    return codes[result_of(report)]


MOST_LOOKS = 5
"""Restarts of a change whose answer or task was lost by a vCenter that was away.

The same limit holds for refused waits in a row: the tasks go on, and no other run could begin meanwhile.
"""


@dataclass(slots=True)
class _Running:
    """A change under way: it waits for `task`, until `resume_at`, or for a reading.

    It was begun anew `looks` times.
    """

    change: Change
    step: Step
    started_at: datetime
    tasks: list[str] = field(default_factory=list)
    task: str | None = None
    task_at: float = 0.0
    is_queued: bool = False
    resume_at: float | None = None
    look: Look | None = None
    progress: int | None = None
    looks: int = 0


class _Course:
    """The course of a run, from its first task to its report."""

    def __init__(
        self, session: RunSession, hosts: HostSession | None, guests: GuestSession | None, run: Run
    ) -> None:
        self._session = session
        self._hosts = hosts
        self._guests = guests
        self._run = run
        changes, options = session.plan.changes, session.options
        down = hosts.down_before() if hosts is not None else frozenset[str]()
        self._windows = Windows(changes, down)
        self._late: dict[str, str] = {}
        self._scheduler = Scheduler(
            changes,
            parallel=options.parallel,
            per_host=options.per_host,
            down=down,
            start_queues=session.start_queues,
            canaries=session.plan.canaries,
        )
        self._changes = {change.id: change for change in changes}
        session.note = self._note
        self._running: dict[str, _Running] = {}
        self._outcomes: dict[str, Outcome] = {}
        self._in_flight: list[tuple[str, str]] = []
        self._waiting_for: list[str] = []
        self._interrupts = 0
        self._not_begun = 0
        self._refused_waits = 0
        self._passed: list[CanaryResult] = []
        self._quickest: dict[str, float] = {}
        self._behind: dict[str, str] = {}
        self._is_locked_out = False

    def carry_out(self) -> Report:
        while self._interrupts < 2:
            try:
                self._begin_what_can()
                if looking := {
                    one: running.look for one, running in self._running.items() if running.look is not None
                }:
                    self._look(looking)
                elif self._running:
                    self._wait()
                elif not self._is_past_canary():
                    break
            except KeyboardInterrupt:
                # The first may have come during a wait, when nobody asked `stop`.
                self._interrupts = 2 if self._interrupts or self._run.stop() else 1
                self._session.is_stopping = True
        self._abandon("the run ended while this task was still running")
        reasons = {change.id: self._why_not_begun(change) for change in self._scheduler.waiting}
        for change in self._scheduler.drop_waiting():
            self._skip([change], self._session.start_queues.why_waiting(change) or reasons[change.id])
        if self._hosts is not None:
            self._hosts.shells.close()
        return Report(
            plan=self._session.plan.name,
            digest=self._session.plan.digest,
            outcomes=tuple(self._outcomes[name] for name in self._changes if name in self._outcomes),
            left_behind=(
                *list_left_behind(self._session, self._hosts, self._outcomes, self._in_flight),
                *_left(self._late | self._behind, "not started"),
                *self._told_not_begun(),
            ),
            is_interrupted=(self._interrupts > 0 and not self._is_whole()) or self._is_declined,
            waiting_for=tuple(self._waiting_for),
            put_off=tuple(self._late),
            canaries=tuple(self._passed),
        )

    @property
    def _is_declined(self) -> bool:
        return any(not (passed.goes_on or passed.problems) for passed in self._passed)

    def _is_past_canary(self) -> bool:
        """Have a canary verified whose changes are done, and go on or not; False where there is none."""
        canary = self._scheduler.canaries.done
        if canary is None or self._session.is_stopping or self._run.pass_canary is None:
            return False
        passed = self._run.pass_canary(canary)
        self._passed.append(passed)
        others, names = fold_names(canary.others), fold_names(canary.names)
        if passed.goes_on:
            self._note(canary.first[-1], f"the canary {names} matches the plan; continuing with {others}")
            self._scheduler.canaries.release(canary)
        elif passed.problems:
            self._note(canary.first[-1], f"the canary {names} does not match the plan: {passed.problems[0]}")
            self._stop_behind(canary, f"the canary {names} does not match the plan")
        else:
            self._stop_behind(canary, f"you answered no after the canary {names}", finishes=True)
        return True

    def _stop_behind(self, canary: Canary, why: str, *, finishes: bool | None = None) -> None:
        """Begin nothing more after a canary; finish all that is out of service, except for a rollback."""
        self._behind[fold_names(canary.others)] = why
        if finishes is None:
            finishes = self._session.options.on_failure is not OnFailure.ROLL_BACK
        self._skip(self._scheduler.stop(finishes=finishes), why)

    def _told_not_begun(self) -> Iterator[LeftBehind]:
        if self._not_begun:
            count = counted(self._not_begun, "change")
            state = f"{count} not started, because the run stopped at the first failure"
            yield LeftBehind(name=self._session.plan.name, state=state)

    def _why_not_begun(self, change: Change) -> str:
        if self._interrupts:
            return "the run was already stopped"
        if self._is_locked_out:
            return "the run's lock was already removed"
        if self._session.is_stopping:
            return "the connection to vCenter was already lost"
        canary = self._scheduler.canaries.holding(change)
        if canary is not None:
            return f"the canary {fold_names(canary.names)} was not completed"
        down = ", ".join(self._scheduler.hosts_down)
        return f"the limit on hosts that may be down has been reached: {down}"

    def _is_whole(self) -> bool:
        """Whether everything was done all the same, when the stop came."""
        return len(in_place(self._outcomes.values())) == len(self._changes)

    def _begin_what_can(self) -> None:
        self._scheduler.is_queueing = any(running.is_queued for running in self._running.values())
        while True:
            if self._interrupts == 0 and self._run.stop():
                self._interrupts = 1
                self._session.is_stopping = True
            if self._session.is_stopping:
                return
            change = self._scheduler.next_change()
            if change is None:
                return
            why_not = self._windows.why_not(change, self._session.clock.now())
            if why_not:
                self._put_off(change, why_not)
            elif isinstance(change, ManualStep):
                self._meet_manual_step(change)
            else:
                self._begin(change)

    def _begin(self, change: Change) -> None:
        step = make_step(change, self._session, self._hosts, self._guests)
        running = _Running(change, step, self._session.clock.now())
        self._running[change.id] = running
        self._emit(EventKind.STARTED, change)
        self._advance(running, None)

    def _put_off(self, change: Change, why: str, remedy: str = "") -> None:
        """Leave a change for another time, and all that needs it; nothing of it was begun."""
        self._late[change.subject.name] = f"{why}; {remedy}" if remedy else why
        self._close(change, OutcomeStatus.SKIPPED, message=why, remedy=remedy)
        self._skip(self._scheduler.put_off(change), f"requires {change.id!r}, which was not started: {why}")

    def _meet_manual_step(self, change: ManualStep) -> None:
        if self._hosts is not None:
            done = settle(change, self._hosts)
        else:
            done = "done manually" if change.id in self._session.options.done_by_hand else ""
        if done:
            self._close(change, OutcomeStatus.NOT_NEEDED, message=done)
            self._scheduler.succeed(change)
            return
        self._wait_for_hand(change, None, "requires a manual step", change.text)

    def _wait_for_hand(self, change: Change, running: _Running | None, message: str, remedy: str) -> None:
        """Leave a change, and all that needs it, until a manual step is done."""
        self._waiting_for.append(change.id)
        self._close(change, OutcomeStatus.SKIPPED, running=running, message=message, remedy=remedy)
        self._skip(self._scheduler.fail(change), f"waiting for {change.id!r}")

    def _look(self, wanted: Mapping[str, Look]) -> None:
        """Read what steps want to see, by the ids of their changes: all of it at once; then resume them."""
        seen = look_at(self._session.reader, tuple(wanted.values()))
        for change_id, look in wanted.items():
            running, found = self._running[change_id], seen[look]
            if isinstance(found, VCenterError):
                self._resume(running, partial(running.step.throw, found))
            else:
                self._resume(running, partial(running.step.send, found))

    def _wait(self) -> None:
        """Wait for news of any task, or for the end of the shortest pause, and resume what got it."""
        self._session.just_read.clear()
        self._beat()
        now = self._session.now()
        under_way = tuple(self._running.values())
        by_task = {running.task: running for running in under_way if running.task is not None}
        pauses = [running.resume_at - now for running in under_way if running.resume_at is not None]
        timeout = max(0.0, min([self._session.options.wait_seconds, *pauses]))
        if not by_task:
            self._session.clock.pause(timeout)
        elif timeout > 0:
            timeout -= self._gather(by_task.values(), timeout)
            try:
                updates = self._session.writer.wait_for_tasks(list(by_task), timeout)
            except TasksForgotten as error:
                self._lose_tasks([by_task[task] for task in error.tasks if task in by_task], error)
                return
            except VCenterError as error:
                if not isinstance(error, Unreachable | LoginFailed) and self._refused_waits < MOST_LOOKS:
                    self._refused_waits += 1
                    self._session.clock.pause(self._session.options.poll_seconds)
                    return
                self._session.is_stopping = True
                self._abandon(f"its state is unknown: {error.message}", error.remedy)
                return
            self._refused_waits = 0
            for update in updates:
                running = by_task.get(update.task)
                if running is not None and running.task == update.task:
                    self._take(running, update)
        now = self._session.now()
        for running in list(self._running.values()):
            if running.resume_at is not None and running.resume_at <= now:
                self._advance(running, None)

    def _gather(self, waiting: Collection[_Running], most: float) -> float:
        """Collect the news of several tasks, so that one call reports them; return for how long.

        If similar tasks have ended before, the wait is not longer than the quickest of them took.
        """
        if len(waiting) < 2:
            return 0.0
        now = self._session.now()
        longest = now - min(running.task_at for running in waiting)
        quickest = min(running.task_at + self._quickest.get(running.change.kind, 0.0) for running in waiting)
        seconds = max(longest * self._session.options.gather_part, quickest - now)
        seconds = min(seconds, self._session.options.gather_seconds, most)
        self._session.clock.pause(seconds)
        return seconds

    def _beat(self) -> None:
        """Say that the run goes on; where that cannot be said now it is said before the next write."""
        try:
            self._session.locks.beat()
        except LockLost:
            self._lock_out()
        except VCenterError:
            return

    def _lock_out(self) -> None:
        self._is_locked_out = self._session.is_stopping = True

    def _lose_tasks(self, lost: list[_Running], error: TasksForgotten) -> None:
        """Let the steps whose tasks vCenter has forgotten meet that as a lost answer."""
        for running in lost:
            answer = AnswerLost(error.message, subject=error.subject, remedy=error.remedy)
            self._resume(running, partial(running.step.throw, answer))

    def _take(self, running: _Running, update: TaskUpdate) -> None:
        if update.state.is_over:
            kind, took = running.change.kind, self._session.now() - running.task_at
            self._quickest[kind] = min(took, self._quickest.get(kind, took))
            self._advance(running, update)
            return
        running.is_queued = update.state is TaskState.QUEUED and is_provisioning(running.change)
        if update.progress is not None and update.progress != running.progress:
            running.progress = update.progress
            self._emit(EventKind.PROGRESS, running.change, progress=update.progress, task=update.task)

    def _advance(self, running: _Running, update: TaskUpdate | None) -> None:
        """Resume a step with the result of its wait, until it waits again or ends."""
        self._resume(running, lambda: running.step.send(update))

    def _resume(self, running: _Running, go_on: Callable[[], str | Pause | Look]) -> None:
        running.task = running.resume_at = running.progress = running.look = None
        running.is_queued = False
        try:
            waits_for = go_on()
        except StopIteration as done:
            self._finish(running, done.value)
        except NeedsManualStep as error:
            del self._running[running.change.id]
            self._wait_for_hand(running.change, running, error.message, error.remedy)
        except HeldBack as error:
            del self._running[running.change.id]
            self._put_off(running.change, error.message, error.remedy)
        except VgpuCfgError as error:
            if isinstance(error, LockLost):
                self._lock_out()
            if isinstance(error, AnswerLost) and self._looks_again(running, error):
                return
            if isinstance(error, Unreachable | LoginFailed):
                self._session.is_stopping = True
            self._give_up(running, error.message, error.remedy, error=error)
        except KeyboardInterrupt:
            self._session.locks.leave()
            self._give_up(running, "interrupted; it is unknown whether vCenter received the request")
            raise
        else:
            if isinstance(waits_for, Pause):
                running.resume_at = self._session.now() + waits_for.seconds
            elif isinstance(waits_for, Look):
                running.look = waits_for
            else:
                running.task, running.task_at = waits_for, self._session.now()
                running.tasks.append(waits_for)
                self._emit(EventKind.TASK, running.change, task=waits_for)

    def _looks_again(self, running: _Running, lost: AnswerLost) -> bool:
        """Begin a change anew that vCenter may have carried out: its step first reads the current state."""
        if self._session.is_stopping or running.looks >= MOST_LOOKS:
            return False
        running.looks += 1
        self._note(running.change.id, f"{lost.message}: checking the current state")
        running.step = make_step(running.change, self._session, self._hosts, self._guests)
        self._advance(running, None)
        return True

    def _finish(self, running: _Running, result: StepResult) -> None:
        del self._running[running.change.id]
        status = OutcomeStatus.DONE if result.is_needed else OutcomeStatus.NOT_NEEDED
        self._close(running.change, status, running=running, message=result.message, vm_moid=result.vm_moid)
        self._scheduler.succeed(running.change)

    def _give_up(
        self, running: _Running, message: str, remedy: str = "", *, error: VgpuCfgError | None = None
    ) -> None:
        """End a change that did not come true; one that started no task before a stop is merely skipped."""
        del self._running[running.change.id]
        change = running.change
        is_begun = bool(running.tasks) or not isinstance(error, Interrupted)
        status = OutcomeStatus.FAILED if is_begun else OutcomeStatus.SKIPPED
        self._close(
            change,
            status,
            running=running,
            message=message,
            remedy=remedy,
            cause=error.cause if isinstance(error, TaskFailed) else "",
            vm_moid=self._session.made.get(change.subject.name),
        )
        verb = "failed" if status is OutcomeStatus.FAILED else "was skipped"
        self._skip(self._scheduler.fail(change), f"requires {change.id!r}, which {verb}")
        if status is OutcomeStatus.FAILED and not self._session.is_stopping:
            self._spread_failure(change, message)

    def _spread_failure(self, change: Change, message: str) -> None:
        """Skip all that must not begin after a failure: hosts of the wave, or everything."""
        self._skip(self._scheduler.stop_wave(change), f"the wave stopped: {change.subject.name}: {message}")
        canary = self._scheduler.canaries.preceding(change)
        if canary is not None:
            self._stop_behind(canary, f"the canary failed: {change.subject.name}: {message}")
        on_failure = self._session.options.on_failure
        if on_failure is not OnFailure.GO_ON:
            others = self._scheduler.stop(finishes=on_failure is OnFailure.STOP)
            self._not_begun += len(others)
            self._skip(others, f"the run stopped at its first failure, {change.id!r}")

    def _abandon(self, message: str, remedy: str = "") -> None:
        if any(one.look is None and one.resume_at is None for one in self._running.values()):
            self._session.locks.leave()  # each of these waits for a task
        for running in list(self._running.values()):
            if running.task is not None:
                self._in_flight.append((running.task, running.change.id))
            self._give_up(running, message, remedy)

    def _skip(self, changes: Iterable[Change], reason: str) -> None:
        for change in changes:
            self._close(change, OutcomeStatus.SKIPPED, message=reason)

    def _close(
        self,
        change: Change,
        status: OutcomeStatus,
        *,
        running: _Running | None = None,
        message: str = "",
        remedy: str = "",
        cause: str = "",
        vm_moid: str | None = None,
    ) -> None:
        self._outcomes[change.id] = Outcome(
            change_id=change.id,
            subject=change.subject,
            status=status,
            tasks=tuple(running.tasks) if running else (),
            started_at=running.started_at if running else None,
            ended_at=self._session.clock.now() if running else None,
            message=message,
            cause=cause,
            remedy=remedy,
            vm_moid=vm_moid,
            readings=self._session.readings.get(change.id, ()),
        )
        self._emit(EventKind.ENDED, change, message=message, status=status)

    def _note(self, change_id: str, message: str) -> None:
        self._emit(EventKind.NOTE, self._changes[change_id], message=message)

    def _emit(
        self,
        kind: EventKind,
        change: Change,
        *,
        progress: int | None = None,
        task: str | None = None,
        message: str = "",
        status: OutcomeStatus | None = None,
    ) -> None:
        self._run.on_event(
            Event(
                at=self._session.clock.now(),
                kind=kind,
                change_id=change.id,
                subject=change.subject,
                progress=progress,
                task=task,
                message=message,
                status=status,
            )
        )


def list_left_behind(
    session: RunSession,
    hosts: HostSession | None,
    outcomes: Mapping[str, Outcome],
    in_flight: Iterable[tuple[str, str]],
) -> Iterator[LeftBehind]:
    """Yield what this run began and did not end; `in_flight` holds (task, change id)."""
    yield from (LeftBehind(name=name, state=state) for name, state in session.half_made.items())
    yield from _left(session.half_staged, "guest setup incomplete")
    yield from _left(_unfinished(session, outcomes), "created, but not completed")
    yield from hosts.list_left_behind() if hosts is not None else ()
    for task, change_id in in_flight:
        yield LeftBehind(name=task, state=f"{change_id!r} was still running in vCenter")


def _left(reasons: Mapping[str, str], state: str) -> Iterator[LeftBehind]:
    return (LeftBehind(name=name, state=state, why=why) for name, why in reasons.items())


def _unfinished(session: RunSession, outcomes: Mapping[str, Outcome]) -> dict[str, str]:
    undone: dict[str, list[str]] = {}
    for change in session.plan.changes:
        found = outcomes.get(change.id)
        is_listed = isinstance(change, StageGuest) and change.vm.name in session.half_staged
        if found is not None and not found.status.is_in_place and not is_listed:
            undone.setdefault(change.subject.name, []).append(change.id)
    return {
        name: ", ".join(undone[name])
        for name in session.made
        if name not in session.half_made and name in undone
    }
