"""VMs without a place: which host or GPU refuses, what holds it, and the remedy; like VMs share a reason."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

from vgpu_cfg.changes.plan import Hindrance
from vgpu_cfg.model.plan_values import Spread
from vgpu_cfg.model.ranges import fold_names
from vgpu_cfg.model.wording import as_counted, counted, gib, listed, node_list, whole_gib
from vgpu_cfg.planning.capacity.gpu_state import GpuState, Held, VgpuNeed, lacks_functions
from vgpu_cfg.planning.capacity.host_capacity import Claim, is_match
from vgpu_cfg.planning.capacity.nic_needs import host_functions
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.findings.collection import Findings
from vgpu_cfg.planning.host_settings.gpus.driver import driver_version
from vgpu_cfg.planning.placement.candidates import Ranked
from vgpu_cfg.planning.placement.demand import Shape, counted_names
from vgpu_cfg.planning.placement.host_state import HostState
from vgpu_cfg.planning.placement.patterns import ShapeFits, SharedFits
from vgpu_cfg.planning.placement.place import NoPlace, Placed
from vgpu_cfg.planning.remedies.advice import REMEDIES, closeness, lift_cordons
from vgpu_cfg.planning.vms.checks.nic_checks import explain_nics
from vgpu_cfg.planning.vms.lookup.baseline import Baseline
from vgpu_cfg.planning.vms.lookup.moving import why_tied
from vgpu_cfg.planning.vms.lookup.resolved_vm import ResolvedVm

_MOST_GPUS = 4
"""The most refusals of GPUs in a report on one host."""
_MOST_NAMES = 3
"""Of more profiles that a VM could have, only the first is named."""
_MOST_ROWS = 12
_STATES = {
    Code.GPU_IN_MIG_MODE: "is in MIG mode",
    Code.GPU_IN_PASSTHROUGH: "is in passthrough mode",
    Code.NOT_SHARED_DIRECT: "has a graphics type other than sharedDirect",
    Code.NO_HOST_DRIVER: "is not controlled by NVIDIA's host driver",
}
"""How a GPU is that refuses whatever is asked of it."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """The finding that a failed placement becomes."""

    code: Code
    message: str
    remedy: str
    hindrances: tuple[Hindrance, ...]


@dataclass(slots=True)
class _HostRefusal:
    host: str
    codes: list[Code] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    note: str = ""
    remedy: str = ""

    @property
    def code(self) -> Code:
        return max(self.codes, key=closeness, default=Code.NO_SUCH_BOARD)

    def add(self, code: Code, text: str) -> None:
        self.codes.append(code)
        self.texts.append(text)

    def reasons(self) -> list[str]:
        texts = list(dict.fromkeys(self.texts))
        rest = len(texts) - _MOST_GPUS
        more = [f"and {counted(rest, 'more reason')}"] if rest > 0 else []
        return [*texts[:_MOST_GPUS], *more, *([self.note] if self.note else [])]

    def drop_strange_boards(self) -> None:
        """Of a list of profiles, leave out those of other boards where one is of the host's own."""
        close = [
            pair for pair in zip(self.codes, self.texts, strict=True) if pair[0] is not Code.NO_SUCH_BOARD
        ]
        if close:
            self.codes, self.texts = [code for code, _ in close], [text for _, text in close]


def explain_refusal(
    hosts: Sequence[HostState], shape: Shape, claims: Mapping[int, Sequence[Claim]]
) -> Refusal:
    """Return why such a VM has no place on these hosts in their present state.

    `claims` are, per host index, other VMs that are off.
    """
    found = [_refusal_of(hosts[index], shape, claims.get(index, ())) for index, _ in shape.hosts]
    found.sort(key=lambda one: -closeness(one.code))
    found += [_HostRefusal(host, texts=[reason]) for host, reason in shape.unfit]
    code = found[0].code if found else Code.NO_SUCH_BOARD
    message = f"{wanted_text(shape)} cannot be placed"
    remedy = next((one.remedy for one in found if one.code is code and one.remedy), REMEDIES.get(code, ""))
    if code is Code.SAME_SIZE_LOCK and any(gpu.is_set_to_mixed for host in hosts for gpu in host.gpus):
        remedy = "use the size that already runs on the GPU, or free a GPU that is set to mixed-size mode"
    return Refusal(code, message, remedy, _hindrances(found))


