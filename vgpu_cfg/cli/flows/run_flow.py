"""How a plan is decided on, carried out and read back."""

from __future__ import annotations

import contextlib
import shlex
import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from vgpu_cfg.cli import compose
from vgpu_cfg.cli.flows.flow import (
    PlanRequest,
    locate,
    locked,
    read_for,
    refuse_errors,
    refuse_missing_privileges,
)
from vgpu_cfg.cli.flows.guest_access import GuestSecrets, guest_secrets
from vgpu_cfg.cli.flows.host_facts import (
    host_tools,
    reaches_beyond_vms,
    remember,
    with_facts,
    with_shell_facts,
)
from vgpu_cfg.cli.flows.occasions import refuse_unstated
from vgpu_cfg.cli.flows.plan_id import keep_id, with_id
from vgpu_cfg.cli.flows.recorded import recorded_run
from vgpu_cfg.cli.flows.saved_plan import check_reviewed
from vgpu_cfg.cli.options.shared import CommandOptions, OutputFormat
from vgpu_cfg.cli.output import show
from vgpu_cfg.cli.output.terminal import confirm
from vgpu_cfg.documents import did_you_mean
from vgpu_cfg.errors import Interrupted, NobodyToAsk, NotConfirmed, UnsafePlan, VCenterError
from vgpu_cfg.model.observed.inventory import Connection
from vgpu_cfg.model.plan.report import Event, OutcomeStatus, Report
from vgpu_cfg.planning.expand.ranges import fold_names
from vgpu_cfg.settings.flags import ConnectionFlags
from vgpu_cfg.settings.journals import journal_settings

if TYPE_CHECKING:
    from vgpu_cfg.cli.compose import Estate
    from vgpu_cfg.execution import HostTools
    from vgpu_cfg.model.desired import DesiredPlan
    from vgpu_cfg.model.observed.inventory import Inventory
    from vgpu_cfg.model.occasion import Occasion
    from vgpu_cfg.model.plan.change import Plan
    from vgpu_cfg.planning.findings.options import PlanOptions


def ask(question: str, *, yes: bool) -> None:
    """Ask before going ahead.

    Raises Interrupted where the answer is no, and NobodyToAsk where there is no terminal.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise NobodyToAsk(
            "nothing was changed: there is no terminal to ask on",
            subject=question,
            remedy="look at the plan above and give --yes",
        )
    if not confirm(question):
        raise Interrupted("nothing was changed", subject=question, remedy="nothing; you said no")


@dataclass(frozen=True, slots=True)
class ApplyOptions:
    """How a run goes: where the plan came from, and what the command line allows.

    `options` is what the command line said that another command on the same plan must say too; `done`
    names the manual steps that the user says are done.
    """

    path: Path
    yes: bool
    parallel: int
    per_host: int
    output: OutputFormat
    options: CommandOptions
    done: tuple[str, ...] = ()

    @property
    def occasion(self) -> Occasion:
        """What the run is made for."""
        return self.options.occasion

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


def apply(request: PlanRequest, flags: ConnectionFlags, options: PlanOptions, how: ApplyOptions) -> int:
    """Plan, show, ask, carry out, read back; return the exit code."""
    from vgpu_cfg.catalog import load_catalog
    from vgpu_cfg.planning.planner import make_plan

    catalog = load_catalog()
    connection, desired = locate(request, flags)
    refuse_unstated(connection, how.occasion)
    desired = with_id(desired)

    with compose.connect_writer(connection) as estate, ExitStack() as closing:
        observed = _after_reboots(desired, estate, options)
        closing.enter_context(locked(desired, observed, estate))
        guests = guest_secrets(desired, observed, is_lab=estate.is_lab)
        reported = options if guests is None else guests.in_options(options)

        def plan_for(observed: Inventory) -> Plan:
            return make_plan(desired, observed, catalog, reported)

        tools = (
            closing.enter_context(host_tools(desired, observed, estate, options))
            if reaches_beyond_vms(desired)
            else None
        )
        if tools is not None and tools.opens_shells:
            keep_id(desired, request.folder)
        observed = _through_shells(desired, observed, tools, options)
        if tools is not None:
            show.shells_opened(tools)
        plan = plan_for(observed)
        show_plan(plan, how)
        refuse_errors(plan)
        check_reviewed(request.reviewed, plan)
        _refuse_unknown_steps(plan, how.done)
        if not plan.changes:
            _remember(desired, observed, tools, options)
            return nothing_to_do(plan, how)
        _refuse_closed_window(plan, observed)

        def read_back() -> Inventory:
            after = with_facts(desired, read_for(desired, estate.reader), estate.reader, options)
            after = _through_shells(desired, after, tools, options)
            _remember(desired, after, tools, options)
            return after

        work = Work(
            plan,
            observed,
            plan_for,
            read_back,
            f"Make {these(plan)}?",
            "apply",
            tools,
            guests,
            lambda: keep_id(desired, request.folder),
        )
        return decide_and_run(work, estate, how, is_reviewed=request.reviewed is not None)


def destroy(request: PlanRequest, flags: ConnectionFlags, options: PlanOptions, how: ApplyOptions) -> int:
    """Plan the removal of the plan's VMs, show, ask, carry out; hosts stay as they are."""
    from vgpu_cfg.planning.vms.destroy import make_destroy_plan

    connection, desired = locate(request, flags)
    refuse_unstated(connection, how.occasion)
    with compose.connect_writer(connection) as estate, ExitStack() as closing:
        observed = read_for(desired, estate.reader)
        closing.enter_context(locked(desired, observed, estate))
        plan = make_destroy_plan(desired, observed, options)
        show_plan(plan, how)
        refuse_errors(plan)
        if not plan.changes:
            return nothing_to_do(plan, how)
        work = Work(
            plan,
            observed,
            lambda after: make_destroy_plan(desired, after, options),
            lambda: read_for(desired, estate.reader),
            f"Delete what is shown above, with {these(plan)}?",
            "destroy",
            check="status",
        )
        return decide_and_run(work, estate, how)


