"""Cordon, empty and return hosts: read, plan, carry out under locks, report; a watch cordons by itself.

A watch makes the checks, judges them against the last watch, and cordons as the plan file allows.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from vgpu_cfg.cli import compose
from vgpu_cfg.cli.flows import flow
from vgpu_cfg.cli.flows.flow import refuse_errors
from vgpu_cfg.cli.flows.preparing.host_facts import tools_to_give_back
from vgpu_cfg.cli.flows.preparing.locked import locked
from vgpu_cfg.cli.flows.running.run_flow import ApplyOptions, Work, decide_and_run, show_plan, these
from vgpu_cfg.cli.flows.verify_flow import Wanted, verify_in
from vgpu_cfg.cli.kept.baselines import KeptWatch, kept_watch
from vgpu_cfg.cli.options import typed
from vgpu_cfg.cli.options.running import refuse_unstated
from vgpu_cfg.cli.options.shared import CommandOptions, OutputFormat
from vgpu_cfg.cli.output import show
from vgpu_cfg.errors import VgpuCfgError
from vgpu_cfg.model.choices import PARALLEL, PER_HOST, Occasion
from vgpu_cfg.model.observed.cordon import MOST_CHARACTERS
from vgpu_cfg.ports import ReadScope
from vgpu_cfg.settings.connection import resolve_connection
from vgpu_cfg.settings.flags import ConnectionFlags
from vgpu_cfg.verification.watching import to_cordon, watched

if TYPE_CHECKING:
    from vgpu_cfg.changes.plan import Plan
    from vgpu_cfg.changes.report import Report
    from vgpu_cfg.cli.compose import Estate
    from vgpu_cfg.cli.flows.preparing.request import PlanRequest
    from vgpu_cfg.execution import RunLocks
    from vgpu_cfg.model.desired import DesiredPlan
    from vgpu_cfg.model.observed.inventory import Host, Inventory
    from vgpu_cfg.model.plan_file import ProtectEntry
    from vgpu_cfg.model.verification import Sign, Verification, Watch
    from vgpu_cfg.planning.upkeep.give_back import DrainedVms
    from vgpu_cfg.ports import InventoryReader
    from vgpu_cfg.settings.connection import Connection
    from vgpu_cfg.settings.flags import ConnectionFlags

_EVERY_VM, _HOSTS_ONLY = ReadScope(everything=True), ReadScope()
_MOST_REASON = MOST_CHARACTERS - 135
"""The length that the address, the account and the time leave for a cordon's text."""


@dataclass(frozen=True, slots=True)
class Upkeep:
    """A request for hosts: `plan_for` returns its plan, `scope` is the reading it needs.

    `hosts_of` are its hosts, `command` is the typed command, `is_dry` is whether it is only shown. `drained`
    is the host that must then be empty, `back` the command that gives it back. `by_pool`
    lets one run at a time decide in a cluster. `tell` takes the outcome in place of the command's own
    output. `protect` is a plan file's.
    """

    command: str
    hosts_of: Callable[[Inventory], Sequence[Host]]
    plan_for: Callable[[Inventory], Plan]
    scope: ReadScope
    occasion: Occasion
    drained: Callable[[Inventory], Host | None] = lambda _: None
    back: str = ""
    yes: bool = False
    is_dry: bool = False
    by_pool: bool = False
    protect: ProtectEntry | None = None
    tell: Callable[[Plan, Report | None], None] | None = None


def cordon(
    flags: ConnectionFlags,
    targets: Sequence[str],
    occasion: Occasion,
    output: OutputFormat,
    *,
    yes: bool,
    dry_run: bool,
) -> int:
    """Keep new VMs off hosts and GPUs."""
    from vgpu_cfg.planning.upkeep.cordon import make_cordon_plan
    from vgpu_cfg.planning.upkeep.targets import targets_of

    reason = _kept_reason(occasion)
    if not reason:
        raise typer.BadParameter("specify a short reason", param_hint="--reason")

    def hosts_of(observed: Inventory) -> list[Host]:
        return [target.host for target in targets_of(targets, observed)]

    def plan_for(observed: Inventory) -> Plan:
        return make_cordon_plan(targets_of(targets, observed), observed, reason)

    work = Upkeep("cordon", hosts_of, plan_for, _HOSTS_ONLY, occasion, yes=yes, is_dry=dry_run)
    return _work(work, resolve_connection(flags), flags, output)


