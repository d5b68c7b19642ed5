"""How a command goes from a plan file to a plan, and from a plan to a report."""

from __future__ import annotations

import contextlib
import getpass
import socket
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from vgpu_cfg.cli import compose, show
from vgpu_cfg.cli.options import CommandOptions, OutputFormat
from vgpu_cfg.cli.saved_plan import check_reviewed, load_plan_json
from vgpu_cfg.documents import did_you_mean
from vgpu_cfg.errors import (
    DoesNotFit,
    Interrupted,
    NobodyToAsk,
    NotConfirmed,
    NotFound,
    NotPermitted,
    VCenterError,
)
from vgpu_cfg.model.report import Event, Report
from vgpu_cfg.settings.connection import Connection, resolve_connection
from vgpu_cfg.settings.flags import ConnectionFlags
from vgpu_cfg.settings.folders import state_folder

if TYPE_CHECKING:
    from vgpu_cfg.execution import RunClock
    from vgpu_cfg.model.change import Plan
    from vgpu_cfg.model.desired import DesiredPlan
    from vgpu_cfg.model.inventory import Inventory
    from vgpu_cfg.planning.options import PlanOptions
    from vgpu_cfg.ports import ChangeWriter, InventoryReader, ReadScope

EXIT_DIFFERENCES = 10
"""No error: see docs/reference/exit-codes.md."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What the user asked for: a plan file's content, or a plan that was reviewed."""

    desired: DesiredPlan
    reviewed: Plan | None = None


def read_asked(path: Path, variables: dict[str, str], variable_files: tuple[Path, ...]) -> Asked:
    """Read a plan file, or a plan.json that `plan -o` wrote.

    Raises DocumentError with every fault of the file.
    """
    if path.suffix == ".json":
        if variables or variable_files:
            raise typer.BadParameter(
                "a reviewed plan has its variables filled in already", param_hint="--set"
            )
        reviewed = load_plan_json(path)
        return Asked(reviewed.desired, reviewed)
    from vgpu_cfg.plan_loading import load_plan

    return Asked(load_plan(path, variables=variables, variable_files=variable_files).desired)


def locate(asked: Asked, flags: ConnectionFlags) -> tuple[Connection, DesiredPlan]:
    """Decide which server a plan is for, and return it with the datacenter that is meant there."""
    desired = asked.desired
    connection = resolve_connection(flags, plan_server=desired.vcenter, plan_datacenter=desired.datacenter)
    return connection, desired.model_copy(update={"datacenter": connection.datacenter})


def scope_of(desired: DesiredPlan) -> ReadScope:
    """Say what a reading must cover for a plan."""
    from vgpu_cfg.model.desired import DesiredPassthrough, TemplateSource
    from vgpu_cfg.ports import ReadScope

    return ReadScope(
        plan=desired.name,
        datacenter=desired.datacenter,
        vm_names=frozenset(vm.name for vm in desired.vms),
        template_names=frozenset(
            vm.source.path_or_name for vm in desired.vms if isinstance(vm.source, TemplateSource)
        ),
        extra_config_keys=frozenset(key for vm in desired.vms for key in vm.extra_config),
        system_ids=any(isinstance(gpu, DesiredPassthrough) for vm in desired.vms for gpu in vm.gpus),
    )


def read_for(desired: DesiredPlan, reader: InventoryReader) -> Inventory:
    """Read what a plan needs."""
    return reader.read_inventory(scope_of(desired))


def refuse_errors(plan: Plan) -> None:
    """Raise DoesNotFit where a finding stands against the plan."""
    errors = plan.errors
    if not errors:
        return
    first = errors[0]
    more = f" (and {len(errors) - 1} more above)" if len(errors) > 1 else ""
    raise DoesNotFit(
        f"{first.code} {first.message}{more}",
        subject=f"{first.subject.kind} {first.subject.name}",
        remedy=first.remedy or f"see docs/reference/checks/{first.code}.md",
    )


