"""GPU use and GPU sharing of a host: vCenter's counters now and over time, and the host's graphics settings.

The counters are vCenter's performance counters. The graphics settings show for whom a host's GPUs are, and
how vGPUs are dealt to them.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from functools import cached_property

from pydantic import Field

from vgpu_cfg.model.frozen import Frozen


class PastUse(Frozen):
    """How busy a GPU was between two times: percent, over `samples` values of vCenter's."""

    average_percent: float
    peak_percent: float
    since: datetime
    until: datetime
    samples: int

    @property
    def span_seconds(self) -> float:
        """How long the samples reach."""
        return (self.until - self.since).total_seconds()


class GpuUse(Frozen):
    """One GPU's newest sample of each counter; None, never 0, if the host does not report it."""

    host_moid: str
    pci_id: str
    utilization_percent: float | None = None
    memory_used_mib: int | None = None
    memory_total_mib: int | None = None
    temperature_celsius: int | None = None
    power_watts: int | None = None
    past: PastUse | None = None


class UseReading(Frozen):
    """The values read for all GPUs.

    `unread` says why nothing is known of any GPU, `past_unread` why no more than the last hour is known;
    both are empty where more is. `unplaced` counts, by host moid, the devices whose name in the counters
    could not be matched to a single GPU.
    """

    gpus: tuple[GpuUse, ...] = ()
    unread: str = ""
    past_unread: str = ""
    unplaced: Mapping[str, int] = Field(default_factory=dict)

    def of(self, host_moid: str, pci_id: str) -> GpuUse | None:
        """Return the known values of one GPU; None if there are none."""
        return self._by_gpu.get((host_moid, pci_id))

    @cached_property
    def _by_gpu(self) -> Mapping[tuple[str, str], GpuUse]:
        return {(use.host_moid, use.pci_id): use for use in self.gpus}


class GraphicsType(StrEnum):
    """vim `HostGraphicsInfoGraphicsType`."""

    BASIC = "basic"
    SHARED = "shared"
    DIRECT = "direct"
    SHARED_DIRECT = "sharedDirect"


class AssignmentPolicy(StrEnum):
    """vim `HostGraphicsConfigSharedPassthruAssignmentPolicy`."""

    PERFORMANCE = "performance"
    CONSOLIDATION = "consolidation"
