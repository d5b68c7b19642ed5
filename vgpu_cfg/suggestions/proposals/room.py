"""Room for VMs that have no place: VMs that move or go off, hosts that come back, more hosts."""

from __future__ import annotations

from collections.abc import Iterator

from vgpu_cfg.changes.suggestion import FixKind
from vgpu_cfg.model.observed.inventory import Host
from vgpu_cfg.model.vgpu import Sharing, VgpuMode
from vgpu_cfg.model.wording import counted
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.remedies.advice import uncordon
from vgpu_cfg.planning.upkeep.give_back import make_uncordon_plan
from vgpu_cfg.planning.upkeep.targets import Target
from vgpu_cfg.planning.vms.lookup.moving import holds_devices, running_vms
from vgpu_cfg.suggestions.acts import (
    back_in_use,
    carried_out,
    more_hosts,
    path_of,
    set_in_host,
    together,
    with_boards,
)
from vgpu_cfg.suggestions.candidate import Candidate, Cost
from vgpu_cfg.suggestions.others import is_own
from vgpu_cfg.suggestions.proposals.residents import is_protected, move_away, switch_off
from vgpu_cfg.suggestions.situation import Situation

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
            says = f"bring {host.name} back, which is {host.connection.value}"
            command = f"govc host.reconnect -host {path}"
        yield Candidate(FixKind.OUTSIDE, says, Cost.MOVE, command=command, effect=back_in_use(host.moid))


def _uncordoned(situation: Situation, hosts: list[Host]) -> Iterator[Candidate]:
    """Give hosts and GPUs back: VMs that a drain took from there come home with that."""
    for host in hosts:
        if not host.cordons:
            continue
        closed = "host" if host.cordon is not None else "GPU"
        says = f"whoever cordoned {'' if closed == 'host' else 'a GPU of '}{host.name} gives it back"
        targets = [Target(host, cordon.pci_id) for cordon in host.cordons]
        changes = make_uncordon_plan(targets, situation.observed, situation.catalog).changes
        home = [vm.moid for one in changes if (vm := one.moves or one.starts)]
        yield Candidate(
            FixKind.OUTSIDE,
            says,
            Cost.MOVE if home else Cost.NOTHING,
            command=uncordon(host, *host.cordons),
            effect=together((set_in_host(host.moid, cordons=()), carried_out(changes, situation.catalog))),
            touches=tuple(moid for moid in dict.fromkeys(home) if moid),
        )


def _residents(situation: Situation, hosts: list[Host]) -> Iterator[Candidate]:
    """VMs of others that hold GPUs, or memory where that is short: each could move, or go off."""
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
            says = f"add {counted(count, 'host')} like {host.name}, with nothing on it"
            yield Candidate(FixKind.OUTSIDE, says, Cost.HARDWARE, effect=more_hosts(host, count))
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
            yield Candidate(FixKind.OUTSIDE, says, Cost.HARDWARE, effect=more_hosts(model, 1))
