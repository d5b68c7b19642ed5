"""A host while VMs are put on it: the ways to put one more there, and what each would cost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from vgpu_cfg.model.plan_words import Spread
from vgpu_cfg.planning.demand import Shape, Variant
from vgpu_cfg.planning.gpu_state import GpuState
from vgpu_cfg.planning.host_load import HOST_MEMORY_SHARE, Fit, HostLoad, is_match
from vgpu_cfg.planning.nic_needs import choose_nics, far_nics
from vgpu_cfg.planning.numa import choose_nodes, numa_level
from vgpu_cfg.planning.peer_groups import has_group_api

__all__ = ["HOST_MEMORY_SHARE", "Fit", "HostState", "is_match"]

_MOST_CHOICES = 64


class HostState(HostLoad):
    """One host, and where on it a VM fits."""

    __slots__ = ()

    def fit(self, shape: Shape) -> Fit | None:
        """Return the best way to put such a VM here, None where there is none."""
        return next(self.fits(shape), None)

    def fits(self, shape: Shape) -> Iterator[Fit]:
        """Yield the ways to put such a VM here that differ in what they leave, the best first."""
        if self.refuse_host(shape) is not None or self.refuse_nics(shape) is not None:
            return
        slot_choices = self.slot_choices(shape)
        if not slot_choices:
            return
        for variant in shape.variants or ((),):
            if self.refuse_variant(variant) is not None:
                continue
            rated = (
                self.rated(shape, variant, chosen, slots)
                for chosen in self._choices(shape, variant)
                for slots in slot_choices
            )
            choices = sorted(
                (fit for fit in rated if fit is not None and self.keeps_apart(fit, shape)),
                key=lambda fit: (
                    fit.numa_level == 2,
                    self._off_node(fit, shape),
                    len(fit.nodes),
                    fit.numa_level,
                    fit.far_nics,
                    fit.opened,
                    fit.lost_starts,
                    fit.lost_sets,
                    fit.gpus,
                ),
            )
            yield from choices

    def _choices(self, shape: Shape, variant: Variant) -> list[tuple[int, ...]]:
        """List the choices of GPUs for the vGPUs of a VM, of like ones only the first."""
        found: dict[tuple[object, ...], tuple[int, ...]] = {}
        self._choose(shape, variant, self.gpus, (), (), found)
        return list(found.values())

    def _choose(
        self,
        shape: Shape,
        variant: Variant,
        gpus: list[GpuState],
        chosen: tuple[int, ...],
        kinds: tuple[object, ...],
        found: dict[tuple[object, ...], tuple[int, ...]],
    ) -> None:
        place = len(chosen)
        if place == len(variant):
            found.setdefault(kinds, chosen)
            return
        need = variant[place]
        if need.peers is not None and has_group_api(self.host):
            self._choose_peers(shape, variant, gpus, chosen, kinds, found)
            return
        lowest = chosen[-1] if place and variant[place - 1] == need else 0
        seen: set[tuple[object, ...]] = set()
        for index in range(lowest, len(gpus)):
            gpu = gpus[index]
            signature = (gpu.signature(), self._whole_sets(index, gpus))
            if signature in seen or self.refuse_gpu(gpu, need, shape) is not None:
                continue
            seen.add(signature)
            trial = gpus
            if place + 1 < len(variant):
                trial = list(gpus)
                trial[index] = gpu.copy()
                trial[index].take(need, "")
            self._choose(shape, variant, trial, (*chosen, index), (*kinds, signature), found)
            if len(found) >= _MOST_CHOICES:
                return

    def _whole_sets(self, index: int, gpus: Sequence[GpuState]) -> tuple[int, ...]:
        """Return the sizes of the sets of NVLink peers that a GPU is in and that are all idle."""
        return tuple(
            len(one) for one in self.peer_sets if index in one and all(gpus[member].is_idle for member in one)
        )

    def _choose_peers(
        self,
        shape: Shape,
        variant: Variant,
        gpus: list[GpuState],
        chosen: tuple[int, ...],
        kinds: tuple[object, ...],
        found: dict[tuple[object, ...], tuple[int, ...]],
    ) -> None:
        """Go on with all members of the device group that is next; they stand together in a variant."""
        need = variant[len(chosen)]
        size = sum(one.peers == need.peers for one in variant)
        for members in self.free_sets(need, size, gpus):
            trial = list(gpus)
            for index in members:
                trial[index] = gpus[index].copy()
                trial[index].take(need, "")
            ordered = tuple(sorted(members))
            kind = tuple(gpus[index].node for index in ordered)
            lost = sum(not members.isdisjoint(other) for other in self.peer_sets)
            self._choose(shape, variant, trial, (*chosen, *ordered), (*kinds, size, lost, kind), found)
            if len(found) >= _MOST_CHOICES:
                return

    def _off_node(self, fit: Fit, shape: Shape) -> int:
        """Count the GPUs of another NUMA node than those that the plan file names."""
        return sum(self.gpus[index].node not in fit.nodes for index in fit.gpus) if shape.numa_nodes else 0

    def keeps_apart(self, fit: Fit, shape: Shape) -> bool:
        """Whether a VM that must have a NUMA node without others of its line gets one."""
        if shape.spread is not Spread.NUMA or not shape.must:
            return True
        return not any(self.is_on_node(shape.line, node) for node in fit.nodes)

    def rated(
        self, shape: Shape, variant: Variant, chosen: tuple[int, ...], slots: tuple[str, ...]
    ) -> Fit | None:
        """Return the fit with these GPUs and devices, its NUMA nodes worked out.

        None where its NICs must be near the GPUs and none is free there.
        """
        near = self.gpu_nodes(chosen, slots)
        size = (shape.cpus, shape.memory_mib)
        nodes = choose_nodes(shape.numa, shape.numa_nodes, near, self.nodes, size)
        level = numa_level(self.nodes, nodes, *size)
        nics = choose_nics(shape.nics, self.stock, near) if shape.nics else ()
        if nics is None:
            return None
        opened = {index for index in chosen if not self.gpus[index].held}
        return Fit(
            host=self.index,
            variant=variant,
            gpus=chosen,
            slots=slots,
            groups=self.groups_of(variant) or (),
            nics=nics,
            nodes=nodes,
            numa_level=level,
            far_nics=len(far_nics(shape.nics, nics, self.stock, near)) if nics else 0,
            opened=len(opened),
            lost_starts=self._lost_starts(variant, chosen),
            lost_sets=self._lost_sets(opened),
        )

    def _lost_starts(self, variant: Variant, chosen: tuple[int, ...]) -> int:
        if not any(need.is_mig for need in variant):
            return 0
        lost = 0
        for index in set(chosen):
            if self.gpus[index].has_4g_start:
                trial = self.gpus[index].copy()
                for need, at in zip(variant, chosen, strict=True):
                    if at == index:
                        trial.take(need, "")
                lost += not trial.has_4g_start
        return lost

    def _lost_sets(self, opened: set[int]) -> int:
        if not opened:
            return 0
        whole = (one for one in self.peer_sets if all(self.gpus[index].is_idle for index in one))
        return sum(not one.isdisjoint(opened) for one in whole)
