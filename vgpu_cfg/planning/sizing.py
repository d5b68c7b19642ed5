"""Estimate a model's training: memory, GPUs and boards that could be used, time, and the room of servers.

Belief: size-formulas, size-peaks-recalled, size-boards-quoted.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import cbrt, ceil

from vgpu_cfg.catalog import Architecture, Board, Catalog, ProfileEntry
from vgpu_cfg.catalog.servers import BoardPower, GpuForm, Server
from vgpu_cfg.model.observed.inventory import Gpu, Host


class Precision(StrEnum):
    """The format of weights and gradients while they are computed with."""

    BF16 = "bf16"
    FP16 = "fp16"
    FP32 = "fp32"
    FP8 = "fp8"
    """As Transformer Engine does by default: states in BF16, and two copies of the weights in 8 bits."""


class Sharding(StrEnum):
    """Which states replicas share instead of keeping copies (ZeRO, arXiv 1910.02054, section 5)."""

    NONE = "none"
    ZERO1 = "zero1"
    """The optimizer's values."""
    ZERO2 = "zero2"
    """Gradients as well."""
    ZERO3 = "zero3"
    """Weights as well."""
    FSDP = "fsdp"
    """ZERO3 by PyTorch's name (FULL_SHARD)."""


_SHARES_GRADIENTS = (Sharding.ZERO2, Sharding.ZERO3, Sharding.FSDP)
_SHARES_WEIGHTS = (Sharding.ZERO3, Sharding.FSDP)


class Optimizer(StrEnum):
    """The state kept for each parameter between steps."""

    ADAMW = "adamw"
    MOMENTUM = "momentum"
    SGD = "sgd"


_OPTIMIZER_VALUES = {Optimizer.ADAMW: 2, Optimizer.MOMENTUM: 1, Optimizer.SGD: 0}
"""Values of 4 bytes for each parameter: two moments of Adam, one of momentum."""

_HIDDEN_PER_LAYER = 128
"""The width of GPT-3's layers by their number: 12288 by 96 (arXiv 2005.14165, table 2.1)."""


