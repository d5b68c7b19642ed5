"""Which profiles and boards could train a model, how its work is divided among them, and how fast.

Belief: size-formulas, size-peaks-recalled, size-boards-quoted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import ceil

from vgpu_cfg.catalog import Architecture, Board, ProfileEntry
from vgpu_cfg.catalog.servers import BoardPower, Server
from vgpu_cfg.planning.sizing.standing import MEMORY_BY_FRAMEBUFFER, Model, Precision, RoomSheet, room_of

USABLE = 0.9
"""The share of a framebuffer that is planned with, a rule of thumb: CUDA and fragments have the rest."""

_LEAST_UTILISATION, _MOST_UTILISATION = 0.213, 0.462
"""Model FLOP/s by peak that large runs had: GPT-3's and PaLM's (arXiv 2204.02311, table 3)."""

_WITH_FP8: tuple[Architecture, ...] = ("Ada", "Hopper", "Blackwell")
"""Tensor cores with FP8, at twice the dense peak of 16 bits (datasheets of L40S, H100, and B200)."""

_MIB = 1024 * 1024


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
