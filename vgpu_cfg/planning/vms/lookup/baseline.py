"""The input of placement: the plan's VMs as demands on a host, and the estate with its available capacity.

Capacity in use or reserved is not available; capacity that the plan frees is.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace

from vgpu_cfg.changes.severity import Severity
from vgpu_cfg.model.desired import DesiredPower
from vgpu_cfg.model.observed.inventory import Host, Inventory
from vgpu_cfg.model.observed.vm import AFFINITY_KEY, Vm
from vgpu_cfg.planning.capacity.hardware import least_version, nodes_of_affinity
from vgpu_cfg.planning.capacity.host_capacity import CapacityReader, Claim, HostCapacity
from vgpu_cfg.planning.capacity.nic_needs import NicKind
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.findings.collection import Findings
from vgpu_cfg.planning.placement.candidates import Ranked
from vgpu_cfg.planning.placement.demand import (
    Demand,
    Shape,
    Variant,
    dynamic_needs,
    fixed_addresses,
)
from vgpu_cfg.planning.placement.expected_gpus import expect_gpus
from vgpu_cfg.planning.placement.host_state import HOST_MEMORY_SHARE, HostState
from vgpu_cfg.planning.placement.line_limits import made_alike, on_few_hosts
from vgpu_cfg.planning.placement.place import Placed
from vgpu_cfg.planning.placement.startable import PLACERS, place_startable
from vgpu_cfg.planning.vms.lookup.resolved_vm import ResolvedVm
from vgpu_cfg.planning.vms.lookup.wanted import PVRDMA, WantedNic, nic_needs, own_needs


def make_shape(resolved: ResolvedVm, ranked: Ranked, reader: CapacityReader) -> Shape:
    """Return a VM's needs of a host; one that stays on its own is free of its line's spread."""
    vm = resolved.desired
    is_chosen = not _stays(resolved)
    if _asks_memory(resolved) and not vm.clusters:
        # Only an order of clusters that the plan file states outweighs the size of a profile.
        ranked = tuple((index, 0) for index, _ in ranked)
    return Shape(
        hosts=ranked,
        variants=_variants(resolved, reader),
        fixed=fixed_addresses(resolved.gpus),
        dynamic=dynamic_needs(resolved.gpus),
        cpus=resolved.cpus,
        memory_mib=resolved.memory_mib,
        numa=vm.numa.policy,
        numa_nodes=vm.numa.nodes,
        spread=vm.place.spread if is_chosen else None,
        must=vm.place.must,
        pack=vm.place.pack and is_chosen,
        keep_free=vm.place.keep_free if is_chosen else 0,
        max_per_host=(vm.place.max_per_host or 0) if is_chosen else 0,
        max_hosts=(vm.place.max_hosts or 0) if is_chosen else 0,
        line=line_of(resolved),
        nics=(*nic_needs(resolved.nics, resolved.kept_devices, resolved.host), *own_needs(resolved.others)),
    )


def _variants(resolved: ResolvedVm, reader: CapacityReader) -> tuple[Variant, ...]:
    """Return a VM's possible GPUs; one that moves as it runs gets GPUs of the boards that it leaves."""
    variants = reader.variants(resolved.gpus)
    if resolved.move is None or resolved.move.why_cold or not resolved.keeps_gpus:
        return variants
    found = (reader.board_of(gpu.pci) for gpu in resolved.move.source.gpus)
    boards = {board.key for board in found if board is not None}
    return tuple(one for one in variants if all(need.board_key in boards for need in one))


def demands_of(resolved_vms: Iterable[ResolvedVm]) -> list[Demand]:
    """List the demands of the VMs that need a place."""
    return [
        Demand(
            resolved.name,
            line_of(resolved),
            resolved.shape,
            stays=_stays(resolved),
            alike=resolved.desired.line if _asks_memory(resolved) else "",
        )
        for resolved in resolved_vms
        if resolved.shape is not None and not resolved.is_stuck
    ]


def _asks_memory(resolved: ResolvedVm) -> bool:
    return any(gpu.memory for gpu in resolved.asked_gpus)


def _stays(resolved: ResolvedVm) -> bool:
    return resolved.existing is not None and not resolved.changes_host


def starting_of(resolved_vms: Iterable[ResolvedVm]) -> set[str]:
    """Return the names of the VMs that are to run."""
    return {resolved.name for resolved in resolved_vms if resolved.desired.power is DesiredPower.ON}


def line_of(resolved: ResolvedVm) -> str:
    """Name the line where its VMs depend on one another."""
    place = resolved.desired.place
    depends = place.spread is not None or place.pack or place.max_per_host or place.max_hosts
    return resolved.desired.line if depends else ""


def device_kinds(resolved: ResolvedVm) -> list[str]:
    """Return the kind of every device that is passed through or shared: vGPUs, GPUs and whole NICs."""
    needs = nic_needs(resolved.nics, resolved.kept_devices, resolved.host)
    whole = [need for need in needs if need.kind is NicKind.PASSTHROUGH]
    return [
        *(gpu.kind for gpu in resolved.gpus),
        *("passthrough" if need.pin or not need.label else "dynamic_passthrough" for need in whole),
    ]


def least_of_devices(resolved: ResolvedVm) -> int:
    """Return the lowest hardware version that can have the VM's devices; 0 if any can."""
    kinds = device_kinds(resolved)
    return least_version(
        kinds.count("vgpu"),
        kinds.count("dynamic_passthrough"),
        len(kinds),
        groups=bool(resolved.new_groups) or (resolved.fit is not None and bool(resolved.fit.groups)),
        pvrdma=any(isinstance(nic, WantedNic) and nic.kind == PVRDMA for nic in resolved.nics or ()),
        nvme=any(one.kind == "new" and one.controller == "nvme" for one in resolved.desired.disks),
    )


