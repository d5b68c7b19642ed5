"""Who carries a plan out: one thread, many tasks, one wait over all of them.

Changes begin as the scheduler hands them out, each as a step (a generator) that is
resumed whenever its task has ended. What fails takes along what needs it, and the
rest goes on. Nothing here knows a kind of change but the manual step.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

from vgpu_cfg.errors import (
    DoesNotFit,
    Interrupted,
    LoginFailed,
    TaskFailed,
    Unreachable,
    VCenterError,
    VgpuCfgError,
)
from vgpu_cfg.execution.guests.tools import GuestSession, GuestTools
from vgpu_cfg.execution.hosts.manual import settle
from vgpu_cfg.execution.hosts.session import HostSession
from vgpu_cfg.execution.hosts.tools import HostTools
from vgpu_cfg.execution.left_behind import list_left_behind
from vgpu_cfg.execution.records.run_record import result_of
from vgpu_cfg.execution.run.scheduler import Scheduler
from vgpu_cfg.execution.run.session import RunClock, RunOptions, RunSession
from vgpu_cfg.execution.run.step import NeedsManualStep, Pause, Step, StepResult
from vgpu_cfg.execution.steps import is_for_hosts, make_step
from vgpu_cfg.execution.vms.owner_marks import is_marking
from vgpu_cfg.model.identity import new_id
from vgpu_cfg.model.plan.change import Change, CreateVm, ManualStep, MarkVm, Plan, ReconfigureVm, StageGuest
from vgpu_cfg.model.plan.report import Event, EventKind, Outcome, OutcomeStatus, Report
from vgpu_cfg.model.runs import RunResult
from vgpu_cfg.ports import ChangeWriter, InventoryReader, MakeId, TaskUpdate

__all__ = ["RunClock", "RunOptions", "exit_code_of", "run_plan"]


def run_plan(  # noqa: PLR0913 - what a run needs, how it goes, and how it is watched and stopped
    plan: Plan,
    reader: InventoryReader,
    writer: ChangeWriter,
    clock: RunClock,
    *,
    hosts: HostTools | None = None,
    guests: GuestTools | None = None,
    options: RunOptions | None = None,
    user: str = "",
    make_id: MakeId = new_id,
    on_event: Callable[[Event], None] = lambda _: None,
    stop: Callable[[], bool] = lambda: False,
) -> Report:
    """Carry a plan out and report what became of each change.

    A plan that prepares hosts takes `hosts`, one that sets guests up `guests`; their shells are closed
    before this returns or raises. `user` is the account at vCenter, which owner marks name, and `make_id`
    makes the instance UUIDs of new VMs.
    Where `stop` turns true, or at a first KeyboardInterrupt, no further task is started
    and the running ones are waited for; a second KeyboardInterrupt leaves them running.
    Failures of changes are in the report, not raised. Raises PlanError before anything is
    touched, where the plan has findings of severity error or its changes have no order, and
    VCenterError where its hosts cannot be read, GuestError where what a guest is to get cannot be made.
    """
    if plan.errors:
        found = plan.errors[0]
        raise DoesNotFit(f"{found.code}: {found.message}", subject=found.subject.name, remedy=found.remedy)
    if hosts is None and any(is_for_hosts(change) for change in plan.changes):
        raise ValueError("a plan that prepares hosts needs what changes them")
    if guests is None and any(isinstance(change, StageGuest) for change in plan.changes):
        raise ValueError("a plan that sets guests up needs what reaches them")
    if not plan.desired.id and any(_is_marking(change) for change in plan.changes):
        raise ValueError("a plan that marks VMs needs an id")
    session = RunSession(plan, reader, writer, clock, options or RunOptions(), user=user, make_id=make_id)
    guest_session = GuestSession(session, guests) if guests is not None else None
    try:
        host_session = HostSession(session, hosts) if hosts is not None else None
        return _Run(session, host_session, guest_session, on_event, stop).carry_out()
    finally:
        if guest_session is not None:
            guest_session.close()
        if hosts is not None:
            hosts.shells.close()


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


@dataclass(slots=True)
class _Running:
    """A change under way: it waits for `task`, or until `resume_at`."""

    change: Change
    step: Step
    started_at: datetime
    tasks: list[str] = field(default_factory=list)
    task: str | None = None
    resume_at: float | None = None
    progress: int | None = None


class _Run:
    """One run, from its first task to its report."""

    def __init__(
        self,
        session: RunSession,
        hosts: HostSession | None,
        guests: GuestSession | None,
        on_event: Callable[[Event], None],
        stop: Callable[[], bool],
    ) -> None:
        self._session = session
        self._hosts = hosts
        self._guests = guests
        self._plan = session.plan
        self._writer = session.writer
        self._clock = session.clock
        self._options = session.options
        self._on_event = on_event
        self._stop = stop
        changes, options = session.plan.changes, session.options
        self._scheduler = Scheduler(
            changes,
            parallel=options.parallel,
            per_host=options.per_host,
            down=hosts.down_before() if hosts is not None else (),
            start_queues=session.start_queues,
        )
        self._changes = {change.id: change for change in changes}
        session.note = self._note
        self._running: dict[str, _Running] = {}
        self._outcomes: dict[str, Outcome] = {}
        self._in_flight: list[tuple[str, str]] = []
        self._waiting_for: list[str] = []
        self._interrupts = 0

    def carry_out(self) -> Report:
        while self._interrupts < 2:
            try:
                self._begin_what_can()
                if not self._running:
                    break
                self._wait()
            except KeyboardInterrupt:
                # The first may have come during a wait, when nobody asked `stop`.
                self._interrupts = 2 if self._interrupts or self._stop() else 1
                self._session.is_stopping = True
        self._abandon("the run was left while this went on")
        reason = self._why_not_begun()
        for change in self._scheduler.drop_waiting():
            self._skip(change, self._session.start_queues.why_waiting(change) or reason)
        if self._hosts is not None:
            self._hosts.shells.close()
        return Report(
            plan=self._plan.name,
            digest=self._plan.digest,
            outcomes=tuple(self._outcomes[name] for name in self._changes if name in self._outcomes),
            left_behind=list_left_behind(
                self._plan, self._session, self._outcomes, self._in_flight, self._hosts
            ),
            is_interrupted=self._interrupts > 0 and not self._is_whole(),
            waiting_for=tuple(self._waiting_for),
        )

    def _why_not_begun(self) -> str:
        if self._interrupts:
            return "the run was stopped before"
        if self._session.is_stopping:
            return "contact with vCenter was lost before"
        down = ", ".join(self._scheduler.hosts_down)
        return f"no more hosts may be down at once, and these are: {down}"

    def _is_whole(self) -> bool:
        """Whether everything was done all the same, when the stop came."""
        done = (OutcomeStatus.DONE, OutcomeStatus.NOT_NEEDED)
        return len(self._outcomes) == len(self._changes) and all(
            outcome.status in done for outcome in self._outcomes.values()
        )

    def _begin_what_can(self) -> None:
        while True:
            if self._interrupts == 0 and self._stop():
                self._interrupts = 1
                self._session.is_stopping = True
            if self._session.is_stopping:
                return
            change = self._scheduler.next_change()
            if change is None:
                return
            if isinstance(change, ManualStep):
                self._meet_manual_step(change)
            else:
                self._begin(change)

    def _begin(self, change: Change) -> None:
        step = make_step(change, self._session, self._hosts, self._guests)
        running = _Running(change, step, self._clock.now())
        self._running[change.id] = running
        self._emit(EventKind.STARTED, change)
        self._advance(running, None)

    def _meet_manual_step(self, change: ManualStep) -> None:
        if self._hosts is not None:
            done = settle(change, self._hosts)
        else:
            done = "done by hand" if change.id in self._options.done_by_hand else ""
        if done:
            self._close(change, OutcomeStatus.NOT_NEEDED, message=done)
            self._scheduler.succeed(change)
            return
        self._waiting_for.append(change.id)
        self._close(change, OutcomeStatus.SKIPPED, message="needs a manual step", remedy=change.text)
        for dependent in self._scheduler.fail(change):
            self._skip(dependent, f"waits for {change.id!r}")

    def _wait(self) -> None:
        """Wait for news of any task, or for the end of the shortest pause, and resume what got it."""
        now = self._clock.now().timestamp()
        under_way = tuple(self._running.values())
        by_task = {running.task: running for running in under_way if running.task is not None}
        pauses = [running.resume_at - now for running in under_way if running.resume_at is not None]
        timeout = max(0.0, min([self._options.wait_seconds, *pauses]))
        if not by_task:
            self._clock.pause(timeout)
        elif timeout > 0:
            try:
                updates = self._writer.wait_for_tasks(list(by_task), timeout)
            except VCenterError as error:
                self._session.is_stopping = True
                self._abandon(f"lost track of it: {error.message}", error.remedy)
                return
            for update in updates:
                running = by_task.get(update.task)
                if running is not None and running.task == update.task:
                    self._take(running, update)
        now = self._clock.now().timestamp()
        for running in list(self._running.values()):
            if running.resume_at is not None and running.resume_at <= now:
                self._advance(running, None)

    def _take(self, running: _Running, update: TaskUpdate) -> None:
        if update.state.is_over:
            self._advance(running, update)
        elif update.progress is not None and update.progress != running.progress:
            running.progress = update.progress
            self._emit(EventKind.PROGRESS, running.change, progress=update.progress, task=update.task)

    def _advance(self, running: _Running, update: TaskUpdate | None) -> None:
        """Resume a step with what it waited for, until it waits again or ends."""
        running.task = running.resume_at = running.progress = None
        try:
            waits_for = running.step.send(update)
        except StopIteration as done:
            self._finish(running, done.value)
        except NeedsManualStep as error:
            del self._running[running.change.id]
            self._waiting_for.append(running.change.id)
            self._close(
                running.change,
                OutcomeStatus.SKIPPED,
                running=running,
                message=error.message,
                remedy=error.remedy,
            )
            for dependent in self._scheduler.fail(running.change):
                self._skip(dependent, f"waits for {running.change.id!r}")
        except VgpuCfgError as error:
            if isinstance(error, Unreachable | LoginFailed):
                self._session.is_stopping = True
            self._give_up(running, error.message, error.remedy, error=error)
        except KeyboardInterrupt:
            self._give_up(running, "interrupted; whether vCenter got the request is not known")
            raise
        else:
            if isinstance(waits_for, Pause):
                running.resume_at = self._clock.now().timestamp() + waits_for.seconds
            else:
                running.task = waits_for
                running.tasks.append(waits_for)
                self._emit(EventKind.TASK, running.change, task=waits_for)

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
        for dependent in self._scheduler.fail(change):
            self._skip(dependent, f"needs {change.id!r}, which {verb}")
        if status is OutcomeStatus.FAILED and not self._session.is_stopping:
            for other in self._scheduler.stop_wave(change):
                self._skip(other, f"the wave stopped: {change.subject.name}: {message}")

    def _abandon(self, message: str, remedy: str = "") -> None:
        for running in list(self._running.values()):
            if running.task is not None:
                self._in_flight.append((running.task, running.change.id))
            self._give_up(running, message, remedy)

    def _skip(self, change: Change, reason: str) -> None:
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
            ended_at=self._clock.now() if running else None,
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
        self._on_event(
            Event(
                at=self._clock.now(),
                kind=kind,
                change_id=change.id,
                subject=change.subject,
                progress=progress,
                task=task,
                message=message,
                status=status,
            )
        )
