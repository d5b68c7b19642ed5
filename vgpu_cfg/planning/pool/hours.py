"""How many GPU-hours VMs held, from when they were on: a VM holds its GPUs as long as it runs.

vCenter's events record power-ons and power-offs, as far back as it keeps them; the uptime shows how long a VM
without such an event has run. Its devices at that time are unknown: the present ones count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from vgpu_cfg.catalog import Catalog
from vgpu_cfg.documents import did_you_mean
from vgpu_cfg.model.observed.inventory import Inventory
from vgpu_cfg.model.observed.past import Past, PastEvent
from vgpu_cfg.model.observed.vm import Vm
from vgpu_cfg.planning.capacity.vgpu_need import needs_of
from vgpu_cfg.planning.pool.summary import with_devices
from vgpu_cfg.planning.pool.use import owner_of

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