def refuse_missing_privileges(plan: Plan, observed: Inventory, reader: InventoryReader) -> None:
    """Raise NotPermitted where the account lacks a privilege that a change needs."""
    from vgpu_cfg.planning.privileges import needed_privileges

    missing = reader.read_missing_privileges(needed_privileges(plan, observed))
    lacking = {moid: names for moid, names in missing.items() if names}
    if not lacking:
        return
    privileges = sorted({name for names in lacking.values() for name in names})
    moid = next(iter(lacking))
    more = f" and {len(lacking) - 1} more objects" if len(lacking) > 1 else ""
    raise NotPermitted(
        f"{observed.vcenter.user or 'the account'} lacks {', '.join(privileges)}",
        subject=f"{_path_of(observed, moid)}{more}",
        remedy="grant it there; docs/reference/permissions.md lists what each command needs",
    )


def _path_of(observed: Inventory, moid: str) -> str:
    for objects in (
        observed.hosts,
        observed.clusters,
        observed.vms,
        observed.folders,
        observed.resource_pools,
    ):
        for found in objects:
            if found.moid == moid:
                return found.inventory_path or found.name
    for other in (*observed.networks, *observed.datastores, *observed.datacenters):
        if other.moid == moid:
            return other.inventory_path or other.name
    return moid


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
    try:
        goes_ahead = typer.confirm(question, default=False, err=True)
    except typer.Abort:  # Ctrl-C or the end of input at the question
        goes_ahead = False
    if not goes_ahead:
        raise Interrupted("nothing was changed", subject=question, remedy="nothing; you said no")


@dataclass(frozen=True, slots=True)
class How:
    """How a run goes: where the plan came from, and what the command line allows.

    `options` is what the command line said that another command on the same plan must say too.
    """

    path: Path
    yes: bool
    parallel: int
    per_host: int
    output: OutputFormat
    options: CommandOptions

    def command(self, verb: str, more: str = "") -> str:
        """Return what to type for another command on the same plan."""
        return self.options.command(verb, self.path, more)


def plan_once(asked: Asked, flags: ConnectionFlags, options: PlanOptions) -> tuple[Plan, Inventory]:
    """Read the estate and plan for it; nothing is changed."""
    from vgpu_cfg.catalog import load_catalog
    from vgpu_cfg.planning.planner import make_plan

    connection, desired = locate(asked, flags)
    with compose.connect_reader(connection) as reader:
        observed = read_for(desired, reader)
    return make_plan(desired, observed, load_catalog(), options), observed


def read_all(flags: ConnectionFlags) -> Inventory:
    """Read a whole estate. Raises NotFound for a datacenter that it has not."""
    from vgpu_cfg.ports import ReadScope

    connection = resolve_connection(flags)
    with compose.connect_reader(connection) as reader:
        observed = reader.read_inventory(ReadScope(datacenter=connection.datacenter))
    known = [found.name for found in observed.datacenters]
    if connection.datacenter is not None and connection.datacenter not in known:
        raise NotFound(
            f"there is no datacenter {connection.datacenter!r}",
            subject=connection.server,
            remedy=did_you_mean(connection.datacenter, known, noun="datacenters"),
        )
    return observed


def apply(asked: Asked, flags: ConnectionFlags, options: PlanOptions, how: How) -> int:
    """Plan, show, ask, carry out, read back; return the exit code."""
    from vgpu_cfg.catalog import load_catalog
    from vgpu_cfg.planning.planner import make_plan

    catalog = load_catalog()

    def plan_for(desired: DesiredPlan, observed: Inventory) -> Plan:
        return make_plan(desired, observed, catalog, options)

    return _change(asked, flags, how, plan_for, "apply")


def destroy(asked: Asked, flags: ConnectionFlags, how: How) -> int:
    """Plan the removal of what the plan owns, show, ask, carry out; return the exit code."""
    from vgpu_cfg.planning.destroy import make_destroy_plan

    return _change(asked, flags, how, make_destroy_plan, "destroy")


