"""The GPU counters of vCenter's PerformanceManager: group `gpu`, of hosts, in few round trips.

The names, units and levels of the counters utilization, mem.used, mem.usage and temperature are those of a
recorded vCenter (govmomi, simulator/vpx/performance_manager.go: level 4 in all, for devices too); mem.total,
mem.reserved and power.used, and that a device is called `000:003:00.0`, are those of a real host
(github.com/Checkmk/checkmk/pull/807). No counter of the group was seen at a VM; the vSphere documentation
names hosts and clusters for it ("Performance Metrics", 8.0). Percentages come in hundredths (vSphere API
reference, PerformanceManager).

A host itself keeps samples of 20 seconds for an hour. vCenter's longer history depends on the level of its
intervals: at the default, 1, it has no counter of this group.

Belief: gpu-counters, gpu-counters-of-power, gpu-counter-device-base, no-gpu-counter-per-vm,
mig-gpus-have-counters, max-query-metrics.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from pyVmomi import vim, vmodl

from vgpu_cfg.model.observed.gpu_use import GpuUse, PastUse, UseReading
from vgpu_cfg.model.observed.inventory import Connection, Host
from vgpu_cfg.vsphere.wire.collector import Item, Paths, Start, collect_from, renewing
from vgpu_cfg.vsphere.wire.faults import is_session_over, to_error
from vgpu_cfg.vsphere.wire.session import Session

NOT_KEPT = "this vCenter has no GPU performance counters"
NO_SAMPLES = "no host reports samples for the GPU counters, which the NVIDIA host driver provides"
NOT_RECORDED = "recordings contain no performance counters"
NOT_ALLOWED = "the account has no read access to performance counters"

HOSTS_AT_ONCE = 256
"""So many hosts are asked at once for their own samples: Telegraf's default for vCenter 6.5 and later
(`max_query_objects`, vSphere plugin)."""
METRICS_AT_ONCE = 64
"""So many counters of devices a question about what vCenter keeps may have (KB 2107096: the default of
config.vpxd.stats.maxQueryMetrics; recalled)."""
REALTIME_SECONDS = 20
"""The interval of a host's own samples (Web Services SDK Programming Guide, "Performance")."""