def watch_cordon(
    connection: Connection,
    flags: ConnectionFlags,
    signs: Sequence[Sign],
    desired: DesiredPlan,
    per_cluster: int,
) -> dict[str, str]:
    """Cordon the targets of a watch within the plan file's limit; return the outcome of each.

    Raises Locked if another run decides in one of the clusters, and whatever `cordon` raises.
    """
    from vgpu_cfg.planning.upkeep.cordon import make_watch_plan
    from vgpu_cfg.planning.upkeep.targets import targets_of

    words = [sign.target for sign in signs]
    told = dict.fromkeys(words, "could not be cordoned")
    decided: list[Plan] = []

    def plan_for(observed: Inventory) -> Plan:
        plan, withheld = make_watch_plan(signs, observed, per_cluster)
        if not decided:  # the same question follows the run
            told.update(withheld)
            decided.append(plan)
        return plan

    def tell(plan: Plan, report: Report | None) -> None:
        from vgpu_cfg.changes.report import in_place

        done = in_place(report.outcomes) if report is not None else frozenset()
        hosts = {change.subject.name for change in plan.changes if change.id in done}
        told.update(
            {
                one.target: "cordoned"
                for one in signs
                if told[one.target].startswith("could") and one.host in hosts
            }
        )

    work = Upkeep(
        "cordon",
        lambda observed: [target.host for target in targets_of(words, observed)],
        plan_for,
        ReadScope(),
        Occasion(reason="verify --watch"),
        by_pool=True,
        protect=desired.protect,
        tell=tell,
        yes=True,
    )
    _work(work, connection, flags, OutputFormat.JSON)
    return told


def uncordon(
    flags: ConnectionFlags,
    targets: Sequence[str],
    occasion: Occasion,
    output: OutputFormat,
    *,
    drained: DrainedVms,
    power_off: Sequence[str],
    yes: bool,
    dry_run: bool,
) -> int:
    """Give hosts and GPUs back; `drained` is the fate of the VMs that a drain took from them."""
    from vgpu_cfg.catalog import load_catalog
    from vgpu_cfg.planning.upkeep.give_back import make_uncordon_plan
    from vgpu_cfg.planning.upkeep.targets import targets_of

    def hosts_of(observed: Inventory) -> list[Host]:
        return [target.host for target in targets_of(targets, observed)]

    def plan_for(observed: Inventory) -> Plan:
        found = targets_of(targets, observed)
        return make_uncordon_plan(found, observed, load_catalog(), power_off=power_off, drained=drained)

    work = Upkeep("uncordon", hosts_of, plan_for, _EVERY_VM, occasion, yes=yes, is_dry=dry_run)
    return _work(work, resolve_connection(flags), flags, output)


def drain(
    flags: ConnectionFlags,
    name: str,
    occasion: Occasion,
    output: OutputFormat,
    *,
    others: bool,
    power_off: Sequence[str],
    yes: bool,
    dry_run: bool,
) -> int:
    """Empty a host."""
    from vgpu_cfg.catalog import load_catalog
    from vgpu_cfg.model.desired import DesiredPlan
    from vgpu_cfg.planning.upkeep.away import AwayHost
    from vgpu_cfg.planning.upkeep.drain import DrainOptions, make_drain
    from vgpu_cfg.planning.upkeep.targets import one_host

    options = DrainOptions(reason=_kept_reason(occasion), others=others, power_off=tuple(power_off))
    catalog, connection = load_catalog(), resolve_connection(flags)

    def plan_for(observed: Inventory) -> Plan:
        desired = DesiredPlan(name="drain", vcenter=observed.vcenter.address, contexts=connection.protecting)
        return make_drain(AwayHost(one_host(name, observed)), observed, catalog, desired, options).plan

    def drained(observed: Inventory) -> Host:
        return one_host(name, observed)

    given_back = Path(f"host:{name.removeprefix('host:')}")
    work = Upkeep(
        "drain",
        lambda observed: [one_host(name, observed)],
        plan_for,
        _EVERY_VM,
        occasion,
        drained=drained,
        back=CommandOptions(flags).command("uncordon", given_back, "--restore"),
        yes=yes,
        is_dry=dry_run,
    )
    return _work(work, connection, flags, output)


