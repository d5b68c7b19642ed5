"""The fewest moves of running VMs after which every VM of a plan gets a place; a proposal, never a change.

`apply` moves nothing. A move is by vMotion where every vGPU of the VM allows it (vim
`VirtualPCIPassthrough.backing.migrateSupported`, API 7.0.2), else with the VM off.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import combinations, islice
from math import comb

from vgpu_cfg.catalog import Catalog
from vgpu_cfg.model.change import Diagnostic
from vgpu_cfg.model.desired import DesiredPlan, DesiredVgpu, NumaPolicy
from vgpu_cfg.model.inventory import Host, Inventory
from vgpu_cfg.model.vgpu import VgpuProfile
from vgpu_cfg.model.vm import Vm, VmDetail
from vgpu_cfg.planning.candidates import Candidates, Wish, make_wish
from vgpu_cfg.planning.capacity import CapacityReader
from vgpu_cfg.planning.case import Case, Lookup, leave_protected, make_case
from vgpu_cfg.planning.demand import Demand, Shape, make_variants
from vgpu_cfg.planning.findings import Findings
from vgpu_cfg.planning.options import PlanOptions
from vgpu_cfg.planning.ownership import judge_ownership, protects_vm
from vgpu_cfg.planning.placement import Placed, Placer, place
from vgpu_cfg.planning.site import Site
from vgpu_cfg.planning.stage import PLACERS, device_names, hosts_in_order, make_shape, set_stage

MOST_MOVES = 3
MOST_TRIALS = 500
"""How many sets of so many moves are tried the greedy way, so that the search ends on any estate."""
MOST_SOLVED = 50
"""How many of them are tried with the solver where the greedy way finds nothing."""
_UVM = "enable_uvm"


class How(StrEnum):
    """How a VM gets to another host."""

    VMOTION = "vMotion"
    COLD = "cold"


class Outcome(StrEnum):
    """What the search came to."""

    FITS = "fits"
    """Every VM has a place as things are."""
    MOVES = "moves"
    """The moves make room, and fewer were not found to."""
    NONE = "none"
    """No set of so many moves makes room."""
    LIMIT = "limit"
    """The search gave up before it had tried all."""


@dataclass(frozen=True, slots=True)
class Move:
    """A running VM that goes to another host. `why_cold` says what forbids vMotion.

    `stun_ms` is how long vMotion would stop it at the slowest bandwidth that the host names an
    estimate for, all its vGPUs together; None where that is not told.
    """

    vm: str
    moid: str
    source: str
    target: str
    how: How
    profiles: tuple[str, ...]
    why_cold: str = ""
    stun_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Rebalance:
    """The proposal. `homeless` are the plan's VMs without a place as things are, `trials` what was tried."""

    outcome: Outcome
    homeless: tuple[str, ...] = ()
    moves: tuple[Move, ...] = ()
    trials: int = 0
    errors: tuple[Diagnostic, ...] = ()


def plan_rebalance(
    desired: DesiredPlan, observed: Inventory, catalog: Catalog, options: PlanOptions
) -> Rebalance:
    """Look for the fewest moves: one, then two, then three; those by vMotion alone first.

    Hosts are taken as they are; what the plan would do to them has not happened.
    """
    return _Rebalancing(desired, observed, catalog, options).run()


@dataclass(frozen=True, slots=True)
class _Movable:
    """A running VM with vGPUs, and what it needs of another host."""

    vm: Vm
    host: Host
    shape: Shape
    why_cold: str
    stun_ms: int | None

    @property
    def demand(self) -> Demand:
        return Demand(self.vm.moid, "", self.shape)


