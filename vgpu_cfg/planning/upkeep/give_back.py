"""The plan that returns hosts and GPUs, and brings back the VMs that a drain moved away.

A VM comes home as it left: by vMotion if it was moved so, started if it was only switched off. One that was
off for its move runs elsewhere now, and is switched off again only if it is named. VMs that were moved or
switched meanwhile are left alone, and forgotten.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from vgpu_cfg.catalog import Catalog
from vgpu_cfg.changes.change import Change
from vgpu_cfg.changes.plan import Plan
from vgpu_cfg.changes.severity import Severity
from vgpu_cfg.changes.values import Subject
from vgpu_cfg.model.observed.cordon import Home, home_of
from vgpu_cfg.model.observed.inventory import Connection, Host, Inventory
from vgpu_cfg.model.observed.vm import Vm
from vgpu_cfg.model.ranges import fold_names
from vgpu_cfg.model.wording import as_counted
from vgpu_cfg.planning.estate.down_hosts import bring_back, report_left
from vgpu_cfg.planning.estate.protection import Protection
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.findings.collection import Findings
from vgpu_cfg.planning.moves.movables import OwnHost
from vgpu_cfg.planning.moves.places import find_places
from vgpu_cfg.planning.remedies.advice import report_cordon
from vgpu_cfg.planning.upkeep.cordon import by_host, uncordon_host, upkeep_plan
from vgpu_cfg.planning.upkeep.drain import forget, in_turn, move, owner_text, remember, switch_on
from vgpu_cfg.planning.upkeep.targets import Target, refuse_unclear
from vgpu_cfg.planning.vms.existing_vms import switch_off
from vgpu_cfg.planning.vms.lookup.moving import stun_ms, why_cold


class DrainedVms(StrEnum):
    """The fate of VMs that a drain took from a host which is given back."""

    WAIT = "wait"
    """They remain, and can be moved back later."""
    RETURN = "return"
    STAY = "stay"
    """They remain, and their original hosts are forgotten."""


def make_uncordon_plan(
    targets: Sequence[Target],
    observed: Inventory,
    catalog: Catalog,
    *,
    power_off: Collection[str] = (),
    drained: DrainedVms = DrainedVms.RETURN,
) -> Plan:
    """Plan to give these back; `drained` is the fate of drained VMs. Only their return ends maintenance mode.

    Raises NotFound and Ambiguous for a name in `power_off` that does not mean one VM.
    """
    refuse_unclear(power_off, observed)
    given = _GivenBack(observed, catalog, power_off, stays=drained is DrainedVms.STAY)
    changes: list[Change] = []
    for host, pci_ids in by_host(targets):
        opened = uncordon_host(host, pci_ids)
        for cordon in host.cordons:
            if cordon.pci_id not in pci_ids:
                report_cordon(host, cordon, given.findings, Severity.WARNING)
        if drained is DrainedVms.WAIT:
            changes += [opened] if opened is not None else []
            given.tell_of_waiting(host, pci_ids)
            continue
        up = bring_back(host, given.findings) if "" in pci_ids else ()
        # VMs come home once it is out of maintenance mode.
        home = host.model_copy(update={"is_in_maintenance_mode": False}) if up else host
        before = [*((opened,) if opened is not None else ()), *up]
        changes += before
        for returning in given.returning(home, pci_ids) if "" in pci_ids else ():
            needs = tuple(one.id for one in before)
            changes += [returning[0].model_copy(update={"needs": needs}), *returning[1:]]
    return upkeep_plan("uncordon", observed, changes, given.touched.values(), given.findings)


@dataclass(slots=True)
class _GivenBack:
    observed: Inventory
    catalog: Catalog
    power_off: Collection[str]
    stays: bool
    findings: Findings = field(default_factory=Findings)
    touched: dict[str, Vm] = field(default_factory=dict)

    def returning(self, host: Host, pci_ids: Collection[str]) -> Iterator[list[Change]]:
        """Yield what brings each VM home to a host, in the order of their names."""
        homes = {
            vm.moid: home for vm in self.observed.vms if (home := home_of(vm)) and home.host == host.moid
        }
        vms = [vm for vm in self.observed.vms if vm.moid in homes]
        coming = [vm for vm in vms if _comes(vm, homes[vm.moid])] if host.is_usable and not self.stays else []
        full = self._without_room(coming, host, pci_ids) if coming else {}
        for vm in sorted(vms, key=lambda one: (as_counted(one.name), one.moid)):
            found = self._returning(vm, homes[vm.moid], host)
            if vm.moid in full and any(one.takes_gpus for one in found):
                self._tell_full(vm, host, full[vm.moid])
            elif found:
                self.touched[vm.moid] = vm
                yield in_turn(vm, found, self.observed)

    def tell_of_waiting(self, host: Host, pci_ids: Collection[str]) -> None:
        """Report the VMs that a drain took from a host, and a host that a run left in maintenance mode."""
        if "" not in pci_ids:
            return
        again = shlex.join(_again(host))
        subject = Subject(kind="host", name=host.name, moid=host.moid)
        if host.mark is not None and host.mark.maintenance:
            report_left(host, host.mark, self.findings, f"to end maintenance mode, run `{again}`")
        away = [vm for vm in self.observed.vms if (home := home_of(vm)) and home.host == host.moid]
        if away:
            message = f"drained VMs remain where they are: {_names(away)}"
            if off := [vm for vm in away if not vm.is_on]:
                message += f"; powered off: {_names(off)}"
            remedy = f"to return them, run `{again}`; to cancel the return, add --stay"
            self.findings.add(Code.DRAIN_STAYS, subject, message, remedy, Severity.WARNING)

    def _without_room(self, vms: Sequence[Vm], host: Host, pci_ids: Collection[str]) -> Mapping[str, str]:
        """Say of VMs, by moid, why their host has no place for them as it will be given back."""
        cordons = tuple(one for one in host.cordons if one.pci_id not in pci_ids)
        given = host.model_copy(update={"cordons": cordons})
        then = self.observed.with_hosts({host.moid: given})
        at_home = {vm.moid: (host.moid,) for vm in vms}
        places = find_places(vms, then, self.catalog, Protection(), home=OwnHost.FIRST, allowed=at_home)
        return places.why_not

    def _returning(self, vm: Vm, home: Home, host: Host) -> list[Change]:
        gone = forget(vm, owner_text(vm))
        here = self.observed.host_by_moid.get(vm.host_moid or "")
        if self.stays or here is None or not _comes(vm, home):
            return [gone]
        if not host.is_usable:
            self._tell(vm, *_why_not_yet(host))
            return []
        if not vm.is_on:
            moving = [] if here.moid == host.moid else [move(vm, here, host, is_running=False)]
            return [*moving, switch_on(vm, host), gone]
        cold = (
            "it was powered off for the move"
            if home.is_cold
            else why_cold(vm.detail, self.observed)
            if vm.detail
            else "it could not be read"
        )
        if not cold and vm.detail is not None:
            return [move(vm, here, host, is_running=True, stun_ms=stun_ms(vm.detail, here)), gone]
        if vm.name not in self.power_off:
            again = shlex.join([*_again(host), f"--power-off={vm.name}"])
            remedy = f"if its owner agrees, run `{again}` to move it back; add --stay to cancel the return"
            self._tell(vm, f"it stays on {here.name}: {cold}", remedy)
            return []
        # All that was known stays known: should the shutdown fail, the VM is still where a drain put it.
        going = home.model_copy(update={"is_cold": True, "is_moving": True})
        leaving = remember(vm, going.text, owner_text(vm))
        return [leaving, switch_off(vm), move(vm, here, host, is_running=False), switch_on(vm, host), gone]

    def _tell_full(self, vm: Vm, host: Host, why: str) -> None:
        what = f"it cannot be moved back to {host.name}" if vm.is_on else "it stays powered off"
        again = shlex.join(_again(host))
        remedy = f"free capacity there (`vgpu-cfg inventory --host {host.name}` lists its users); then "
        self._tell(vm, f"{what}: {why}", f"{remedy}`{again}` moves the VM back; --stay cancels the return")

    def _tell(self, vm: Vm, message: str, remedy: str) -> None:
        subject = Subject(kind="vm", name=vm.name, moid=vm.moid)
        self.findings.add(Code.DRAIN_STAYS, subject, message, remedy, Severity.WARNING)


def _comes(vm: Vm, home: Home) -> bool:
    """Whether a VM is where a drain left it, or was on its way."""
    return home.is_there(vm) or (home.is_moving and not vm.is_on)


def _names(vms: Sequence[Vm]) -> str:
    return fold_names(sorted((vm.name for vm in vms), key=as_counted))


def _again(host: Host) -> list[str]:
    return ["vgpu-cfg", "uncordon", f"host:{host.name}", "--restore"]


def _why_not_yet(host: Host) -> tuple[str, str]:
    """Return why a host accepts no returning VM now, and the step to take first."""
    if host.connection is not Connection.CONNECTED:
        message, first = f"{host.name} {host.connection.words}", "reconnect the host"
    else:
        message, first = f"{host.name} is in maintenance mode", "take the host out of maintenance mode"
    again = shlex.join(_again(host))
    return f"it cannot be moved back: {message}", f"{first}; then `{again}` moves the VM back"