@dataclass(slots=True)
class Baseline:
    """The hosts in their fixed order, as they will be before any VM of the plan is put on them.

    By host index: other powered-off VMs that would need a GPU, running ones that hold one in an unknown way,
    and GPUs of boards that the catalog lacks.
    """

    hosts: list[Host]
    states: list[HostState] = field(default_factory=list)
    claims: dict[int, list[Claim]] = field(default_factory=dict)
    unread: dict[int, list[str]] = field(default_factory=dict)
    unknown_boards: dict[int, list[str]] = field(default_factory=dict)


def hosts_in_order(observed: Inventory) -> list[Host]:
    """Sort the hosts so that vCenter's order does not matter."""
    return sorted(observed.hosts, key=lambda host: (host.name, host.moid))


def make_baseline(
    hosts: list[Host],
    observed: Inventory,
    resolved_vms: Sequence[ResolvedVm],
    deleted: Iterable[Vm],
    reader: CapacityReader,
    findings: Findings,
) -> Baseline:
    """Read every host as it will be once the plan has freed its capacity.

    If the plan file makes VG301 no error, ESXi's recalled share of the memory is not kept back; if it makes
    VG128 none, the host's list of creatable profiles does not count. If it makes VG139 none, guesses of
    NVLink bridges do not.
    """
    baseline = Baseline(hosts)
    freed = StateReader(observed, resolved_vms, deleted, findings)
    for index, host in enumerate(hosts):
        state, capacity = freed.read(index, host, reader)
        baseline.states.append(state)
        baseline.claims[index] = [claim for claim in capacity.claims if claim.vm_moid not in freed.kept]
        baseline.unread[index] = [*capacity.unread, *capacity.unplaced]
        baseline.unknown_boards[index] = _unknown_boards(capacity)
    return baseline


class StateReader:
    """Reads hosts as they will be once the plan has freed its capacity; for the criteria see `make_baseline`.

    `kept` are the VMs that run on as they are, by their moids.
    """

    def __init__(
        self,
        observed: Inventory,
        resolved_vms: Sequence[ResolvedVm],
        deleted: Iterable[Vm],
        findings: Findings,
    ) -> None:
        self._observed = observed
        is_strict = findings.severity_of(Code.HOST_MEMORY) is Severity.ERROR
        self._memory_share = HOST_MEMORY_SHARE if is_strict else 1.0
        self._uses_guesses = findings.severity_of(Code.NVLINK_GROUP_BROKEN) is Severity.ERROR
        self._uses_creatable = findings.severity_of(Code.NOT_CREATABLE_NOW) is Severity.ERROR
        self.kept = {
            resolved.existing.moid: resolved
            for resolved in resolved_vms
            if resolved.existing is not None and resolved.stays_put
        }
        leaving = {
            resolved.existing.moid
            for resolved in resolved_vms
            if resolved.existing is not None and not resolved.stays_put
        }
        self._without = frozenset(leaving | {vm.moid for vm in deleted})

    def read(self, index: int, host: Host, reader: CapacityReader) -> tuple[HostState, HostCapacity]:
        """Read one host."""
        vms = self._observed.vms_by_host.get(host.moid, ())
        capacity = reader.read(host, without=self._without)
        peer_sets = capacity.peer_sets if self._uses_guesses else reader.peer_sets(host, with_guesses=False)
        state = HostState.of(
            index,
            replace(capacity, peer_sets=peer_sets),
            frees_gpus=any(vm.is_on and vm.moid in self._without for vm in vms),
            memory_share=self._memory_share,
            uses_creatable=self._uses_creatable,
        )
        for vm in vms:
            if vm.moid not in self._without:
                _promise(state, vm, self.kept.get(vm.moid))
        return state, capacity


def _promise(state: HostState, vm: Vm, resolved: ResolvedVm | None) -> None:
    """Reserve the capacity of unchanged VMs; own VMs count with their future settings."""
    detail = vm.detail
    if detail is None or not vm.is_on:
        return
    nodes = nodes_of_affinity(detail.extra_config.get(AFFINITY_KEY, ""))
    if resolved is None:
        state.promise(detail.cpus if nodes else 0, detail.reserved_mib, nodes)
        return
    state.promise(resolved.cpus, resolved.memory_mib, nodes)
    if line := line_of(resolved):
        state.residents[line] = state.residents.get(line, 0) + 1
        for node in nodes:
            state.node_lines[node] = state.node_lines.get(node, frozenset()) | {line}
        for gpu in state.gpus:
            gpu.held = [replace(held, line=line) if held.vm == vm.name else held for held in gpu.held]


def _unknown_boards(capacity: HostCapacity) -> list[str]:
    return [gpu.pci_id for gpu in capacity.gpus if gpu.board is None]


def place_vms(baseline: Baseline, resolved_vms: Sequence[ResolvedVm]) -> Placed:
    """Give every VM that needs one its place; those without one are among the placed's failures."""
    placed = place_demands(baseline.states, demands_of(resolved_vms), starting_of(resolved_vms))
    for resolved in resolved_vms:
        resolved.fit = placed.fits.get(resolved.name)
        if resolved.fit is not None:
            resolved.host = baseline.hosts[resolved.fit.host]
    return placed


def place_demands(
    states: Sequence[HostState], demands: Sequence[Demand], starting: Collection[str]
) -> Placed:
    """Place the demands on the expected GPUs; VMs `starting` are to run."""
    demands = made_alike(states, on_few_hosts(states, demands))
    return expect_gpus(place_startable(states, demands, PLACERS, starting), demands)
