"""The pool by board and mode, the VMs that have a GPU and may not need it, and the GPU-hours that VMs held.

vCenter's events record power-ons and power-offs, as far back as it keeps them; the uptime shows how long a VM
without such an event has run. Its devices at that time are unknown: the present ones count.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from vgpu_cfg.catalog import Catalog
from vgpu_cfg.documents import did_you_mean
from vgpu_cfg.model.observed.gpu_use import PastUse, UseReading
from vgpu_cfg.model.observed.inventory import NVIDIA_VENDOR_ID, Host, Inventory
from vgpu_cfg.model.observed.past import Past, PastEvent
from vgpu_cfg.model.observed.vm import PassthroughDevice, Vm
from vgpu_cfg.planning.capacity.gpu_state import needs_of
from vgpu_cfg.planning.pool.gpus import PooledGpu, PoolMode, counted_room, pooled_gpus
from vgpu_cfg.planning.pool.use import owner_of, past_of

LEAST_UPTIME_SECONDS = 3600
"""A VM that is on for less is not judged by its GPUs: an hour is the least that is kept of them."""

IDLE_BELOW_PERCENT = 1.0
"""A VM that uses less of its GPUs, or of its CPUs where these are not measured, is idle: a choice."""

HALF_SLICES = 4
"""Memory and compute slices of the instance that is the first to run out of places: 4g."""


@dataclass(frozen=True, slots=True)
class PoolRow:
    """All GPUs of one board in one mode.

    `used` and `room` count vGPUs by profile; `free_4g` is how many 4g instances could start, None
    where the GPUs are not in MIG mode. `not_ready` GPUs take nothing for now; `idle` ones could take all.
    """

    board: str
    board_key: str
    mode: PoolMode
    hosts: int
    gpus: int
    idle: int
    not_ready: int
    used: Mapping[str, int]
    room: Mapping[str, int]
    whole_held: int
    free_4g: int | None
    lost_mib: int
    bound_mib: int
    lost_compute_slices: int
    nvlink_lost: int


@dataclass(frozen=True, slots=True)
class Holder:
    """A VM that has GPU devices and is not running with them.

    `state` is vSphere's power state. A powered-off VM reserves no GPU; it will want one. A suspended
    one wants the same when it is resumed.
    """

    vm: str
    host: str
    state: str
    devices: tuple[str, ...]
    plan: str


@dataclass(frozen=True, slots=True)
class IdleVm:
    """A VM that runs with GPU devices and uses almost nothing of its GPUs, or of its CPUs.

    `past` is the use of its busiest GPU, which may be shared with others, over the time that vCenter keeps;
    None where that is not measured, and then the CPUs are but a hint. `cpu_percent` is of the moment, None
    where vCenter does not report. `folder` is its path, `owner` a custom attribute, each empty where unknown.
    """

    vm: str
    host: str
    folder: str
    devices: tuple[str, ...]
    cpu_percent: float | None
    uptime_seconds: int | None
    plan: str
    owner: str = ""
    past: PastUse | None = None


@dataclass(frozen=True, slots=True)
class Managed:
    """The GPU devices of running VMs that another product manages, or that vCenter reserves.

    `manager` is the product, or the DirectPath profile of the reservation, in words. Reserved devices have no
    `vms`; `hosts` are those that keep them free.
    """

    manager: str
    vms: tuple[str, ...]
    devices: int
    hosts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class GpuPool:
    """The pool as a whole.

    `idle` are the VMs below `idle_below` percent of GPUs or CPUs; for `cpu_untold` vCenter reports neither.
    `use_unread` is why no use of GPUs is measurable, `past_unread` why only the last hour's is.
    """

    rows: tuple[PoolRow, ...]
    gpus: tuple[PooledGpu, ...]
    off: tuple[Holder, ...]
    idle: tuple[IdleVm, ...] = ()
    idle_below: float = IDLE_BELOW_PERCENT
    cpu_untold: tuple[str, ...] = ()
    use_unread: str = ""
    past_unread: str = ""
    managed: tuple[Managed, ...] = ()


def read_pool(
    observed: Inventory,
    catalog: Catalog,
    *,
    wants_host: Callable[[str], bool] = lambda _: True,
    idle_below: float = IDLE_BELOW_PERCENT,
) -> GpuPool:
    """Work the pool of the wanted hosts out of one reading; `idle_below` is in percent of GPUs or CPUs."""
    gpus = pooled_gpus(observed, catalog, wants_host=wants_host)
    held = list(with_devices(observed, wants_host))
    use = observed.gpu_use or UseReading()
    return GpuPool(
        tuple(summarize(gpus, catalog)),
        gpus,
        tuple(_off(held)),
        tuple(_idle(held, observed, gpus, idle_below)),
        idle_below,
        tuple(
            vm.name
            for vm, host, _ in held
            if vm.is_on and cpu_percent(vm) is None and past_of(vm.name, host.moid, gpus)[0] is None
        ),
        use_unread=use.unread,
        past_unread=use.past_unread,
        managed=(*_managed(held), *_reserved(host for host in observed.hosts if wants_host(host.name))),
    )


def add_up(pools: Iterable[Sequence[PoolRow]]) -> tuple[PoolRow, ...]:
    """Add up the rows of several pools that have no GPU in common, by board and mode."""
    groups: dict[tuple[str, str, PoolMode], list[PoolRow]] = {}
    for pool in pools:
        for row in pool:
            groups.setdefault((row.board, row.board_key, row.mode), []).append(row)
    return tuple(_sum(rows) for _, rows in sorted(groups.items()))


def _sum(rows: Sequence[PoolRow]) -> PoolRow:
    used: Counter[str] = Counter()
    room: Counter[str] = Counter()
    for row in rows:
        used.update(row.used)
        room.update(row.room)
    starts = [row.free_4g for row in rows if row.free_4g is not None]
    first = rows[0]
    return PoolRow(
        board=first.board,
        board_key=first.board_key,
        mode=first.mode,
        hosts=sum(row.hosts for row in rows),
        gpus=sum(row.gpus for row in rows),
        idle=sum(row.idle for row in rows),
        not_ready=sum(row.not_ready for row in rows),
        used=dict(used),
        room=dict(room),
        whole_held=sum(row.whole_held for row in rows),
        free_4g=sum(starts) if starts else None,
        lost_mib=sum(row.lost_mib for row in rows),
        bound_mib=sum(row.bound_mib for row in rows),
        lost_compute_slices=sum(row.lost_compute_slices for row in rows),
        nvlink_lost=sum(row.nvlink_lost for row in rows),
    )


def cpu_percent(vm: Vm) -> float | None:
    """Return how much a VM used of its CPUs of late, None where vCenter does not report."""
    detail = vm.detail
    if detail is None or detail.cpu_mhz is None or not detail.max_cpu_mhz:
        return None
    return 100 * detail.cpu_mhz / detail.max_cpu_mhz


def summarize(gpus: Iterable[PooledGpu], catalog: Catalog) -> Iterator[PoolRow]:
    """Yield a row per board and mode, in the order of the boards' names."""
    groups: dict[tuple[str, str, PoolMode], list[PooledGpu]] = {}
    for gpu in gpus:
        groups.setdefault((gpu.board, gpu.board_key, gpu.mode), []).append(gpu)
    for (board, board_key, mode), group in sorted(groups.items()):
        used: Counter[str] = Counter()
        for gpu in group:
            used.update(gpu.used)
        room = counted_room(group)
        yield PoolRow(
            board=board,
            board_key=board_key,
            mode=mode,
            hosts=len({gpu.host_moid for gpu in group}),
            gpus=len(group),
            idle=sum(gpu.is_idle for gpu in group),
            not_ready=sum(bool(gpu.obstacle) for gpu in group),
            used=dict(used),
            room=dict(room),
            whole_held=sum(any(not run.profile for run in gpu.runs) for gpu in group),
            free_4g=_free_4g(room, board_key, catalog) if mode is PoolMode.MIG else None,
            lost_mib=sum(gpu.lost_mib for gpu in group),
            bound_mib=sum(gpu.bound_mib for gpu in group),
            lost_compute_slices=sum(one.compute_slices for gpu in group for one in gpu.stranded),
            nvlink_lost=sum(any(one.kind == "nvlink" for one in gpu.stranded) for gpu in group),
        )