def _hindrances(found: Sequence[_HostRefusal]) -> tuple[Hindrance, ...]:
    """Return every host's reasons, those of the closest first; hosts with the same reasons share them."""
    alike: dict[tuple[str, ...], list[str]] = {}
    for one in found:
        alike.setdefault(tuple(one.reasons()), []).append(one.host)
    shown: list[Hindrance] = []
    left = len(found)
    for reasons, hosts in alike.items():
        if len(shown) >= _MOST_ROWS:
            break
        subject = _folded(tuple(hosts))
        shown += [Hindrance(subject=subject, reason=reason) for reason in reasons]
        left -= len(hosts)
    if left:
        shown.append(Hindrance(subject=counted(left, "more host"), reason="also unsuitable"))
    return tuple(shown)


@lru_cache(maxsize=64)
def _folded(hosts: tuple[str, ...]) -> str:
    """Write hosts in runs, each lot once: the same ones refuse VMs of many shapes."""
    return fold_names(sorted(hosts, key=as_counted))


def wanted_text(shape: Shape) -> str:
    """Name a VM's request: its GPUs, or its memory."""
    words = []
    if shape.variants:
        choices = list(dict.fromkeys(counted_names(variant) for variant in shape.variants))
        rest = len(choices) - 1 if len(choices) > _MOST_NAMES else 0
        shown = [choices[0], counted(rest, "other profile")] if rest else choices
        words.append(" or ".join(shown))
    words += [f"the device at {pci_id}" for pci_id in shape.fixed]
    words += [f"a device with {need}" for need in dict.fromkeys(shape.dynamic)]
    words += [
        str(need) if shape.nics.count(need) == 1 else f"{shape.nics.count(need)} × {need}"
        for need in dict.fromkeys(shape.nics)
    ]
    return " and ".join(words) or f"a VM with {gib(shape.memory_mib)} of memory"


def _refusal_of(host: HostState, shape: Shape, claims: Sequence[Claim]) -> _HostRefusal:
    found = _HostRefusal(host.host.name)
    if (lifted := lift_cordons(host, shape)) is not None:
        found.add(lifted.code, lifted.text)
        found.remedy = f"wait until it is uncordoned, or uncordon it: `{lifted.command}`"
        return found
    if host.host.cordons:
        host = host.uncordoned()
    code = host.refuse_host(shape)
    if code is not None:
        found.add(code, _host_text(code, host, shape))
        return found
    _assess_nics(found, host, shape, ())
    if found.codes:
        return found
    code = host.refuse_slots(shape)
    if code is not None:
        found.add(code, _slot_text(code, host, shape))
        return found
    for variant in shape.variants:
        code = host.refuse_variant(variant)
        if code not in (None, Code.PROFILE_NOT_OFFERED):
            found.add(code, _variant_text(code, host, variant))
            continue
        reported = len(found.codes)
        for need in dict.fromkeys(variant):
            if host.is_grouped(need):
                _assess_peers(found, host, need, [one for one in variant if one.peers == need.peers])
                continue
            _assess_gpus(found, host, need, shape, variant.count(need))
        if code is not None and len(found.codes) == reported:
            found.add(code, _variant_text(code, host, variant))
    found.drop_strange_boards()
    if not found.codes:
        _assess_nics(found, host, shape, _possible_nodes(host, shape))
    if not found.codes:
        _assess_preferences(found, host, shape)
    if found.codes and claims:
        off = [f"{claim.vm} ({claim.profile})" for claim in claims]
        found.note = f"powered off, so not currently blocking: {listed(off)}"
    return found


def _assess_preferences(found: _HostRefusal, host: HostState, shape: Shape) -> None:
    """Report the places that `place` excludes for the VM, if the host has room for it."""
    if shape.has_gpus and not host.is_in_use and host.fit(shape) is not None:
        found.add(Code.SPREAD_IMPOSSIBLE, "has no GPU VMs, and `keep_free` keeps it free")
    elif shape.spread is Spread.NUMA and shape.must and host.fit(shape) is None:
        text = "every NUMA node with enough capacity already has a VM from this item"
        found.add(Code.SPREAD_IMPOSSIBLE, text)


