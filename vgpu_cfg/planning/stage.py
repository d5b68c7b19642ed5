"""The estate set up for placement: what others hold and reserve is taken, what the plan will free is not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from vgpu_cfg.catalog import Board, Catalog
from vgpu_cfg.model.change import Severity
from vgpu_cfg.model.desired import DesiredPower
from vgpu_cfg.model.inventory import Host, Inventory
from vgpu_cfg.model.vm import AFFINITY_KEY, Vm
from vgpu_cfg.planning.candidates import Ranked
from vgpu_cfg.planning.capacity import CapacityReader, Claim, HostCapacity
from vgpu_cfg.planning.case import Case
from vgpu_cfg.planning.checks import Code
from vgpu_cfg.planning.demand import Demand, Shape, dynamic_needs, fixed_addresses, make_variants
from vgpu_cfg.planning.expectation import expect_gpus
from vgpu_cfg.planning.findings import Findings
from vgpu_cfg.planning.gpu_match import DeviceNames
from vgpu_cfg.planning.greedy import GreedyPlacer
from vgpu_cfg.planning.host_state import HOST_MEMORY_SHARE, HostState
from vgpu_cfg.planning.mend import FindMovables, Mend, smallest_mend
from vgpu_cfg.planning.nic_match import nic_needs
from vgpu_cfg.planning.numa import nodes_of_affinity
from vgpu_cfg.planning.placement import Placed, Verdict
from vgpu_cfg.planning.refusals import Refusal, explain_refusal
from vgpu_cfg.planning.solver import SolverPlacer
from vgpu_cfg.planning.startable import place_startable

PLACERS = (GreedyPlacer(), SolverPlacer())
"""The ways to place VMs, in the order in which they are tried."""


@dataclass(slots=True)
class Stage:
    """The hosts in their fixed order, as they will be before any VM of the plan is put on them.

    By host index: powered-off VMs of others that would need a GPU, running ones that hold one in
    a way that was not told, and GPUs of boards that the catalogue lacks.
    """

    hosts: list[Host]
    states: list[HostState] = field(default_factory=list)
    claims: dict[int, list[Claim]] = field(default_factory=dict)
    unread: dict[int, list[str]] = field(default_factory=dict)
    unknown_boards: dict[int, list[str]] = field(default_factory=dict)


def hosts_in_order(observed: Inventory) -> list[Host]:
    """Sort the hosts so that vCenter's order does not matter."""
    return sorted(observed.hosts, key=lambda host: (host.name, host.moid))


def set_stage(
    hosts: list[Host],
    observed: Inventory,
    cases: Sequence[Case],
    deleted: Iterable[Vm],
    reader: CapacityReader,
    findings: Findings,
) -> Stage:
    """Read every host as it will be once the plan has freed what it frees.

    Where the plan file makes VG301 no error, ESXi's recalled share of the memory is not kept back;
    where it makes VG128 none, the host's list of what it can create now does not count. Where it makes
    VG139 none, what is only guessed of NVLink bridges does not.
    """
    stage = Stage(hosts)
    freed = StateReader(observed, cases, deleted, findings)
    for index, host in enumerate(hosts):
        state, capacity = freed.read(index, host, reader)
        stage.states.append(state)
        stage.claims[index] = [claim for claim in capacity.claims if claim.vm_moid not in freed.kept]
        stage.unread[index] = [*capacity.unread, *capacity.unplaced]
        stage.unknown_boards[index] = _unknown_boards(capacity)
    return stage


class StateReader:
    """Reads hosts as they will be once the plan has freed what it frees; `set_stage` says what it heeds.

    `kept` are the cases of VMs that run on as they are, by their moids.
    """

    def __init__(
        self, observed: Inventory, cases: Sequence[Case], deleted: Iterable[Vm], findings: Findings
    ) -> None:
        self._observed = observed
        is_strict = findings.severity_of(Code.HOST_MEMORY) is Severity.ERROR
        self._memory_share = HOST_MEMORY_SHARE if is_strict else 1.0
        self._heeds_guesses = findings.severity_of(Code.NVLINK_GROUP_BROKEN) is Severity.ERROR
        self._heeds_creatable = findings.severity_of(Code.NOT_CREATABLE_NOW) is Severity.ERROR
        self.kept = {
            case.existing.moid: case for case in cases if case.existing is not None and case.stays_put
        }
        leaving = {case.existing.moid for case in cases if case.existing is not None and not case.stays_put}
        self._without = frozenset(leaving | {vm.moid for vm in deleted})

    def read(self, index: int, host: Host, reader: CapacityReader) -> tuple[HostState, HostCapacity]:
        """Read one host."""
        vms = self._observed.vms_by_host.get(host.moid, ())
        capacity = reader.read(host, without=self._without)
        state = HostState.of(
            index,
            capacity,
            frees_gpus=any(vm.is_on and vm.moid in self._without for vm in vms),
            memory_share=self._memory_share,
            heeds_creatable=self._heeds_creatable,
        )
        if not self._heeds_guesses:
            state.peer_sets = reader.peer_sets(host, with_guesses=False)
        for vm in vms:
            if vm.moid not in self._without:
                _promise(state, vm, self.kept.get(vm.moid))
        return state, capacity