def _free_4g(room: Mapping[str, int], board_key: str, catalog: Catalog) -> int:
    """Count the 4g instances that could start; each GPU has one place for one."""
    counts = [0]
    for profile, count in room.items():
        need = needs_of(profile, catalog).get(board_key)
        if need is not None and need.mig_compute == HALF_SLICES and need.mig_per_instance == 1:
            counts.append(count)
    return max(counts)


def with_devices(
    observed: Inventory, wants_host: Callable[[str], bool]
) -> Iterator[tuple[Vm, Host, tuple[str, ...]]]:
    """Yield the VMs with GPU devices, and these in words."""
    for host in observed.hosts:
        if not wants_host(host.name):
            continue
        here: Sequence[Vm] = observed.vms_by_host.get(host.moid, ())
        for vm in sorted(here, key=lambda one: one.name):
            if vm.is_template or vm.detail is None:
                continue
            devices = [vgpu.profile for vgpu in vm.detail.vgpus]
            devices += [word for passed in vm.detail.passthrough if (word := _gpu_text(passed, host))]
            if devices:
                yield vm, host, tuple(devices)


def _managed(held: Iterable[tuple[Vm, Host, tuple[str, ...]]]) -> Iterator[Managed]:
    found: dict[str, list[tuple[str, int]]] = {}
    for vm, _, devices in held:
        if vm.is_on and vm.manager is not None:
            found.setdefault(vm.manager.words, []).append((vm.name, len(devices)))
    for words, vms in sorted(found.items()):
        yield Managed(words, tuple(name for name, _ in vms), sum(count for _, count in vms))


