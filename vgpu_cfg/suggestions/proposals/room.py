"""Room for VMs that have no place: VMs that move or go off, hosts that come back, more hosts.

VMs that run where a plan needs room or an empty host are moved to where each can run, or switched off.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from vgpu_cfg.changes.change import RelocateVm
from vgpu_cfg.model.observed.inventory import Host
from vgpu_cfg.model.observed.vm import Vm
from vgpu_cfg.model.vgpu import Sharing, VgpuMode
from vgpu_cfg.planning.estate.protection import Protection
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.findings.options import PlanOptions
from vgpu_cfg.planning.moves.movables import MoveStep
from vgpu_cfg.planning.moves.places import Places, find_places
from vgpu_cfg.planning.moves.rebalance import plan_rebalance
from vgpu_cfg.planning.remedies.advice import uncordon
from vgpu_cfg.planning.upkeep.drain import move
from vgpu_cfg.planning.upkeep.give_back import make_uncordon_plan
from vgpu_cfg.planning.upkeep.targets import Target
from vgpu_cfg.planning.vms import existing_vms
from vgpu_cfg.planning.vms.lookup.moving import holds_devices, running_vms
from vgpu_cfg.suggestions.acts import (
    back_in_use,
    carried_out,
    more_hosts,
    path_of,
    set_in_host,
    together,
    with_boards,
    words_of_hosts,
)
from vgpu_cfg.suggestions.candidate import Candidate, Cost, act
from vgpu_cfg.suggestions.others import is_own
from vgpu_cfg.suggestions.situation import Situation

_ANYWHERE: Mapping[str, str] = MappingProxyType({})
_MOST_MORE = 3
_MOST_KINDS = 4
_MOST_VMS = 8


def propose_room(situation: Situation) -> Iterator[Candidate]:
    """Yield what makes room outside of the plan file."""
    needs_room = situation.unplaced or any(situation.errors(Code.POWER_ON_ORDER, Code.CLUSTER_TOO_FULL))
    if situation.plan.errors and not needs_room:
        return
    hosts = situation.hosts_in_question() or _error_hosts(situation)
    yield from _back(hosts)
    yield from _uncordoned(situation, hosts)
    yield from _residents(situation, hosts)
    yield from _more(situation, hosts)


def _error_hosts(situation: Situation) -> list[Host]:
    names = {found.subject.name for found in situation.plan.errors if found.subject.kind == "host"}
    placed = {one.host_moid for one in situation.plan.placements}
    return [host for host in situation.observed.hosts if host.name in names or host.moid in placed]


def _back(hosts: list[Host]) -> Iterator[Candidate]:
    for host in hosts:
        if host.is_usable:
            continue
        path = path_of(host)
        if host.is_in_maintenance_mode:
            says = f"take {host.name} out of maintenance mode"
            command = f"govc host.maintenance.exit {path}"
        else:
            says = f"reconnect {host.name}, which {host.connection.words}"
            command = f"govc host.reconnect -host {path}"
        yield act(says, back_in_use(host.moid), command, Cost.MOVE)


def _uncordoned(situation: Situation, hosts: list[Host]) -> Iterator[Candidate]:
    """Give hosts and GPUs back: VMs that a drain took from there come home with that."""
    for host in hosts:
        if not host.cordons:
            continue
        closed = "host" if host.cordon is not None else "GPU"
        says = f"uncordon {('' if closed == 'host' else 'a GPU of ')}{host.name}"
        targets = [Target(host, cordon.pci_id) for cordon in host.cordons]
        changes = make_uncordon_plan(targets, situation.observed, situation.catalog).changes
        home = [vm.moid for one in changes if (vm := one.moves or one.starts)]
        yield act(
            says,
            together((set_in_host(host.moid, cordons=()), carried_out(changes, situation.catalog))),
            uncordon(host, *host.cordons) + (" --restore" if home else ""),
            Cost.MOVE if home else Cost.NOTHING,
            touches=(moid for moid in dict.fromkeys(home) if moid),
        )


def _residents(situation: Situation, hosts: list[Host]) -> Iterator[Candidate]:
    """Other VMs that hold GPUs, or scarce memory: each could move, or go off."""
    needs_memory = any(situation.errors(Code.HOST_MEMORY))
    found = 0
    for host in hosts:
        for vm in running_vms(host, situation.observed):
            holds = vm.detail is not None and (needs_memory or holds_devices(vm.detail))
            if not holds or is_own(vm, situation.trial) or is_protected(situation, vm):
                continue
            found += 1
            if found > _MOST_VMS:
                return
            yield from move_away(situation, [vm])
            yield switch_off(situation, [vm], host)


def _more(situation: Situation, hosts: list[Host]) -> Iterator[Candidate]:
    """One to three more hosts, like one of those in question, or with the boards that are asked for."""
    clusters = situation.observed.cluster_by_moid
    kinds: dict[tuple[object, ...], Host] = {}
    for host in hosts:
        cluster = clusters.get(host.cluster_moid or "")
        if cluster is not None and not cluster.is_standalone:
            kind = (host.cluster_moid, host.version, host.memory_mib, *(gpu.name for gpu in host.gpus))
            kinds.setdefault((*kind, *(gpu.sharing for gpu in host.gpus)), host)
    for host in list(kinds.values())[:_MOST_KINDS]:
        for count in range(1, _MOST_MORE + 1):
            says = words_of_hosts(count, host.name)
            added = act(says, more_hosts(host, count), cost=Cost.HARDWARE)
            yield replace(added, hosts=(count, host.name))
    for host in list(kinds.values())[:1]:
        yield from _other_boards(situation, host)


def _other_boards(situation: Situation, like: Host) -> Iterator[Candidate]:
    """Add a host with as many of a board as one VM asks for, in the mode that its profile takes."""
    counts: dict[str, int] = {}
    for vm in situation.unplaced:
        for name in {one.name for gpu in vm.gpus for one in gpu.profile}:
            wanted = sum(any(one.name == name for one in gpu.profile) for gpu in vm.gpus)
            counts[name] = max(counts.get(name, len(like.gpus)), wanted)
    for name, count in sorted(counts.items()):
        for entry in situation.catalog.by_profile(name)[:1]:
            sharing = Sharing.MIG if entry.profile.sharing is Sharing.MIG else Sharing.TIME_SLICED
            model = with_boards(like, entry.board, max(count, 1), sharing, VgpuMode.SAME_SIZE)
            mode = " in MIG mode" if sharing is Sharing.MIG else ""
            says = f"add 1 host like {like.name}, but with {max(count, 1)} × {entry.board.name}{mode}"
            yield act(says, more_hosts(model, 1), cost=Cost.HARDWARE)


def is_protected(situation: Situation, vm: Vm) -> bool:
    """Whether the plan file or a context keeps a VM from being touched."""
    folder = situation.observed.folder_by_moid.get(vm.folder_moid or "")
    return Protection.of(situation.desired).of_vm(vm.name, folder, vm.manager) is not None


def switch_off(situation: Situation, vms: Sequence[Vm], host: Host) -> Candidate:
    """Have the owners of VMs switch them off."""
    names = ", ".join(vm.name for vm in vms)
    who = "have the owner power off" if len(vms) == 1 else "have the owners power off"
    first, *then = [f"govc vm.power -s {path_of(vm)}" for vm in vms]
    return act(
        f"{who} {names} on {host.name}",
        carried_out([existing_vms.switch_off(vm) for vm in vms], situation.catalog),
        first,
        Cost.POWER_CYCLE,
        then=then,
        touches=(vm.moid for vm in vms),
    )


def move_together(situation: Situation, options: PlanOptions, most: int) -> Iterator[Candidate]:
    """Yield the fewest moves of running VMs that make room for all VMs, if `most` sets of moves show them."""
    desired, observed = situation.desired, situation.observed
    found = plan_rebalance(desired, observed, situation.catalog, options, most=most)
    hosts = {host.name: host.moid for host in observed.hosts}
    vms = [observed.vm_by_moid[move.moid] for move in found.moves]
    if not found.uncertain_starts:
        yield from move_away(situation, vms, to={move.moid: hosts[move.target] for move in found.moves})


def move_away(
    situation: Situation, vms: Sequence[Vm], *, to: Mapping[str, str] = _ANYWHERE
) -> Iterator[Candidate]:
    """Move all of these VMs to where a drain would, or to hosts by moid; nothing if one has no place."""
    allowed = {vm: (host,) for vm, host in to.items()}
    protection = Protection.of(situation.desired)
    places = find_places(vms, situation.observed, situation.catalog, protection, allowed=allowed)
    if vms and not places.why_not and not places.doubts:
        cold = any(step.why_cold for step in places.steps)
        moves = [_move(step, places) for step in places.steps]
        first, *then = [line for step in places.steps for line in _commands(step, places)]
        yield act(
            "; ".join(_says(step, places) for step in places.steps),
            carried_out(moves, situation.catalog, tuple(places.placements.values())),
            first,
            Cost.POWER_CYCLE if cold else Cost.MOVE,
            then=then,
            touches=(step.vm for step in places.steps),
        )


def _move(step: MoveStep, places: Places) -> RelocateVm:
    one, target = places.movables[step.vm], places.hosts[step.target]
    return move(one.vm, one.host, target, is_running=not step.why_cold)


def _says(step: MoveStep, places: Places) -> str:
    names = places.hosts[step.source].name, places.hosts[step.target].name
    how = f", powered off: {step.why_cold}" if step.why_cold else ""
    return f"move {places.movables[step.vm].vm.name} from {names[0]} to {names[1]}{how}"


def _commands(step: MoveStep, places: Places) -> Iterator[str]:
    """Yield what to type for a move; each line once the one before it has come true."""
    path = path_of(places.movables[step.vm].vm)
    if step.why_cold:
        yield f"govc vm.power -s {path}"
    yield f"govc vm.migrate -host {path_of(places.hosts[step.target])} {path}"
    if step.why_cold:
        yield f"govc vm.power -on {path}"
