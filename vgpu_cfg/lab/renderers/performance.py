"""Rendering of the PerformanceManager: its counters of GPUs, and the intervals that vCenter keeps.

Keys, units, roll-ups and levels of utilization, mem.used, mem.usage and temperature are those of a recorded
vCenter (govmomi, simulator/vpx/performance_manager.go), as are the four intervals. mem.total, mem.reserved
and power.used were seen at a real host (github.com/Checkmk/checkmk/pull/807): their keys, and that they are
averages of level 4, are the lab's own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pyVmomi import vim

from vgpu_cfg.lab.api.references import Service
from vgpu_cfg.lab.renderers.table import Render
from vgpu_cfg.lab.simulation.context import Context

LEVEL = 4
_UNITS = {
    "percent": ("%", "Percentage"),
    "kiloBytes": ("KB", "Kilobyte"),
    "celsius": ("℃", "Temperature in degrees Celsius"),
    "watt": ("W", "Watt"),
}
_ALL = ("none", "average", "maximum", "minimum")
_NAMES = (
    ("utilization", "Utilization", "The utilization of a GPU in percentages", "percent", _ALL),
    ("mem.used", "Memory used", "The amount of GPU memory used in kilobytes", "kiloBytes", _ALL),
    (
        "mem.usage",
        "Memory usage",
        "The amount of GPU memory used in percentages of the total available",
        "percent",
        _ALL,
    ),
    ("temperature", "Temperature", "The temperature of a GPU in degrees celsius", "celsius", ("average",)),
    ("mem.total", "Memory total", "The GPU memory of a GPU", "kiloBytes", ("average",)),
    ("mem.reserved", "Memory reserved", "The GPU memory that is reserved", "kiloBytes", ("average",)),
    ("power.used", "Power used", "The power that a GPU draws", "watt", ("average",)),
)
_FIRST_KEY = 558


@dataclass(frozen=True, slots=True)
class Interval:
    """vCenter's history: seconds between samples, and seconds that they are kept."""

    key: int
    name: str
    period: int
    length: int


INTERVALS = (
    Interval(1, "Past Day", 300, 86_400),
    Interval(2, "Past Week", 1_800, 604_800),
    Interval(3, "Past Month", 7_200, 2_592_000),
    Interval(4, "Past Year", 86_400, 31_536_000),
)


def _counter(key: int, name: str, label: str, summary: str, unit: str, rollup: str) -> Any:
    unit_label, unit_summary = _UNITS[unit]
    return vim.PerformanceManager.CounterInfo(
        key=key,
        nameInfo=vim.ElementDescription(key=name, label=label, summary=summary),
        groupInfo=vim.ElementDescription(key="gpu", label="GPU", summary="GPU"),
        unitInfo=vim.ElementDescription(key=unit, label=unit_label, summary=unit_summary),
        rollupType=rollup,
        statsType="absolute",
        level=LEVEL,
        perDeviceLevel=LEVEL,
    )


_FORMS = [
    (name, label, text, unit, rollup) for name, label, text, unit, rollups in _NAMES for rollup in rollups
]
COUNTERS = {key: _counter(key, *form) for key, form in enumerate(_FORMS, start=_FIRST_KEY)}
"""vim `PerfCounterInfo` by key."""


def _intervals(context: Context, _thing: Service) -> list[Any]:
    return [
        vim.HistoricalInterval(
            key=one.key,
            samplingPeriod=one.period,
            name=one.name,
            length=one.length,
            level=context.state.statistics_level,
            enabled=True,
        )
        for one in INTERVALS
    ]


PERFORMANCE_MANAGER: dict[str, Render] = {
    "perfCounter": lambda _context, _thing: [*COUNTERS.values()],
    "historicalInterval": _intervals,
}