@dataclass(slots=True)
class _Rebalancing:
    desired: DesiredPlan
    observed: Inventory
    catalog: Catalog
    options: PlanOptions
    findings: Findings = field(init=False)
    reader: CapacityReader = field(init=False)
    hosts: list[Host] = field(init=False)
    candidates: Candidates = field(init=False)
    cases: list[Case] = field(default_factory=list)
    trials: int = 0

    def __post_init__(self) -> None:
        self.findings = Findings.for_plan(self.desired)
        self.reader = CapacityReader(self.observed, self.catalog)
        self.hosts = hosts_in_order(self.observed)
        self.candidates = Candidates(
            self.hosts,
            {network.moid: network for network in self.observed.networks},
            {datastore.moid: datastore for datastore in self.observed.datastores},
            self.observed.cluster_by_moid,
        )

    def run(self) -> Rebalance:
        self.cases = list(self._cases())
        homeless = tuple(self._place(()).failed)
        errors = tuple(found for found in self.findings.diagnostics() if found.severity == "error")
        if not homeless:
            return Rebalance(Outcome.FITS, errors=errors)
        movables = sorted(self._movables(), key=_preference)
        for count in range(1, MOST_MOVES + 1):
            for placers, most in ((PLACERS[:1], MOST_TRIALS), (PLACERS, MOST_SOLVED)):
                for chosen in islice(_choices(movables, count), most):
                    self.trials += 1
                    placed = self._place(chosen, placers)
                    if not placed.failed:
                        moves = tuple(self._move(one, placed) for one in chosen)
                        return Rebalance(Outcome.MOVES, homeless, moves, self.trials, errors)
        sets = sum(comb(len(movables), count) for count in range(1, MOST_MOVES + 1))
        outcome = Outcome.NONE if sets <= MOST_SOLVED else Outcome.LIMIT
        return Rebalance(outcome, homeless, trials=self.trials, errors=errors)

    def _cases(self) -> Iterator[Case]:
        """Yield the plan's VMs with what each needs, as planning does."""
        site = Site(self.desired, self.observed, self.findings)
        names = device_names(self.observed, self.catalog)
        lookup = Lookup(site, Site(self.desired, self.observed, Findings()), names)
        folders = {vm.name: site.folder_of(vm) for vm in self.desired.vms}
        owned = judge_ownership(self.desired, self.observed, folders, self.findings)
        for vm in sorted(self.desired.vms, key=lambda one: one.name):
            if vm.name in owned.blocked or not self.options.selects(vm.name):
                continue
            existing = owned.existing.get(vm.name)
            case = make_case(vm, folders[vm.name], existing, lookup, self.findings)
            if case is None:
                continue
            if existing is not None:
                case.host = self.observed.host_by_moid.get(existing.host_moid or "")
            leave_protected(case, self.desired.protect, self.findings)
            if not case.is_hopeless and not case.keeps_gpus:
                self._shape(case)
            yield case

    def _shape(self, case: Case) -> None:
        if case.existing is not None:
            if case.host is None:
                return
            owner = case.host.cluster_moid or case.host.compute_moid
            wish = Wish((owner,), (), frozenset(), frozenset(), only_host=case.host.moid)
        else:
            wish = make_wish(case.clusters, case.desired.place, case.network_moids, case.datastore_moids)
        if ranked := self.candidates.of(wish, case.desired, self.findings):
            case.shape = make_shape(case, ranked, self.reader)

    def _place(self, moved: Sequence[_Movable], placers: Sequence[Placer] = PLACERS) -> Placed:
        """Place the plan's VMs with these VMs gone from where they are, and in need of another host."""
        leaving = [one.vm for one in moved]
        stage = set_stage(self.hosts, self.observed, self.cases, leaving, self.reader, self.findings)
        demands = [
            Demand(case.name, case.shape.line, case.shape, stays=case.existing is not None)
            for case in self.cases
            if case.shape is not None
        ]
        return place(stage.states, [*demands, *(one.demand for one in moved)], placers)

    def _movables(self) -> Iterator[_Movable]:
        """Yield the VMs on hosts where a VM without a place could go, and that have another host to go to."""
        wanted = {index for case in self.cases if case.shape for index, _ in case.shape.hosts}
        folders = {folder.moid: folder for folder in self.observed.folders}
        changing = {case.existing.moid for case in self.cases if case.existing and not case.stays_put}
        for index in sorted(wanted):
            host = self.hosts[index]
            for vm in sorted(self.observed.vms_by_host.get(host.moid, ()), key=lambda one: one.name):
                if not vm.is_on or vm.moid in changing or vm.detail is None:
                    continue
                has_functions = any(nic.kind == "sriov" for nic in vm.detail.nics)
                if not vm.detail.vgpus or vm.detail.passthrough or has_functions:
                    continue
                if protects_vm(self.desired.protect, vm.name, folders.get(vm.folder_moid or "")):
                    continue
                shape = self._shape_of(vm.detail, index)
                if shape is not None:
                    yield _Movable(vm, host, shape, why_cold(vm.detail), stun_ms(vm.detail, host))

    def _shape_of(self, detail: VmDetail, source: int) -> Shape | None:
        """Say what a VM needs of another host of its cluster: the same board, its networks and datastores."""
        try:
            asked = [
                DesiredVgpu(profiles=(VgpuProfile.parse(one.profile),), peers=one.group_key)
                for one in detail.vgpus
            ]
        except ValueError:
            return None
        by_key = {network.portgroup_key: network.moid for network in self.observed.networks}
        networks = {by_key.get(nic.network, nic.network) for nic in detail.nics if nic.network}
        here = self.hosts[source]
        targets = tuple(
            (index, 0)
            for index, host in enumerate(self.hosts)
            if index != source
            and host.is_usable
            and host.compute_moid == here.compute_moid
            and networks <= host.network_moids
            and set(detail.datastore_moids) <= host.datastore_moids
        )
        locked = detail.memory_mib if detail.memory_reservation_locked else 0
        boards = {board.key for gpu in here.gpus if (board := self.reader.board_of(gpu.pci)) is not None}
        variants = tuple(
            variant
            for variant in make_variants(asked, self.reader.needs)
            if all(need.board_key in boards for need in variant)
        )
        if not targets or not variants:
            return None
        return Shape(
            hosts=targets,
            variants=variants,
            cpus=detail.cpus,
            memory_mib=max(locked, detail.memory_reservation_mib),
            numa=NumaPolicy.OFF,
        )

    def _move(self, one: _Movable, placed: Placed) -> Move:
        return Move(
            vm=one.vm.name,
            moid=one.vm.moid,
            source=one.host.name,
            target=self.hosts[placed.fits[one.vm.moid].host].name,
            how=How.COLD if one.why_cold else How.VMOTION,
            profiles=tuple(vgpu.profile for vgpu in one.vm.detail.vgpus) if one.vm.detail else (),
            why_cold=one.why_cold,
            stun_ms=None if one.why_cold else one.stun_ms,
        )