def show_absence(flags: ConnectionFlags, name: str, output: OutputFormat, html: Path | None) -> None:
    """Show what would become of VMs if something were away; nothing is changed."""
    from vgpu_cfg.catalog import load_catalog
    from vgpu_cfg.cli.kept import whole_file
    from vgpu_cfg.cli.kept.whole_file import refuse_unwritable
    from vgpu_cfg.model.desired import DesiredPlan
    from vgpu_cfg.planning.upkeep.absence import think_away
    from vgpu_cfg.planning.upkeep.targets import away_of, host_of_nic
    from vgpu_cfg.render.data.upkeep import absence_data
    from vgpu_cfg.render.text.estate.upgrade import render_absence

    if html is not None:
        refuse_unwritable(html, "--html")
    connection = resolve_connection(flags)
    with compose.connect_reader(connection) as reader:
        observed = _read(reader, _EVERY_VM.model_copy(update={"datacenter": connection.datacenter}))
        if (host := host_of_nic(name, observed)) is not None:
            facts = reader.read_facts((host.moid,), frozenset())
            observed = observed.model_copy(update={"facts": facts})
    address = observed.vcenter.address
    desired = DesiredPlan(name="fit", vcenter=address, contexts=connection.protecting)
    found = think_away(away_of(name, observed), observed, load_catalog(), desired)
    told = absence_data(found, address, observed.read_at.isoformat())
    if html is not None:
        whole_file.absence(html, found, told, observed)
    if output is OutputFormat.JSON:
        show.data(told)
    else:
        show.lines(lambda width: render_absence(found, address, width, typed.completed_command))


def _kept_reason(occasion: Occasion) -> str:
    """Return a reason as the hosts keep it. Raises BadParameter for one that is too long for that."""
    if len(occasion.reason) > _MOST_REASON:
        raise typer.BadParameter(
            f"the reason has {len(occasion.reason)} characters; the limit is {_MOST_REASON}",
            param_hint="--reason",
        )
    return occasion.reason


def _work(asked: Upkeep, connection: Connection, flags: ConnectionFlags, output: OutputFormat) -> int:
    from vgpu_cfg.model.desired import DesiredPlan
    from vgpu_cfg.model.plan_file import ProtectEntry
    from vgpu_cfg.planning.upkeep.targets import within_reach

    scope = asked.scope.model_copy(update={"datacenter": connection.datacenter})
    reach = DesiredPlan(
        name="upkeep",
        vcenter=connection.server,
        datacenter=connection.datacenter,
        contexts=connection.protecting,
        protect=asked.protect or ProtectEntry(),
    )
    unbound = asked.plan_for
    asked = replace(asked, plan_for=lambda observed: within_reach(unbound(observed), reach, observed))
    if asked.is_dry:
        with compose.connect_reader(connection) as reader:
            observed = _read(reader, scope)
        return _only_show(asked.plan_for(observed), output)
    refuse_unstated(connection, asked.occasion)
    with (
        compose.connect_writer(connection) as estate,
        locked(None, estate, asked.command, asked.occasion) as locks,
    ):
        observed = _read_alone(asked, estate, locks, scope.model_copy(update={"roles": True}))
        plan = asked.plan_for(observed)
        if plan.errors and asked.tell is None:
            return _only_show(plan, output)
        refuse_errors(plan)
        if not plan.changes:
            if asked.tell is not None:
                asked.tell(plan, None)
            else:
                show.upkeep(
                    plan, None, output, after=observed, drained=asked.drained(observed), back=asked.back
                )
            return 0
        work = _as_work(asked, plan, observed, locks, output, lambda: _read(estate.reader, scope))
        work = replace(work, tools=tools_to_give_back(plan, observed, estate, locks))
        return _decide_and_run(asked, work, estate, flags, output)


def _read_alone(asked: Upkeep, estate: Estate, locks: RunLocks, scope: ReadScope) -> Inventory:
    """Read the estate once no dead run has locked the hosts: only then the remaining work is visible.

    Raises Locked if another run works on them.
    """
    from vgpu_cfg.planning.locks import host_locks, pool_locks

    while True:
        observed = _read(estate.reader, scope)
        hosts = asked.hosts_of(observed)
        pools = dict.fromkeys(host.owner_moid for host in hosts)
        names = (*host_locks((host.moid for host in hosts), observed), *pool_locks(pools, observed))
        if locks.take_over(names):
            continue
        if not asked.by_pool:
            return observed
        # Whoever decides in these clusters next sees the cordons of this run.
        locks.take(*pool_locks(pools, observed))
        return _read(estate.reader, scope)


