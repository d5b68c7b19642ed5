"""Apply a plan file, or take it away again: read, plan, show, check, hand over to the run."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Literal

import typer

from vgpu_cfg.catalog import load_catalog
from vgpu_cfg.cli import compose
from vgpu_cfg.cli.flows.flow import (
    locate,
    plan_once,
    read_for,
    read_of,
    read_to_run,
    refuse_errors,
    scope_of,
    with_kinds,
    without_deleted,
)
from vgpu_cfg.cli.flows.preparing.guest_access import GuestSecrets, guest_secrets, with_fingerprints
from vgpu_cfg.cli.flows.preparing.host_facts import (
    closed_shells,
    host_tools,
    reaches_beyond_vms,
    remember,
    tools_to_give_back,
    with_facts,
    with_open_shells,
    with_shell_facts,
)
from vgpu_cfg.cli.flows.preparing.locked import locked, read_alone, shell_locks
from vgpu_cfg.cli.flows.preparing.privileges import refuse_closed_shells, refuse_missing
from vgpu_cfg.cli.flows.preparing.request import PlanRequest, keep_id, refuse_unsigned, with_id
from vgpu_cfg.cli.flows.running.canary_flow import CanaryFindings, check_hosts
from vgpu_cfg.cli.flows.running.run_flow import (
    ApplyOptions,
    KeptAttempt,
    Work,
    ask,
    decide_and_run,
    has_nothing_to_do,
    nothing_to_do,
    show_plan,
    these,
)
from vgpu_cfg.cli.kept.saved_plan import check_reviewed
from vgpu_cfg.cli.options.running import refuse_unstated
from vgpu_cfg.cli.output import show
from vgpu_cfg.documents import did_you_mean
from vgpu_cfg.errors import UnsafePlan
from vgpu_cfg.model.observed.inventory import Connection
from vgpu_cfg.model.ranges import fold_names
from vgpu_cfg.model.runs import OnFailure
from vgpu_cfg.planning.hosts.assess import to_keep
from vgpu_cfg.settings.flags import ConnectionFlags

_RESUMED = (
    "finishing the interrupted rollback of an earlier run; rerun the command to retry the plan,"
    " or rerun it without --rollback-on-failure to continue from the current state"
)


if TYPE_CHECKING:
    from vgpu_cfg.changes.plan import Canary, Plan
    from vgpu_cfg.changes.privileges import Needed
    from vgpu_cfg.changes.report import Report
    from vgpu_cfg.cli.compose import Estate
    from vgpu_cfg.execution import HostTools, RunLocks
    from vgpu_cfg.model.desired import DesiredPlan
    from vgpu_cfg.model.observed.inventory import Inventory
    from vgpu_cfg.planning.findings.options import PlanOptions
    from vgpu_cfg.planning.rollback.attempt import Attempt
    from vgpu_cfg.settings.connection import Connection as Server
    from vgpu_cfg.settings.secrets import SecretStore


def apply(request: PlanRequest, flags: ConnectionFlags, options: PlanOptions, how: ApplyOptions) -> int:
    """Plan, show, ask, carry out, read back; return the exit code."""
    from vgpu_cfg.planning.pool.reservations import is_waiting

    connection, desired = locate(request, flags)
    refuse_unstated(connection, how.occasion)
    refuse_unsigned(request, connection, how.options.signers)
    secrets = request.secrets()
    with compose.connect_writer(connection) as estate, ExitStack() as closing:
        # A plan without an id was never applied, so it surely has changes.
        is_new = not desired.id
        locks = closing.enter_context(locked(desired.identity, estate, "apply", how.occasion, at_once=is_new))
        applying = _Applying(request, with_id(desired), connection, estate, locks, secrets, options, how)
        observed = applying.after_reboots()
        if applying.settled is not None:
            return _end(applying.settled, observed, applying)
        applying.options = options = without_deleted(applying.options, observed, estate.reader)
        agreed = ""
        is_early = is_waiting(applying.desired, observed)
        if secrets.commands and not is_early:
            first = applying.plan_without_commands(observed)
            if not applying.agree_to_commands(first, observed):
                refuse_missing(first, observed, estate.reader)
                return nothing_to_do(first, how)
            agreed = first.digest
        if not is_early:
            secure = guest_secrets(applying.desired, observed, options, secrets, is_lab=estate.is_lab)
            applying.guests = secure
            observed = applying.open_hosts(observed, closing)
        attempt = applying.interrupted_rollback(observed)
        if attempt is not None:
            show.say(_RESUMED)
            return decide_and_run(applying.work(attempt.plan, attempt.before, "", attempt), estate, how)
        plan = applying.plan_for(observed)
        if has_nothing_to_do(plan):
            return _end(plan, observed, applying, is_shown=plan.digest == agreed)
        if plan.digest != agreed:
            show_plan(plan, how)
        reviewed = check_reviewed(request.reviewed, plan)
        _refuse_unknown_steps(plan, observed, how.done)
        _refuse_closed_window(plan, observed)
        work = applying.work(plan, observed, "" if plan.digest == agreed else f"Make {these(plan)}?")
        return decide_and_run(replace(work, reviewed=reviewed), estate, how)


def show_only(request: PlanRequest, flags: ConnectionFlags, options: PlanOptions, how: ApplyOptions) -> None:
    """Plan and show; nothing is changed. Raises StalePlan if a reviewed plan no longer applies."""
    from vgpu_cfg.planning.vms.expiry import make_expiry_plan

    if how.options.expired:
        plan = make_expiry_plan(*read_of(request, flags), options)
    else:
        plan = plan_once(request, flags, options).plan
    show.plan(plan, how.output, command=how.command("apply"), verbose=False, occasion=how.occasion)
    refuse_errors(plan)
    check_reviewed(request.reviewed, plan)


def _end(plan: Plan, observed: Inventory, applying: _Applying, *, is_shown: bool = False) -> int:
    """Show a plan that has nothing to do, or is rejected, and end with it; return the exit code.

    Privileges are checked only if the plan was locked: otherwise none were needed.
    """
    how = applying.how
    if not is_shown:
        show_plan(plan, how)
    refuse_errors(plan)
    _refuse_unknown_steps(plan, observed, how.done)
    if applying.locks.has_own:
        refuse_missing(plan, observed, applying.estate.reader, applying.granted)
    applying.settle(observed, plan)
    applying.kept_attempt(observed).forget()
    return nothing_to_do(plan, how)


@dataclass(slots=True)
class _Applying:
    """The state of `apply` from its first reading to the last: plan file, estate, and approvals.

    `guests` and `tools` come once secrets may be fetched and shells opened. `reserves` is whether GPUs are or
    will be reserved, as far as is known, `granted` are the privileges found. `settled` is the plan if nothing
    is left to do by a reading without a lock.
    """

    request: PlanRequest
    desired: DesiredPlan
    connection: Server
    estate: Estate
    locks: RunLocks
    secrets: SecretStore
    options: PlanOptions
    how: ApplyOptions
    guests: GuestSecrets | None = None
    tools: HostTools | None = None
    reserves: bool = True
    granted: frozenset[Needed] = frozenset()
    settled: Plan | None = None

    def is_settled(self, seen: Inventory) -> bool:
        """Whether nothing is left to change, to save on hosts, or to clean up, by a reading without a lock.

        No shell is opened; those that are open are read. Commands are not run for secrets.
        """
        from vgpu_cfg.planning.pool.reservations import is_waiting

        desired = self.desired
        if self.options.rotate or self.kept_attempt(seen).path.exists():
            return False
        self.options = without_deleted(self.options, seen, self.estate.reader)
        is_early = is_waiting(desired, seen)
        if self.secrets.commands and not is_early:
            plan = self.plan_without_commands(seen)
            self.settled = plan if has_nothing_to_do(plan) and not plan.unknown else None
            return self.settled is not None
        if not is_early:
            self.guests = guest_secrets(desired, seen, self.options, self.secrets, is_lab=self.estate.is_lab)
            if self.guests is not None and self.guests.seeds.former:
                return False
            has_marks = any(facts.mark for facts in seen.facts.hosts.values())
            if has_marks or closed_shells(desired, seen, self.options):
                return False
            seen = with_open_shells(desired, seen, self.connection, self.options, self.secrets)
            if to_keep(desired, seen, load_catalog(), self.options):
                return False
        plan = self.plan_for(seen)
        self.settled = plan if has_nothing_to_do(plan) else None
        return self.settled is not None

    def plan_for(self, observed: Inventory) -> Plan:
        """Plan from the readings and fetched data; for a rollback with the changes it could not undo."""
        return self._made(observed, self._told(self.options))

    def plan_after(self, observed: Inventory) -> Plan:
        """Plan for the rest: replaced secrets are not replaced again."""
        return self._made(observed, self._told(replace(self.options, rotate=())))

    def plan_without_commands(self, observed: Inventory) -> Plan:
        """Plan as one who only looks does: without the secrets that commands print."""
        known = with_fingerprints(self.desired, observed, self.options, self.connection, self.secrets)
        return self._made(observed, known)

    def _told(self, options: PlanOptions) -> PlanOptions:
        return options if self.guests is None else self.guests.in_options(options)

    def _made(self, observed: Inventory, options: PlanOptions) -> Plan:
        from vgpu_cfg.planning.planner import make_plan
        from vgpu_cfg.planning.rollback.rollback import with_no_way_back

        plan = make_plan(self.desired, observed, load_catalog(), options)
        return with_no_way_back(plan) if self.how.on_failure is OnFailure.ROLL_BACK else plan

    def agree_to_commands(self, plan: Plan, observed: Inventory) -> bool:
        """Show the plan without secrets that commands print, check it, ask whether they may be run.

        Returns whether there is anything to run them for.
        """
        show_plan(plan, self.how)
        refuse_errors(plan)
        if not plan.unknown:
            _refuse_unknown_steps(plan, observed, self.how.done)
        if not (plan.changes or plan.unknown or self.options.rotate):
            return False
        _refuse_closed_window(plan, observed)
        self.granted = refuse_missing(plan, observed, self.estate.reader)
        commands = " and ".join(f"`{words}`" for words in self.secrets.commands)
        make = f", and make {these(plan)}" if plan.changes else ""
        ask(f"Run {commands} for secrets{make}?", yes=self.how.yes)
        self.secrets.allow_commands()
        return True

    def after_reboots(self) -> Inventory:
        """Read the estate; first wait for hosts that an earlier run of this plan rebooted."""
        from vgpu_cfg.execution import RunOptions

        limits = RunOptions()
        deadline = self.estate.clock.now() + timedelta(seconds=limits.restart_seconds)
        reported = False
        while True:
            observed = self._read(roles=True)
            away = [
                observed.host_by_moid[moid].name
                for moid, facts in observed.facts.hosts.items()
                if facts.mark is not None
                and facts.mark.is_of(self.desired.identity)
                and facts.mark.restart == "reboot"
                and observed.host_by_moid[moid].connection is not Connection.CONNECTED
            ]
            if not away or self.estate.clock.now() >= deadline:
                return observed
            if not reported:
                show.say(f"{fold_names(away)}: rebooted by an earlier run; waiting until it responds")
                reported = True
            self.estate.clock.pause(limits.host_poll_seconds)

    def open_hosts(self, observed: Inventory, closing: ExitStack) -> Inventory:
        """Open the shells of the plan's hosts until `closing` ends, and add their facts.

        Before the first is opened, the account's privileges are checked, and the hosts are locked.
        """
        if not reaches_beyond_vms(self.desired):
            return observed
        tools = host_tools(self.desired, observed, self.estate, self.options, self.locks, self.secrets)
        self.tools = closing.enter_context(tools)
        closed = closed_shells(self.desired, observed, self.options)
        locks = shell_locks(tools, observed)
        if closed or locks:
            foreseen = self.plan_for(observed) if closed else None
            self.granted |= refuse_closed_shells(closed, observed, self.estate.reader, foreseen)
        self.locks.take(*locks)
        if tools.opens_shells:
            keep_id(self.desired, self.request.folder)
        observed = with_shell_facts(self.desired, observed, tools, self.options)
        show.shells_opened(tools)
        return observed

    def read_back(self) -> Inventory:
        """Read the estate again, with the facts of the hosts' shells.

        If nothing is reserved, by this plan or others, reservations are not read again.
        """
        after = self._read(roles=False) if self.reserves else self._read_estate()
        if self.tools is not None:
            self.locks.beat()  # shells are opened, and what they tell is kept
            after = with_shell_facts(self.desired, after, self.tools, self.options)
        self._remember(after)
        return after

    def read_done(self, report: Report, plan: Plan, observed: Inventory) -> Inventory:
        """Read back the results of a run: the plan's VMs with their hosts, if it has changed nothing else.

        Nothing is read if all of them are settings of VMs that are off: they were read back one by one, and
        no host shows them. All is read if a change was not done, or may be seen elsewhere.
        """
        from vgpu_cfg.changes.report import OutcomeStatus
        from vgpu_cfg.planning.estate.ownership import as_named

        done = [one.vm_moid for one in report.outcomes if one.status is OutcomeStatus.DONE and one.vm_moid]
        is_of_vms = all(change.face.stays_at_vm for change in plan.changes)
        reaches_further = reaches_beyond_vms(self.desired) or self.options.allow_move or self.reserves
        if reaches_further or not is_of_vms or len(done) < len(plan.changes) or report.rollback is not None:
            return self.read_back()
        reader, scope = self.estate.reader, scope_of(self.desired)
        own = [vm.moid for vm in observed.vms if vm.is_of(self.desired.identity)]
        is_of_settings = all(change.face.equips and not change.makes for change in plan.changes)
        found = reader.read_part(scope, () if is_of_settings else (*own, *done))
        if is_of_settings and any(vm.is_on for vm in found.vms if vm.moid in done):
            found = reader.read_part(scope, own)
        found = found.model_copy(update={"facts": observed.facts})
        return with_kinds(as_named(self.desired, found), reader, (self.desired, self.options))

    def kept_attempt(self, observed: Inventory) -> KeptAttempt:
        """Return where an interrupted run with `--rollback-on-failure` is kept."""
        return KeptAttempt.of(self.desired.identity, observed.vcenter.instance_uuid)

    def interrupted_rollback(self, observed: Inventory) -> Attempt | None:
        """Return what an earlier run of the same command failed at, and did not finish to undo."""
        if self.how.on_failure is not OnFailure.ROLL_BACK:
            return None
        attempt = self.kept_attempt(observed).read()
        return attempt if attempt is not None and attempt.is_undoing else None

    def settle(self, observed: Inventory, plan: Plan) -> None:
        """If there is nothing to do, keep the findings, and forget keys that no guest needs."""
        self._remember(observed)
        if self.guests is not None:
            self.guests.settle(self.desired, observed, plan)

    def _read(self, *, roles: bool) -> Inventory:
        observed = read_alone(self.locks, lambda: self._read_estate(locks=True, roles=roles), self.is_settled)
        kept = observed.reservations
        self.reserves = self.desired.ends is not None or (kept is not None and bool(kept.kept))
        return observed

    def _read_estate(self, *, locks: bool = False, roles: bool = False) -> Inventory:
        reader, is_timed = self.estate.reader, self.desired.ends is not None
        observed = read_for(
            self.desired, reader, locks=locks, is_timed=is_timed, to_plan=self.options, roles=roles
        )
        return with_facts(self.desired, observed, reader, self.options)

    def _remember(self, observed: Inventory) -> None:
        """Keep on the hosts the facts of their shells, so that the next plan knows them without a shell."""
        if self.tools is not None:
            for line in remember(self.desired, observed, self.tools, self.options):
                show.say(line)

    def work(self, plan: Plan, observed: Inventory, question: str, resumed: Attempt | None = None) -> Work:
        """Return the plan to carry out; of a `resumed` attempt only the rollback."""
        from vgpu_cfg.planning.rollback.rollback import make_rollback

        def undo(attempt: Attempt, after: Inventory) -> Plan:
            told = self._told(self.options)
            outcomes = attempt.outcomes_in(after)
            return make_rollback(attempt.plan, outcomes, attempt.before, after, load_catalog(), told)

        def check_canary(canary: Canary, after: Inventory) -> CanaryFindings:
            told = with_kinds(after, self.estate.reader)
            return check_hosts(canary, plan, told, self.estate, self.secrets)

        return Work(
            plan,
            observed,
            self.plan_after,
            self.read_back,
            question,
            "apply",
            self.locks,
            self.tools,
            self.guests,
            keep=lambda: keep_id(self.desired, self.request.folder),
            undo=undo,
            resumed=resumed,
            check_canary=check_canary,
            read_done=lambda report: self.read_done(report, plan, observed),
            granted=self.granted,
        )


def _refuse_unknown_steps(plan: Plan, observed: Inventory, done: tuple[str, ...]) -> None:
    """Raise BadParameter for a step that the plan does not hold, unless an earlier run confirmed it."""
    from vgpu_cfg.planning.hosts.sequence import was_acknowledged

    steps = [change.id for change in plan.changes if change.face.is_by_hand]
    for step in done:
        if step not in steps and not was_acknowledged(step, observed):
            hint = did_you_mean(step, steps, noun="manual steps") if steps else "the plan has no manual steps"
            raise typer.BadParameter(f"the plan has no step {step!r}; {hint}", param_hint="--done")


def _refuse_closed_window(plan: Plan, observed: Inventory) -> None:
    """Raise UnsafePlan where hosts would be taken down, or VMs be moved, outside of their hosts' window."""
    from vgpu_cfg.planning.hosts.window import parse_window

    for change in plan.changes:
        leaves_host = change.moves or (change.down is not None and not change.frees_host)
        for text in change.timing.windows if leaves_host else ():
            window = parse_window(text)
            if not window.is_open(observed.read_at):
                raise UnsafePlan(
                    f"the maintenance window {text!r} is closed; it {window.when(observed.read_at)}",
                    subject=change.subject.name,
                    remedy="apply during the window, or change `disruption.window`",
                )