def _assess_gpus(found: _HostRefusal, host: HostState, need: VgpuNeed, shape: Shape, count: int) -> None:
    room = 0
    refused: list[tuple[Code, str, str]] = []
    for gpu in host.gpus:
        code = host.refuse_gpu(gpu, need, shape)
        if code is None:
            room += gpu.room(need)
        elif code is not Code.NO_SUCH_BOARD:
            why, remedy = _cause_of(code, gpu, host)
            refused.append((code, f"{gpu.pci_id} {_gpu_text(code, gpu, host, need)}{why}", remedy))
    if room >= count:
        return
    if room:
        found.add(Code.GPU_FULL, f"capacity for {room} of the {count} × {need.name} that a VM needs")
    for code, text, remedy in refused:
        found.add(code, text)
        found.remedy = found.remedy or remedy
    if not room and not refused:
        found.add(Code.NO_SUCH_BOARD, boards_text(host))


def boards_text(host: HostState) -> str:
    """Name the boards that a host has."""
    boards = sorted({gpu.board.name if gpu.board else "an unknown board" for gpu in host.gpus})
    return f"has {' and '.join(boards)}" if boards else "has no GPU"


def _assess_peers(found: _HostRefusal, host: HostState, need: VgpuNeed, members: Sequence[VgpuNeed]) -> None:
    if host.groups_of(tuple(members)) is None or host.free_sets(need, len(members), host.gpus):
        return
    sets = [one for one in host.capacity.peer_sets if len(one) == len(members)]
    holders: dict[tuple[str, bool], set[str]] = {}
    for index, gpu in enumerate(host.gpus):
        for held in gpu.held if any(index in one for one in sets) else ():
            holders.setdefault((held.vm, held.is_planned), set()).add(gpu.pci_id)
    words = (
        f"{vm} {'will use' if is_planned else 'uses'} {counted(len(gpus), 'GPU')}"
        for (vm, is_planned), gpus in holders.items()
    )
    why = f": {listed(words, shown=6)}" if holders else ": none of them are available for vGPUs"
    found.add(Code.NVLINK_GROUP_BROKEN, f"no set of {len(members)} NVLink-connected GPUs is free{why}")


def _gpu_text(code: Code, gpu: GpuState, host: HostState, need: VgpuNeed) -> str:
    holders = _holder_text(gpu.held)
    match code:
        case Code.NOT_CREATABLE_NOW:
            return (
                f"cannot create {need.name} now, according to vCenter{(f' ({holders})' if holders else '')}"
            )
        case Code.GPU_FULL:
            is_full = all(gpu.refuse(held.need) is not None for held in gpu.held if held.need is not None)
            return f"is full ({holders})" if is_full else f"has too little free capacity ({holders})"
        case Code.SAME_SIZE_LOCK:
            return f"is in same-size mode and is running {gpu.locked_size_gb} GB vGPUs ({holders})"
        case Code.MIXED_SIZE_NO_ROOM:
            return f"has no free placement for {need.size_gb} GB ({holders})"
        case Code.MIXED_SIZE_NOT_SUPPORTED:
            return f"is in mixed-size mode, which is not documented for {need.name}"
        case Code.NO_MIG_SLICE:
            return f"has no free slices in a valid placement for {need.name} ({holders})"
        case Code.GPU_NOT_IN_MIG_MODE:
            return f"is not in MIG mode{f' ({holders})' if holders else ''}"
        case Code.CLASSES_CANNOT_SHARE:
            return f"is running another series ({holders}); ESXi {host.host.version} cannot mix series"
        case Code.HOLDER_UNKNOWN:
            return f"is in use, but vgpu-cfg could not determine how much ({holders})"
        case Code.SPREAD_IMPOSSIBLE:
            return f"already has a VM from this item ({holders})"
        case Code.NOT_SHARED_DIRECT | Code.NO_HOST_DRIVER:
            found = host.host.gpu(gpu.pci_id)
            return f"{_STATES[code]}{found.pci.mode_note if found is not None else ''}"
        case _:
            return _STATES.get(code, f"is not available ({code})")