def _choices(movables: Sequence[_Movable], count: int) -> Iterator[tuple[_Movable, ...]]:
    """Yield the sets of so many VMs, those that vMotion alone moves before all others."""
    by_vmotion = [one for one in movables if not one.why_cold]
    yield from combinations(by_vmotion, count)
    for chosen in combinations(movables, count):
        if any(one.why_cold for one in chosen):
            yield chosen


def why_cold(detail: VmDetail) -> str:
    """Say what keeps vMotion from moving a VM, empty where nothing does."""
    if any(vgpu.migrates is None for vgpu in detail.vgpus):
        return "vCenter does not tell whether its vGPUs can move"
    if not all(vgpu.migrates for vgpu in detail.vgpus):
        return "vCenter says that its vGPUs cannot move"
    if any(key.endswith(_UVM) and value.strip() == "1" for key, value in detail.extra_config.items()):
        return "unified memory is on"
    return ""


def stun_ms(detail: VmDetail, host: Host) -> int | None:
    """Return how long vMotion would stop a VM, None where its host does not tell of all its vGPUs."""
    known = {profile.name: profile.stun_ms for profile in host.profiles or ()}
    told = [known.get(vgpu.profile) for vgpu in detail.vgpus]
    return sum(max(one.values()) for one in told if one) if all(told) else None


def _preference(one: _Movable) -> tuple[bool, int, int, str]:
    """Sort those that vMotion moves first, the shortest stun and the smallest VM before others."""
    variant = one.shape.variants[0] if one.shape.variants else ()
    size = sum(need.framebuffer_mib for need in variant)
    return (bool(one.why_cold), one.stun_ms or 0, size, one.vm.name)