@dataclass(frozen=True, slots=True)
class Model:
    """The trained model: `sequence` in tokens, `batch` in sequences of one replica in one step.

    `lora` is the rank of adapters on all linear layers; only they are trained. 0 trains all parameters.
    """

    parameters: int
    precision: Precision
    optimizer: Optimizer
    sequence: int
    batch: int
    sharding: Sharding = Sharding.NONE
    lora: int = 0

    @property
    def layers(self) -> int:
        """Layers by N = 12·L·h² (arXiv 2001.08361, section 2.1), with h = 128·L."""
        return max(1, ceil(cbrt(self.parameters / (12 * _HIDDEN_PER_LAYER**2))))

    @property
    def hidden(self) -> int:
        return _HIDDEN_PER_LAYER * self.layers

    @property
    def most_stages(self) -> int:
        """A stage has at least one layer. DeepSpeed's pipelines do not support ZeRO-2 and ZeRO-3."""
        return 1 if self.sharding in _SHARES_GRADIENTS else self.layers

    @property
    def value_bytes(self) -> int:
        return 4 if self.precision is Precision.FP32 else 2

    @property
    def trained(self) -> int:
        """The parameters with gradients: with LoRA r·(d+k) for each matrix d × k (arXiv 2106.09685).

        A layer has 4 of h × h and 2 of h × 4h: 18·h·r, with adapters on all of them as in arXiv 2305.14314.
        """
        return 18 * self.layers * self.hidden * self.lora if self.lora else self.parameters

    @property
    def gradient_bytes(self) -> int:
        """The size of one replica's gradients, which it exchanges with the others."""
        return self.trained * self.value_bytes

    @property
    def exchanged_bytes(self) -> int:
        """The bytes that go around a ring in a step: gradients are summed, then distributed.

        Shared weights are gathered twice instead: 3 times the parameters (arXiv 1910.02054, section 7).
        """
        if self.sharding in _SHARES_WEIGHTS:
            return self.gradient_bytes + 2 * self.parameters * self.value_bytes
        return 2 * self.gradient_bytes

    @property
    def flops_of_a_token(self) -> int:
        """6·N (arXiv 2001.08361, section 2.1); frozen weights have no gradients of their own: 4·N."""
        return 6 * self.trained + (4 * self.parameters if self.lora else 0)

    @property
    def state_bytes(self) -> int:
        """Weights, gradients, the optimizer's values, and in 16-bit formats a copy of the weights in 32.

        With AdamW 16 bytes a parameter: arXiv 1910.02054, section 3.1.
        """
        return round(self.state_bytes_among(1))

    def state_bytes_among(self, replicas: int) -> float:
        """Return the part of the states that one of so many replicas keeps."""
        copies = 2 if self.precision is Precision.FP8 else 0
        weights = self.parameters * (self.value_bytes + copies) + (self.gradient_bytes if self.lora else 0)
        copy = 0 if self.precision is Precision.FP32 else 4
        values = self.trained * (copy + 4 * _OPTIMIZER_VALUES[self.optimizer])
        return (
            weights / (replicas if self.sharding in _SHARES_WEIGHTS else 1)
            + self.gradient_bytes / (replicas if self.sharding in _SHARES_GRADIENTS else 1)
            + values / (replicas if self.sharding is not Sharding.NONE else 1)
        )

    @property
    def most_activation_bytes(self) -> int:
        """Activations of all layers: 34·s·b·h each in 16 bits, without attention's matrices.

        arXiv 2205.05198, equation 2, less what fused attention or selective recomputation does not
        keep (section 5). Twice as much in 32 bits, which overstates the dropout masks.
        """
        return self.layers * 17 * self.value_bytes * self._tokens_by_width

    @property
    def least_activation_bytes(self) -> int:
        """Activations where each layer is computed again: its input, 2·s·b·h, and one layer at work."""
        return (self.layers * self.value_bytes + 17 * self.value_bytes) * self._tokens_by_width

    @property
    def _tokens_by_width(self) -> int:
        return self.sequence * self.batch * self.hidden


@dataclass(frozen=True, slots=True)
class RoomSheet:
    """All servers of one model together. None is an unknown value."""

    server: str
    servers: int
    watts: int | None
    btu_per_hour: int | None
    rack_units: int | None
    power_supplies: int | None
    """One power cord each."""
    gpu_slots: int
    """PCIe slots that their GPUs take, each perhaps two wide; none where GPUs are SXM modules."""
    pcie_slots: int | None
    """PCIe slots of 16 lanes, those of GPUs included."""
    switch_ports: int | None
    """Ports of the compute network, one cable each."""
    port_gbps: int | None


BTU_PER_HOUR_BY_WATT = 3.412142
"""The International Table BTU (ISO 31-4) in an hour."""


def room_of(server: Server, gpus: int) -> RoomSheet:
    """Return what as many servers take as have at least these GPUs."""
    count = ceil(gpus / server.gpus)
    watts = _times(count, server.max_watts)
    return RoomSheet(
        server=server.key,
        servers=count,
        watts=watts,
        btu_per_hour=None if watts is None else round(watts * BTU_PER_HOUR_BY_WATT),
        rack_units=_times(count, server.rack_units),
        power_supplies=_times(count, server.power_supplies),
        gpu_slots=count * server.gpus if server.form is GpuForm.PCIE else 0,
        pcie_slots=_times(count, server.pcie_slots),
        switch_ports=_times(count, server.compute_ports),
        port_gbps=server.port_gbps,
    )


def _times(count: int, each: int | None) -> int | None:
    return None if each is None else count * each


MEMORY_BY_FRAMEBUFFER = 2
"""A server should have so many times its GPUs' framebuffer as memory, a rule of thumb."""


class Way(StrEnum):
    """The arrangement of the work on GPUs."""

    PART = "part of a GPU"
    WHOLE = "a GPU for each worker"
    NVLINK = "NVLink in one VM"
    SEVERAL_VMS = "several VMs"