def _promise(state: HostState, vm: Vm, case: Case | None) -> None:
    """Take what a VM reserves that stays as it is; own VMs count with what they will have."""
    detail = vm.detail
    if detail is None or not vm.is_on:
        return
    nodes = nodes_of_affinity(detail.extra_config.get(AFFINITY_KEY, ""))
    if case is None:
        locked = detail.memory_mib if detail.memory_reservation_locked else 0
        state.promise(detail.cpus if nodes else 0, max(locked, detail.memory_reservation_mib), nodes)
        return
    state.promise(case.cpus, case.memory_mib, nodes)
    if line := _line(case):
        state.residents[line] = state.residents.get(line, 0) + 1
        for node in nodes:
            state.node_lines[node] = state.node_lines.get(node, frozenset()) | {line}
        for gpu in state.gpus:
            gpu.held = [replace(held, line=line) if held.vm == vm.name else held for held in gpu.held]


def _unknown_boards(capacity: HostCapacity) -> list[str]:
    return [gpu.pci_id for gpu in capacity.gpus if gpu.board is None]


def make_shape(case: Case, ranked: Ranked, reader: CapacityReader) -> Shape:
    """Say what a VM needs of a host; one that exists is free of its line's spread."""
    vm = case.desired
    spread = vm.place.spread if case.existing is None else None
    return Shape(
        hosts=ranked,
        variants=make_variants(case.gpus, reader.needs),
        fixed=fixed_addresses(case.gpus),
        dynamic=dynamic_needs(case.gpus),
        cpus=case.cpus,
        memory_mib=case.memory_mib,
        numa=vm.numa.policy,
        numa_nodes=vm.numa.nodes,
        spread=spread,
        must=vm.place.must,
        pack=vm.place.pack and case.existing is None,
        keep_free=vm.place.keep_free if case.existing is None else 0,
        line=_line(case),
        nics=nic_needs(case.nics, case.base if case.existing is not None else None, case.host),
    )


def demands_of(cases: Iterable[Case]) -> list[Demand]:
    """List what is to be placed of the cases that need a place."""
    return [
        Demand(case.name, _line(case), case.shape, stays=case.existing is not None)
        for case in cases
        if case.shape is not None and not case.is_stuck
    ]


def starting_of(cases: Iterable[Case]) -> set[str]:
    """Return the names of the VMs that are to run."""
    return {case.name for case in cases if case.desired.power is DesiredPower.ON}


def place_cases(stage: Stage, cases: Sequence[Case]) -> Placed:
    """Give every case that needs one its place; those without one are among the placed's failures."""
    demands = demands_of(cases)
    placed = expect_gpus(place_startable(stage.states, demands, PLACERS, starting_of(cases)), demands)
    for case in cases:
        case.fit = placed.fits.get(case.name)
        if case.fit is not None:
            case.host = stage.hosts[case.fit.host]
    return placed


def report_failures(
    placed: Placed,
    cases: Sequence[Case],
    stage: Stage,
    findings: Findings,
    movables: FindMovables,
) -> None:
    """Say of every case without a place why it has none, and what would help; like VMs have the same reason.

    `movables` finds the VMs that could be named as one to move.
    """
    refusals: dict[Shape, Refusal] = {}
    mend = smallest_mend(placed, movables)
    for case in cases:
        failure = placed.failed.get(case.name)
        if failure is None:
            continue
        demand, verdict = failure
        if demand.shape not in refusals:
            refusals[demand.shape] = _refusal(demand.shape, placed, stage)
        _report(case, refusals[demand.shape], verdict, mend, findings)


def _refusal(shape: Shape, placed: Placed, stage: Stage) -> Refusal:
    """Tell what holds the VM's place: others' VMs where it fits nowhere anyway, else also the plan's."""
    is_alone = not any(placed.initial[index].fit(shape) for index, _ in shape.hosts)
    return explain_refusal(placed.initial if is_alone else placed.hosts, shape, stage.claims)


def _line(case: Case) -> str:
    """Name the line where its VMs heed one another."""
    place = case.desired.place
    return case.desired.line if place.spread is not None or place.pack else ""


def _report(case: Case, refusal: Refusal, verdict: Verdict, mend: Mend | None, findings: Findings) -> None:
    helps = f"{mend.words}, and all fit; or " if mend is not None else ""
    if verdict is Verdict.UNDECIDED:
        message = (
            "no placement was found within the search's limit, and none was proven impossible; "
            f"{refusal.message}"
        )
        remedy = "split the plan, name hosts with `place.hosts`, or free room"
        findings.refuse_vm(Code.UNDECIDED, case.desired, message, helps + remedy)
        return
    findings.refuse_vm(refusal.code, case.desired, refusal.message, helps + refusal.remedy)


def device_names(observed: Inventory, catalog: Catalog) -> DeviceNames:
    """Collect what the devices of the estate are called, by vendor and device id."""
    names: dict[tuple[int, int], dict[str, None]] = {}
    boards: dict[tuple[int, int, int], Board | None] = {}
    for host in observed.hosts:
        for device in (*host.pci_devices, *(gpu.pci for gpu in host.gpus)):
            if not (device.is_gpu or device.hardware_label or device.passthrough_active):
                continue
            ids = (device.vendor_id, device.device_id, device.subsystem_id)
            if ids not in boards:
                boards[ids] = catalog.by_pci(*ids)
            board = boards[ids]
            known = names.setdefault(ids[:2], {})
            known[device.device_name] = None
            known |= dict.fromkeys(board.names if board else ())
    result: Mapping[tuple[int, int], Sequence[str]] = {ids: tuple(found) for ids, found in names.items()}
    return result
