"""Makers of estates whose VMs fit exactly, with a known solution: lines apart, and GPUs partly taken.

`apart`: three kinds of hosts; hardly two have the same memory, each reaches two of three datastores, lines
of VMs must run on different hosts, and some VMs are bound to a NUMA node. `strangers`: four kinds of hosts;
other VMs hold vGPUs on a third of the GPUs, so that hardly two hosts are equal. VMs fill each host's GPUs,
and 88 to 97 % of the memory that VMs may reserve. `check` judges a placement by rules of its own.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from random import Random

from tests.bench.exact_fit import GPUS_PER_HOST, MEMORY_SHARES, Instance, make_instance, uncertain_hosts
from tests.plans.estate import make_inventory
from vgpu_cfg.catalog import load_catalog
from vgpu_cfg.model.plan_values import NumaPolicy, Spread
from vgpu_cfg.planning.capacity.gpu_state import needs_of
from vgpu_cfg.planning.capacity.host_capacity import CapacityReader
from vgpu_cfg.planning.placement.demand import Demand, Shape
from vgpu_cfg.planning.placement.host_state import HostState
from vgpu_cfg.planning.placement.place import Placed
from vgpu_cfg.planning.placement.start_queues import assess_starts
from vgpu_cfg.planning.placement.startable import PLACERS, place_startable

_GIB = 1024
_BOARDS = {"A100D": {}, "L40S": {"mode": "mixed_size"}, "H100XM": {"sharing": "mig"}, "H100": {}}
_LOADS: Mapping[str, Sequence[tuple[str, ...]]] = {
    "A100D": [("80",), ("80",), ("40",) * 2, ("20",) * 4, ("16",) * 5, ("10",) * 8],
    "L40S": [("48",), ("48",), ("24",) * 2, ("24", "12", "12"), ("16", "16", "8", "8"), ("12",) * 4],
    "H100XM": [("7-80",), ("4-40", "3-40"), ("3-40",) * 2, ("3-40", "2-20", "2-20"), ("2-20",) * 3],
    "H100": [("80",), ("80",), ("40",) * 2, ("20",) * 4],
}
"""The vGPUs of one GPU, by board; the first is one whole GPU."""
_SLICES = {"7": (8, (0,)), "4": (4, (0,)), "3": (4, (0, 4)), "2": (2, (0, 2, 4)), "1": (1, tuple(range(7)))}
"""Memory slices of a MIG profile, and where it may start."""
_MEMORY_GIB = (8, 16, 24, 48, 64)
_STORES = ((0, 1), (1, 2), (0, 2))


@dataclass(frozen=True, slots=True)
class _Vm:
    """A VM on the host that the known solution gives it."""

    host: int
    board: str
    sizes: tuple[str, ...]
    memory_gib: int
    store: int | None = None
    node: int | None = None
    line: str = ""

    @property
    def alike(self) -> tuple[object, ...]:
        """What VMs of one line have in common."""
        return (self.board, self.sizes, self.memory_gib, self.store)


def make_apart(hosts: int, seed: int) -> Instance:
    """Fill hosts with VMs of which lines must run apart, within what each host's datastores allow."""
    random = Random(f"apart {seed}")  # noqa: S311 - the same every time
    boards = [("A100D", "L40S", "H100")[number % 3] for number in range(hosts)]
    vms: list[_Vm] = []
    for number, board in enumerate(boards):
        for vm in _fill(number, board, [()] * GPUS_PER_HOST, random):
            store = random.choice(_STORES[number // 3 % 3])
            bound = vm.node if len(vm.sizes) == 1 and random.random() < 0.15 else None
            vms.append(replace(vm, store=store, node=bound))
    groups: dict[tuple[object, ...], list[_Vm]] = {}
    for vm in vms:
        groups.setdefault(vm.alike, []).append(vm)
    members = dict[_Vm, str]()
    chosen = [one for one in groups.values() if len({vm.host for vm in one}) > 3]
    for number, group in enumerate(random.sample(chosen, min(24, len(chosen)))):
        by_host = {vm.host: vm for vm in group if vm.node is None}
        members |= dict.fromkeys(list(by_host.values())[:12], f"line{number}")
    taken = set[str]()
    for place, vm in enumerate(vms):
        if (line := members.get(vm)) and (key := f"{line} {vm.host}") not in taken:
            taken.add(key)
            vms[place] = replace(vm, line=line)
    return _instance(boards, [[()] * GPUS_PER_HOST] * hosts, vms, random)


def make_strangers(hosts: int, seed: int) -> Instance:
    """Fill what strangers have left of hosts of four kinds."""
    random = Random(f"strangers {seed}")  # noqa: S311 - the same every time
    boards = [tuple(_BOARDS)[number % 4] for number in range(hosts)]
    held: list[list[tuple[str, ...]]] = []
    vms: list[_Vm] = []
    for number, board in enumerate(boards):
        gpus: list[tuple[str, ...]] = []
        for _ in range(GPUS_PER_HOST):
            load = random.choice(_LOADS[board])
            gpus.append(load[: random.randrange(1, len(load) + 1)] if random.random() < 0.33 else ())
        held.append(gpus)
        vms += [replace(vm, node=None) for vm in _fill(number, board, gpus, random)]
    return _instance(boards, held, vms, random)


MAKERS = {"apart": make_apart, "strangers": make_strangers}
KINDS = {f"{share:.0%}": partial(make_instance, memory_share=share) for share in MEMORY_SHARES}
"""Makers that `check` does not know."""


def print_exact_fits(names: Sequence[str], sizes: Sequence[tuple[int, Sequence[int]]]) -> None:
    """Print a table by maker: hosts, VMs, seed, VMs without a place, uncertain hosts, faults, CPU seconds.

    Without a place are those that got none and are not proven to have none.
    """
    titles = f"{'hosts':>7}{'VMs':>8}{'seed':>6}{'without':>10}{'uncertain':>11}{'wrong':>7}{'seconds':>10}"
    print(f"\n{'exactly fitting':24}{'maker':>11}{titles}")
    for name, (hosts, seeds) in product(names, sizes):
        for seed in seeds:
            made = (KINDS | MAKERS)[name](hosts, seed)
            assess_starts.cache_clear()  # what making the instance found out is not known to a plan
            begun = time.process_time()
            found = place_startable(made.hosts, made.demands, PLACERS, {one.vm for one in made.demands})
            seconds = time.process_time() - begun
            verdicts = ", ".join(sorted({verdict for _, verdict in found.failed.values()})) or "placed"
            wrong = str(len(check(made, found))) if name in MAKERS else "-"
            print(
                f"{verdicts:24}{name:>11}{hosts:>7,}{len(made.demands):>8,}{seed:>6}"
                f"{len(found.failed):>10,}{uncertain_hosts(found):>11,}{wrong:>7}{seconds:>10.2f}",
                flush=True,
            )


def _fill(number: int, board: str, held: Sequence[tuple[str, ...]], random: Random) -> Iterator[_Vm]:
    """Fill each GPU to a load that begins with its content; join some whole GPUs of a node."""
    whole: dict[int, int] = {}
    for place, own in enumerate(held):
        load = random.choice([one for one in _LOADS[board] if one[: len(own)] == own])
        node = place // (GPUS_PER_HOST // 2)
        if load == _LOADS[board][0] and not own and board != "H100XM":
            whole[node] = whole.get(node, 0) + 1
            continue
        for size in load[len(own) :]:
            yield _Vm(number, board, (size,), random.choice(_MEMORY_GIB), node=node)
    for node, count in whole.items():
        one = _LOADS[board][0]
        joined = random.choice([1, 2]) if count > 1 else 1
        yield _Vm(number, board, one * joined, 48 * joined, node=node)
        for _ in range(count - joined):
            yield _Vm(number, board, one, random.choice(_MEMORY_GIB[2:]), node=node)


def _profile(board: str, size: str) -> str:
    return f"{'grid' if board == 'A100D' else 'nvidia'}_{board.lower()}-{size}c"


def _instance(
    boards: Sequence[str], held: Sequence[Sequence[tuple[str, ...]]], vms: list[_Vm], random: Random
) -> Instance:
    used = [0] * len(boards)
    for vm in vms:
        used[vm.host] += vm.memory_gib
    rows = {
        f"h{number:04d}": {
            "gpus": [
                {"board": board, "pci": f"0000:{0x10 + place:02x}:00.0", "node": place // 4, **_BOARDS[board]}
                for place in range(GPUS_PER_HOST)
            ],
            "cores": 128,
            "node_gib": max(64, int(used[number] / 2 / 0.95 / random.choice([0.88, 0.92, 0.97])) + 1),
        }
        for number, board in enumerate(boards)
    }
    observed, catalog = make_inventory({"hosts": rows}), load_catalog()
    reader = CapacityReader(observed, catalog)
    states = [HostState.of(number, reader.read(host)) for number, host in enumerate(observed.hosts)]
    for state, gpus, board in zip(states, held, boards, strict=True):
        for gpu, own in zip(state.gpus, gpus, strict=True):
            for size in own:
                gpu.take(next(iter(needs_of(_profile(board, size), catalog).values())), "stranger")
    random.shuffle(vms)
    demands = []
    for number, vm in enumerate(vms):
        need = next(iter(needs_of(_profile(vm.board, vm.sizes[0]), catalog).values()))
        reached = [(index, 0) for index in range(len(boards)) if vm.store in (None, *_STORES[index // 3 % 3])]
        shape = Shape(
            tuple(reached),
            ((need,) * len(vm.sizes),),
            cpus=2 * len(vm.sizes),
            memory_mib=vm.memory_gib * _GIB,
            numa=NumaPolicy.FOLLOW_GPU if vm.node is None else NumaPolicy.NODE,
            numa_nodes=() if vm.node is None else (vm.node,),
            spread=Spread.HOSTS if vm.line else None,
            line=vm.line,
        )
        demands.append(Demand(f"vm-{number:05d}", vm.line, shape))
    return Instance(states, demands)


def check(made: Instance, found: Placed) -> list[str]:
    """Return what is wrong with a placement, by the boards' rules alone; empty where nothing is."""
    wrong = []
    by_host: dict[int, list[Demand]] = {}
    for demand in made.demands:
        fit = found.fits.get(demand.vm)
        if fit is None or demand.vm in found.failed:
            continue
        by_host.setdefault(fit.host, []).append(demand)
        if fit.host not in dict(demand.shape.hosts) or fit.variant not in demand.shape.variants:
            wrong.append(f"{demand.vm}: not on that host")
    for index, demands in by_host.items():
        host = made.hosts[index]
        lines = Counter(one.line for one in demands if one.line)
        if any(count > 1 for count in lines.values()):
            wrong.append(f"{host.host.name}: two VMs of a line")
        if sum(one.shape.memory_mib for one in demands) > host.host.memory_mib * 0.95:
            wrong.append(f"{host.host.name}: too much memory")
        loads = [[one.need.name for one in gpu.held if one.need] for gpu in host.gpus]
        for demand in demands:
            fit = found.fits[demand.vm]
            for need, place in zip(fit.variant, fit.gpus, strict=True):
                loads[place].append(need.name)
        for gpu, load in zip(host.gpus, loads, strict=True):
            if not _holds(gpu.board_key or "", load, [one.start for one in gpu.held]):
                wrong.append(f"{host.host.name}: {gpu.pci_id} cannot hold {', '.join(load)}")
    return wrong


def _holds(board: str, names: Sequence[str], fixed: Sequence[int | None]) -> bool:
    """Whether one GPU of a board holds vGPUs of these profiles; the first ones have their places already."""
    if any(not name.split("_")[1].startswith(f"{board.lower()}-") for name in names):
        return False
    sizes = [name.split("-", 1)[1].rstrip("c") for name in names]
    if board == "H100XM":
        ways = product(*(_SLICES[one.split("-")[0]][1] for one in sizes[len(fixed) :]))
        compute = sum(int(one.split("-")[0]) for one in sizes)
        return compute <= 7 and any(_are_apart(sizes, [*fixed, *way]) for way in ways)
    memory = 48 if board == "L40S" else 80
    if board != "L40S" and len(set(sizes)) > 1:
        return False
    return sum(map(int, sizes)) <= memory and (board != "L40S" or sizes.count("16") <= 2)


def _are_apart(sizes: Sequence[str], starts: Sequence[int | None]) -> bool:
    taken = [
        slice_
        for size, start in zip(sizes, starts, strict=True)
        for slice_ in range(start or 0, (start or 0) + _SLICES[size.split("-")[0]][0])
    ]
    return len(taken) == len(set(taken))