_IN_AN_HOUR = 3600 // REALTIME_SECONDS
_MANAGER = "vim.PerformanceManager"
_LIST = (Paths(_MANAGER, ("perfCounter", "historicalInterval")),)
_ROLLUPS = ("average", "latest", "none")
"""Which form of a counter is asked for, the best first."""
_FIELDS = {
    "utilization": "utilization_percent",
    "mem.used": "memory_used_mib",
    "mem.total": "memory_total_mib",
    "temperature": "temperature_celsius",
    "power.used": "power_watts",
}
"""The name of a counter → the field of `GpuUse`."""
_SCALES = {"percent": 0.01, "kiloBytes": 1 / 1024, "celsius": 1.0, "watt": 1.0}
"""A counter's unit (vim `PerformanceManagerUnit`) → by what its values are multiplied."""
_INSTANCE = re.compile(r"([0-9a-f]{1,4}):([0-9a-f]{1,3}):([0-9a-f]{1,2})\.([0-7])", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class _Counter:
    """A counter of the group. `level` is from which statistics level on vCenter keeps it of devices."""

    key: int
    field: str
    scale: float
    level: int


def beside_of(session: Session) -> tuple[tuple[Paths, ...], list[Start]]:
    """Say what of counters another reading may bring along: nothing where vCenter has none."""
    manager = session.service_content.perfManager
    return (_LIST, [Start(_MANAGER, str(manager._moId))]) if manager is not None else ((), [])


def read_gpu_use(
    session: Session, hosts: Sequence[Host], days: float | None = None, known: Item | None = None
) -> UseReading:
    """Read how the GPUs of hosts are used now and, with `days`, were used; `known` are the counters.

    One round trip for 256 hosts and, unless they are known, one for the counters; with `days` one more for
    each 64 GPUs where vCenter keeps more than an hour, some at once. Values that vCenter does not report are
    in `unread` and `past_unread`. Raises `VCenterError` where the connection is lost.
    """
    asked = [host for host in hosts if host.gpus and host.connection is Connection.CONNECTED]
    try:
        return renewing(session, lambda: _read(session, asked, days, known))
    except vmodl.MethodFault as fault:
        if is_session_over(fault):
            raise to_error(fault, "reading performance counters", session.address) from fault
        refused = isinstance(fault, vim.fault.NoPermission)
        words = to_error(fault, "reading performance counters", session.address).message
        return UseReading(unread=NOT_ALLOWED if refused else words)


def _read(session: Session, hosts: Sequence[Host], days: float | None, known: Item | None) -> UseReading:
    manager = session.service_content.perfManager
    if manager is None:
        return UseReading(unread=NOT_KEPT)
    item = known or collect_from(session, *beside_of(session))[0]
    counters = _counters(item.get("perfCounter") or ())
    if not counters:
        return UseReading(unread=NOT_KEPT)
    busy = next((one for one in counters.values() if one.field == "utilization_percent"), None)
    interval, reason = None, ""
    if days is not None and busy is not None:
        interval, reason = _interval(item.get("historicalInterval") or (), busy, days)
    # What hosts keep themselves comes with what they tell of now.
    of_hour = busy if days is not None and interval is None else None
    newest: dict[tuple[str, str], dict[str, float]] = {}
    past: dict[tuple[str, str], PastUse] = {}
    unplaced: dict[str, set[str]] = {}
    for some in _batches(hosts, HOSTS_AT_ONCE, lambda _host: 1):
        specs = [spec for host in some for spec in _specs_of_now(host, counters.values(), of_hour)]
        for host, found in _answers(manager, specs, some):
            for counter, pci_id, samples in _placed(found, counters, host, unplaced):
                newest.setdefault((host.moid, pci_id), {})[counter.field] = samples[-1][1] * counter.scale
                if counter is of_hour:
                    past[host.moid, pci_id] = _past_use(samples, counter, REALTIME_SECONDS)
    if not newest:
        return UseReading(unread=NO_SAMPLES, unplaced={moid: len(names) for moid, names in unplaced.items()})
    if days is not None and busy is not None and interval is not None:
        past = _read_past(session, manager, hosts, busy, interval, days)
    uses = (_use(moid, pci_id, values, past.get((moid, pci_id))) for (moid, pci_id), values in newest.items())
    return UseReading(
        gpus=tuple(uses), past_unread=reason, unplaced={moid: len(names) for moid, names in unplaced.items()}
    )


def _counters(told: Iterable[Any]) -> dict[int, _Counter]:
    """Choose one form of each counter that is wanted."""
    best: dict[str, tuple[int, _Counter]] = {}
    for info in told:
        name, unit, rollup = info.nameInfo.key, info.unitInfo.key, str(info.rollupType)
        if info.groupInfo.key != "gpu" or name not in _FIELDS or unit not in _SCALES:
            continue
        if rollup not in _ROLLUPS:
            continue
        rank = _ROLLUPS.index(rollup)
        if name not in best or rank < best[name][0]:
            level = max(info.level or 0, info.perDeviceLevel or 0)
            best[name] = rank, _Counter(int(info.key), _FIELDS[name], _SCALES[unit], level)
    return {counter.key: counter for _, counter in best.values()}


def _interval(told: Iterable[Any], counter: _Counter, days: float) -> tuple[Any, str]:
    """Choose the finest interval that reaches so far back and keeps a counter; else say why there is none."""
    kept = [one for one in told if one.enabled and one.level is not None and one.level >= counter.level > 0]
    if not kept:
        why = f"vCenter keeps this counter only at statistics level {counter.level} or higher"
        return None, f"{why}, but no interval is set to that level" if counter.level else (
            "vCenter does not report its level"
        )
    by_length = sorted(kept, key=lambda one: int(one.length))
    far = next((one for one in by_length if one.length >= days * 86_400), by_length[-1])
    return far, ""


def _read_past(
    session: Session, manager: Any, hosts: Sequence[Host], counter: _Counter, interval: Any, days: float
) -> dict[tuple[str, str], PastUse]:
    """Read what vCenter keeps of one counter in an interval."""
    step = int(interval.samplingPeriod)
    begin = vim.ServiceInstance("ServiceInstance", session.stub).CurrentTime() - timedelta(days=days)

    def told_of(some: Sequence[Host]) -> dict[tuple[str, str], PastUse]:
        specs = [_spec(host, [counter], step, begin=begin) for host in some]
        return {
            (host.moid, pci_id): _past_use(samples, counter, step)
            for host, answer in _answers(manager, specs, some)
            for _, pci_id, samples in _placed(answer, {counter.key: counter}, host, {})
        }

    batches = _batches(hosts, METRICS_AT_ONCE, lambda host: len(host.gpus))
    return {key: use for _, part in session.each(told_of, batches) for key, use in part.items()}


def _past_use(samples: Sequence[tuple[datetime, float]], counter: _Counter, step: int) -> PastUse:
    values = [value * counter.scale for _, value in samples]
    return PastUse(
        average_percent=round(sum(values) / len(values), 2),
        peak_percent=round(max(values), 2),
        # A sample's time is the end of what it sums up (PerfSampleInfo.timestamp).
        since=samples[0][0] - timedelta(seconds=step),
        until=samples[-1][0],
        samples=len(values),
    )


def _specs_of_now(host: Host, counters: Iterable[_Counter], of_hour: _Counter | None) -> Iterator[Any]:
    """Ask for a host's newest samples, and for all that it keeps of one counter."""
    others = [one for one in counters if one is not of_hour]
    if others:
        yield _spec(host, others, REALTIME_SECONDS, most=1)
    if of_hour is not None:
        yield _spec(host, [of_hour], REALTIME_SECONDS, most=_IN_AN_HOUR)


def _spec(
    host: Host,
    counters: Iterable[_Counter],
    step: int,
    *,
    begin: datetime | None = None,
    most: int | None = None,
) -> Any:
    metrics = [vim.PerformanceManager.MetricId(counterId=one.key, instance="*") for one in counters]
    spec = vim.PerformanceManager.QuerySpec(
        entity=vim.HostSystem(host.moid), metricId=metrics, intervalId=step, format="normal"
    )
    if begin is not None:
        spec.startTime = begin
    if most is not None:
        spec.maxSample = most
    return spec


def _answers(manager: Any, specs: Sequence[Any], hosts: Sequence[Host]) -> Iterator[tuple[Host, Any]]:
    by_moid = {host.moid: host for host in hosts}
    for found in manager.QueryPerf(querySpec=list(specs)) or ():
        host = by_moid.get(str(found.entity._moId))
        if host is not None and isinstance(found, vim.PerformanceManager.EntityMetric):
            yield host, found


def _placed(
    found: Any, counters: Mapping[int, _Counter], host: Host, unplaced: dict[str, set[str]]
) -> Iterator[tuple[_Counter, str, list[tuple[datetime, float]]]]:
    """Yield the samples of each GPU and counter, oldest first; unmeasured values are left out."""
    series = [one for one in found.value or () if one.id.instance and one.id.counterId in counters]
    places = match_instances({one.id.instance for one in series}, [gpu.pci_id for gpu in host.gpus])
    lost = {one.id.instance for one in series} - places.keys()
    if lost:
        unplaced.setdefault(host.moid, set()).update(lost)
    times = [info.timestamp.astimezone(UTC) for info in found.sampleInfo or ()]
    for one in series:
        # A negative value says that there is none.
        told = [(at, value) for at, value in zip(times, one.value or (), strict=False) if value >= 0]
        if told and one.id.instance in places:
            yield counters[one.id.counterId], places[one.id.instance], told


def match_instances(names: Iterable[str], pci_ids: Sequence[str]) -> dict[str, str]:
    """Return by the counters' name of a device which GPU of a host it is, as far as that is certain.

    `000:003:00.0` has three digits for the bus. Whether they are decimal, as in older output of ESXi, or
    hexadecimal, is in no document that was found: both are tried on all devices of the host, and the one
    holds that names only GPUs that are there. If both do and they differ, nothing is certain.
    """
    wanted = sorted(names)
    readings = [
        found
        for base in (10, 16)
        if (found := _addresses(wanted, base)) is not None and set(found.values()) <= {*pci_ids}
    ]
    if not readings or any(found != readings[0] for found in readings):
        return {}
    return readings[0]


def _addresses(names: Iterable[str], base: int) -> dict[str, str] | None:
    """Read names as addresses, with segment, bus and slot in a base; None where one is no such address."""
    found: dict[str, str] = {}
    for name in names:
        match = _INSTANCE.fullmatch(name)
        try:
            segment, bus, slot = (int(part, base) for part in match.groups()[:3]) if match else (-1, -1, -1)
        except ValueError:
            return None
        if match is None or bus > 0xFF or slot > 0x1F:
            return None
        found[name] = f"{segment:04x}:{bus:02x}:{slot:02x}.{match[4]}"
    return found


def _batches(hosts: Sequence[Host], most: int, weight: Any) -> Iterator[list[Host]]:
    """Yield hosts in groups of no more than a weight, but of one host at least."""
    group: list[Host] = []
    total = 0
    for host in hosts:
        if group and total + weight(host) > most:
            yield group
            group, total = [], 0
        group.append(host)
        total += weight(host)
    if group:
        yield group


def _use(host_moid: str, pci_id: str, values: Mapping[str, float], past: PastUse | None) -> GpuUse:
    told = {
        name: round(value, 2) if name == "utilization_percent" else round(value)
        for name, value in values.items()
    }
    return GpuUse.model_validate({"host_moid": host_moid, "pci_id": pci_id, "past": past, **told})