@dataclass(frozen=True, slots=True)
class Work:
    """A plan that is about to be carried out, and how the estate is read and planned for again.

    `keep` writes down what must outlive the run, before its first change. `verb` with `more` is what to type
    for it again, `check` the command that shows what came of it. `tell` says what came of work that no plan
    file asks for, by its report, by what was read back and the journal.
    """

    plan: Plan
    observed: Inventory
    plan_for: Callable[[Inventory], Plan]
    read_back: Callable[[], Inventory]
    question: str
    verb: str
    tools: HostTools | None = None
    guests: GuestSecrets | None = None
    keep: Callable[[], None] = lambda: None
    more: tuple[str, ...] = ()
    check: str = "plan"
    tell: Callable[[Report, Inventory | None, str], None] | None = None


def _after_reboots(desired: DesiredPlan, estate: Estate, options: PlanOptions) -> Inventory:
    """Read the estate; hosts that an earlier run of this plan has told to reboot are waited for first."""
    from vgpu_cfg.execution import RunOptions

    limits = RunOptions()
    deadline = estate.clock.now() + timedelta(seconds=limits.restart_seconds)
    reported = False
    while True:
        observed = with_facts(desired, read_for(desired, estate.reader), estate.reader, options)
        away = [
            observed.host_by_moid[moid].name
            for moid, facts in observed.facts.hosts.items()
            if facts.mark is not None
            and facts.mark.is_of(desired.identity)
            and facts.mark.restart == "reboot"
            and observed.host_by_moid[moid].connection is not Connection.CONNECTED
        ]
        if not away or estate.clock.now() >= deadline:
            return observed
        if not reported:
            show.say(f"{fold_names(away)}: told to reboot by an earlier run; waiting until it answers")
            reported = True
        estate.clock.pause(limits.host_poll_seconds)


def _through_shells(
    desired: DesiredPlan, observed: Inventory, tools: HostTools | None, options: PlanOptions
) -> Inventory:
    if tools is None:
        return observed
    return with_shell_facts(desired, observed, tools, options)


def _remember(
    desired: DesiredPlan, observed: Inventory, tools: HostTools | None, options: PlanOptions
) -> None:
    """Keep on the hosts what their shells told, so that the next plan knows it without them."""
    for line in remember(desired, observed, tools, options) if tools is not None else ():
        show.say(line)


def show_plan(plan: Plan, how: ApplyOptions) -> None:
    """Show a plan that is about to be carried out; a program gets its report alone."""
    if how.is_json and not plan.errors:
        if not how.yes and plan.changes:
            show.plan_to_decide_on(plan, how.occasion)
    else:
        show.plan(plan, how.output, command="", verbose=False, is_only_shown=False, occasion=how.occasion)


def nothing_to_do(plan: Plan, how: ApplyOptions) -> int:
    """Tell a program that a plan has no changes; return the exit code."""
    if how.is_json:
        nothing = Report(plan=plan.name, digest=plan.digest, occasion=how.occasion)
        show.report(plan, nothing, None, how.output, journal="", next_command="", check_command="")
    return 0


def _refuse_unknown_steps(plan: Plan, done: tuple[str, ...]) -> None:
    """Raise BadParameter for a step that the plan does not hold."""
    steps = [change.id for change in plan.changes if change.kind == "manual_step"]
    for step in done:
        if step not in steps:
            hint = did_you_mean(step, steps, noun="manual steps") if steps else "the plan has no manual step"
            raise typer.BadParameter(f"the plan has no step {step!r}: {hint}", param_hint="--done")