def _only_show(plan: Plan, output: OutputFormat) -> int:
    show.plan(plan, output, command="", verbose=False)
    refuse_errors(plan)
    return 0


def _read(reader: InventoryReader, scope: ReadScope) -> Inventory:
    """Read the estate, with what vCenter allows of vMotion where VMs are to be moved."""
    observed = reader.read_inventory(scope)
    if not scope.everything:
        return observed
    return observed.model_copy(update={"facts": reader.read_facts((), frozenset())})


def _as_work(
    asked: Upkeep,
    plan: Plan,
    observed: Inventory,
    locks: RunLocks,
    output: OutputFormat,
    read_back: Callable[[], Inventory],
) -> Work:
    def tell(report: Report, after: Inventory | None, journal: str) -> None:
        if asked.tell is not None:
            asked.tell(plan, report)
            return
        drained = asked.drained(after) if after is not None else None
        show.upkeep(
            plan,
            report,
            output,
            after=after,
            drained=drained,
            back=asked.back,
            journal=journal,
            is_shown=not _is_light(plan, asked),
        )

    question = f"Make {these(plan)}?"
    return Work(plan, observed, asked.plan_for, read_back, question, plan.name, locks, tell=tell)


def _decide_and_run(
    asked: Upkeep, work: Work, estate: Estate, flags: ConnectionFlags, output: OutputFormat
) -> int:
    is_light = _is_light(work.plan, asked)
    how = ApplyOptions(
        path=Path(),
        yes=asked.yes or is_light,
        parallel=PARALLEL,
        per_host=PER_HOST,
        output=output,
        options=CommandOptions(flags, occasion=asked.occasion),
    )
    if not is_light:
        show_plan(work.plan, how)
    return decide_and_run(work, estate, how)


def _is_light(plan: Plan, asked: Upkeep) -> bool:
    """Whether a plan of cordons is carried out without being shown first."""
    # Scripts of the previous release cordon without --yes: without a terminal, only VMs require it.
    return all(change.kind == "set_cordon" for change in plan.changes) and (
        asked.yes or not sys.stdin.isatty()
    )


def watches(
    request: PlanRequest, flags: ConnectionFlags, wanted: Wanted, *, every: float | None
) -> Iterator[Watch]:
    """Yield a watch; with `every` another one each time so many seconds have passed, until Ctrl-C.

    Raises Locked if another watch of the plan is running on this machine, and whatever `verify` raises.
    """
    connection, desired = flow.locate(request, flags)
    secrets = request.secrets()
    secrets.allow_commands()
    server = connection.server
    name = f"{desired.id or desired.name}-{hashlib.sha256(server.encode()).hexdigest()[:8]}"
    with kept_watch(name) as kept:
        while True:
            with compose.connect_writer(connection) as estate:
                found = verify_in(desired, estate, wanted, secrets, server=server)
                pause = estate.clock.pause
                watch = _assessed(found, kept, estate).model_copy(update={"file": str(request.path)})
            yield _acted(watch, desired, connection, flags)
            if every is None:
                return
            pause(every)


def _assessed(found: Verification, kept: KeptWatch, estate: Estate) -> Watch:
    watch, memory = watched(kept.memory, found, estate.clock.now())
    kept.keep(memory)
    return watch


def _acted(watch: Watch, desired: DesiredPlan, connection: Connection, flags: ConnectionFlags) -> Watch:
    """Cordon the targets that the plan file allows; a failure is part of the report."""
    policy = desired.verify.watch if desired.verify is not None else None
    signs = to_cordon(watch.due, policy, watch.at) if policy is not None else ()
    if policy is None or not signs:
        return watch
    by_target: dict[str, Sign] = {}
    for one in signs:
        by_target.setdefault(one.sign.target, one.sign)
    try:
        done = watch_cordon(connection, flags, tuple(by_target.values()), desired, policy.per_cluster)
    except VgpuCfgError as error:
        done = dict.fromkeys(by_target, f"not cordoned: {error.message}")
    return watch.model_copy(update={"cordoned": done})