def _cause_of(code: Code, gpu: GpuState, host: HostState) -> tuple[str, str]:
    """Return the cause of a GPU's refusal, with its remedy, as far as the host's state shows it.

    Belief: no-functions-none-creatable.
    """
    version = driver_version(host.host, host.capacity.software).partition("-")[0]
    if code is Code.NO_HOST_DRIVER and gpu.board is not None and not gpu.board.is_driven_by(version):
        needed = gpu.board.drivers_text
        why = f": version {version} does not support the {gpu.board.name}, which requires {needed}"
        return why, f"install a host driver from branch {needed}"
    if code is Code.NOT_CREATABLE_NOW and not host.creatable and lacks_functions(host.gpus):
        remedy = "enable SR-IOV in the host's BIOS (`nvidia-smi -q` on the host: Host VGPU Mode is SR-IOV)"
        return ", nor any other profile, although its GPUs are idle: SR-IOV may be disabled", remedy
    return "", ""


def _holder_text(held: Iterable[Held]) -> str:
    """Spell "4 × grid_a100-10c: a, b, c and 1 more"."""
    groups: dict[tuple[str, bool], list[str]] = {}
    for one in held:
        profile = one.need.name if one.need else "the entire GPU"
        groups.setdefault((profile, one.is_planned), []).append(one.vm)
    return "; ".join(
        f"{len(vms)} × {profile}{' planned' if is_planned else ''}: {listed(vms, shown=8)}"
        for (profile, is_planned), vms in groups.items()
    )


def _host_text(code: Code, host: HostState, shape: Shape) -> str:
    match code:
        case Code.HOST_MEMORY:
            return (
                f"only {whole_gib(host.free_mib)} of memory can still be reserved, but "
                f"{gib(shape.memory_mib)} is required"
            )
        case Code.HOST_CPUS:
            return f"has {host.threads} threads, but {shape.cpus} CPUs are required"
        case Code.NUMA_NODE_ABSENT:
            known = node_list(node.node_id for node in host.nodes)
            return f"has NUMA nodes {known or 'unknown'}, not {node_list(shape.numa_nodes)}"
        case _:
            has = "a VM" if shape.most_per_host <= 1 else counted(shape.most_per_host, "VM")
            return f"already has {has} from this item"


def _assess_nics(found: _HostRefusal, host: HostState, shape: Shape, gpu_nodes: Sequence[int | None]) -> None:
    reported = explain_nics(shape.nics, host.stock, gpu_nodes) if shape.nics else None
    if reported is not None:
        found.add(*reported)


def _possible_nodes(host: HostState, shape: Shape) -> list[int | None]:
    """Return the NUMA nodes of all GPUs that the VM could have here."""
    free = host.free_slots()
    nodes = [gpu.node for gpu in host.gpus for variant in shape.variants if gpu.refuse(variant[0]) is None]
    nodes += [slot.pci.numa_node for slot in free if slot.pci.pci_id in shape.fixed]
    return nodes + [slot.pci.numa_node for slot in free for need in shape.dynamic if is_match(slot, need)]


def _slot_text(code: Code, host: HostState, shape: Shape) -> str:
    match code:
        case Code.PASSTHROUGH_TAKEN:
            return f"in use: {listed(_taken(host, shape), shown=8)}"
        case Code.PASSTHROUGH_NOT_ACTIVE:
            return "passthrough is not enabled for it, or is pending a restart"
        case Code.PASSTHROUGH_SERVES_VGPUS:
            return f"is used for vGPUs: {'; '.join(_holder_text(gpu.held) for gpu in host.gpus if gpu.held)}"
        case Code.PASSTHROUGH_ABSENT:
            nics = [pci.pci_id for pci in host_functions(host.host) if pci.pci_id in shape.fixed]
            what = f": NICs belong under `nics` ({listed(nics)})" if nics else ""
            return f"has no GPU at that address{what}"
        case _:
            return "has no such device"