@dataclass(frozen=True, slots=True)
class Bracket:
    """A number that is only known to lie between two."""

    least: float
    most: float


@dataclass(frozen=True, slots=True)
class Candidate:
    """One way to train it. A worker is a process with one GPU or vGPU.

    `data` replicas, each cut in `tensor` parts within a VM and `pipeline` stages across VMs; their product is
    the workers. None is unknown, or does not follow from a framebuffer alone.
    """

    way: Way
    board: str
    profile: str
    framebuffer_mib: int
    data: int
    tensor: int
    pipeline: int
    gpus: int
    memory_mib: int
    """The memory that servers should have for these GPUs: twice their framebuffer, a rule of thumb."""
    boards_watts: int | None
    """The GPUs' maximum power, without the servers around them."""
    recomputes: bool
    """Whether it fits only where activations are computed again."""
    step_seconds: Bracket | None
    nic_gbps: Bracket | None
    """Each worker's sending rate during a step, in the slowest step and in the fastest."""
    rooms: tuple[RoomSheet, ...]


USABLE = 0.9
"""The share of a framebuffer that is planned with, a rule of thumb: CUDA and fragments have the rest."""

_LEAST_UTILISATION, _MOST_UTILISATION = 0.213, 0.462
"""Model FLOP/s by peak that large runs had: GPT-3's and PaLM's (arXiv 2204.02311, table 3)."""

_WITH_FP8: tuple[Architecture, ...] = ("Ada", "Hopper", "Blackwell")
"""Tensor cores with FP8, at twice the dense peak of 16 bits (datasheets of L40S, H100, and B200)."""

_MIB = 1024 * 1024


def size_model(
    model: Model,
    workers: int,
    boards: Iterable[Board],
    power: Mapping[str, BoardPower],
    servers: Sequence[Server],
) -> list[Candidate]:
    """List the ways to train a model with so many workers, the fewest GPUs first, then the fastest."""
    found = [way for board in boards for way in _ways(model, workers, board, power.get(board.key), servers)]
    return sorted(found, key=_order)


def size_framebuffer(
    needed_mib: int,
    workers: int,
    boards: Iterable[Board],
    power: Mapping[str, BoardPower],
    servers: Sequence[Server],
) -> list[Candidate]:
    """List what gives each worker this framebuffer: of each board the smallest profile."""
    entries = [entry for board in boards if (entry := _smallest(board, needed_mib)) is not None]
    found = [
        _candidate(None, entry, (workers, 1, 1), power.get(entry.board.key), servers, recomputes=False)
        for entry in entries
    ]
    return sorted(found, key=_order)


def _order(found: Candidate) -> tuple[int, float, int, str]:
    fastest = found.step_seconds.least / found.data if found.step_seconds else float("inf")
    return found.gpus, fastest, found.framebuffer_mib, found.board


def _ways(
    model: Model, workers: int, board: Board, power: BoardPower | None, servers: Sequence[Server]
) -> Iterator[Candidate]:
    if model.precision is Precision.FP8 and board.architecture not in _WITH_FP8:
        return
    seen = set()
    for activations, recomputes in (
        (model.most_activation_bytes, False),
        (model.least_activation_bytes, True),
    ):
        entry = _smallest(board, ceil((model.state_bytes_among(workers) + activations) / USABLE / _MIB))
        ranks: tuple[int, int, int] | None = (workers, 1, 1)
        if entry is None and board.is_esxi and board.profiles:
            entry, ranks = _whole(board), _cut(model, activations, workers, board)
        if entry is not None and ranks is not None and (entry.name, ranks) not in seen:
            seen.add((entry.name, ranks))
            yield _candidate(model, entry, ranks, power, servers, recomputes=recomputes)


