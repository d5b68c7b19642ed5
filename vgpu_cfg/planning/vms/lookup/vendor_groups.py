"""Vendors' device groups of a GPU with the NIC beside it: what a host offers, and which NIC of a plan is its.

A group is asked for by its exact name. What it is made of the host tells (vim `VendorDeviceGroupInfo`); only
one vGPU with NICs that are passed through whole has keys in a plan file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from vgpu_cfg.changes.kinds.vm_spec import NewDynamicPassthrough
from vgpu_cfg.model.observed.inventory import VGPU_PART, DeviceGroupInfo, GroupPart, Host
from vgpu_cfg.planning.capacity.nic_needs import host_functions, is_matching
from vgpu_cfg.planning.vms.lookup.nic_match import need_of
from vgpu_cfg.planning.vms.lookup.wanted import PlannedFunction, WantedFunction

NIC_PART = "pciPassthru"
"""The `GroupPart.kind` of a device that is passed through whole."""
_FIRST_KEY = 100
"""NVLink peers are numbered in the plan file, and fewer."""


def group_key(place: int) -> int:
    """Return the key in a spec of the group of the vGPU at a place among a VM's GPUs."""
    return _FIRST_KEY + place


def is_of_peers(key: int) -> bool:
    """Whether the key of a group is that of NVLink peers."""
    return key < _FIRST_KEY


def offered(name: str, host: Host) -> DeviceGroupInfo | None:
    """Return what a host offers under a name."""
    return next((group for group in host.device_groups if group.name == name), None)


def nic_parts(group: DeviceGroupInfo) -> tuple[GroupPart, ...]:
    """Return the parts that are no vGPUs."""
    return tuple(part for part in group.parts if part.kind != VGPU_PART)


def vgpu_part(name: str, host: Host | None) -> int:
    """Return the place of the vGPU in a group; the first where nobody tells."""
    group = offered(name, host) if host is not None else None
    parts = enumerate(group.parts if group is not None else ())
    places = [at if part.sequence is None else part.sequence for at, part in parts if part.kind == VGPU_PART]
    return places[0] if places else 0


def is_nic_of(nic: WantedFunction, part: GroupPart, host: Host) -> bool:
    """Whether a NIC that a plan asks for can be a group's: passed through, and not another one."""
    function = nic.function
    if function.kind != "passthrough" or function.pin is not None or function.label is not None:
        return False
    models = [pci for pci in host_functions(host) if (pci.vendor_id, pci.device_id) in part.allowed]
    return any(is_matching(pci, need_of(nic)) for pci in models)


def places_of(
    wanted: Sequence[WantedFunction], groups: Mapping[int, str], host: Host
) -> Iterator[tuple[int, int, int, GroupPart]]:
    """Yield the place of each NIC that comes with a group, the group's key, its place there and the part."""
    taken: set[int] = set()
    for key, name in groups.items():
        group = offered(name, host)
        for at, part in enumerate(group.parts if group is not None else ()):
            if part.kind == VGPU_PART:
                continue
            for place, nic in enumerate(wanted):
                if place not in taken and is_nic_of(nic, part, host):
                    taken.add(place)
                    yield place, key, at if part.sequence is None else part.sequence, part
                    break


def with_groups(
    planned: Sequence[PlannedFunction],
    wanted: Sequence[WantedFunction],
    groups: Mapping[int, str],
    host: Host | None,
) -> tuple[PlannedFunction, ...]:
    """Return a VM's functions with those that come with new device groups in their places."""
    found = list(planned)
    for place, key, sequence, part in places_of(wanted, groups, host) if host is not None else ():
        device = NewDynamicPassthrough(
            allowed=part.allowed, sub_ids=part.sub_ids, label=part.label, group=key, sequence=sequence
        )
        found[place] = PlannedFunction(device, note=planned[place].note)
    return tuple(found)