def _refuse_closed_window(plan: Plan, observed: Inventory) -> None:
    """Raise UnsafePlan where hosts would be taken down, or VMs be moved, outside of their hosts' window."""
    from vgpu_cfg.planning.hosts.window import parse_window

    for change in plan.changes:
        windows: tuple[str, ...] = ()
        if change.kind == "enter_maintenance" and change.window and not change.is_held:
            windows = (change.window,)
        elif change.kind == "relocate_vm":
            windows = change.windows
        for window in windows:
            if not parse_window(window).is_open(observed.read_at):
                raise UnsafePlan(
                    f"the maintenance window {window!r} is not open",
                    subject=change.subject.name,
                    remedy="apply within it, or change `disruption.window`",
                )


def these(plan: Plan) -> str:
    """Count a plan's changes for a question."""
    count = len(plan.changes)
    return "this change" if count == 1 else f"these {count} changes"


def decide_and_run(work: Work, estate: Estate, how: ApplyOptions, *, is_reviewed: bool = False) -> int:
    """Ask, carry a plan out, read back and tell; return the exit code."""
    from vgpu_cfg.execution import exit_code_of

    plan = work.plan
    refuse_missing_privileges(plan, work.observed, estate.reader)
    journal_settings()  # what cannot be used is told before the question
    ask(work.question, yes=how.yes)
    work.keep()
    report, journal = _carry_out(work, estate, how)
    how = how.after(_deleted(plan, report))
    plan_again = how.command("plan", *(["--open-shell"] if work.tools and work.tools.opens_shells else []))
    code = exit_code_of(report)
    after = _read_back(work)
    left = work.plan_for(after) if after is not None else None
    if work.tell is not None:
        work.tell(report, after, journal)
    else:
        show.report(
            plan,
            report,
            after,
            how.output,
            journal=journal,
            # A reviewed plan that was done in part is out of date: it is to be made and reviewed again.
            next_command=f"{plan_again} -o {shlex.quote(str(how.path))}"
            if is_reviewed
            else how.command(work.verb, *work.more),
            check_command=how.command(work.check) if work.check else "",
            prove_command=how.command("verify") if work.verb == "apply" else "",
        )
    if code == 0 and left is not None and left.changes:
        first = left.changes[0]
        raise NotConfirmed(
            f"every change was made, and {len(left.changes)} would be made again, such as: {first.id}",
            subject=f"{first.subject.kind} {first.subject.name}",
            remedy=f"{plan_again} shows what vCenter did not keep"
            if work.tell is None
            else "run the same command again: it plans again from what is there now",
        )
    return code


def _deleted(plan: Plan, report: Report) -> frozenset[str]:
    """Return the names and inventory paths of the VMs that a run has deleted."""
    gone = (OutcomeStatus.DONE, OutcomeStatus.NOT_NEEDED)
    done = {outcome.change_id for outcome in report.outcomes if outcome.status in gone}
    deletions = [one for one in plan.changes if one.kind == "destroy_vm" and one.id in done]
    paths = {edit.before for change in deletions for edit in change.edits if edit.before is not None}
    return frozenset({*paths, *(change.vm.name for change in deletions)})


def _read_back(work: Work) -> Inventory | None:
    """Read the estate after a run; a server that has gone away by then spoils only the table."""
    try:
        return work.read_back()
    except VCenterError as error:
        show.say(f"the result could not be read back: {error.message}")
        return None
    except KeyboardInterrupt:
        show.say("the result was not read back: interrupted")
        return None


def _carry_out(work: Work, estate: Estate, how: ApplyOptions) -> tuple[Report, str]:
    from vgpu_cfg.execution import RunOptions, run_plan, stop_on_interrupt
    from vgpu_cfg.render.layout.console import make_console
    from vgpu_cfg.render.text.run.progress import make_display, tee

    plan, clock = work.plan, estate.clock
    guests = None
    if work.guests is not None:
        # The keys outlive the run: they are kept before the first guest gets them.
        work.guests.seed.keep()
        guests = work.guests.tools(estate)
    console = make_console(sys.stderr if how.is_json else sys.stdout)
    with (
        make_display(console, plan) as display,
        recorded_run(
            plan, work.observed, estate, command=work.verb, occasion=how.occasion, say=display.say
        ) as record,
        stop_on_interrupt(
            lambda: display.say("stopping: running tasks are waited for; Ctrl-C again leaves them")
        ) as stop,
    ):
        journal = record.journal
        report = run_plan(
            plan,
            estate.reader,
            estate.writer,
            clock,
            hosts=work.tools,
            guests=guests,
            user=work.observed.vcenter.user,
            make_id=estate.make_id,
            options=RunOptions(
                parallel=how.parallel, per_host=how.per_host, done_by_hand=frozenset(how.done)
            ),
            on_event=tee(journal.record_event, _while_read(display)),
            stop=stop,
        )
        report = record.end(report)
    return report, "" if journal.problem else str(journal.path)


def _while_read(display: Callable[[Event], None]) -> Callable[[Event], None]:
    """Show events for as long as somebody reads them: a pipe that closes must not break off a run."""

    def take(event: Event) -> None:
        # On a closed pipe rich turns the console silent and asks to leave.
        with contextlib.suppress(BrokenPipeError, SystemExit):
            display(event)

    return take