def _cut(model: Model, activations: int, workers: int, board: Board) -> tuple[int, int, int] | None:
    """Return data, tensor and pipeline ranks for whole GPUs; None if no way to cut the workers fits.

    Every division into equal replicas is tried: the fewest stages first, since stages wait for each other,
    then the fewest GPUs per replica. Tensor ranks share states and, with sequence parallelism, activations
    (arXiv 2205.05198, equation 4). Stages share states alone: the first one keeps the activations of as many
    micro-batches as there are stages (section 4.2.3).
    """
    usable = USABLE * board.framebuffer_mib * _MIB
    for pipeline in range(1, min(model.most_stages, workers) + 1):
        if workers % pipeline:
            continue
        for tensor in sorted({1, *board.nvlink_groups}):
            data, rest = divmod(workers // pipeline, tensor)
            if rest:
                continue
            if model.state_bytes_among(data) / (tensor * pipeline) + activations / tensor <= usable:
                return data, tensor, pipeline
    return None


def _candidate(
    model: Model | None,
    entry: ProfileEntry,
    ranks: tuple[int, int, int],
    power: BoardPower | None,
    servers: Sequence[Server],
    *,
    recomputes: bool,
) -> Candidate:
    data, tensor, pipeline = ranks
    board = entry.board
    is_whole = entry.is_full_framebuffer
    gpus = ceil(data * tensor * pipeline / (1 if is_whole else entry.max_per_gpu))
    step = _step_seconds(model, entry, ranks, power) if model is not None else None
    if pipeline > 1:
        way = Way.SEVERAL_VMS
    elif tensor > 1:
        way = Way.NVLINK
    else:
        way = Way.WHOLE if is_whole else Way.PART
    return Candidate(
        way=way,
        board=board.key,
        profile=entry.name,
        framebuffer_mib=entry.framebuffer_mib,
        data=data,
        tensor=tensor,
        pipeline=pipeline,
        gpus=gpus,
        memory_mib=MEMORY_BY_FRAMEBUFFER * gpus * board.framebuffer_mib,
        boards_watts=gpus * power.watts if power is not None else None,
        recomputes=recomputes,
        step_seconds=step,
        nic_gbps=_nic_gbps(model, ranks, step) if model is not None and step is not None else None,
        rooms=tuple(
            room_of(server, gpus)
            for server in servers
            if board.key in server.boards and (tensor == 1 or (server.nvlink and tensor <= server.gpus))
        ),
    )


def _step_seconds(
    model: Model, entry: ProfileEntry, ranks: tuple[int, int, int], power: BoardPower | None
) -> Bracket | None:
    """Bracket a step by the FLOPs of its tokens and the peak in 16 bits.

    The slowest case has all vGPUs of a GPU at work by turns, and a pipeline that waits (p-1)/m of the time
    with the m sequences of a batch as its micro-batches (arXiv 2104.04473, section 2.2.1). Recomputation adds
    a forward pass to the slowest, 2·N. FP8 doubles the peak of the fastest only.
    """
    if power is None or model.precision is Precision.FP32:
        return None
    _, tensor, pipeline = ranks
    tokens = model.sequence * model.batch / (tensor * pipeline)
    flops, again = model.flops_of_a_token * tokens, 2 * model.parameters * tokens
    peak = power.tflops * 1e12
    by_turns = entry.max_per_gpu
    if entry.mig is not None and entry.board.mig is not None:
        peak *= entry.mig.compute / entry.board.mig.compute_slices
        by_turns = entry.mig.per_instance
    waits = (model.batch + pipeline - 1) / model.batch
    return Bracket(
        flops / peak / (2 if model.precision is Precision.FP8 else 1) / _MOST_UTILISATION,
        (flops + again) / peak / _LEAST_UTILISATION * by_turns * waits,
    )


def _nic_gbps(model: Model, ranks: tuple[int, int, int], step: Bracket) -> Bracket:
    """Bracket a worker's sending rate: a ring moves (n-1)/n of the bytes.

    In Gb/s, spread over a whole step (nccl-tests, PERFORMANCE.md). Within a VM nothing goes over NICs.
    """
    data, tensor, pipeline = ranks
    bits = 8 * (data - 1) / data * model.exchanged_bytes / (tensor * pipeline)
    return Bracket(bits / step.most / 1e9, bits / step.least / 1e9)


def _smallest(board: Board, needed_mib: int) -> ProfileEntry | None:
    """Return the C type with this framebuffer of which most fit on a GPU, MIG's own slices before turns."""
    enough = [entry for entry in board.profiles if entry.framebuffer_mib >= needed_mib]
    return min(enough, key=_smallness) if board.is_esxi and enough else None


def _smallness(entry: ProfileEntry) -> tuple[int, bool, int, bool]:
    takes_it_whole = entry.max_per_gpu == 1 and not entry.is_full_framebuffer
    return -entry.max_per_gpu, takes_it_whole, entry.framebuffer_mib, entry.mig is None


def _whole(board: Board) -> ProfileEntry:
    return next(entry for entry in board.profiles if entry.is_full_framebuffer)


@dataclass(frozen=True, slots=True)
class StandingHosts:
    """Hosts of one model with the same GPUs.

    `boards` counts GPUs by name. `framebuffer_mib` is that of one host's GPUs, None where that of one is not
    known; `short_of_memory` are hosts that have less than twice as much memory, a rule of thumb.
    `boards_watts` is what all their GPUs draw at most, None where that of one is not known. `room` is None
    where no document was read for the model: nothing is guessed of it.
    """

    hosts: tuple[str, ...]
    model: str
    boards: Mapping[str, int]
    framebuffer_mib: int | None
    short_of_memory: Mapping[str, int]
    """Their memory in MiB, by name."""
    boards_watts: int | None
    room: RoomSheet | None


def standing_hosts(
    hosts: Iterable[Host], catalog: Catalog, power: Mapping[str, BoardPower], servers: Sequence[Server]
) -> tuple[StandingHosts, ...]:
    """Group hosts by model and GPUs, in the hosts' order, and say what each group takes."""
    groups: dict[tuple[str, tuple[tuple[str, int], ...]], list[Host]] = {}
    for host in hosts:
        counts = Counter(_name(gpu, catalog) for gpu in host.gpus)
        groups.setdefault((host.model, tuple(counts.items())), []).append(host)
    return tuple(_group(found, catalog, power, servers) for found in groups.values())


def _group(
    hosts: Sequence[Host], catalog: Catalog, power: Mapping[str, BoardPower], servers: Sequence[Server]
) -> StandingHosts:
    first = hosts[0]
    boards = [_board(gpu, catalog) for gpu in first.gpus]
    drawn = [power.get(board.key) if board is not None else None for board in boards]
    known = [one.watts for one in drawn if one is not None]
    framebuffer = sum(board.framebuffer_mib for board in boards if board is not None)
    is_known = all(board is not None for board in boards)
    server = next((one for one in servers if _is_model(first, one, boards)), None)
    return StandingHosts(
        hosts=tuple(host.name for host in hosts),
        model=first.model,
        boards=Counter(_name(gpu, catalog) for gpu in first.gpus),
        framebuffer_mib=framebuffer if is_known else None,
        short_of_memory={
            host.name: host.memory_mib
            for host in hosts
            if 0 < host.memory_mib < MEMORY_BY_FRAMEBUFFER * framebuffer
        },
        boards_watts=len(hosts) * sum(known) if len(known) == len(drawn) else None,
        room=None if server is None else room_of(server, len(hosts) * server.gpus),
    )


def _is_model(host: Host, server: Server, boards: Sequence[Board | None]) -> bool:
    """Whether the model's name has that of the server in it, with boards that it comes with."""
    keys = {board.key for board in boards if board is not None}
    return _plain(server.key) in _plain(host.model) and keys <= set(server.boards)


_NO_LETTER = re.compile(r"[^a-z0-9]")


def _plain(text: str) -> str:
    return _NO_LETTER.sub("", text.casefold())


def _board(gpu: Gpu, catalog: Catalog) -> Board | None:
    return catalog.of_device(gpu.pci)


def _name(gpu: Gpu, catalog: Catalog) -> str:
    board = _board(gpu, catalog)
    return gpu.name if board is None else board.name
