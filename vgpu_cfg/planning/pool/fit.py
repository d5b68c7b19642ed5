"""The number of further VMs of a shape that fit, host by host, and the obstacles to one more.

Copies are put on each host until there is no place. Obstacles are given in few words: similar GPUs are
combined.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from vgpu_cfg.model.observed.inventory import Host
from vgpu_cfg.model.wording import counted, gib, listed, node_list, whole_gib
from vgpu_cfg.planning.capacity.gpu_state import GpuState, VgpuNeed
from vgpu_cfg.planning.capacity.topology import has_group_api
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.placement.demand import Demand, Shape, Variant
from vgpu_cfg.planning.placement.host_state import HostState
from vgpu_cfg.planning.remedies.advice import REMEDIES, closeness, lift_cordons
from vgpu_cfg.planning.remedies.refusals import boards_text

_STATES = {
    Code.GPU_IN_MIG_MODE: "in MIG mode",
    Code.GPU_NOT_IN_MIG_MODE: "not in MIG mode",
    Code.GPU_IN_PASSTHROUGH: "passed through",
    Code.NOT_SHARED_DIRECT: "not set to graphics type sharedDirect",
    Code.NO_HOST_DRIVER: "not supported by the host driver",
    Code.HOLDER_UNKNOWN: "in use, details unknown",
}
"""How GPUs are that refuse whatever is asked of them."""

COPY = "one more"
"""The name of a VM that is put on a host to count."""


@dataclass(frozen=True, slots=True)
class Limit:
    """A reason why no more fit. `gpus` counts the GPUs concerned, 0 if it is about the host.

    `vms` are the obstacles, as far as they are VMs.
    """

    code: Code
    text: str
    gpus: int = 0
    vms: tuple[str, ...] = ()


@dataclass(slots=True)
class _Refused:
    gpus: list[GpuState] = field(default_factory=list)
    need: VgpuNeed | None = None


_Groups: TypeAlias = dict[tuple[Code, bool], _Refused]
"""GPUs that refuse, by the reason and by whether room is left next to VMs that run already."""


def find_limits(host: HostState, shape: Shape) -> tuple[Limit, ...]:
    """Say why a host takes no more such VM, the reason closest to a place first; empty where it takes one."""
    if (lifted := lift_cordons(host, shape)) is not None:
        return (Limit(lifted.code, lifted.text),)
    if host.host.cordons:
        host = host.uncordoned()
    code = host.refuse_host(shape)
    if code is not None:
        return (Limit(code, _host_text(code, host, shape)),)
    code = host.refuse_slots(shape)
    if code is not None:
        return (_device_limit(code, host),)
    refused: _Groups = {}
    short: list[Limit] = []
    for variant in shape.variants:
        code = host.refuse_variant(variant)
        if code is not None and code is not Code.PROFILE_NOT_OFFERED:
            short.append(Limit(code, _variant_text(code, host, variant)))
            continue
        peers = sum(need.peers is not None for need in variant)
        if peers and has_group_api(host.host) and _has_board(host, variant) and host.fit(shape) is None:
            words = f"no set of {peers} NVLink-connected GPUs is fully idle"
            short.append(Limit(Code.NVLINK_GROUP_BROKEN, words))
        _collect(host, shape, variant, refused, short)
        if code is not None and not refused and _has_board(host, variant):
            short.append(Limit(code, f"its driver does not support {_names(variant)}"))
    found = [*short, *(_limit(code, one) for (code, _), one in refused.items())]
    found.sort(key=lambda limit: -closeness(limit.code))
    return tuple(dict.fromkeys(found)) or tuple(_others(host, shape))


def _has_board(host: HostState, variant: Variant) -> bool:
    return any(gpu.board_key == need.board_key for gpu in host.gpus for need in variant)


def _collect(
    host: HostState,
    shape: Shape,
    variant: Variant,
    refused: dict[tuple[Code, bool], _Refused],
    short: list[Limit],
) -> None:
    """Group the GPUs by their answer to the profiles of one way to give the VM its vGPUs."""
    for need in dict.fromkeys(variant):
        room = 0
        for gpu in host.gpus:
            code = host.refuse_gpu(gpu, need, shape)
            if code is None:
                room += gpu.room(need)
            elif code is not Code.NO_SUCH_BOARD:
                is_partly_used = code is Code.GPU_FULL and _has_others_and_room(gpu)
                group = refused.setdefault((code, is_partly_used), _Refused(need=need))
                if all(gpu is not other for other in group.gpus):
                    group.gpus.append(gpu)
        if 0 < room < variant.count(need):
            words = f"capacity for only {room} of the {variant.count(need)} {need.name} that a VM needs"
            short.append(Limit(Code.GPU_FULL, words))


def _others(host: HostState, shape: Shape) -> Iterator[Limit]:
    """Yield the reason where no single GPU refuses: no such board, or not all vGPUs of a VM at once."""
    if not shape.variants or host.fit(shape) is not None:
        return
    if not any(_has_board(host, variant) for variant in shape.variants):
        yield Limit(Code.NO_SUCH_BOARD, boards_text(host))
    else:
        yield Limit(Code.GPU_FULL, "no set of GPUs can run all vGPUs of a VM")


def _limit(code: Code, refused: _Refused) -> Limit:
    count = len(refused.gpus)
    held = {one.vm: None for gpu in refused.gpus for one in gpu.held if not one.is_planned}
    vms = tuple(held)
    return Limit(code, _gpu_text(code, refused, counted(count, "GPU"), vms), count, vms)


def _gpu_text(code: Code, refused: _Refused, gpus: str, vms: Sequence[str]) -> str:
    verb = "is" if len(refused.gpus) == 1 else "are"
    name = refused.need.name if refused.need else ""
    match code:
        case Code.SAME_SIZE_LOCK:
            sizes = sorted({gpu.locked_size_gb for gpu in refused.gpus if gpu.locked_size_gb is not None})
            by = listed(vms) if vms else "planned VMs"
            locks = "locks" if len(vms) == 1 else "lock"
            return f"{by} {locks} {gpus} to {' and '.join(str(size) for size in sizes)} GB"
        case Code.GPU_FULL:
            if all(_has_others_and_room(gpu) for gpu in refused.gpus):
                return f"{gpus} with too little memory ({listed(vms)})"
            is_full_now = all(not held.is_planned for gpu in refused.gpus for held in gpu.held)
            return f"{gpus} full" if is_full_now else f"memory of {gpus}"
        case Code.MIXED_SIZE_NO_ROOM:
            size = refused.need.size_gb if refused.need else 0
            return f"{gpus} without a valid position for {size} GB"
        case Code.NO_MIG_SLICE:
            return f"{gpus} without free slices at a valid position for {name}"
        case Code.MIXED_SIZE_NOT_SUPPORTED:
            return f"{gpus} in mixed-size mode, which is not documented for {name}"
        case Code.CLASSES_CANNOT_SHARE:
            return f"{gpus} running another vGPU series ({listed(vms)})"
        case Code.NOT_CREATABLE_NOW:
            return f"vCenter reports that {name} cannot be created now"
        case Code.SPREAD_IMPOSSIBLE:
            return f"{gpus} {verb} used by a VM from this item"
        case _:
            return f"{gpus} {_STATES[code]}" if code in _STATES else f"{gpus}: {code.summary}"


def _has_others_and_room(gpu: GpuState) -> bool:
    """Whether only VMs that run already are on it, and room is left next to them."""
    return bool(gpu.free_framebuffer_mib) and all(not held.is_planned for held in gpu.held)


def _host_text(code: Code, host: HostState, shape: Shape) -> str:
    match code:
        case Code.HOST_MEMORY:
            return (
                f"only {whole_gib(host.free_mib)} of memory can be reserved, but "
                f"{gib(shape.memory_mib)} is required"
            )
        case Code.HOST_CPUS:
            return f"has {host.threads} threads, but {shape.cpus} CPUs are required"
        case Code.NUMA_NODE_ABSENT:
            return f"has no NUMA node {node_list(shape.numa_nodes)}"
        case Code.SPREAD_IMPOSSIBLE:
            most = "one VM" if shape.most_per_host <= 1 else f"{shape.most_per_host} VMs"
            return f"at most {most} of this item per host"
        case _:
            return code.summary


def _variant_text(code: Code, host: HostState, variant: Variant) -> str:
    match code:
        case Code.PROFILE_NEEDS_NEWER_ESXI:
            least = next((need.min_esxi for need in variant if need.min_esxi), "")
            return f"runs ESXi {host.host.version}; {_names(variant)} requires {least}"
        case Code.MULTI_VGPU_NEEDS_FULL:
            return f"vSphere {host.host.version} supports multiple vGPUs per VM only with full framebuffer"
        case Code.TOO_MANY_VGPUS:
            return f"allows fewer than {len(variant)} vGPUs per VM"
        case _:
            return code.summary


def _names(variant: Variant) -> str:
    return " and ".join(dict.fromkeys(need.name for need in variant))


def _device_limit(code: Code, host: HostState) -> Limit:
    vms = tuple(vm for vm in dict.fromkeys(host.holders.values()) if vm != COPY)
    if code is not Code.PASSTHROUGH_TAKEN:
        return Limit(code, code.summary)
    return Limit(code, f"all matching devices in use{(f' ({listed(vms)})' if vms else '')}", vms=vms)


MOST_COPIES = 10_000
"""The limit of one host's count; nothing real comes near it."""
_MADE_BY_VMS = (Code.SAME_SIZE_LOCK, Code.GPU_FULL, Code.MIXED_SIZE_NO_ROOM, Code.NO_MIG_SLICE)