def _reserved(hosts: Iterable[Host]) -> Iterator[Managed]:
    found: dict[str, list[tuple[str, int]]] = {}
    for host in hosts:
        for one in host.direct_path or ():
            if one.unused_reservation:
                found.setdefault(one.owner, []).append((host.name, one.unused_reservation))
    for words, kept in sorted(found.items()):
        yield Managed(words, (), sum(count for _, count in kept), tuple(name for name, _ in kept))


def _off(held: Iterable[tuple[Vm, Host, tuple[str, ...]]]) -> Iterator[Holder]:
    for vm, host, devices in held:
        if not vm.is_on:
            yield Holder(vm.name, host.name, vm.power_state.value, devices, _plan_of(vm))


def _most_while_on(past: PastUse, vm: Vm) -> float:
    """Return the highest mean in percent that a GPU can have had since a VM was powered on.

    A VM that is on for a day may account for the whole mean of a week. For one that is on for less than an
    hour there is no bound, and so all of it.
    """
    uptime = vm.detail.uptime_seconds if vm.detail else None
    if uptime is None or uptime >= past.span_seconds:
        return past.average_percent
    if uptime < LEAST_UPTIME_SECONDS:
        return 100.0
    return past.average_percent * past.span_seconds / uptime


def _idle(
    held: Iterable[tuple[Vm, Host, tuple[str, ...]]],
    observed: Inventory,
    gpus: Sequence[PooledGpu],
    below: float,
) -> Iterator[IdleVm]:
    """Yield the VMs that are idle by their GPUs; by their CPUs where the GPUs decide nothing."""
    for vm, host, devices in held:
        if not vm.is_on:
            continue
        used = cpu_percent(vm)
        past, is_alone = past_of(vm.name, host.moid, gpus)
        is_idle_by_gpu = past is not None and _most_while_on(past, vm) < below
        if past is not None and not is_idle_by_gpu and is_alone:
            continue
        if is_idle_by_gpu or (used is not None and used < below):
            folder = observed.folder_by_moid.get(vm.folder_moid or "")
            path = "" if folder is None else folder.inventory_path or folder.name
            uptime = vm.detail.uptime_seconds if vm.detail else None
            yield IdleVm(
                vm.name,
                host.name,
                path,
                devices,
                None if used is None else round(used, 2),
                uptime,
                _plan_of(vm),
                owner_of(vm),
                past if is_idle_by_gpu else None,
            )


@dataclass(frozen=True, slots=True)
class ReclaimStep:
    """The step to regain an idle VM's GPUs: the person to ask, the action then, and its gain."""

    vm: str
    ask: str
    then: str
    frees: tuple[str, ...]


def reclaim_steps(pool: GpuPool) -> tuple[ReclaimStep, ...]:
    """List how GPUs would be taken back from idle VMs, those that were measured first. Nothing is changed."""
    by_certainty = sorted(pool.idle, key=lambda one: (one.past is None, one.vm))
    return tuple(
        ReclaimStep(
            one.vm,
            one.owner or (f"the owner of {one.folder}" if one.folder else "its owner"),
            f"`power: false` in the plan file of {one.plan}, then `vgpu-cfg apply`"
            if one.plan
            else "shut down the guest in vCenter",
            one.devices,
        )
        for one in by_certainty
    )


def _plan_of(vm: Vm) -> str:
    return vm.mark.plan if vm.mark else ""


def _gpu_text(device: PassthroughDevice, host: Host) -> str:
    """Name a passed-through GPU by its address or label; empty for other devices."""
    if device.pci_id is not None:
        pci = host.device(device.pci_id)
        return device.pci_id if pci is None or pci.is_gpu else ""
    if all(vendor_id != NVIDIA_VENDOR_ID for vendor_id, _ in device.allowed):
        return ""
    return f"label {device.label}" if device.label else "any GPU of the same model"


# Belief: power-events.
ON_EVENTS = frozenset(
    {"VmPoweredOnEvent", "DrsVmPoweredOnEvent", "VmResumingEvent", "VmRestartedOnAlternateHostEvent"}
)
OFF_EVENTS = frozenset({"VmPoweredOffEvent", "VmSuspendedEvent"})
HOUR = timedelta(hours=1)
KeyOf = Callable[[Vm], str]


@dataclass(frozen=True, slots=True)
class HoursRow:
    """The use by VMs of one name: `gpu_hours` in shares of GPUs, `device_hours` in vGPUs and whole GPUs."""

    name: str
    vms: tuple[str, ...]
    gpu_hours: float
    device_hours: float


