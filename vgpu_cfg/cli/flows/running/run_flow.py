"""A run: decide on a plan, carry it out, read it back, and roll it back if it fails.

A rollback that is interrupted is finished by the next run of the same command, from the attempt on disk.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from vgpu_cfg.changes.report import Event, Report, Rollback, in_place
from vgpu_cfg.cli.flows.preparing.guest_access import GuestSecrets
from vgpu_cfg.cli.flows.preparing.locked import recorded_run
from vgpu_cfg.cli.flows.preparing.privileges import refuse_missing
from vgpu_cfg.cli.flows.running.canary_flow import CanaryFindings, CanaryWatch
from vgpu_cfg.cli.kept import whole_file
from vgpu_cfg.cli.kept.whole_file import write_whole
from vgpu_cfg.cli.notice import confirm
from vgpu_cfg.cli.options.shared import CommandOptions, OutputFormat
from vgpu_cfg.cli.output import show
from vgpu_cfg.documents import MOST_DATA_BYTES, PRIVATE, make_private_folder, read_bytes
from vgpu_cfg.errors import Interrupted, NobodyToAsk, NotConfirmed, VgpuCfgError
from vgpu_cfg.model.runs import OnFailure
from vgpu_cfg.planning.locks import change_locks
from vgpu_cfg.settings.environment import state_folder
from vgpu_cfg.settings.journals import journal_settings

if TYPE_CHECKING:
    from datetime import datetime

    from vgpu_cfg.changes.plan import Canary, Plan
    from vgpu_cfg.changes.privileges import Needed
    from vgpu_cfg.cli.compose import Estate
    from vgpu_cfg.execution import HostTools, Journal, RunLocks
    from vgpu_cfg.model.choices import Occasion
    from vgpu_cfg.model.identity import PlanIdentity
    from vgpu_cfg.model.observed.inventory import Inventory
    from vgpu_cfg.planning.rollback.attempt import Attempt
    from vgpu_cfg.render.text.run.progress import RunDisplay


@dataclass(frozen=True, slots=True)
class KeptAttempt:
    """The place of an attempt of one plan at one vCenter."""

    path: Path

    @classmethod
    def of(cls, plan: PlanIdentity, instance_uuid: str) -> KeptAttempt:
        """Return the place for a plan, by its id."""
        return cls(state_folder() / "attempts" / f"{plan.id}-{instance_uuid}.json")

    def read(self) -> Attempt | None:
        """Return the attempt; None if there is none, or another version wrote it."""
        from vgpu_cfg.planning.rollback.attempt import Attempt

        if not self.path.exists():
            return None
        try:
            return Attempt.model_validate_json(read_bytes(self.path, MOST_DATA_BYTES))
        except (OSError, ValueError) as error:
            show.say(f"{self.path}: the interrupted run cannot be rolled back: {type(error).__name__}")
            return None

    def keep(self, attempt: Attempt) -> None:
        """Write the attempt down. A disk that fails does not stop the run."""
        try:
            make_private_folder(self.path.parent)
            write_whole(self.path, attempt.model_dump_json(), mode=PRIVATE)
        except (OSError, VgpuCfgError) as error:
            show.say(f"{self.path}: if this run is interrupted, it cannot be rolled back later: {error}")

    def forget(self) -> None:
        """Remove the attempt, if there is one."""
        self.path.unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class Undoing:
    """The means of a rollback: the run's locks, readings of the estate, a plan, a way to carry it out.

    `attempt` is the attempt to undo, and `kept` the place where it outlives the process.
    """

    locks: RunLocks
    read_back: Callable[[], Inventory]
    attempt: Attempt
    kept: KeptAttempt
    make: Callable[[Attempt, Inventory], Plan]
    carry_out: Callable[[Plan], Report]
    journal: Journal
    is_json: bool


def roll_back(report: Report, undoing: Undoing) -> Report:
    """Undo a run that failed, and return the report with the result.

    A stopped run is not undone: the user decides on the next step.
    """
    attempt = undoing.attempt.ended(report)
    undoing.kept.keep(attempt)
    if report.is_interrupted:
        why_not = "the user stopped the run, so it was not rolled back"
        return report.model_copy(update={"rollback": Rollback(why_not=why_not)})
    if not report.has_failed:
        undoing.kept.forget()
        return report
    try:
        rollback = _rolled_back(attempt, undoing)
    except VgpuCfgError as error:
        rollback = Rollback(why_not=error.message)
    except KeyboardInterrupt:
        rollback = Rollback(why_not="the user stopped the rollback before it began", is_interrupted=True)
    if rollback.is_whole:
        undoing.kept.forget()
    # The rollback reports what is left of its own subjects.
    undone = {change.subject.name for change in rollback.changes}
    left = tuple(one for one in report.left_behind if one.name not in undone)
    return report.model_copy(update={"rollback": rollback, "left_behind": left})


def _rolled_back(attempt: Attempt, undoing: Undoing) -> Rollback:
    undoing.locks.beat()
    after = undoing.read_back()
    plan = undoing.make(attempt, after)
    undoing.locks.take(*change_locks(plan.changes, after))
    undoing.journal.record_rollback(plan)
    show.rollback(plan, is_json=undoing.is_json)
    rollback = Rollback(digest=plan.digest, changes=plan.changes, kept=plan.diagnostics)
    if not plan.changes:
        return rollback
    ended = undoing.carry_out(plan)
    became = {
        "outcomes": ended.outcomes,
        "left_behind": ended.left_behind,
        "is_interrupted": ended.is_interrupted,
    }
    return rollback.model_copy(update=became)


def ask(question: str, *, yes: bool) -> None:
    """Ask before going ahead.

    Raises Interrupted where the answer is no, and NobodyToAsk where there is no terminal.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise NobodyToAsk(
            "nothing was changed: confirmation requires a terminal",
            subject=question,
            remedy="review the plan above and add --yes",
        )
    if not confirm(question):
        raise Interrupted("nothing was changed", subject=question, remedy="nothing to do; you answered no")