@dataclass(frozen=True, slots=True)
class Gain:
    """How many more would fit on a host without a VM that keeps GPUs from others with little.

    It is alone on them, has less than half of each, and they have no room for the requested profile.
    """

    vm: str
    more: int


@dataclass(frozen=True, slots=True)
class HostFit:
    """How many fit on one host, and why no more.

    `numa_tight` counts those that get a place on NUMA nodes promised to others, or too small. `profiles`
    counts the vGPUs of each profile that they would get.
    """

    host: Host
    count: int
    limits: tuple[Limit, ...] = ()
    gains: tuple[Gain, ...] = ()
    numa_tight: int = 0
    profiles: tuple[tuple[str, int], ...] = ()


def fit_on(state: HostState, shape: Shape) -> HostFit:
    """Count the copies that fit on one host; `state` stays unchanged."""
    trial = state.copy()
    count, tight, profiles = _fill(trial, shape)
    limits = find_limits(trial, shape)
    gains = _gains(state, shape, count, limits)
    return HostFit(state.host, count, limits, gains, tight, tuple(profiles.items()))


def how_many(states: Sequence[HostState], shape: Shape) -> tuple[HostFit, ...]:
    """Count on every host that is in question for the shape, in the order of its clusters.

    Of idle hosts as many as the shape asks for stay free, those that take the fewest.
    """
    found = [fit_on(states[index], shape) for index, _ in shape.hosts]
    idle = [place for place, (index, _) in enumerate(shape.hosts) if not states[index].is_in_use]
    kept = shape.keep_free - sum(found[place].count == 0 for place in idle) if shape.has_gpus else 0
    for place in sorted((place for place in idle if found[place].count), key=lambda one: found[one].count):
        if kept > 0:
            limit = Limit(Code.SPREAD_IMPOSSIBLE, f"one of {shape.keep_free} hosts kept free")
            found[place] = replace(
                found[place], count=0, limits=(limit,), gains=(), numa_tight=0, profiles=()
            )
            kept -= 1
    if 0 < shape.max_hosts < len(found):
        ranks = [rank for _, rank in shape.hosts]
        best = sorted(
            range(len(found)), key=lambda one: (not found[one].count, ranks[one], -found[one].count)
        )
        limit = Limit(Code.SPREAD_IMPOSSIBLE, f"the item may use only {counted(shape.max_hosts, 'host')}")
        for place in best[shape.max_hosts :]:
            found[place] = replace(
                found[place], count=0, limits=(limit,), gains=(), numa_tight=0, profiles=()
            )
    return tuple(found)