def _change(
    asked: Asked,
    flags: ConnectionFlags,
    how: How,
    plan_for: Callable[[DesiredPlan, Inventory], Plan],
    verb: str,
) -> int:
    from vgpu_cfg.execution import exit_code_of

    connection, desired = locate(asked, flags)
    with compose.connect_writer(connection) as (reader, writer, clock):
        observed = read_for(desired, reader)
        plan = plan_for(desired, observed)
        is_json = how.output is OutputFormat.JSON
        if is_json and not plan.errors:
            if not how.yes and plan.changes:
                show.plan_to_decide_on(plan)
        else:
            show.plan(plan, how.output, command="", verbose=False, is_only_shown=False)
        refuse_errors(plan)
        if verb == "apply":
            check_reviewed(asked.reviewed, plan)
        if not plan.changes:
            if is_json:
                nothing = Report(plan=plan.name, digest=plan.digest)
                show.report(plan, nothing, None, how.output, journal="", next_command="", check_command="")
            return 0
        refuse_missing_privileges(plan, observed, reader)
        ask(_question(plan, verb), yes=how.yes)
        report, journal = _carry_out(plan, reader, writer, clock, how)
        after = _read_back(desired, reader)
        left = plan_for(desired, after) if after is not None else None
    show.report(
        plan,
        report,
        after,
        how.output,
        journal=journal,
        # A reviewed plan that was done in part is out of date: it is to be made and reviewed again.
        next_command=how.command("plan", f"-o {how.path}")
        if asked.reviewed and verb == "apply"
        else how.command(verb),
        check_command=how.command("plan" if verb == "apply" else "status"),
    )
    code = exit_code_of(report)
    if code == 0 and left is not None and left.changes:
        first = left.changes[0]
        raise NotConfirmed(
            f"every change was made, and {len(left.changes)} would be made again, such as: {first.id}",
            subject=f"{first.subject.kind} {first.subject.name}",
            remedy=f"{how.command('plan')} shows what vCenter did not keep",
        )
    return code


def _question(plan: Plan, verb: str) -> str:
    count = len(plan.changes)
    these = "this change" if count == 1 else f"these {count} changes"
    return f"Make {these}?" if verb == "apply" else f"Destroy what the plan owns, with {these}?"


def _read_back(desired: DesiredPlan, reader: InventoryReader) -> Inventory | None:
    """Read the estate after a run; a server that has gone away by then spoils only the table."""
    try:
        return read_for(desired, reader)
    except VCenterError as error:
        show.say(f"the result could not be read back: {error.message}")
        return None
    except KeyboardInterrupt:
        show.say("the result was not read back: interrupted")
        return None


def _carry_out(
    plan: Plan, reader: InventoryReader, writer: ChangeWriter, clock: RunClock, how: How
) -> tuple[Report, str]:
    from vgpu_cfg.execution import Journal, RunOptions, hold_lock, run_plan, stop_on_interrupt
    from vgpu_cfg.render.console import make_console
    from vgpu_cfg.render.progress import make_display, tee

    folder = state_folder()
    console = make_console(sys.stderr if how.output is OutputFormat.JSON else sys.stdout)
    with (
        hold_lock(folder / "locks", plan.name, plan.target, now=clock.now()),
        Journal.begin(
            folder / "journals", plan, now=clock.now(), user=getpass.getuser(), host=socket.gethostname()
        ) as journal,
        make_display(console, plan) as display,
        stop_on_interrupt(
            lambda: display.say("stopping: running tasks are waited for; Ctrl-C again leaves them")
        ) as stop,
    ):
        if journal.problem:
            display.say(journal.problem)
        report = run_plan(
            plan,
            reader,
            writer,
            clock,
            options=RunOptions(parallel=how.parallel, per_host=how.per_host),
            on_event=tee(journal.record_event, _while_read(display)),
            stop=stop,
        )
        journal.record_report(report)
    return report, "" if journal.problem else str(journal.path)


def _while_read(display: Callable[[Event], None]) -> Callable[[Event], None]:
    """Show events for as long as somebody reads them: a pipe that closes must not break off a run."""

    def take(event: Event) -> None:
        # On a closed pipe rich turns the console silent and asks to leave.
        with contextlib.suppress(BrokenPipeError, SystemExit):
            display(event)

    return take


def record(flags: ConnectionFlags, path: Path) -> None:
    """Save a vCenter's answers to a file."""
    trips = compose.record(resolve_connection(flags), path)
    show.say(f"{path}: {trips} answers. Try it: vgpu-cfg inventory --from {path}")
