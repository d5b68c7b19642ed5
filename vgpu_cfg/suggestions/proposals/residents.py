"""VMs that run where a plan needs room or an empty host: moved to where each can run, or switched off."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from vgpu_cfg.changes.change import RelocateVm
from vgpu_cfg.changes.suggestion import FixKind
from vgpu_cfg.model.observed.inventory import Host
from vgpu_cfg.model.observed.vm import Vm
from vgpu_cfg.planning.estate.protection import Protection
from vgpu_cfg.planning.moves.movables import MoveStep
from vgpu_cfg.planning.moves.places import Places, find_places
from vgpu_cfg.planning.upkeep import vm_changes
from vgpu_cfg.planning.vms import existing_vms
from vgpu_cfg.suggestions.acts import carried_out, path_of
from vgpu_cfg.suggestions.candidate import Candidate, Cost
from vgpu_cfg.suggestions.situation import Situation


def is_protected(situation: Situation, vm: Vm) -> bool:
    """Whether the plan file or a context keeps a VM from being touched."""
    folder = situation.observed.folder_by_moid.get(vm.folder_moid or "")
    return Protection.of(situation.desired).of_vm(vm.name, folder) is not None


def switch_off(situation: Situation, vms: Sequence[Vm], host: Host) -> Candidate:
    """Have the owners of VMs switch them off."""
    names = ", ".join(vm.name for vm in vms)
    who = "its owner switches" if len(vms) == 1 else "their owners switch"
    commands = [f"govc vm.power -s {path_of(vm)}" for vm in vms]
    return Candidate(
        FixKind.OUTSIDE,
        f"{who} {names} on {host.name} off",
        Cost.POWER_CYCLE,
        command=commands[0],
        then=tuple(commands[1:]),
        effect=carried_out([existing_vms.switch_off(vm) for vm in vms], situation.catalog),
        touches=tuple(vm.moid for vm in vms),
    )


def move_away(situation: Situation, vms: Sequence[Vm], *, to: Host | None = None) -> Iterator[Candidate]:
    """Move all of these VMs to where a drain would, or to one host; nothing if one of them has no place."""
    allowed = {vm.moid: (to.moid,) for vm in vms} if to is not None else {}
    protection = Protection.of(situation.desired)
    places = find_places(vms, situation.observed, situation.catalog, protection, allowed=allowed)
    if vms and not places.why_not and not places.doubts:
        cold = any(step.why_cold for step in places.steps)
        moves = [_move(step, places) for step in places.steps]
        first, *then = [line for step in places.steps for line in _commands(step, places)]
        yield Candidate(
            FixKind.OUTSIDE,
            "; ".join(_says(step, places) for step in places.steps),
            Cost.POWER_CYCLE if cold else Cost.MOVE,
            command=first,
            then=tuple(then),
            effect=carried_out(moves, situation.catalog, tuple(places.placements.values())),
            touches=tuple(step.vm for step in places.steps),
        )


def _move(step: MoveStep, places: Places) -> RelocateVm:
    one, target = places.movables[step.vm], places.hosts[step.target]
    return vm_changes.move(one.vm, one.host, target, is_running=not step.why_cold)


def _says(step: MoveStep, places: Places) -> str:
    names = places.hosts[step.source].name, places.hosts[step.target].name
    how = f", while it is off: {step.why_cold}" if step.why_cold else ""
    return f"move {places.movables[step.vm].vm.name} from {names[0]} to {names[1]}{how}"


def _commands(step: MoveStep, places: Places) -> Iterator[str]:
    """Yield what to type for a move; each line once the one before it has come true."""
    path = path_of(places.movables[step.vm].vm)
    if step.why_cold:
        yield f"govc vm.power -s {path}"
    yield f"govc vm.migrate -host {path_of(places.hosts[step.target])} {path}"
    if step.why_cold:
        yield f"govc vm.power -on {path}"