def next_step(fits: Sequence[HostFit]) -> str:
    """Return the step that makes room if nothing fits: the obstacle closest to a place, and its remedy."""
    if any(fit.count for fit in fits):
        return ""
    closest = max(
        ((limit, fit) for fit in fits for limit in fit.limits[:1]),
        key=lambda pair: (bool(pair[1].gains), closeness(pair[0].code), pair[0].gpus),
        default=None,
    )
    if closest is None:
        return "no eligible host"
    limit, fit = closest
    steps = [f"without {gain.vm}, {gain.more} more would fit" for gain in fit.gains[:1]]
    steps += [f"or {remedy}" if steps else remedy] if (remedy := REMEDIES.get(limit.code, "")) else []
    return "; ".join([f"nothing fits: {limit.text} ({fit.host.name})", *steps])


def _fill(trial: HostState, shape: Shape) -> tuple[int, int, Counter[str]]:
    """Put copies on a host until it has no place.

    Return how many, how many of them are tight, and their vGPUs by profile.
    """
    count = tight = 0
    profiles = Counter[str]()
    while count < MOST_COPIES and (found := trial.fit(shape)) is not None:
        trial.commit(Demand(COPY, shape.line, shape), found)
        tight += found.numa_level > 0
        count += 1
        profiles.update(need.name for need in found.variant)
    return count, tight, profiles


def _gains(state: HostState, shape: Shape, count: int, limits: Sequence[Limit]) -> tuple[Gain, ...]:
    """Try the host without each such VM; memory aside."""
    if not any(limit.code in _MADE_BY_VMS for limit in limits):
        return ()
    requested = {need for variant in shape.variants for need in variant}
    alone: dict[str, list[int]] = {}
    for index, gpu in enumerate(state.gpus):
        vms = {held.vm for held in gpu.held}
        has_little = gpu.board and 2 * gpu.free_framebuffer_mib > gpu.board.framebuffer_mib
        if len(vms) == 1 and has_little and all(gpu.refuse(need) for need in requested):
            alone.setdefault(vms.pop(), []).append(index)
    gains = []
    for vm, indexes in alone.items():
        without = state.copy()
        without.creatable = None
        for index in indexes:
            without.gpus[index].held = []
        more = _fill(without, shape)[0] - count
        if more > 0:
            gains.append(Gain(vm, more))
    return tuple(sorted(gains, key=lambda gain: (-gain.more, gain.vm)))
