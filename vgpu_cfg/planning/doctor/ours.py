"""Everything of vgpu-cfg at a vCenter, without any plan file: plans, leftovers, and pending work.

A plan is known by its marks: on VMs, rules, hosts, locks, reservations, and in the entries of runs. Its VMs
have the devices that their owner marks record; all other settings, and missing VMs, can be compared only with
the plan file. Expiry dates and maintenance windows are in no mark: they come from the
journal of the plan's last run, if it is within reach.

`doctor` and `status` list the same leftovers, which outlived their run or purpose: marks and maintenance mode
on hosts, cordons, locks, reservations, and marks that came with a copy of a VM.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta

from vgpu_cfg.catalog import Catalog
from vgpu_cfg.model.identity import PlanIdentity
from vgpu_cfg.model.locks import Lock, Locks, thaw_command
from vgpu_cfg.model.observed.cordon import home_of
from vgpu_cfg.model.observed.host_facts import HostMark, recovered_mark
from vgpu_cfg.model.observed.inventory import Cluster, Host, Inventory
from vgpu_cfg.model.observed.vm import Vm
from vgpu_cfg.model.ranges import fold_names
from vgpu_cfg.model.reservations import Reservations
from vgpu_cfg.model.runs import RunEntry, RunResult
from vgpu_cfg.model.wording import age, as_counted, counted, listed
from vgpu_cfg.planning.doctor.ailments import Ailment, Group, Kind, Level, grouped, worst_first
from vgpu_cfg.planning.doctor.patient import Patient, owner_name, path_of
from vgpu_cfg.planning.estate.devices import all_devices
from vgpu_cfg.planning.pool.reservations import now_of
from vgpu_cfg.planning.vms.expiry import FIRST_WARNING
from vgpu_cfg.planning.vms.rules import PREFIX, is_of_a_plan

SHOWN_AGE = timedelta(days=7)
"""Runs since then are listed; the last run of a plan counts whenever it was."""


@dataclass(frozen=True, slots=True)
class Ran:
    """A run: its most complete entry and its times.

    `windows` are those that its remaining changes wait for, in words. `expires` are the dates of VMs by name,
    None if no journal with the plan is within reach.
    """

    entry: RunEntry
    began_at: datetime | None
    ended_at: datetime | None
    windows: tuple[str, ...] = ()
    expires: Mapping[str, date] | None = None

    @property
    def at(self) -> datetime:
        """Its last known moment."""
        return self.ended_at or self.began_at or self.entry.at


@dataclass(frozen=True, slots=True)
class PlanRow:
    """A plan with objects at the vCenter. `state` is as far as is visible without its file."""

    name: str
    id: str
    vms: int
    on: int
    hosts: int
    folders: tuple[str, ...]
    rules: int
    state: str
    level: Level | None
    last: Ran | None = None
    reserved: str = ""
    expires: Mapping[str, date] = field(default_factory=dict)
    server: str = ""


@dataclass(frozen=True, slots=True)
class Ours:
    """All of it, at `now` by vCenter's clock: `ailments` and `plans` the worst first, `runs` the newest.

    `reserved` are reservations in words; `notes` list unknown data, with the reason.
    """

    server: str
    now: datetime
    ailments: tuple[Ailment, ...]
    plans: tuple[PlanRow, ...]
    runs: tuple[Ran, ...]
    reserved: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def is_nothing(self) -> bool:
        """Whether nothing is there."""
        return not (self.ailments or self.plans or self.runs or self.reserved)

    @property
    def groups(self) -> tuple[Group, ...]:
        """The ailments by kind, in their order."""
        return grouped(self.ailments)

    def count(self, level: Level) -> int:
        """Return how many ailments are of a level."""
        return sum(one.kind.level is level for one in self.ailments)


def look_around(
    observed: Inventory, catalog: Catalog, runs: Sequence[Ran], server: Sequence[str], notes: Iterable[str]
) -> Ours:
    """List all of it; `runs` are the newest first, `server` the words that name the vCenter to a command."""
    patient = Patient(observed, catalog, server)
    now = now_of(observed)
    plans = {plan: _Plan(plan, runs, observed) for plan in _identities(observed, runs)}
    found = [_aged(one, now) for one in left_behind(patient)]
    found += _running(observed.locks, patient) if observed.locks is not None else ()
    found += [one for plan in plans.values() for one in plan.ailments(patient, now)]
    found += _rules_left(plans.values(), patient)
    rows = [
        plan.row([one for one in found if plan.is_about(one)])
        for plan in plans.values()
        if not plan.is_upkeep
    ]
    kept = observed.reservations.kept if observed.reservations is not None else ()
    unknown = [row.name for row in rows if row.vms and (row.last is None or row.last.expires is None)]
    said = [*notes]
    if observed.locks is None:
        said.append("locks and reservations could not be read")
    if unknown:
        said.append(
            f"{listed(unknown)}: no journal on this machine, so expiry dates and maintenance windows are "
            "known only from the plan file"
        )
    return Ours(
        observed.vcenter.address,
        now,
        worst_first(found),
        _in_order(rows),
        tuple(run for run in runs if now - run.at <= SHOWN_AGE),
        tuple(
            f"{one.plan}: {one.words}"
            for kept_one in kept
            if (one := kept_one.reservation) and one.ends > now
        ),
        tuple(said),
    )


def _in_order(plans: Iterable[PlanRow]) -> tuple[PlanRow, ...]:
    """Return plans the worst first, and those without findings last."""
    levels = [*Level, None]
    return tuple(sorted(plans, key=lambda row: levels.index(row.level)))


def together(several: Sequence[Ours], notes: Iterable[str] = ()) -> Ours:
    """Return several vCenters as one: each object says where it is."""
    ailments = (
        replace(one, says=f"at {ours.server}: {one.says}") for ours in several for one in ours.ailments
    )
    plans = (replace(row, server=ours.server) for ours in several for row in ours.plans)
    return Ours(
        f"{len(several)} vCenters",
        max(ours.now for ours in several),
        worst_first(ailments),
        _in_order(plans),
        tuple(sorted((run for ours in several for run in ours.runs), key=lambda run: run.at, reverse=True)),
        tuple(f"{one} ({ours.server})" for ours in several for one in ours.reserved),
        (*notes, *(f"{ours.server}: {one}" for ours in several for one in ours.notes)),
    )


def _aged(one: Ailment, now: datetime) -> Ailment:
    if one.since is None:
        return one
    return replace(one, says=f"{one.says}; {age((now - one.since).total_seconds())} ago")


def _identities(observed: Inventory, runs: Iterable[Ran]) -> list[PlanIdentity]:
    """List the plans of which a mark, a lock or a reservation is there, or that a run left unfinished."""
    found = dict.fromkeys(_marked(observed))
    last = {run.entry.plan_id or run.entry.plan: run.entry for run in reversed([*runs])}
    for entry in last.values():
        if entry.plan and entry.result is not RunResult.DONE:
            found[PlanIdentity(name=entry.plan, id=entry.plan_id)] = None
    with_id = {one.name for one in found if one.id}
    return [one for one in found if one.id or one.name not in with_id]


def _marked(observed: Inventory) -> Iterator[PlanIdentity]:
    for vm in observed.vms:
        if vm.mark is not None and not vm.is_copy and not vm.is_template:
            yield PlanIdentity(name=vm.mark.plan, id=vm.mark.id)
    for host in observed.hosts:
        if host.mark is not None:
            yield PlanIdentity(name=host.mark.plan, id=host.mark.id)
    for lock in observed.locks.held if observed.locks is not None else ():
        if lock.holder is not None and lock.holder.plan:
            yield PlanIdentity(name=lock.holder.plan, id=lock.holder.plan_id)
    for kept in observed.reservations.kept if observed.reservations is not None else ():
        if kept.reservation is not None:
            yield PlanIdentity(name=kept.reservation.plan, id=kept.reservation.id)


def _running(locks: Locks, patient: Patient) -> Iterator[Ailment]:
    """Report runs that work now: how long each holds its locks, and when it was last heard of."""
    for run in locks.runs:
        holder = locks.of_run(run)[0].holder
        if holder is None or locks.is_silent(run):
            continue
        beat = age((locks.now - locks.beat_of(run)).total_seconds())
        names = listed(dict.fromkeys(str(lock.name) for lock in locks.of_run(run)))
        says = (
            f"{holder.command} by {holder.user} on {holder.machine} has locked {names}; last active "
            f"{beat} ago"
        )
        subject = f"plan:{holder.plan}" if holder.plan else f"run:{run}"
        command = patient.type_("history", "--run", run)
        yield Ailment(Kind.RUNNING, subject, says, command, f"plan {holder.plan}", holder.since)


def _rules_left(plans: Iterable[_Plan], patient: Patient) -> Iterator[Ailment]:
    named = {plan.identity.name for plan in plans if plan.vms}
    for cluster in patient.observed.clusters:
        for rule, plan in _rules(cluster):
            if plan not in named:
                command = f"govc cluster.rule.info -cluster {cluster.name} -name {rule}"
                yield Ailment(
                    Kind.RULE_LEFT, f"cluster:{cluster.name}", f"rule {rule}", command, f"plan {plan}"
                )


def _rules(cluster: Cluster) -> Iterator[tuple[str, str]]:
    """Yield the names of the rules of plans, each with its plan's name."""
    names = [*(one.name for one in cluster.rules), *(one.name for one in cluster.host_rules)]
    for name in filter(is_of_a_plan, names):
        yield name, name.removeprefix(f"{PREFIX}:").partition(":")[0]


