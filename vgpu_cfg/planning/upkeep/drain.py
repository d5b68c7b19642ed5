"""The plan that empties a host, or frees a part of it: cordoned first, then each running VM moved, or off.

VMs that can move without interruption do so without asking their owner if a plan of this tool owns them: they
still match their plan. VMs of no plan, and those that must be off, need approval. A host is filled again by
the same changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from vgpu_cfg.catalog import Catalog
from vgpu_cfg.changes.change import Change, PowerOnVm, RelocateVm, SetAttributes, SetCordon
from vgpu_cfg.changes.plan import Plan
from vgpu_cfg.changes.severity import Severity
from vgpu_cfg.changes.values import Edit, Placement, Subject, VmRef
from vgpu_cfg.errors import UnsafePlan
from vgpu_cfg.model.desired import DesiredPlan
from vgpu_cfg.model.observed.cordon import HOME_ATTRIBUTE, Home, home_of
from vgpu_cfg.model.observed.inventory import Connection, Host, Inventory
from vgpu_cfg.model.observed.vm import Vm
from vgpu_cfg.model.wording import as_counted
from vgpu_cfg.planning.estate.protection import Protection
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.findings.collection import Findings
from vgpu_cfg.planning.moves.movables import Movable, OwnHost
from vgpu_cfg.planning.moves.places import Places, find_places
from vgpu_cfg.planning.upkeep.away import Away, cordoned_parts, vms_of, without
from vgpu_cfg.planning.upkeep.cordon import cordon_host, upkeep_plan
from vgpu_cfg.planning.upkeep.targets import refuse_unclear
from vgpu_cfg.planning.vms.existing_vms import switch_off
from vgpu_cfg.planning.vms.new_vms import change_id
from vgpu_cfg.planning.vms.relocate import relocation


def remember(vm: Vm, text: str, note: str = "", *, verb: str = "record the location of") -> SetAttributes:
    """Return the change that keeps on a VM where it was."""
    before = (vm.detail.attributes if vm.detail is not None else {}).get(HOME_ATTRIBUTE)
    return SetAttributes(
        id=change_id(verb, vm.name),
        subject=_subject(vm),
        edits=(Edit(key=HOME_ATTRIBUTE, before=before, after=text or None, note=note),),
        host_moid=vm.host_moid,
        vm=_ref(vm),
        values={HOME_ATTRIBUTE: text},
    )


def forget(vm: Vm, note: str) -> SetAttributes:
    """Return the change that forgets where a VM was."""
    return remember(vm, "", note, verb="clear the recorded location of")


def move(vm: Vm, source: Host, target: Host, *, is_running: bool, stun_ms: int | None = None) -> RelocateVm:
    """Return the change that moves a VM from one host to another, and leaves its pool and its files alone."""
    moving = relocation(vm, vm.name, source, target, is_running=is_running, stun_ms=stun_ms)
    return moving.model_copy(update={"source_moid": source.moid})


def switch_on(vm: Vm, host: Host) -> PowerOnVm:
    """Return the change that starts a VM on the host where it is then."""
    return PowerOnVm(
        id=change_id("power on", vm.name),
        subject=_subject(vm),
        edits=(Edit(key="power", before="off", after="on"),),
        host_moid=host.moid,
        vm=_ref(vm),
    )


def in_turn(vm: Vm, changes: Iterable[Change], observed: Inventory) -> list[Change]:
    """Let each change of a VM wait for the one before it; ids distinguish VMs of the same name."""
    is_alone = sum(one.name == vm.name for one in observed.vms) == 1
    ordered: list[Change] = []
    for change in changes:
        update = {"needs": (ordered[-1].id,) if ordered else ()}
        own = {} if is_alone else {"id": f"{change.id} ({vm.moid})"}
        ordered.append(change.model_copy(update=update | own))
    return ordered


def _subject(vm: Vm) -> Subject:
    return Subject(kind="vm", name=vm.name, moid=vm.moid)


def _ref(vm: Vm) -> VmRef:
    return VmRef(name=vm.name, moid=vm.moid)


@dataclass(frozen=True, slots=True)
class DrainOptions:
    """The command line's approvals: VMs of no plan move, and these, by name, may be switched off."""

    reason: str = ""
    others: bool = False
    power_off: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Drain:
    """The plan that frees the target, and the VMs that cannot move while running, by moid, with why.

    `placements` are where VMs go and on which GPUs they are expected there.
    """

    plan: Plan
    reasons: Mapping[str, str]
    placements: tuple[Placement, ...]