@dataclass(frozen=True, slots=True)
class Hours:
    """All rows, those that held most first, between two times.

    `reaches` is the start of vCenter's events, if that is later than `since`; `unread` is why there are none.
    `uncounted` are profiles that the catalog lacks: they count as whole GPUs.
    """

    since: datetime
    until: datetime
    rows: tuple[HoursRow, ...]
    reaches: datetime | None = None
    unread: str = ""
    uncounted: tuple[str, ...] = ()


def key_of(observed: Inventory, by: str) -> KeyOf:
    """Return what names the row of a VM: by `plan`, `folder`, `vm`, `owner` or `attribute:NAME`.

    Raises ValueError for another word, and for an attribute that no VM has.
    """
    if by.startswith("attribute:") and (name := by.removeprefix("attribute:")):
        there = {found for vm in observed.vms for found in (vm.detail.attributes if vm.detail else ())}
        if name not in there:
            hint = did_you_mean(name, there, noun="attributes") or (
                "try `vgpu-cfg inventory --hours 30d --by folder`"
            )
            raise ValueError(f"no VM has the custom attribute {name!r}; {hint}")
        return lambda vm: vm.detail.attributes.get(name, "") if vm.detail else ""

    def folder(vm: Vm) -> str:
        found = observed.folder_by_moid.get(vm.folder_moid or "")
        return "" if found is None else found.inventory_path or found.name

    known: Mapping[str, KeyOf] = {
        "plan": lambda vm: vm.mark.plan if vm.mark else "",
        "folder": folder,
        "vm": lambda vm: vm.name,
        "owner": owner_of,
    }
    if by not in known:
        raise ValueError(f"{by!r} is not one of {', '.join(known)} or attribute:NAME")
    return known[by]


def gpu_vms(observed: Inventory) -> tuple[str, ...]:
    """Return the moids of the VMs that have GPU devices."""
    return tuple(vm.moid for vm, *_ in with_devices(observed, lambda _: True))


def count_hours(observed: Inventory, catalog: Catalog, past: Past, since: datetime, by: str) -> Hours:
    """Count the holdings of VMs with GPU devices from `since` until the reading."""
    key, until = key_of(observed, by), observed.read_at
    events: dict[str, list[PastEvent]] = {}
    for event in past.events:
        if event.kind in ON_EVENTS | OFF_EVENTS:
            events.setdefault(event.moid, []).append(event)
    reach = max(since, past.since) if past.since is not None and not past.unread else since
    found: dict[str, list[tuple[str, float, float]]] = {}
    unknown: dict[str, None] = {}
    for vm, _, devices in with_devices(observed, lambda _: True):
        begin = max(since, past.made_at.get(vm.moid, since))
        hours = _on(vm, events.get(vm.moid, ()), begin, reach, until) / HOUR
        unknown.update((name, None) for name in devices if _is_vgpu(name) and not _shares(name, catalog))
        share = sum(min(_shares(name, catalog), default=1.0) for name in devices)
        if hours:
            found.setdefault(key(vm), []).append((vm.name, hours * share, hours * len(devices)))
    rows = [
        HoursRow(
            name,
            tuple(vm for vm, *_ in held),
            round(sum(gpus for _, gpus, _ in held), 2),
            round(sum(devices for *_, devices in held), 2),
        )
        for name, held in found.items()
    ]
    return Hours(
        since,
        until,
        tuple(sorted(rows, key=lambda row: (-row.gpu_hours, row.name))),
        reaches=reach if reach > since else None,
        unread=past.unread,
        uncounted=tuple(unknown),
    )


def _on(vm: Vm, events: Iterable[PastEvent], begin: datetime, reach: datetime, until: datetime) -> timedelta:
    """Sum up how long a VM was on. Before its first event it was the opposite of what that made it."""
    inside = [event for event in events if begin <= event.at <= until]
    if not inside:
        up = vm.detail.uptime_seconds if vm.detail else None
        if not vm.is_on:
            return timedelta()
        first = max(begin, reach) if up is None else max(begin, until - timedelta(seconds=up))
        return until - first
    total = timedelta()
    on_since = max(begin, reach) if inside[0].kind in OFF_EVENTS else None
    for event in inside:
        if event.kind in ON_EVENTS:
            on_since = on_since or event.at
        elif on_since is not None:
            total += max(timedelta(), event.at - on_since)
            on_since = None
    return total + (until - on_since if on_since is not None else timedelta())


def _is_vgpu(device: str) -> bool:
    return not device.startswith(("label ", "any ")) and ":" not in device


def _shares(profile: str, catalog: Catalog) -> Sequence[float]:
    """Return which share of a GPU a profile takes, on each board that has it."""
    return [1 / need.max_per_gpu for need in needs_of(profile, catalog).values()]
