"""Hosts that the plan could prepare: entries of `hosts` that allow it, or state a GPU's settings."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice

from vgpu_cfg.catalog import Board
from vgpu_cfg.changes.plan import Plan
from vgpu_cfg.changes.suggestion import FixKind
from vgpu_cfg.documents import Edit, Loc
from vgpu_cfg.model.observed.inventory import Gpu, Host
from vgpu_cfg.model.vgpu import Sharing, VgpuMode, VgpuProfile
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.suggestions.candidate import Candidate, Cost
from vgpu_cfg.suggestions.situation import Situation

_MOST_HOSTS = 6
_MOST_MODES = 12
_FUNCTIONS = 8
"""How many virtual functions are proposed: what NVIDIA's NICs have at least (recalled)."""


def propose_host_entries(situation: Situation) -> Iterator[Candidate]:
    """Let the plan prepare hosts for VMs that have no place, all of them, one of them, or one GPU."""
    if situation.unplaced or any(situation.errors(Code.POWER_ON_ORDER)):
        yield from _from_vms(situation)
        yield from _modes(situation)
        yield from _nics(situation)
    yield from _unclear(situation)


def _from_vms(situation: Situation) -> Iterator[Candidate]:
    open_hosts: list[Host] = []
    for host in situation.hosts_in_question():
        entries = situation.entries_for(host.name)
        for entry in entries:
            loc = situation.entry_of(entry)
            if entry.prepare == "none" and loc is not None:
                says = f"let the plan prepare {host.name} for its VMs"
                yield Candidate(FixKind.FILE, says, Cost.HOST_RESTART, (Edit((*loc, "prepare"), "from_vms"),))
        if host.is_usable and not entries:
            open_hosts.append(host)
    for host in open_hosts[:_MOST_HOSTS]:
        yield _entry(situation, [host])
    if len(open_hosts) > 1:
        yield _entry(situation, open_hosts)


def _entry(situation: Situation, hosts: Sequence[Host]) -> Candidate:
    names = [host.name for host in hosts]
    says = f"let the plan prepare {', '.join(names)} as its VMs need"
    is_idle = not any(gpu.vm_moids for host in hosts for gpu in host.gpus)
    cost = Cost.GPU_MODE if is_idle else Cost.HOST_RESTART

    def narrowed(plan: Plan) -> Candidate | None:
        touched = {change.subject.name for change in plan.changes if change.subject.kind == "host"}
        rest = [host for host in hosts if host.name in touched]
        return _entry(situation, rest) if 0 < len(rest) < len(hosts) else None

    edits = (Edit(_next(situation), {"names": names}),)
    return Candidate(FixKind.FILE, says, cost, edits, narrowed=narrowed)


def _modes(situation: Situation) -> Iterator[Candidate]:
    """State the use or sharing of one idle GPU that could serve a VM so, if no entry has it."""
    asked = {gpu.profile for vm in situation.desired.vms for gpu in vm.gpus}
    ideas = (
        _rule(situation, host, gpu, key, value)
        for host in situation.hosts_in_question()
        for gpu in (host.gpus if host.is_usable else ())
        if not gpu.vm_moids and (board := situation.board_of(gpu)) is not None
        for key, value in _other_modes(gpu, board, {_served(situation, board, one) for one in asked})
    )
    yield from islice(ideas, _MOST_MODES)


def _served(
    situation: Situation, board: Board, profiles: Iterable[VgpuProfile]
) -> frozenset[VgpuProfile] | None:
    """Return the profiles of one request that a board has, None if a whole GPU is asked for."""
    names = tuple(profiles)
    known = (
        one for one in names if any(entry.board is board for entry in situation.catalog.by_profile(one.name))
    )
    return frozenset(known) if names else None


