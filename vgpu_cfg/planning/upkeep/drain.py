"""The plan that empties a host: cordoned first, then each running VM moved, or off where that must be.

What runs without interruption is done without asking who owns the VM, as long as a plan of this tool does:
it stays as its plan says. VMs of no plan, and whatever must be off, take somebody's leave.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from vgpu_cfg.catalog import Catalog
from vgpu_cfg.errors import UnsafePlan
from vgpu_cfg.model.desired import DesiredPlan
from vgpu_cfg.model.observed.home import Home, home_of
from vgpu_cfg.model.observed.inventory import Connection, Host, Inventory
from vgpu_cfg.model.observed.vm import Vm
from vgpu_cfg.model.plan.change import Change, Plan, Subject
from vgpu_cfg.planning.capacity.host_capacity import CapacityReader
from vgpu_cfg.planning.estate.protection import Protection
from vgpu_cfg.planning.findings.checks import Code
from vgpu_cfg.planning.findings.collection import Findings
from vgpu_cfg.planning.findings.wording import as_counted, listed
from vgpu_cfg.planning.moves.movables import Movable, Movables, Stay
from vgpu_cfg.planning.moves.move_order import MoveStep, find_uncertain_starts, in_order
from vgpu_cfg.planning.moves.move_rules import breaks_rules, keep_rules
from vgpu_cfg.planning.placement.place import Placed
from vgpu_cfg.planning.placement.placers import PLACERS
from vgpu_cfg.planning.placement.startable import place_startable
from vgpu_cfg.planning.upkeep.cordon import cordon_host, upkeep_plan
from vgpu_cfg.planning.upkeep.targets import refuse_unclear
from vgpu_cfg.planning.upkeep.vm_changes import in_turn, move, remember, switch_off, switch_on
from vgpu_cfg.planning.vms.lookup.baseline import hosts_in_order, make_baseline
from vgpu_cfg.planning.vms.lookup.moving import running_vms


@dataclass(frozen=True, slots=True)
class DrainOptions:
    """What the command line gives leave to: VMs of no plan move, and these, by name, may be switched off."""

    reason: str = ""
    others: bool = False
    power_off: tuple[str, ...] = ()


def make_drain_plan(
    host: Host, observed: Inventory, catalog: Catalog, desired: DesiredPlan, options: DrainOptions
) -> Plan:
    """Plan to empty a host; of `desired` only what contexts protect counts.

    Raises NotFound or Ambiguous for a name to be switched off that nobody has, or several, UnsafePlan where
    the host does not respond.
    """
    return make_drain(host, observed, catalog, desired, options)[0]


def make_drain(
    host: Host, observed: Inventory, catalog: Catalog, desired: DesiredPlan, options: DrainOptions
) -> tuple[Plan, Mapping[str, str]]:
    """Return the plan, and why a VM, by its moid, does not go to another host as it runs.

    Raises as `make_drain_plan`.
    """
    if host.connection is not Connection.CONNECTED:
        raise UnsafePlan(
            f"it {host.connection.words}, so that nothing can leave it",
            subject=host.name,
            remedy=f"bring it back first; `vgpu-cfg cordon host:{host.name}` keeps new VMs away",
        )
    refuse_unclear(options.power_off, observed)
    draining = _Draining(host, observed, catalog, desired, options)
    return draining.run(), draining.reasons


@dataclass(slots=True)
class _Draining:
    host: Host
    observed: Inventory
    catalog: Catalog
    desired: DesiredPlan
    options: DrainOptions
    findings: Findings = field(default_factory=Findings)
    hosts: list[Host] = field(init=False)
    protection: Protection = field(init=False)
    touched: dict[str, Vm] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.hosts = hosts_in_order(self.observed)
        self.protection = Protection.of(self.desired)

    def run(self) -> Plan:
        changes: list[Change] = []
        reason = self.options.reason or ("drained" if self.host.cordon is None else "")
        cordoned = cordon_host(self.host, [""], self.observed, reason) if reason else None
        if cordoned is not None:
            changes.append(cordoned)
        for one in [*self._unfinished(), *self._leaving()]:
            needs = (cordoned.id,) if cordoned is not None else ()
            changes += [
                change.model_copy(update={"needs": (*needs, *change.needs)}) if not change.needs else change
                for change in one
            ]
        return upkeep_plan("drain", self.observed, changes, self.touched.values(), self.findings)

    def _unfinished(self) -> Iterator[list[Change]]:
        """Yield what a broken drain owes to VMs that it switched off to move them."""
        for vm in sorted(self.observed.vms, key=lambda one: (as_counted(one.name), one.moid)):
            home = home_of(vm)
            target = self.observed.host_by_moid.get(home.to) if home is not None else None
            if home is None or target is None or vm.is_on:
                continue
            if home.host != self.host.moid or not home.is_moving:
                continue
            self.touched[vm.moid] = vm
            source = self.observed.host_by_moid.get(vm.host_moid or "", self.host)
            moving = [] if source == target else [move(vm, source, target, is_running=False)]
            yield in_turn(vm, [*moving, switch_on(vm, target), _arrived(vm, home)], self.observed)

    def _leaving(self) -> Iterator[list[Change]]:
        index = next(number for number, host in enumerate(self.hosts) if host.moid == self.host.moid)
        reader = CapacityReader(self.observed, self.catalog)
        finder = Movables(self.observed, self.hosts, reader, self.protection, ())
        movables = self._within_rules(finder.leaving(index), finder)
        bound = {stay.vm: stay.why for stay in finder.stays}
        placed, steps = self._place(movables, reader, index)
        by_moid = {one.vm.moid: one for one in movables}
        before: dict[str, Change] = {}
        for step in steps:
            target = self.hosts[step.target]
            found = self._moved(by_moid[step.vm], target, step.why_cold)
            if found and step.variant and target.moid in before:
                found[0] = found[0].model_copy(update={"needs": (before[target.moid].id,)})
            if found:
                before[target.moid] = found[-1]
                yield found
        for vm in running_vms(self.host, self.observed):
            if vm.moid in placed.fits:
                continue
            why = bound.get(vm.name) or self._no_room()
            yield self._switched_off(vm, why)

    def _no_room(self) -> str:
        """Say that nobody takes a VM, and which hosts might if they were given back."""
        closed = [
            host.name
            for host in self.hosts
            if host.compute_moid == self.host.compute_moid and host.moid != self.host.moid and host.cordons
        ]
        return f"no other host of its cluster has room for it{_cordoned_too(closed)}"

    def _within_rules(self, movables: list[Movable], finder: Movables) -> list[Movable]:
        """Take from each VM the hosts that rules with others forbid; one that has none left stays."""
        kept = []
        for one in movables:
            found = keep_rules([one], self.hosts, self.observed)
            if found is not None:
                kept.append(found[0])
            else:
                why = "rules of its cluster keep it from every other host"
                finder.stays.append(Stay(one.vm.name, self.host.name, why))
        return kept

    def _place(
        self, movables: Sequence[Movable], reader: CapacityReader, source: int
    ) -> tuple[Placed, list[MoveStep]]:
        leaving = [one.vm for one in movables]
        states = make_baseline(self.hosts, self.observed, (), leaving, reader, Findings()).states
        starting = {one.vm.moid for one in movables}
        placed = place_startable(states, [one.demand for one in movables], PLACERS, starting)
        targets = {moid: self.hosts[fit.host].moid for moid, fit in placed.fits.items()}
        gone = [one for one in movables if one.vm.moid in targets]
        for one in gone if breaks_rules(targets, gone, self.observed) else ():
            placed.fits.pop(one.vm.moid)
        steps = in_order(
            MoveStep(one.vm.moid, source, fit.host, fit.variant, one.why_cold)
            for one in movables
            if (fit := placed.fits.get(one.vm.moid)) is not None
        )
        for doubt in find_uncertain_starts(steps, states, placed.initial, {}):
            subject = Subject(kind="host", name=self.host.name, moid=self.host.moid)
            remedy = "drain when fewer VMs with GPUs run; a VM that finds no GPU stays where it is"
            self.findings.add(Code.DRAIN_UNSURE, subject, doubt, remedy)
        return placed, steps

    def _moved(self, one: Movable, target: Host, why_cold: str) -> list[Change]:
        vm = one.vm
        if not why_cold:
            if not (_is_of_a_plan(vm) or self.options.others or vm.name in self.options.power_off):
                what = f"it is of no plan of this tool, and vMotion would move it to {target.name}"
                self._refuse(Code.DRAIN_OTHERS, vm, what, "ask its owner; then give --others")
            running = move(vm, self.host, target, is_running=True, stun_ms=one.stun_ms)
            return self._changes(vm, self._home(vm, target, is_cold=False), [running])
        self.reasons[vm.moid] = why_cold
        self._need_leave(vm, f"{why_cold}, so it must be off while it moves to {target.name}")
        home = self._home(vm, target, is_cold=True)
        moving = move(vm, self.host, target, is_running=False)
        cold: list[Change] = [switch_off(vm), moving, switch_on(vm, target), _arrived(vm, home)]
        return self._changes(vm, home.model_copy(update={"is_moving": True}), cold)

    def _switched_off(self, vm: Vm, why: str) -> list[Change]:
        folder = self.observed.folder_by_moid.get(vm.folder_moid or "")
        self.reasons[vm.moid] = why
        if covering := self.protection.of_vm(vm.name, folder):
            self.reasons[vm.moid] = covering.message
            remedy = covering.remedy(alone="it is not moved and not switched off")
            self._refuse(Code.DRAIN_STAYS, vm, covering.message, remedy)
            return []
        if vm.detail is None:
            self._refuse(Code.DRAIN_STAYS, vm, "it could not be read", "see that the account may read it")
            return []
        self._need_leave(vm, f"{why}, so it must be switched off")
        return self._changes(vm, Home(vm=vm.moid, host=self.host.moid), [switch_off(vm)])

    def _home(self, vm: Vm, target: Host, *, is_cold: bool) -> Home:
        """Return what is remembered of a VM; one that another drain brought here keeps its first home."""
        known = home_of(vm)
        if known is not None and known.to == self.host.moid and known.host != target.moid:
            return known.model_copy(update={"to": target.moid, "is_cold": known.is_cold or is_cold})
        return Home(vm=vm.moid, host=self.host.moid, to=target.moid, is_cold=is_cold)

    def _changes(self, vm: Vm, home: Home, changes: list[Change]) -> list[Change]:
        self.touched[vm.moid] = vm
        kept = [] if home_of(vm) == home else [remember(vm, home.text, owner_text(vm))]
        return in_turn(vm, [*kept, *changes], self.observed)

    def _need_leave(self, vm: Vm, message: str) -> None:
        if vm.name not in self.options.power_off:
            remedy = f"ask its owner; then name it: --power-off={vm.name}"
            self._refuse(Code.DRAIN_SWITCHES_OFF, vm, message, remedy)

    def _refuse(self, code: Code, vm: Vm, message: str, remedy: str) -> None:
        subject = Subject(kind="vm", name=vm.name, moid=vm.moid)
        self.findings.add(code, subject, f"{message} ({owner_text(vm)})", remedy)


def _cordoned_too(names: Sequence[str]) -> str:
    if not names:
        return ""
    return f" ({listed(names)} {'is' if len(names) == 1 else 'are'} cordoned, or a GPU there)"


def _arrived(vm: Vm, home: Home) -> Change:
    text = home.model_copy(update={"is_moving": False}).text
    return remember(vm, text, owner_text(vm), verb="note the arrival of")


def owner_text(vm: Vm) -> str:
    """Say whose a VM is, as far as its owner mark tells."""
    mark = vm.mark
    if mark is None or not _is_of_a_plan(vm):
        return "of no plan"
    return f"of plan {mark.plan}{f', made by {mark.made_by}' if mark.made_by else ''}"


def _is_of_a_plan(vm: Vm) -> bool:
    return vm.mark is not None and bool(vm.mark.id) and not vm.is_copy