class _Plan:
    """One plan, with its VMs and runs."""

    def __init__(self, identity: PlanIdentity, runs: Iterable[Ran], observed: Inventory) -> None:
        self.identity = identity
        self.observed = observed
        self.vms = [vm for vm in observed.vms if vm.is_of(identity)]
        self.runs = [run for run in runs if self._has_run(run.entry)]
        self.last = self.runs[0] if self.runs else None
        command = self.last.entry.command if self.last is not None else ""
        self.is_upkeep = not identity.id and identity.name == command
        told = (run.expires for run in self.runs if run.expires is not None)
        self.expires = next(told, {})

    def _has_run(self, entry: RunEntry) -> bool:
        if self.identity.id and entry.plan_id:
            return entry.plan_id == self.identity.id
        return entry.plan == self.identity.name

    def is_about(self, one: Ailment) -> bool:
        """Whether something was found of the plan: by its owner, or by its subject."""
        name = self.identity.name
        return one.owner == f"plan {name}" or one.subject == f"plan:{name}"

    def ailments(self, patient: Patient, now: datetime) -> Iterator[Ailment]:
        """Yield what its runs left to do, and what its VMs lack."""
        owner = f"plan {self.identity.name}"
        if self.last is not None:
            subject = f"run:{self.last.entry.run}" if self.is_upkeep else f"plan:{self.identity.name}"
            yield from self._run(self.last, subject, owner, patient, now)
        for vm in self.vms:
            gone = listed(_gone(vm))
            command = f"govc device.ls -vm {vm.name}"
            if gone:
                yield Ailment(Kind.DEVICE_GONE, f"vm:{vm.name}", f"removed: {gone}", command, owner)
            day = self.expires.get(vm.mark.vm if vm.mark is not None else vm.name)
            if day is not None and vm.is_on and day - now.date() <= FIRST_WARNING:
                kind = Kind.EXPIRED if day < now.date() else Kind.EXPIRES
                yield Ailment(kind, f"vm:{vm.name}", f"{day}, according to the plan's last run", "", owner)

    def _run(self, run: Ran, subject: str, owner: str, patient: Patient, now: datetime) -> Iterator[Ailment]:
        entry, locks = run.entry, patient.observed.locks
        when = f"{age((now - run.at).total_seconds())} ago"
        who = f"{entry.command} by {entry.user or entry.account}, {when}"
        command = patient.type_("history", "--run", entry.run)
        if locks is not None and entry.run in locks.runs:
            return
        if entry.result is RunResult.WAITING:
            for window in run.windows:
                yield Ailment(Kind.WINDOW, subject, window, command, owner, run.at)
            if not run.windows:
                yield Ailment(Kind.STEP, subject, who, command, owner, run.at)
        elif entry.result is not RunResult.DONE:
            ended = f"{entry.result}, {entry.failed} failed" if entry.result else "no end time recorded"
            yield Ailment(Kind.INCOMPLETE, subject, f"{who}: {ended}", command, owner, run.at)

    def row(self, found: Sequence[Ailment]) -> PlanRow:
        """Return its row, by the findings about it."""
        first = next(iter(worst_first(found)), None)
        vms, observed = self.vms, self.observed
        folders = {folder.moid: folder.inventory_path or folder.name for folder in observed.folders}
        kept = observed.reservations.of_plan(self.identity) if observed.reservations is not None else None
        rules = [plan for cluster in observed.clusters for _, plan in _rules(cluster)]
        state = "no difference visible" if vms else "reserved" if kept is not None else "no VMs"
        return PlanRow(
            name=self.identity.name,
            id=self.identity.id,
            vms=len(vms),
            on=sum(vm.is_on for vm in vms),
            hosts=len({vm.host_moid for vm in vms}),
            folders=tuple(sorted({folders.get(vm.folder_moid or "", "") for vm in vms} - {""})),
            rules=rules.count(self.identity.name),
            state=_STATES.get(first.kind, first.kind.summary) if first is not None else state,
            level=first.kind.level if first is not None else None,
            last=self.last,
            reserved=kept.reservation.words if kept is not None and kept.reservation is not None else "",
            expires={vm.name: day for vm in vms if vm.mark and (day := self.expires.get(vm.mark.vm))},
        )