def destroy(request: PlanRequest, flags: ConnectionFlags, options: PlanOptions, how: ApplyOptions) -> int:
    """Plan the removal of the plan's VMs, show, ask, carry out; hosts stay as they are."""
    from vgpu_cfg.planning.vms.destroy import make_destroy_plan

    return _take_out(request, flags, options, how, make_destroy_plan, "destroy")


def shut_down_expired(
    request: PlanRequest, flags: ConnectionFlags, options: PlanOptions, how: ApplyOptions
) -> int:
    """Plan to shut down the plan's VMs that are past their date, show, ask, carry out; no more is done."""
    from vgpu_cfg.planning.vms.expiry import make_expiry_plan

    return _take_out(request, flags, options, how, make_expiry_plan, "apply")


def _take_out(
    request: PlanRequest,
    flags: ConnectionFlags,
    options: PlanOptions,
    how: ApplyOptions,
    make: Callable[[DesiredPlan, Inventory, PlanOptions], Plan],
    verb: Literal["apply", "destroy"],
) -> int:
    """Carry out a plan that only takes VMs out of service, or away."""
    connection, desired = locate(request, flags)
    refuse_unstated(connection, how.occasion)
    refuse_unsigned(request, connection, how.options.signers)
    with compose.connect_writer(connection) as estate, ExitStack() as closing:
        locks = closing.enter_context(locked(desired.identity, estate, verb, how.occasion))
        observed = read_to_run(
            desired, estate.reader, locks, lambda seen: has_nothing_to_do(make(desired, seen, options))
        )
        options = without_deleted(options, observed, estate.reader)
        plan = make(desired, observed, options)
        show_plan(plan, how)
        refuse_errors(plan)
        if not plan.changes:
            return nothing_to_do(plan, how)
        done = (
            "Delete the VMs shown above, with" if verb == "destroy" else "Shut down the VMs shown above, with"
        )
        work = Work(
            plan,
            observed,
            lambda after: make(desired, after, options),
            lambda: read_to_run(desired, estate.reader, locks, roles=False),
            f"{done} {these(plan)}?",
            verb,
            locks,
            tools_to_give_back(plan, observed, estate, locks),
            check="status",
        )
        return decide_and_run(work, estate, how)