def make_drain(
    away: Away, observed: Inventory, catalog: Catalog, desired: DesiredPlan, options: DrainOptions
) -> Drain:
    """Plan to free the target; of `desired` only the protection by contexts counts.

    Raises NotFound or Ambiguous for a name to be switched off that no VM has, or several, UnsafePlan if a
    host does not respond.
    """
    for host in away.hosts:
        if host.connection is not Connection.CONNECTED:
            raise UnsafePlan(
                f"the host {host.connection.words}, so its VMs cannot be moved",
                subject=host.name,
                remedy=f"reconnect the host first; `vgpu-cfg cordon host:{host.name}` keeps new VMs off "
                "the host",
            )
    refuse_unclear(options.power_off, observed)
    draining = _Draining(away, observed, catalog, desired, options)
    plan = draining.run()
    return Drain(plan, draining.reasons, tuple(draining.placements))


@dataclass(slots=True)
class _Draining:
    """Plans it; `then` is the estate without the target."""

    away: Away
    observed: Inventory
    catalog: Catalog
    desired: DesiredPlan
    options: DrainOptions
    findings: Findings = field(default_factory=Findings)
    then: Inventory = field(init=False)
    protection: Protection = field(init=False)
    touched: dict[str, Vm] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    placements: list[Placement] = field(default_factory=list)
    unapproved: list[tuple[Vm, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.then = without(self.away, self.observed)
        self.protection = Protection.of(self.desired)

    def run(self) -> Plan:
        changes: list[Change] = [*self._cordons()]
        needs = tuple(change.id for change in changes)
        unfinished = (one for host in self.away.hosts for one in self._unfinished(host))
        for one in [*unfinished, *self._leaving()]:
            changes += [
                change.model_copy(update={"needs": (*needs, *change.needs)}) if not change.needs else change
                for change in one
            ]
        names = " ".join(f"--power-off={vm.name}" for vm, _ in self.unapproved)
        for vm, message in self.unapproved:
            who = "its owner agrees" if len(self.unapproved) == 1 else "their owners agree"
            self._refuse(Code.DRAIN_SWITCHES_OFF, vm, message, f"if {who}, add {names}")
        return upkeep_plan("drain", self.observed, changes, self.touched.values(), self.findings)

    def _cordons(self) -> Iterator[SetCordon]:
        """Yield the cordons of the target; an existing cordon stays if no reason is given."""
        for host, pci_id in cordoned_parts(self.away):
            is_cordoned = any(cordon.pci_id == pci_id for cordon in host.cordons)
            reason = self.options.reason or ("" if is_cordoned else "drained")
            change = cordon_host(host, [pci_id], self.observed, reason) if reason else None
            if change is not None:
                yield change

    def _unfinished(self, host: Host) -> Iterator[list[Change]]:
        """Yield an interrupted drain's remaining steps: for VMs switched off to be moved, or a record."""
        if self.away.host_stays:
            return
        for vm in sorted(self.observed.vms, key=lambda one: (as_counted(one.name), one.moid)):
            home = home_of(vm)
            target = self.observed.host_by_moid.get(home.to) if home is not None else None
            if home is None or target is None or home.host != host.moid or not home.is_moving:
                continue
            if vm.is_on and not home.is_there(vm):
                continue
            self.touched[vm.moid] = vm
            if vm.is_on:
                yield in_turn(vm, [_arrived(vm, home)], self.observed)
                continue
            source = self.observed.host_by_moid.get(vm.host_moid or "", host)
            moving = [] if source == target else [move(vm, source, target, is_running=False)]
            yield in_turn(vm, [*moving, switch_on(vm, target), _arrived(vm, home)], self.observed)

    def _leaving(self) -> Iterator[list[Change]]:
        leaving = vms_of(self.away, self.observed, self.catalog)
        home = OwnHost.MAY if self.away.host_stays else OwnHost.NEVER
        places = find_places(leaving, self.then, self.catalog, self.protection, home=home)
        self._doubt(places)
        before: dict[str, Change] = {}
        for step in places.steps:
            target = places.hosts[step.target]
            changes = self._moved(places.movables[step.vm], target, step.why_cold)
            if changes and step.variant and target.moid in before:
                changes[0] = changes[0].model_copy(update={"needs": (before[target.moid].id,)})
            if changes:
                before[target.moid] = changes[-1]
                yield changes
        for vm in leaving:
            if vm.moid in places.why_not:
                host = self.observed.host_by_moid[vm.host_moid or ""]
                yield self._switched_off(vm, host, places.why_not[vm.moid])

    def _doubt(self, places: Places) -> None:
        self.placements += places.placements.values()
        host = self.away.hosts[0]
        subject = Subject(kind="host", name=host.name, moid=host.moid)
        remedy = "drain the host when fewer GPU VMs are running; VMs move only to hosts with a free GPU"
        for doubt in places.doubts:
            self.findings.add(Code.DRAIN_UNSURE, subject, doubt, remedy)

    def _moved(self, one: Movable, target: Host, why_cold: str) -> list[Change]:
        vm = one.vm
        if not why_cold:
            if not (_is_of_a_plan(vm) or self.options.others or vm.name in self.options.power_off):
                what = f"the VM does not belong to a plan; vMotion would move it to {target.name}"
                self._refuse(Code.DRAIN_OTHERS, vm, what, "ask its owner, then add --others")
            running = move(vm, one.host, target, is_running=True, stun_ms=one.stun_ms)
            return self._changes(vm, self._home(one, target, is_cold=False), [running])
        self.reasons[vm.moid] = why_cold
        if target.moid == one.host.moid:
            self._need_leave(vm, f"{why_cold}, so it must be powered off and on again on the same host")
            self.touched[vm.moid] = vm
            return in_turn(vm, [switch_off(vm), switch_on(vm, target)], self.observed)
        self._need_leave(vm, f"{why_cold}, so it must be powered off to move")
        home = self._home(one, target, is_cold=True)
        moving = move(vm, one.host, target, is_running=False)
        cold: list[Change] = [switch_off(vm), moving, switch_on(vm, target), _arrived(vm, home)]
        return self._changes(vm, home.model_copy(update={"is_moving": True}), cold)

    def _switched_off(self, vm: Vm, host: Host, why: str) -> list[Change]:
        folder = self.observed.folder_by_moid.get(vm.folder_moid or "")
        self.reasons[vm.moid] = why
        if covering := self.protection.of_vm(vm.name, folder, vm.manager):
            self.reasons[vm.moid] = covering.message
            remedy = covering.remedy(alone="the VM is neither moved nor powered off")
            self._refuse(Code.DRAIN_STAYS, vm, covering.message, remedy)
            return []
        if vm.detail is None:
            self._refuse(Code.DRAIN_STAYS, vm, "it could not be read", "grant the account read access to it")
            return []
        self._need_leave(vm, f"{why}, so it must be powered off")
        if vm.name in self.options.power_off:
            subject = Subject(kind="vm", name=vm.name, moid=vm.moid)
            remedy = f"`vgpu-cfg uncordon host:{host.name} --restore` starts it again"
            message = f"it stays powered off: {why}"
            self.findings.add(Code.DRAIN_SWITCHES_OFF, subject, message, remedy, Severity.WARNING)
        return self._changes(vm, Home(vm=vm.moid, host=host.moid), [switch_off(vm)])

    def _home(self, one: Movable, target: Host, *, is_cold: bool) -> Home:
        """Return the recorded home of a VM; one that another drain brought here keeps its first home."""
        vm = one.vm
        known = home_of(vm)
        if known is not None and known.to == one.host.moid and known.host != target.moid:
            return known.model_copy(update={"to": target.moid, "is_cold": known.is_cold or is_cold})
        return Home(vm=vm.moid, host=one.host.moid, to=target.moid, is_cold=is_cold)

    def _changes(self, vm: Vm, home: Home, changes: list[Change]) -> list[Change]:
        self.touched[vm.moid] = vm
        kept = [] if home_of(vm) == home else [remember(vm, home.text, owner_text(vm))]
        return in_turn(vm, [*kept, *changes], self.observed)

    def _need_leave(self, vm: Vm, message: str) -> None:
        if vm.name not in self.options.power_off:
            self.unapproved.append((vm, message))

    def _refuse(self, code: Code, vm: Vm, message: str, remedy: str) -> None:
        subject = Subject(kind="vm", name=vm.name, moid=vm.moid)
        owner = "" if vm.manager is not None and vm.manager.words in message else f" ({owner_text(vm)})"
        self.findings.add(code, subject, f"{message}{owner}", remedy)


def _arrived(vm: Vm, home: Home) -> Change:
    text = home.model_copy(update={"is_moving": False}).text
    return remember(vm, text, owner_text(vm), verb="record the arrival of")


def owner_text(vm: Vm) -> str:
    """Return the owner of a VM, as far as its owner mark shows."""
    mark = vm.mark
    if mark is None or not _is_of_a_plan(vm):
        return "not owned by a plan" if vm.manager is None else f"managed by {vm.manager.words}"
    return f"plan {mark.plan}{(f', created by {mark.made_by}' if mark.made_by else '')}"


def _is_of_a_plan(vm: Vm) -> bool:
    return vm.mark is not None and bool(vm.mark.id) and not vm.is_copy
