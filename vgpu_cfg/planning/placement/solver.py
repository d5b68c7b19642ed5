"""Places VMs by an integer program, where the greedy way found no place for all of them.

Like VMs are counted, not told apart: y[shape, host, variant] says how many go where, x[host, GPUs alike,
pattern] how many GPUs take which largest set of vGPUs, and g[host, set] which GPUs become NVLink peers.
What a GPU takes is asked of `GpuState` itself, so that nothing is modelled twice. First the number of VMs
without a place is made small: none is a placement, one or more a proof, or the limit of nodes was reached.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field

from vgpu_cfg.late_dataclasses import dataclass
from vgpu_cfg.model.plan_values import NumaPolicy, Spread
from vgpu_cfg.planning.capacity.nic_needs import nic_options
from vgpu_cfg.planning.capacity.peer_groups import has_group_api
from vgpu_cfg.planning.capacity.vgpu_need import VgpuNeed
from vgpu_cfg.planning.placement.demand import Demand, Shape, Variant
from vgpu_cfg.planning.placement.gpu_assignment import Assignment, HostShare, assign_gpus
from vgpu_cfg.planning.placement.host_state import HostState
from vgpu_cfg.planning.placement.milp import Program, Solution, SolverStatus
from vgpu_cfg.planning.placement.patterns import PatternBook, PatternItem
from vgpu_cfg.planning.placement.place import Attempt, in_order

_COUNTS = 1000
"""How many VMs are left counts before which they are: of two, the harder one gets the place."""
_TOO_LITTLE = 0.5
"""A bound above it says that some VM has no place, whatever the rest; one VM costs much more."""
_DISTURBS = 10_000.0
"""What a VM on a host that is prepared for it counts, for each step of what that disturbs."""
_STAYS_WEIGHT = 3
"""A VM that exists is left without a place last."""


@dataclass(frozen=True, slots=True)
class SolverPlacer:
    """Finds a placement of all VMs wherever there is one, or proves that there is none, within its limits."""

    most_nodes: int = 2_000
    most_polish_nodes: int = 20
    most_variables: int = 400_000

    def place(self, hosts: Sequence[HostState], demands: Sequence[Demand]) -> Attempt:
        """Place all, or as many as can be."""
        model = _Model(hosts, demands)
        nothing = Attempt([host.copy() for host in hosts], hosts, left=list(in_order(demands)))
        if model.program.size > self.most_variables or not model.is_whole:
            return nothing
        found = model.program.solve(most_nodes=self.most_nodes)
        if found.outcome in (SolverStatus.UNKNOWN, SolverStatus.NONE):
            return nothing
        is_proof = found.outcome is SolverStatus.BEST or found.bound > 0
        attempt = self._to_attempt(model, found)
        if attempt is None:
            nothing.is_refuted = found.bound > _TOO_LITTLE and model.is_exact
            return nothing
        attempt.is_proof = is_proof and bool(attempt.left) and model.is_exact
        return attempt

    def _to_attempt(self, model: _Model, found: Solution) -> Attempt | None:
        """Make a placement of the cheapest such solution, else of the first one."""
        for solution in (self._polished(model, found), found):
            attempt = model.attempt(solution)
            if attempt is not None:
                return attempt
        return None

    def _polished(self, model: _Model, found: Solution) -> Solution:
        """Look for a cheaper solution that places as many: first clusters and profiles, fewer GPUs opened."""
        program = model.program
        for variable in model.unplaced:
            program.fix(variable, found.values[variable])
        program.set_costs(model.costs())
        better = program.solve(most_nodes=self.most_polish_nodes, gap=0.02, start=found.values)
        return better if better.values else found


@dataclass(slots=True)
class _Choice:
    """A column y: so many VMs of a shape on a host, with one of its variants."""

    shape: Shape
    host: int
    variant: Variant
    rank: int
    variable: int


@dataclass(slots=True)
class _GpuClass:
    """GPUs of a host that are alike, with a column x for each of their patterns."""

    host: int
    gpus: list[int]
    patterns: tuple[tuple[int, ...], ...]
    variables: list[int]
    is_idle: bool


@dataclass(slots=True)
class _Model:
    """The program for hosts and demands, and the way back from its values to a placement."""

    hosts: Sequence[HostState]
    demands: Sequence[Demand]
    program: Program = field(default_factory=Program)
    choices: list[_Choice] = field(default_factory=list)
    gpu_classes: list[_GpuClass] = field(default_factory=list)
    sets: list[tuple[int, frozenset[int], int]] = field(default_factory=list)
    unplaced: list[int] = field(default_factory=list)
    groups: dict[Shape, list[Demand]] = field(default_factory=dict)
    book: PatternBook = field(default_factory=lambda: PatternBook(()))

    def __post_init__(self) -> None:
        for demand in sorted(in_order(self.demands), key=lambda one: not one.stays):
            self.groups.setdefault(demand.shape, []).append(demand)
        items: dict[PatternItem, None] = {}
        for place, (shape, group) in enumerate(self.groups.items()):
            own = list(self._columns(shape, len(group)))
            self.choices += own
            items |= dict.fromkeys(item for choice in own for item, _ in self._items_of(choice))
            columns = [(choice.variable, 1.0) for choice in own]
            weight = _COUNTS * (_STAYS_WEIGHT if group[0].stays else 1) + 1 - place / len(self.groups)
            unplaced = self.program.variable(len(group), cost=weight)
            self.unplaced.append(unplaced)
            self.program.row([*columns, (unplaced, 1.0)], least=len(group), most=len(group))
        self.book = PatternBook(tuple(items))
        by_host: dict[int, list[_Choice]] = {}
        for choice in self.choices:
            by_host.setdefault(choice.host, []).append(choice)
        for index, chosen in sorted(by_host.items()):
            self._model_host(index, self.hosts[index], chosen)
        self._keep_free(by_host)

    @property
    def is_whole(self) -> bool:
        """Whether everything that could be is in the program."""
        return self.book.is_whole

    @property
    def is_exact(self) -> bool:
        """Whether the program allows all that is allowed, so that it proves.

        Two vGPUs of one VM may share a GPU where VMs of the line may not, which a pattern does not tell.
        """
        return not any(
            shape.spread is Spread.GPUS and shape.must and any(len(one) > 1 for one in shape.variants)
            for shape in self.groups
        )

    def _columns(self, shape: Shape, count: int) -> Iterator[_Choice]:
        """Yield a column for each host and variant that are possible at all."""
        most = 1 if shape.spread is Spread.HOSTS and shape.must else count
        for index, rank in shape.hosts:
            host = self.hosts[index]
            refusals = (host.refuse_host, host.refuse_slots, host.refuse_nics)
            if any(refuse(shape) is not None for refuse in refusals):
                continue
            for variant in shape.variants or ((),):
                if host.refuse_variant(variant) is None and host.may_create(variant):
                    yield _Choice(shape, index, variant, rank, self.program.variable(most))

    def _items_of(self, choice: _Choice) -> Iterator[tuple[PatternItem, int]]:
        """Yield what a VM takes of single GPUs, and how many of each."""
        host, shape = self.hosts[choice.host], choice.shape
        line = shape.line if shape.spread is Spread.GPUS and shape.must else ""
        single = [need for need in choice.variant if need.peers is None or not has_group_api(host.host)]
        for need in dict.fromkeys(single):
            yield PatternItem(need, line), single.count(need)

    def _peers_of(self, choice: _Choice) -> Iterator[tuple[VgpuNeed, int]]:
        """Yield the groups of NVLink peers of a VM: one of their needs, and how many they are."""
        if not has_group_api(self.hosts[choice.host].host):
            return
        for number in dict.fromkeys(need.peers for need in choice.variant if need.peers is not None):
            members = [need for need in choice.variant if need.peers == number]
            yield members[0], len(members)

    def _model_host(self, index: int, host: HostState, own: Sequence[_Choice]) -> None:
        self.program.row(
            [(choice.variable, float(choice.shape.memory_mib)) for choice in own], most=max(0, host.free_mib)
        )
        self._model_gpus(index, host, own)
        self._model_spread(host, own)
        self._model_slots(host, own)
        self._model_nics(host, own)

    def _model_nics(self, host: HostState, own: Sequence[_Choice]) -> None:
        """Let every function go to one NIC; whether it is near the GPU is seen when a host is filled."""
        needs = list(dict.fromkeys(need for choice in own for need in choice.shape.nics))
        given: dict[str, list[int]] = {}
        room: dict[str, int] = {}
        for need in needs:
            columns = []
            for pci_id, free in nic_options(need, host.stock):
                variable = self.program.variable(free)
                columns.append((variable, -1.0))
                given.setdefault(pci_id, []).append(variable)
                room[pci_id] = free
            wanted = [
                (choice.variable, float(choice.shape.nics.count(need)))
                for choice in own
                if need in choice.shape.nics
            ]
            self.program.row([*wanted, *columns], most=0)
        for pci_id, variables in given.items():
            self.program.row([(variable, 1.0) for variable in variables], most=room[pci_id])

    def _model_gpus(self, index: int, host: HostState, own: Sequence[_Choice]) -> None:
        requested: dict[PatternItem, list[tuple[int, float]]] = {}
        joined: dict[tuple[str, int], list[tuple[int, float]]] = {}
        needs: dict[tuple[str, int], VgpuNeed] = {}
        for choice in own:
            for item, count in self._items_of(choice):
                requested.setdefault(item, []).append((choice.variable, float(count)))
            for need, size in self._peers_of(choice):
                joined.setdefault((need.name, size), []).append((choice.variable, 1.0))
                needs[need.name, size] = need
        taken: dict[int, list[int]] = {}
        for key, terms in joined.items():
            columns = []
            for members in host.free_sets(needs[key], key[1], host.gpus):
                variable = self.program.variable(1)
                columns.append((variable, -1.0))
                self.sets.append((index, members, variable))
                for gpu in members:
                    taken.setdefault(gpu, []).append(variable)
            self.program.row([*terms, *columns], most=0)
        for variables in taken.values():
            self.program.row([(variable, 1.0) for variable in variables], most=1)
        supply = self._model_gpu_classes(index, host, taken)
        for item, terms in requested.items():
            self.program.row([*terms, *supply.get(item, ())], most=0)

    def _model_gpu_classes(
        self, index: int, host: HostState, taken: Mapping[int, Sequence[int]]
    ) -> dict[PatternItem, list[tuple[int, float]]]:
        """Add what the host's GPUs can take; a GPU of a group of peers takes nothing else."""
        alike: dict[tuple[object, ...], list[int]] = {}
        for number, gpu in enumerate(host.gpus):
            alike.setdefault(gpu.signature(), []).append(number)
        supply: dict[PatternItem, list[tuple[int, float]]] = {}
        for gpus in alike.values():
            first = host.gpus[gpus[0]]
            patterns = self.book.of(first)
            gpu_class = _GpuClass(
                index, gpus, patterns, [self.program.variable(len(gpus)) for _ in patterns], first.is_idle
            )
            self.gpu_classes.append(gpu_class)
            used = [(variable, 1.0) for variable in gpu_class.variables]
            used += [(variable, 1.0) for gpu in gpus for variable in taken.get(gpu, ())]
            if used:
                self.program.row(_summed(used), most=len(gpus))
            for variable, pattern in zip(gpu_class.variables, patterns, strict=True):
                for item, count in zip(self.book.items, pattern, strict=True):
                    if count:
                        supply.setdefault(item, []).append((variable, -float(count)))
        return supply

    def _model_spread(self, host: HostState, own: Sequence[_Choice]) -> None:
        for spread in (Spread.HOSTS, Spread.NUMA):
            lines: dict[str, list[_Choice]] = {}
            for choice in own:
                if choice.shape.spread is spread and choice.shape.must:
                    lines.setdefault(choice.shape.line, []).append(choice)
            for line, chosen in lines.items():
                is_host = spread is Spread.HOSTS
                room = 1 - host.residents.get(line, 0) if is_host else self._free_nodes(host, line, chosen)
                if room is not None:
                    self.program.row([(choice.variable, 1.0) for choice in chosen], most=max(0, room))

    def _free_nodes(self, host: HostState, line: str, chosen: Sequence[_Choice]) -> int | None:
        """Count the NUMA nodes without a VM of a line that one could have, None where it may have none."""
        nodes: set[int | None] = {node.node_id for node in host.nodes}
        policies = {choice.shape.numa for choice in chosen}
        if policies == {NumaPolicy.FOLLOW_GPU} and all(choice.variant for choice in chosen):
            boards = {need.board_key for choice in chosen for need in choice.variant}
            nodes = {gpu.node for gpu in host.gpus if gpu.board_key in boards and gpu.obstacle is None}
        if not host.nodes or None in nodes or NumaPolicy.OFF in policies:
            return None
        return sum(node is not None and not host.is_on_node(line, node) for node in nodes)

    def _model_slots(self, host: HostState, own: Sequence[_Choice]) -> None:
        """Let every function that is passed through go to one VM: the named ones, and those that match."""
        wanted = [choice for choice in own if choice.shape.fixed or choice.shape.dynamic]
        if not wanted:
            return
        needs = list(dict.fromkeys(need for choice in wanted for need in choice.shape.dynamic))
        alike: dict[tuple[bool, ...], list[str]] = {}
        for slot in host.free_slots():
            alike.setdefault(tuple(host.suits(slot, need) for need in needs), []).append(slot.pci.pci_id)
        flow: dict[int, list[tuple[int, float]]] = {number: [] for number in range(len(needs))}
        for kind, addresses in alike.items():
            used = [
                (choice.variable, float(len(set(choice.shape.fixed) & set(addresses))))
                for choice in wanted
                if set(choice.shape.fixed) & set(addresses)
            ]
            for number, suits in enumerate(kind):
                if suits:
                    variable = self.program.variable(len(addresses))
                    flow[number].append((variable, -1.0))
                    used.append((variable, 1.0))
            self.program.row(used, most=len(addresses))
        for number, need in enumerate(needs):
            terms = [
                (choice.variable, float(choice.shape.dynamic.count(need)))
                for choice in wanted
                if need in choice.shape.dynamic
            ]
            self.program.row([*terms, *flow[number]], most=0)
        for address in dict.fromkeys(one for choice in wanted for one in choice.shape.fixed):
            self.program.row(
                [(choice.variable, 1.0) for choice in wanted if address in choice.shape.fixed], most=1
            )

    def _keep_free(self, by_host: Mapping[int, Sequence[_Choice]]) -> None:
        """Leave hosts without any GPU VM, where shapes ask for that."""
        asking = {(shape.hosts, shape.keep_free) for shape in self.groups if shape.keep_free}
        if not asking:
            return
        in_use: dict[int, int] = {}
        for index, choices in by_host.items():
            own = [(choice.variable, 1.0) for choice in choices if choice.shape.has_gpus]
            if own and not self.hosts[index].is_in_use:
                in_use[index] = self.program.variable(1)
                self.program.row([*own, (in_use[index], -float(len(self.demands)))], most=0)
        for ranked, count in asking:
            candidates = [index for index, _ in ranked]
            already = sum(self.hosts[index].is_in_use for index in candidates)
            terms = [(in_use[index], 1.0) for index in candidates if index in in_use]
            self.program.row(terms, most=max(0, len(candidates) - count - already))

    def costs(self) -> Iterator[tuple[int, float]]:
        """Yield what counts among placements of equally many VMs."""
        for choice in self.choices:
            order = choice.shape.variants.index(choice.variant) if choice.variant else 0
            together = -1.0 if choice.shape.pack else 0.0
            disturbs = _DISTURBS * self.hosts[choice.host].cost
            yield (
                choice.variable,
                disturbs + 1000.0 * choice.rank + 100.0 * order + together + 0.001 * choice.host,
            )
        for gpu_class in self.gpu_classes:
            for variable in gpu_class.variables:
                yield variable, 10.0 if gpu_class.is_idle else 0.1
        for _, members, variable in self.sets:
            yield variable, 10.0 * len(members)

    def attempt(self, solution: Solution) -> Attempt | None:
        """Turn the program's values into a placement, None where some host cannot be filled like this."""
        values = solution.values
        waiting = {shape: list(group) for shape, group in self.groups.items()}
        shares: dict[int, HostShare] = {}
        for choice in self.choices:
            count = values[choice.variable]
            group = waiting[choice.shape]
            share = shares.setdefault(choice.host, HostShare())
            share.assignments += [Assignment(demand, choice.variant) for demand in group[:count]]
            del group[:count]
        for host, members, variable in self.sets:
            if values[variable]:
                shares[host].sets.append(members)
        for gpu_class in self.gpu_classes:
            joined = {gpu for members in shares[gpu_class.host].sets for gpu in members}
            free = [gpu for gpu in gpu_class.gpus if gpu not in joined]
            for variable, pattern in zip(gpu_class.variables, gpu_class.patterns, strict=True):
                counts = dict(zip(self.book.items, pattern, strict=True))
                taken = [free.pop(0) for _ in range(values[variable])]
                shares[gpu_class.host].gpus += [(gpu, counts) for gpu in taken]
        attempt = Attempt([host.copy() for host in self.hosts], self.hosts)
        for index, share in shares.items():
            filled = assign_gpus(self.hosts[index], share)
            if filled is None:
                return None
            attempt.hosts[index], fits = filled
            attempt.fits |= fits
        attempt.left = [demand for group in waiting.values() for demand in group]
        return attempt


def _summed(terms: Sequence[tuple[int, float]]) -> list[tuple[int, float]]:
    """Join terms of one variable: a row names each once."""
    total: dict[int, float] = {}
    for variable, weight in terms:
        total[variable] = total.get(variable, 0.0) + weight
    return list(total.items())