_STATES: Mapping[Kind, str] = {
    Kind.INCOMPLETE: "partly applied",
    Kind.DEVICE_GONE: "differs",
    Kind.MAINTENANCE: "host left in maintenance",
    Kind.UNFINISHED: "host partly prepared",
    Kind.LOCK: "locked by a run that no longer responds",
    Kind.RESERVATION: "reservation ended",
    Kind.RULE_LEFT: "only a rule is left",
    Kind.RUNNING: "run in progress",
    Kind.WINDOW: "waits for a window",
    Kind.STEP: "waits for a manual step",
    Kind.EXPIRES: "VMs expire soon",
    Kind.EXPIRED: "VMs expired",
}


def _gone(vm: Vm) -> list[str]:
    """Return the devices that the owner mark records and the VM no longer has."""
    if vm.mark is None or vm.detail is None:
        return []
    held = all_devices(vm.detail)
    pci = Counter(vm.mark.pci or ()) - Counter(held["pci"])
    macs = {*(vm.mark.nics or ())} - {*held["nics"]}
    return [*pci.elements(), *(f"NIC {mac}" for mac in sorted(macs))]


def left_behind(patient: Patient) -> Iterator[Ailment]:
    """Yield all of it, of hosts with GPUs and without."""
    observed = patient.observed
    for host in observed.hosts:
        if host.is_in_maintenance_mode and is_held(host, patient):
            yield maintenance(host, patient)
        for cordon in host.cordons:
            what = f"gpu:{host.name}/{cordon.pci_id}" if cordon.pci_id else f"host:{host.name}"
            away = [] if cordon.pci_id else [vm for vm in observed.vms if _left(vm, host)]
            off = fold_names(sorted((vm.name for vm in away if not vm.is_on), key=as_counted))
            says = cordon.words + (f"; drained{f', {off} powered off' if off else ''}" if away else "")
            command = patient.type_("uncordon", what, *(["--restore"] if away else []))
            yield Ailment(Kind.CORDON, what, says, command, cordon.by, cordon.since)
        yield from _work(host, patient)
    if observed.locks is not None:
        yield from _locks(observed.locks)
    if observed.reservations is not None:
        yield from _reservations(observed.reservations, patient)
    for vm in observed.vms:
        if vm.is_copy and vm.mark is not None and not vm.is_template:
            says = f"its owner mark belongs to plan {vm.mark.plan}"
            command = f"govc vm.info -e {path_of(vm)}"
            yield Ailment(Kind.COPIED_MARK, f"vm:{vm.name}", says, command, owner_name(vm))