@dataclass(frozen=True, slots=True)
class ApplyOptions:
    """The options of a run: the plan's origin, and the approvals of the command line.

    `options` are the command line's options that another command on the same plan must repeat; `done` names
    the manual steps that the user confirms, `html` the page that is written of the run.
    """

    path: Path
    yes: bool
    parallel: int
    per_host: int
    output: OutputFormat
    options: CommandOptions
    done: tuple[str, ...] = ()
    html: Path | None = None

    @property
    def occasion(self) -> Occasion:
        """The run's occasion."""
        return self.options.occasion

    @property
    def on_failure(self) -> OnFailure:
        """The consequence of a change's first failure for the rest."""
        return self.options.on_failure

    @property
    def is_json(self) -> bool:
        """Whether standard output belongs to a program."""
        return self.output is OutputFormat.JSON

    def command(self, verb: str, *more: str) -> str:
        """Return what to type for another command on the same plan."""
        return self.options.command(verb, self.path, *more)

    def after(self, deleted: frozenset[str]) -> ApplyOptions:
        """Return how the next run goes: a VM that is gone cannot be named with `--delete` again."""
        left = tuple(name for name in self.options.delete if name not in deleted)
        return replace(self, options=replace(self.options, delete=left))

    def without_rotation(self) -> ApplyOptions:
        """Return the options for work after the run: replaced secrets are not replaced again."""
        return replace(self, options=replace(self.options, rotate=()))


@dataclass(frozen=True, slots=True)
class Work:
    """A plan that is about to be carried out, and how the estate is read and planned for again.

    `keep` records data that must outlive the run, before its first change. `undo` plans the rollback of an
    attempt, by a reading made since; `resumed` is one whose rollback was interrupted. `reviewed` is the
    digest of the saved plan of which the plan is the rest. `read_done` reads back the contents of its report,
    if that is less than all. `granted` are the privileges found. `check_canary` returns the findings on a
    canary. An empty `question` was answered. `verb` with `more` is the command to repeat it, `check` the
    command that shows the result. `tell` reports the result of work that no plan file requests, by its
    report, the reading since and the journal.
    """

    plan: Plan
    observed: Inventory
    plan_for: Callable[[Inventory], Plan]
    read_back: Callable[[], Inventory]
    question: str
    verb: str
    locks: RunLocks
    tools: HostTools | None = None
    guests: GuestSecrets | None = None
    keep: Callable[[], None] = lambda: None
    undo: Callable[[Attempt, Inventory], Plan] | None = None
    resumed: Attempt | None = None
    reviewed: str = ""
    check_canary: Callable[[Canary, Inventory], CanaryFindings] = lambda _canary, _after: CanaryFindings()
    more: tuple[str, ...] = ()
    check: str = "plan"
    tell: Callable[[Report, Inventory | None, str], None] | None = None
    read_done: Callable[[Report], Inventory] | None = None
    granted: frozenset[Needed] = frozenset()


