"""The plan's VMs' needs of a host, in the form for placement: a shape each, in numbers."""

from __future__ import annotations

from collections.abc import Iterable

from vgpu_cfg.model.desired import DesiredPower
from vgpu_cfg.planning.capacity.host_capacity import CapacityReader
from vgpu_cfg.planning.placement.candidates import Ranked
from vgpu_cfg.planning.placement.demand import (
    Demand,
    Shape,
    Variant,
    dynamic_needs,
    fixed_addresses,
)
from vgpu_cfg.planning.vms.lookup.nic_match import nic_needs, own_needs
from vgpu_cfg.planning.vms.lookup.resolved_vm import ResolvedVm


def make_shape(resolved: ResolvedVm, ranked: Ranked, reader: CapacityReader) -> Shape:
    """Return a VM's needs of a host; one that stays on its own is free of its line's spread."""
    vm = resolved.desired
    is_chosen = not _stays(resolved)
    if _asks_memory(resolved) and not vm.clusters:
        # Only an order of clusters that the plan file states outweighs the size of a profile.
        ranked = tuple((index, 0) for index, _ in ranked)
    return Shape(
        hosts=ranked,
        variants=_variants(resolved, reader),
        fixed=fixed_addresses(resolved.gpus),
        dynamic=dynamic_needs(resolved.gpus),
        cpus=resolved.cpus,
        memory_mib=resolved.memory_mib,
        numa=vm.numa.policy,
        numa_nodes=vm.numa.nodes,
        spread=vm.place.spread if is_chosen else None,
        must=vm.place.must,
        pack=vm.place.pack and is_chosen,
        keep_free=vm.place.keep_free if is_chosen else 0,
        max_per_host=(vm.place.max_per_host or 0) if is_chosen else 0,
        max_hosts=(vm.place.max_hosts or 0) if is_chosen else 0,
        line=line_of(resolved),
        nics=(*nic_needs(resolved.nics, resolved.kept_devices, resolved.host), *own_needs(resolved.others)),
    )


def _variants(resolved: ResolvedVm, reader: CapacityReader) -> tuple[Variant, ...]:
    """Return a VM's possible GPUs; one that moves as it runs gets GPUs of the boards that it leaves."""
    variants = reader.variants(resolved.gpus)
    if resolved.move is None or resolved.move.why_cold or not resolved.keeps_gpus:
        return variants
    found = (reader.board_of(gpu.pci) for gpu in resolved.move.source.gpus)
    boards = {board.key for board in found if board is not None}
    return tuple(one for one in variants if all(need.board_key in boards for need in one))


def demands_of(resolved_vms: Iterable[ResolvedVm]) -> list[Demand]:
    """List the demands of the VMs that need a place."""
    return [
        Demand(
            resolved.name,
            line_of(resolved),
            resolved.shape,
            stays=_stays(resolved),
            alike=resolved.desired.line if _asks_memory(resolved) else "",
        )
        for resolved in resolved_vms
        if resolved.shape is not None and not resolved.is_stuck
    ]


def _asks_memory(resolved: ResolvedVm) -> bool:
    return any(gpu.memory for gpu in resolved.asked_gpus)


def _stays(resolved: ResolvedVm) -> bool:
    return resolved.existing is not None and not resolved.changes_host


def starting_of(resolved_vms: Iterable[ResolvedVm]) -> set[str]:
    """Return the names of the VMs that are to run."""
    return {resolved.name for resolved in resolved_vms if resolved.desired.power is DesiredPower.ON}


def line_of(resolved: ResolvedVm) -> str:
    """Name the line where its VMs depend on one another."""
    place = resolved.desired.place
    depends = place.spread is not None or place.pack or place.max_per_host or place.max_hosts
    return resolved.desired.line if depends else ""