def _left(vm: Vm, host: Host) -> bool:
    """Whether a drain took a VM from a host, or powered it off there."""
    home = home_of(vm)
    return home is not None and home.host == host.moid and home.is_there(vm)


def is_held(host: Host, patient: Patient) -> bool:
    """Whether a run or `drain` took a host into maintenance mode and has left it there."""
    mark = _mark_of(host, patient)
    return host.cordon is not None if mark is None else not _is_at_work(mark.plan, patient)


def maintenance(host: Host, patient: Patient) -> Ailment:
    """Report a host in maintenance mode, entered by any user."""
    entered, mark = patient.facts(host).entered, _mark_of(host, patient)
    since = entered.at if entered is not None else mark.since if mark is not None else None
    when = f" since {since:%Y-%m-%d %H:%M} UTC" if since is not None else ""
    by = f" by {entered.by}" if entered is not None and entered.by else ""
    own = mark is not None or host.cordon is not None
    command = patient.type_("uncordon", f"host:{host.name}", "--restore")
    leave = command if own else f"govc host.maintenance.exit {host.name}"
    says = f"{counted(len(host.gpus), 'GPU')} unavailable{when}{by}"
    owner = f"plan {mark.plan}" if mark is not None else ""
    return Ailment(Kind.MAINTENANCE, f"host:{host.name}", says, leave, owner, since)


