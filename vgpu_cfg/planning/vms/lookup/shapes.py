"""What the VMs of a plan need of a host, as placement takes it: a shape each, in numbers."""

from __future__ import annotations

from collections.abc import Iterable

from vgpu_cfg.model.desired import DesiredPower
from vgpu_cfg.planning.capacity.host_capacity import CapacityReader
from vgpu_cfg.planning.placement.candidates import Ranked
from vgpu_cfg.planning.placement.demand import Demand, Shape, dynamic_needs, fixed_addresses, make_variants
from vgpu_cfg.planning.vms.lookup.nic_match import nic_needs
from vgpu_cfg.planning.vms.lookup.resolved_vm import ResolvedVm


def make_shape(resolved: ResolvedVm, ranked: Ranked, reader: CapacityReader) -> Shape:
    """Say what a VM needs of a host; one that exists is free of its line's spread."""
    vm = resolved.desired
    spread = vm.place.spread if resolved.existing is None else None
    return Shape(
        hosts=ranked,
        variants=make_variants(resolved.gpus, reader.needs),
        fixed=fixed_addresses(resolved.gpus),
        dynamic=dynamic_needs(resolved.gpus),
        cpus=resolved.cpus,
        memory_mib=resolved.memory_mib,
        numa=vm.numa.policy,
        numa_nodes=vm.numa.nodes,
        spread=spread,
        must=vm.place.must,
        pack=vm.place.pack and resolved.existing is None,
        keep_free=vm.place.keep_free if resolved.existing is None else 0,
        line=line_of(resolved),
        nics=nic_needs(
            resolved.nics, resolved.base if resolved.existing is not None else None, resolved.host
        ),
    )


def demands_of(resolved_vms: Iterable[ResolvedVm]) -> list[Demand]:
    """List what is to be placed of the VMs that need a place."""
    return [
        Demand(resolved.name, line_of(resolved), resolved.shape, stays=resolved.existing is not None)
        for resolved in resolved_vms
        if resolved.shape is not None and not resolved.is_stuck
    ]


def starting_of(resolved_vms: Iterable[ResolvedVm]) -> set[str]:
    """Return the names of the VMs that are to run."""
    return {resolved.name for resolved in resolved_vms if resolved.desired.power is DesiredPower.ON}


def line_of(resolved: ResolvedVm) -> str:
    """Name the line where its VMs depend on one another."""
    place = resolved.desired.place
    return resolved.desired.line if place.spread is not None or place.pack else ""