def _taken(host: HostState, shape: Shape) -> Iterator[str]:
    for pci_id, holder in host.holders.items():
        if not shape.fixed or shape.dynamic or pci_id in shape.fixed:
            yield f"{pci_id} by {holder}"


def _variant_text(code: Code, host: HostState, variant: Sequence[VgpuNeed]) -> str:
    names = counted_names(variant)
    match code:
        case Code.PROFILE_NEEDS_NEWER_ESXI:
            least = next((need.min_esxi for need in variant if need.min_esxi), "")
            return f"runs ESXi {host.host.version}, but {names} requires {least}"
        case Code.MULTI_VGPU_NEEDS_FULL:
            return f"runs vSphere {host.host.version}, where multi-vGPU VMs require full-framebuffer profiles"
        case Code.NVLINK_GROUP_ABSENT:
            offered = listed((group.name for group in host.host.device_groups), shown=6)
            return f"does not offer a device group with {names}{f', only {offered}' if offered else ''}"
        case Code.TOO_MANY_VGPUS:
            return f"allows fewer than {len(variant)} vGPUs per VM"
        case _:
            return f"does not offer {names}"


def report_failures(
    placed: Placed,
    resolved_vms: Sequence[ResolvedVm],
    baseline: Baseline,
    might_go_to: Callable[[ResolvedVm], Ranked],
    findings: Findings,
) -> None:
    """Say of every VM without a place why it has none; like VMs have the same reason.

    Of one that stays on a host without such a board, it says how it moves to one that has room for it.
    """
    refusals: dict[Shape, Refusal] = {}
    initial = SharedFits(placed.initial)
    for resolved in resolved_vms:
        failure = placed.failed.get(resolved.name)
        if failure is None:
            continue
        demand, verdict = failure
        if demand.shape not in refusals:
            refusals[demand.shape] = _refusal(initial.of(demand.shape), placed, baseline)
        refusal = refusals[demand.shape]
        is_kept = resolved.existing is not None and not resolved.changes_host
        if refusal.code is Code.NO_SUCH_BOARD and is_kept and not why_tied(resolved.base):
            others = (placed.hosts[index] for index, _ in might_go_to(resolved))
            if (other := next((one for one in others if one.fit(demand.shape)), None)) is not None:
                way = f"set `place: {{hosts: [{other.host.name}]}}`, and allow the move with --allow-move"
                remedy = "to allow the move, add --allow-move" if resolved.possible_move else way
                refusal = replace(
                    refusal, remedy=f"{remedy}; or use a profile that its host's boards support"
                )
        _report(resolved, refusal, verdict, findings)


def _refusal(initial: ShapeFits, placed: Placed, baseline: Baseline) -> Refusal:
    """Return the holders of the VM's place: other VMs if it fits nowhere anyway, else also the plan's.

    If provably more VMs could be placed than are, that is reported first.
    """
    if not initial.is_anywhere:
        return explain_refusal(placed.initial, initial.shape, baseline.claims)
    found = explain_refusal(placed.hosts, initial.shape, baseline.claims)
    is_open = len(placed.fits) < placed.most_placed
    return replace(found, message=f"{_reached(placed)}; {found.message}") if is_open else found


def _reached(placed: Placed) -> str:
    """Say how far the search came: how many VMs are placed, and how many could be as far as is proven."""
    total = len(placed.fits) + len(placed.failed)
    return (
        f"{len(placed.fits):,} of {total:,} VMs are placed; no more than {placed.most_placed:,} can be placed"
    )


def _report(resolved: ResolvedVm, refusal: Refusal, verdict: NoPlace, findings: Findings) -> None:
    if verdict is NoPlace.UNDECIDED:
        message = (
            f"no placement was found within the search limit, but one may still exist; {refusal.message}"
        )
        remedy = "split the plan, specify hosts with `place.hosts`, or free up capacity"
        findings.refuse_vm(Code.UNDECIDED, resolved.desired, message, remedy, refusal.hindrances)
        return
    findings.refuse_vm(refusal.code, resolved.desired, refusal.message, refusal.remedy, refusal.hindrances)