def show_plan(plan: Plan, how: ApplyOptions) -> None:
    """Show a plan that is about to be carried out; a program gets its report alone."""
    if how.is_json and not plan.errors:
        if not how.yes and plan.changes:
            show.plan_to_decide_on(plan, how.occasion)
    else:
        show.plan(plan, how.output, command="", verbose=False, is_only_shown=False, occasion=how.occasion)


def has_nothing_to_do(plan: Plan) -> bool:
    """Whether a plan has no changes, or is rejected."""
    return bool(plan.errors) or not plan.changes


def nothing_to_do(plan: Plan, how: ApplyOptions) -> int:
    """Report to a program that a plan has no changes; return the exit code."""
    nothing = Report(plan=plan.name, digest=plan.digest, occasion=how.occasion)
    if how.html is not None:
        whole_file.run(how.html, plan, nothing, None, ())
    if how.is_json:
        show.report(plan, nothing, None, how.output, journal="", next_command="", check_command="")
    return 0


def these(plan: Plan) -> str:
    """Count a plan's changes for a question."""
    count = len(plan.changes)
    return "this change" if count == 1 else f"these {count} changes"


def decide_and_run(work: Work, estate: Estate, how: ApplyOptions) -> int:
    """Ask, carry a plan out, read back and report; return the exit code."""
    from vgpu_cfg.execution import exit_code_of
    from vgpu_cfg.planning.locks import change_locks

    plan = work.plan
    refuse_missing(plan, work.observed, estate.reader, work.granted)
    journal_settings()  # what cannot be used is told before the question
    work.locks.take(*change_locks(plan.changes, work.observed))
    ask(work.question, yes=how.yes or not work.question)
    if not how.yes:
        work.locks.refuse_frozen()  # an answer may take a night
    work.locks.beat()
    work.keep()
    events: list[Event] = []
    report, journal = _carry_out(work, estate, how, events)
    how = how.after(_deleted(plan, report))
    settled = how.without_rotation()
    shells = ["--open-shell"] if work.tools and work.tools.opens_shells else []
    plan_again = settled.command("plan", *shells)
    code = exit_code_of(report)
    after = _read_back(work, report)
    left = work.plan_for(after) if after is not None else None
    if work.guests is not None and after is not None and left is not None:
        work.guests.settle(plan.desired, after, left)
    if work.tell is not None:
        work.tell(report, after, journal)
    else:
        show.report(
            plan,
            report,
            after,
            how.output,
            journal=journal,
            next_command=how.command(work.verb, *work.more),
            check_command=settled.command(work.check) if work.check else "",
            prove_command=settled.command("verify") if work.verb == "apply" else "",
            undo_command=_by_hand(report, how),
        )
    if how.html is not None:
        whole_file.run(how.html, plan, report, after, events)
    if code == 0 and left is not None and left.changes:
        first = left.changes[0]
        raise NotConfirmed(
            f"vCenter accepted all changes, but {len(left.changes)} of them were lost, including: {first.id}",
            subject=f"{first.subject.kind} {first.subject.name}",
            remedy=f"run {plan_again} to see which changes vCenter did not keep"
            if work.tell is None
            else "rerun the command to plan from the current state",
        )
    return code


def _deleted(plan: Plan, report: Report) -> frozenset[str]:
    """Return the names and inventory paths of the VMs that a run has deleted."""
    done = in_place(report.outcomes)
    deletions = [one for one in plan.changes if one.deletes and one.id in done]
    paths = {edit.before for change in deletions for edit in change.edits if edit.before is not None}
    return frozenset({*paths, *(change.subject.name for change in deletions)})


def _by_hand(report: Report, how: ApplyOptions) -> str:
    """Return what removes the VMs that a rollback was to delete and that are there; empty for none."""
    names = () if report.rollback is None else report.rollback.not_gone
    return how.command("destroy", *(f"--only={name}" for name in names)) if names else ""


