"""Similar VMs, placed as planning would place so many of them: their GPUs and their load."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from vgpu_cfg.model.observed.inventory import Host, Inventory
from vgpu_cfg.planning.findings.options import matches_any
from vgpu_cfg.planning.placement.demand import Demand, Shape
from vgpu_cfg.planning.placement.host_state import Fit, HostState
from vgpu_cfg.planning.pool.quotas import Held, HoldingReader, HoldingVm
from vgpu_cfg.planning.vms.lookup.baseline import place_demands


@dataclass(slots=True)
class Copies:
    """VMs of one shape next to running ones; `hosts` and their `states` are in the same order.

    `taking` are the indexes of the hosts that accept any of them, `starts` whether they are to run.
    """

    observed: Inventory
    hosts: Sequence[Host]
    states: Sequence[HostState]
    shape: Shape
    taking: Sequence[int]
    reader: HoldingReader
    starts: bool = True
    _placed: dict[int, Mapping[str, Fit]] = field(default_factory=dict)
    _alike: dict[tuple[str, ...], HoldingVm | None] = field(default_factory=dict)

    def placed(self, count: int) -> Mapping[str, Fit]:
        """Return where so many of them go, by their names."""
        if count not in self._placed:
            width = len(str(count))
            names = [f"copy-{number:0{width}}" for number in range(count)]
            demands = [Demand(name, self.shape.line, self.shape) for name in names]
            self._placed[count] = place_demands(self.states, demands, names if self.starts else ()).fits
        return self._placed[count]

    def taken(self, count: int) -> set[tuple[str, str]]:
        """Return the GPUs that so many of them can be expected to get, by host and address."""
        return {
            (self.hosts[fit.host].moid, pci_id)
            for fit in self.placed(count).values()
            for pci_id in (*(self.states[fit.host].gpus[index].pci_id for index in fit.gpus), *fit.slots)
        }

    @property
    def possible(self) -> set[tuple[str, str]]:
        """Return the GPUs of all hosts that take any."""
        found = [(self.hosts[index], self.states[index]) for index in self.taking]
        return {
            (host.moid, pci_id)
            for host, state in found
            for pci_id in (*(gpu.pci_id for gpu in state.gpus), *(slot.pci.pci_id for slot in state.slots))
        }

    def held(self, count: int, clusters: tuple[str, ...]) -> list[HoldingVm]:
        """Return the holdings of so many of them, added up if equal; `clusters` are globs that matter.

        If they are the same at any place, nothing is placed.
        """
        if clusters not in self._alike:
            self._alike[clusters] = self._held_anywhere(clusters)
        if (alike := self._alike[clusters]) is not None:
            return [_times(alike, count)]
        found = Counter(
            self.reader.placed(Fit(0, fit.variant, slots=fit.slots), self.hosts[fit.host])
            for fit in self.placed(count).values()
        )
        return [_times(one, number) for one, number in found.items()]

    def _held_anywhere(self, clusters: tuple[str, ...]) -> HoldingVm | None:
        """Return what each of them holds, None where that differs between places."""
        if self.shape.fixed or self.shape.dynamic:
            return None
        found: dict[tuple[tuple[Held, ...], bool], HoldingVm] = {}
        for index in self.taking:
            boards = {gpu.board_key for gpu in self.states[index].gpus}
            for variant in self.shape.variants:
                if {need.board_key for need in variant} <= boards:
                    one = self.reader.placed(Fit(0, variant), self.hosts[index])
                    is_within = not clusters or matches_any(one.cluster, clusters)
                    found.setdefault((one.devices, is_within), one)
        return next(iter(found.values())) if len(found) == 1 else None


def _times(one: HoldingVm, count: int) -> HoldingVm:
    devices = (
        replace(device, gpus=device.gpus * count, framebuffer_mib=device.framebuffer_mib * count)
        for device in one.devices
    )
    return replace(one, devices=tuple(devices))
