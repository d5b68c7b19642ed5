"""The PerformanceManager: GPU counters kept by hosts and vCenter, driven by a recorded day.

A host keeps samples of 20 seconds for an hour; vCenter keeps what its statistics level lets it. A GPU's day
is in the estate file, and counts from the power-on of a VM that runs on it; its memory is that of its vGPUs;
its temperature and power follow its use and are made up. A GPU without a day is not measured, as one without
NVIDIA's driver is not. That a device is called `000:003:00.0` was seen (github.com/Checkmk/checkmk/pull/807);
that these are decimal is assumed.
Questions in the format `csv` are refused: no client here asks one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from pyVmomi import vim

from vgpu_cfg.lab.nvidia.gpus import used_mib, visible
from vgpu_cfg.lab.renderers.services import COUNTERS, INTERVALS, LEVEL
from vgpu_cfg.lab.rules import refusals
from vgpu_cfg.lab.rules.refusals import object_gone
from vgpu_cfg.lab.simulation.clock import as_datetime
from vgpu_cfg.lab.simulation.operations import Context, answers
from vgpu_cfg.lab.state.host import Gpu
from vgpu_cfg.lab.state.inventory import Host, Managed, VirtualMachine

REALTIME_SECONDS = 20
REALTIME_KEPT_SECONDS = 3600
_PERIODS = {one.period: one.length for one in INTERVALS}


@answers("PerformanceManager", "QueryPerfProviderSummary")
def query_provider_summary(context: Context, thing: Managed, *, entity: Any) -> Any:
    """Return whether an object has samples of its own: hosts and VMs do."""
    found = _entity(context, entity)
    is_measured = isinstance(found, Host | VirtualMachine)
    return vim.PerformanceManager.ProviderSummary(
        entity=entity,
        currentSupported=is_measured,
        summarySupported=True,
        refreshRate=REALTIME_SECONDS if is_measured else -1,
    )


@answers("PerformanceManager", "QueryPerfCounter")
def query_counter(context: Context, thing: Managed, *, counterId: Sequence[int]) -> list[Any]:
    """Return counters by their keys. Raises InvalidArgument."""
    if any(key not in COUNTERS for key in counterId):
        raise refusals.bad_argument("counterId")
    return [COUNTERS[key] for key in counterId]


@answers("PerformanceManager", "QueryAvailablePerfMetric")
def query_available(
    context: Context,
    thing: Managed,
    *,
    entity: Any,
    beginTime: Any = None,
    endTime: Any = None,
    intervalId: int | None = None,
) -> list[Any]:
    """Return which counters of which devices something has in an interval."""
    found = _entity(context, entity)
    if intervalId not in (None, 0, REALTIME_SECONDS) and context.state.statistics_level < LEVEL:
        return []
    return [
        vim.PerformanceManager.MetricId(counterId=key, instance=instance_of(gpu))
        for gpu in _measured(found)
        for key in COUNTERS
    ]


@answers("PerformanceManager", "QueryPerf")
def query_perf(context: Context, thing: Managed, *, querySpec: Sequence[Any]) -> list[Any]:
    """Return samples, oldest first; objects without any are left out. Raises InvalidArgument."""
    return [found for spec in querySpec if (found := _samples(context, spec)) is not None]


def instance_of(gpu: Gpu) -> str:
    """Return a GPU's name in counters."""
    segment, bus, rest = gpu.pci_id.split(":")
    slot, function = rest.split(".")
    return f"{int(segment, 16):03d}:{int(bus, 16):03d}:{int(slot, 16):02d}.{function}"


def _entity(context: Context, reference: Any) -> Managed:
    found = context.state.objects.get(reference._moId)
    if found is None:
        raise object_gone(reference)
    return found


def _measured(thing: Managed) -> list[Gpu]:
    """Return the GPUs of a host that its driver has, and for which the estate has a day."""
    if not isinstance(thing, Host) or thing.connection != "connected":
        return []
    return [gpu for gpu in visible(thing) if gpu.day]


def _samples(context: Context, spec: Any) -> Any | None:
    found = _entity(context, spec.entity)
    if spec.format == "csv":
        raise refusals.not_supported()
    times = _times(context, spec)
    step = spec.intervalId or REALTIME_SECONDS
    series = []
    metric_id: Any = vim.PerformanceManager.MetricId
    for metric in spec.metricId or [metric_id(counterId=key, instance="*") for key in COUNTERS]:
        if metric.counterId not in COUNTERS:
            raise refusals.bad_argument("querySpec.metricId")
        for gpu in _measured(found) if times else ():
            if metric.instance in ("*", instance_of(gpu)):
                since = _in_use_since(context, gpu)
                values = [_value(gpu, COUNTERS[metric.counterId], at, step, since) for at in times]
                name = metric_id(counterId=metric.counterId, instance=instance_of(gpu))
                series.append(vim.PerformanceManager.IntSeries(id=name, value=values))
    if not series:
        return None
    info = [vim.PerformanceManager.SampleInfo(timestamp=as_datetime(at), interval=step) for at in times]
    return vim.PerformanceManager.EntityMetric(entity=spec.entity, sampleInfo=info, value=series)


def _times(context: Context, spec: Any) -> list[float]:
    """Return the ends of the kept samples, within the requested time, the newest of them last."""
    step = spec.intervalId or REALTIME_SECONDS
    if step != REALTIME_SECONDS and step not in _PERIODS:
        raise refusals.bad_argument("querySpec.intervalId")
    if step != REALTIME_SECONDS and context.state.statistics_level < LEVEL:
        return []
    now = context.lab.clock.now()
    kept = _PERIODS.get(step, REALTIME_KEPT_SECONDS)
    end = now if spec.endTime is None else min(now, spec.endTime.timestamp())
    begin = max(now - kept, spec.startTime.timestamp() if spec.startTime is not None else 0.0)
    last, first = math.floor(end / step), math.floor(begin / step) + 1
    times = [float(number * step) for number in range(first, last + 1)]
    return times[-spec.maxSample :] if spec.maxSample else times


def _in_use_since(context: Context, gpu: Gpu) -> float:
    """Return when the first of the VMs that run on a GPU was powered on, infinity where none runs."""
    vms = (context.state.objects.get(use.vm) for use in gpu.uses)
    started = (vm.boot_time for vm in vms if isinstance(vm, VirtualMachine))
    return min((at for at in started if at is not None), default=math.inf)


def _value(gpu: Gpu, counter: Any, end: float, step: int, since: float) -> int:
    busy = _busy(gpu.day, end, step) if end > since else 0.0
    used = used_mib(gpu) * 1024
    match counter.nameInfo.key:
        case "utilization":
            return round(busy * 100)
        case "mem.used" | "mem.reserved":
            return used
        case "mem.usage":
            return round(10_000 * used / (gpu.memory_mib * 1024))
        case "mem.total":
            return gpu.memory_mib * 1024
        case "temperature":
            return round(32 + busy * 0.4)
        case _:
            return round(45 + busy * 2.3)


def _busy(day: Sequence[float], end: float, step: int) -> float:
    """Return the mean of the hours that a sample sums up; a day begins at 0:00 UTC."""
    first, last = math.floor((end - step) / 3600), math.ceil(end / 3600)
    hours = [day[hour % 24] for hour in range(first, max(last, first + 1))]
    return sum(hours) / len(hours)