def _other_modes(
    gpu: Gpu, board: Board, requests: Collection[frozenset[VgpuProfile] | None]
) -> Iterator[tuple[str, str]]:
    """Yield how else a GPU could serve VMs that want whole GPUs (None), or one of some vGPUs."""
    wanted = {one.sharing for request in requests for one in request or ()}
    if gpu.is_passthrough:
        if wanted:
            yield "use", "vgpu"
        return
    if None in requests:
        yield "use", "passthrough"
    if gpu.sharing is Sharing.MIG:
        if Sharing.TIME_SLICED in wanted:
            yield "sharing", "time_sliced"
    elif board.mig is not None and Sharing.MIG in wanted:
        yield "sharing", "mig"
    if Sharing.TIME_SLICED not in wanted:
        return
    is_mixed = sum(bool(request) for request in requests) > 1
    if gpu.vgpu_mode is VgpuMode.SAME_SIZE and board.supports_mixed_size and is_mixed:
        yield "vgpu_mode", "mixed_size"
    elif gpu.vgpu_mode is VgpuMode.MIXED_SIZE:
        yield "vgpu_mode", "same_size"


def _rule(situation: Situation, host: Host, gpu: Gpu, key: str, value: str) -> Candidate:
    says = f"{key}: {value} for GPU {gpu.pci_id} on {host.name}"
    edit = _with_rule(situation, host, "gpus", {"match": {"pci_id": gpu.pci_id}, key: value})
    return Candidate(FixKind.FILE, says, Cost.GPU_MODE, (edit,))


def _with_rule(situation: Situation, host: Host, section: str, rule: Mapping[str, object]) -> Edit:
    """Return the edit that puts a rule before those of the host's entry, or into an entry of its own."""
    for entry in situation.entries_for(host.name):
        loc = situation.entry_of(entry)
        if loc is not None:
            return Edit((*loc, section), [rule, *_rules_at(situation, (*loc, section))])
    return Edit(_next(situation), {"names": [host.name], section: [rule]})


def _nics(situation: Situation) -> Iterator[Candidate]:
    """Hand one NIC out, whole or cut into virtual functions."""
    if not any(situation.errors(Code.NIC_NOT_READY)):
        return
    for host in situation.hosts_in_question():
        for device in host.pci_devices:
            if not device.is_nic:
                continue
            for rule in ({"use": "passthrough"}, {"use": "sriov", "vfs": _FUNCTIONS}):
                says = f"use: {rule['use']} for the NIC {device.pci_id} on {host.name}"
                whole = {"match": {"pci_id": device.pci_id}, **rule}
                edit = _with_rule(situation, host, "nics", whole)
                yield Candidate(FixKind.FILE, says, Cost.HOST_RESTART, (edit,))


def _rules_at(situation: Situation, loc: Loc) -> list[object]:
    """Return the rules for devices of an entry: one may be without a list."""
    rules = situation.data_at(loc)
    return [rules] if isinstance(rules, dict) else list(rules or [])


def _unclear(situation: Situation) -> Iterator[Candidate]:
    """If VMs leave the sharing of a host's GPUs open, state it for one GPU of each way."""
    for found in situation.errors(Code.SHARING_UNCLEAR):
        host = situation.host(found.subject.name)
        if host is None:
            continue
        for entry in situation.entries_for(host.name):
            loc = situation.entry_of(entry)
            if loc is None:
                continue
            for gpu in host.gpus:
                for sharing in ("mig", "time_sliced"):
                    rule = {"match": {"pci_id": gpu.pci_id}, "use": "vgpu", "sharing": sharing}
                    says = f"sharing: {sharing} for GPU {gpu.pci_id} on {host.name}"
                    yield Candidate(FixKind.FILE, says, Cost.GPU_MODE, (Edit((*loc, "gpus"), [rule]),))
                    if entry.cluster:
                        says = f"{says}, and do not prepare other hosts"
                        edits = (
                            Edit((*loc, "cluster")),
                            Edit((*loc, "names"), [host.name]),
                            Edit((*loc, "gpus"), [rule]),
                        )
                        yield Candidate(FixKind.LEAVE, says, Cost.GPU_MODE, edits)


def _next(situation: Situation) -> Loc:
    """Return the place of one more entry of `hosts`."""
    entries = situation.data_at(("hosts",))
    return ("hosts", len(entries) if isinstance(entries, list) else 0)
