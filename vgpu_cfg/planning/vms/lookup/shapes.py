"""What the VMs of a plan need of a host, as placement takes it: a shape each, in numbers."""

from __future__ import annotations

from collections.abc import Iterable

from vgpu_cfg.model.desired import DesiredPower
from vgpu_cfg.planning.capacity.host_capacity import CapacityReader
from vgpu_cfg.planning.placement.candidates import Ranked
from vgpu_cfg.planning.placement.demand import Demand, Shape, dynamic_needs, fixed_addresses, make_variants
from vgpu_cfg.planning.vms.lookup.case import Case
from vgpu_cfg.planning.vms.lookup.nic_match import nic_needs


def make_shape(case: Case, ranked: Ranked, reader: CapacityReader) -> Shape:
    """Say what a VM needs of a host; one that exists is free of its line's spread."""
    vm = case.desired
    spread = vm.place.spread if case.existing is None else None
    return Shape(
        hosts=ranked,
        variants=make_variants(case.gpus, reader.needs),
        fixed=fixed_addresses(case.gpus),
        dynamic=dynamic_needs(case.gpus),
        cpus=case.cpus,
        memory_mib=case.memory_mib,
        numa=vm.numa.policy,
        numa_nodes=vm.numa.nodes,
        spread=spread,
        must=vm.place.must,
        pack=vm.place.pack and case.existing is None,
        keep_free=vm.place.keep_free if case.existing is None else 0,
        line=line_of(case),
        nics=nic_needs(case.nics, case.base if case.existing is not None else None, case.host),
    )


def demands_of(cases: Iterable[Case]) -> list[Demand]:
    """List what is to be placed of the cases that need a place."""
    return [
        Demand(case.name, line_of(case), case.shape, stays=case.existing is not None)
        for case in cases
        if case.shape is not None and not case.is_stuck
    ]


def starting_of(cases: Iterable[Case]) -> set[str]:
    """Return the names of the VMs that are to run."""
    return {case.name for case in cases if case.desired.power is DesiredPower.ON}


def line_of(case: Case) -> str:
    """Name the line where its VMs heed one another."""
    place = case.desired.place
    return case.desired.line if place.spread is not None or place.pack else ""