def _mark_of(host: Host, patient: Patient) -> HostMark | None:
    entered = patient.facts(host).entered
    return host.mark or (recovered_mark(entered) if entered is not None else None)


def _is_at_work(plan: str, patient: Patient) -> bool:
    locks = patient.observed.locks
    return locks is not None and any(lock.name.plan == plan for lock in locks.held)


def _work(host: Host, patient: Patient) -> Iterator[Ailment]:
    """Report a plan's mark on a host on which no run works."""
    mark = _mark_of(host, patient)
    if mark is None or _is_at_work(mark.plan, patient):
        return
    says = f"plan {mark.plan} since {mark.since:%Y-%m-%d %H:%M} UTC" + (
        f": {mark.reason}" if mark.reason else ""
    )
    owner = f"plan {mark.plan}"
    yield Ailment(Kind.UNFINISHED, f"host:{host.name}", says, patient.type_("history"), owner, mark.since)


def _locks(locks: Locks) -> Iterator[Ailment]:
    if locks.freeze is not None:
        command = thaw_command(locks.server)
        yield Ailment(Kind.FREEZE, "vcenter", locks.freeze.words, command, locks.freeze.account)
    for run in filter(locks.is_silent, locks.runs):
        first = locks.of_run(run)[0]
        beat = locks.beat_of(run)
        says = f"run {run}, last active at {beat:%Y-%m-%d %H:%M} UTC"
        user = first.holder.user if first.holder is not None else ""
        yield Ailment(Kind.LOCK, _locked(first), says, locks.unlock_command(run), user, beat)
    for lock in locks.unknown:
        says = "the lock does not contain a run ID"
        yield Ailment(Kind.LOCK, _locked(lock), says, "", lock.account, lock.beat_at)


def _locked(lock: Lock) -> str:
    return str(lock.name).replace(" ", ":", 1)


def _reservations(found: Reservations, patient: Patient) -> Iterator[Ailment]:
    command = patient.type_("inventory", "--reservations")
    for kept in found.kept:
        own = kept.reservation
        if own is None:
            says = "the reservation cannot be read"
            yield Ailment(Kind.RESERVATION, f"plan:{kept.name}", says, command, kept.account)
        elif own.ends <= found.now:
            says = f"ended {own.ends:%Y-%m-%d %H:%M} UTC"
            yield Ailment(Kind.RESERVATION, f"plan:{own.plan}", says, command, kept.account, own.ends)