def _read_back(work: Work, report: Report) -> Inventory | None:
    """Read the estate after a run; a server, or a lock, that has gone away by then spoils only the table."""
    try:
        return work.read_back() if work.read_done is None else work.read_done(report)
    except VgpuCfgError as error:
        show.say(f"the result could not be verified: {error.message}")
        return None
    except KeyboardInterrupt:
        show.say("interrupted; the result was not verified")
        return None


def _carry_out(work: Work, estate: Estate, how: ApplyOptions, events: list[Event]) -> tuple[Report, str]:
    """Carry a plan out, and fill in its events; return the report and where the journal is."""
    from vgpu_cfg.execution import Run, RunOptions, stop_on_interrupt
    from vgpu_cfg.render.layout.console import make_console
    from vgpu_cfg.render.text.run.progress import make_display, tee

    plan, clock = work.plan, estate.clock
    guests = None
    if work.guests is not None:
        # The keys outlive the run: they are kept before the first guest gets them.
        work.guests.seeds.keep()
        guests = work.guests.tools(estate)
    console = make_console(sys.stderr if how.is_json else sys.stdout)
    display = make_display(console, plan)
    on_the_way_back = RunOptions(parallel=how.parallel, per_host=how.per_host)
    options = RunOptions(
        parallel=how.parallel,
        per_host=how.per_host,
        done_by_hand=frozenset(how.done),
        allow=frozenset(how.options.allow),
        on_failure=how.on_failure,
    )
    with (
        recorded_run(
            plan,
            work.observed,
            estate,
            work.locks,
            command=work.verb,
            occasion=how.occasion,
            reviewed=work.reviewed,
            say=display.say,
        ) as record,
        stop_on_interrupt(
            lambda: display.say("stopping after the running tasks finish; press Ctrl-C again to stop now")
        ) as stop,
        estate.outage.watched(display.say, stop),
    ):
        journal = record.journal
        watch = CanaryWatch(plan, work.read_back, work.plan_for, work.check_canary, how.yes)

        def carry(plan: Plan, display: RunDisplay, options: RunOptions) -> Report:
            with display:
                return Run(
                    plan,
                    estate.reader,
                    estate.writer,
                    clock,
                    locks=work.locks,
                    hosts=work.tools,
                    guests=guests,
                    user=work.observed.vcenter.user,
                    observed=work.observed,
                    make_id=estate.make_id,
                    options=options,
                    on_event=tee(journal.record_event, events.append, _while_read(display)),
                    stop=stop,
                    pass_canary=lambda canary: watch.pass_canary(canary, display, stop),
                ).carry_out()

        attempt = _attempt(work, how, clock.now())
        resumed = work.resumed.report if work.resumed is not None else None
        report = resumed or carry(plan, display, options)
        if attempt is not None and work.undo is not None:
            undoing = Undoing(
                work.locks,
                work.read_back,
                attempt,
                _kept(plan),
                work.undo,
                lambda back: carry(back, make_display(console, back), on_the_way_back),
                journal,
                how.is_json,
            )
            report = roll_back(report, undoing)
        report = record.end(report)
    return report, "" if journal.problem else str(journal.path)


def _attempt(work: Work, how: ApplyOptions, now: datetime) -> Attempt | None:
    """Keep the data for a rollback of the run, or forget those of earlier runs if none is requested."""
    if work.resumed is not None:
        return work.resumed
    if not work.plan.desired.id:
        return None
    kept = _kept(work.plan)
    if how.on_failure is not OnFailure.ROLL_BACK or work.undo is None:
        kept.forget()
        return None
    from vgpu_cfg.planning.rollback.attempt import Attempt

    earlier = kept.read()
    attempt = earlier.followed_by(work.plan) if earlier else Attempt.of(work.plan, work.observed, now)
    kept.keep(attempt)
    return attempt


def _kept(plan: Plan) -> KeptAttempt:
    return KeptAttempt.of(plan.desired.identity, plan.target.instance_uuid)


def _while_read(display: Callable[[Event], None]) -> Callable[[Event], None]:
    """Show events as long as they can be: a pipe or a terminal that closes must not break off a run."""

    def take(event: Event) -> None:
        # On a closed pipe rich turns the console silent and asks to leave.
        with contextlib.suppress(OSError, SystemExit):
            display(event)

    return take
