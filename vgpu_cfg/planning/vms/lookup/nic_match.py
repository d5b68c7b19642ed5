"""The functions of a VM that are the plan file's NICs, and its NICs' needs of a host.

Vendors' device groups of a GPU with its NIC: those of a host, and the plan's NIC for each.

A group is requested by its exact name. The host reports its content (vim `VendorDeviceGroupInfo`); only one
vGPU with NICs that are passed through whole has keys in a plan file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from vgpu_cfg.catalog.nic import load_nics
from vgpu_cfg.changes.kinds.vm_spec import NewDynamicPassthrough
from vgpu_cfg.model.desired import DesiredFunction
from vgpu_cfg.model.observed.inventory import VGPU_PART, DeviceGroupInfo, GroupPart, Host
from vgpu_cfg.model.observed.vm import PassthroughDevice, VirtualNic, VmDetail
from vgpu_cfg.planning.capacity.nic_functions import SRIOV
from vgpu_cfg.planning.capacity.nic_needs import NicKind, NicNeed, host_functions, is_matching
from vgpu_cfg.planning.vms.lookup.wanted import PlannedFunction, WantedFunction, WantedNic

AnyNic = WantedNic | WantedFunction
FunctionDevice = PassthroughDevice | VirtualNic
"""A VM's device that is a function: passed through whole, or a virtual one."""

NIC_PART = "pciPassthru"
"""The `GroupPart.kind` of a device that is passed through whole."""
_FIRST_KEY = 100
"""NVLink peers are numbered in the plan file, and fewer."""


def functions_of(nics: Sequence[AnyNic]) -> list[WantedFunction]:
    """Return those of a VM's NICs that are functions, in their order."""
    return [nic for nic in nics if isinstance(nic, WantedFunction)]


def pair_functions(
    wanted: Sequence[WantedFunction], detail: VmDetail, host: Host | None
) -> Mapping[int, FunctionDevice]:
    """Match wanted functions, by their place, with those of a VM, by their kind.

    The most demanding ones choose first. A virtual function with another MAC than requested is another one:
    that its MAC can be edited is not known.
    """
    left: list[FunctionDevice] = [
        *detail.passthrough_nics,
        *(nic for nic in detail.own_nics if nic.kind == SRIOV),
    ]
    pairs: dict[int, FunctionDevice] = {}
    for index, nic in sorted(enumerate(wanted), key=lambda one: (_freedom(one[1].function), one[0])):
        found = next((device for device in left if is_wanted_function(nic, device, host)), None)
        if found is not None:
            left.remove(found)
            pairs[index] = found
    return pairs


def nic_needs(
    nics: Sequence[AnyNic] | None, detail: VmDetail | None, host: Host | None
) -> tuple[NicNeed, ...]:
    """Return a VM's NIC needs of a host, in the order of those that are functions.

    `detail` and `host` are those of an existing VM: devices that it may keep stay. With `nics` None the plan
    leaves them alone, and the needs are those of its own devices.
    """
    if nics is None:
        return tuple(own_needs(detail)) if detail is not None else ()
    wanted = functions_of(nics)
    pairs = pair_functions(wanted, detail, host) if detail is not None else {}
    return tuple(
        _kept(need_of(nic), pairs[index]) if index in pairs else need_of(nic)
        for index, nic in enumerate(wanted)
    )


def has_wanted_functions(nics: Sequence[AnyNic] | None, detail: VmDetail, host: Host | None) -> bool:
    """Whether a VM has exactly the functions that the plan file requests, if it requests NICs at all."""
    if nics is None:
        return True
    wanted = functions_of(nics)
    pairs = pair_functions(wanted, detail, host)
    kept = {device.key for device in pairs.values()}
    return len(pairs) == len(wanted) and all(device.key in kept for device in single_functions(detail))


def single_functions(detail: VmDetail) -> Iterator[FunctionDevice]:
    """Yield the functions of a VM that can go alone: a device group's NIC goes with its GPU only."""
    yield from (device for device in detail.passthrough_nics if device.group_key is None)
    yield from (nic for nic in detail.own_nics if nic.group_key is None and nic.kind == SRIOV)


def need_of(nic: WantedFunction) -> NicNeed:
    """Say what one function needs of any host."""
    function = nic.function
    return NicNeed(
        NicKind(function.kind),
        function.pin,
        function.label,
        function.model,
        near_gpu=function.near_gpu,
        must_be_near=function.must_be_near,
        network=nic.backing.network_moid if nic.backing is not None else None,
        is_ethernet=nic.is_ethernet,
    )


def _kept(need: NicNeed, own: FunctionDevice) -> NicNeed:
    """Return the need of a present device; a distance from the GPU is reported, and does not remove it."""
    if isinstance(own, VirtualNic):
        return replace(need, pin=own.function, must_be_near=False)
    return replace(need, pin=own.pci_id, allowed=own.allowed, must_be_near=False)


def own_needs(detail: VmDetail) -> Iterator[NicNeed]:
    """Yield the present needs of a VM's functions from a host."""
    for device in detail.passthrough_nics:
        yield NicNeed(NicKind.PASSTHROUGH, device.pci_id, device.label, allowed=device.allowed)
    for nic in detail.own_nics:
        if nic.kind == SRIOV:
            yield NicNeed(NicKind.SRIOV, nic.function)


def _freedom(function: DesiredFunction) -> int:
    if function.pin is not None:
        return 0
    return 3 - (function.label is not None) - (function.model is not None)


def is_wanted_function(nic: WantedFunction, device: FunctionDevice, host: Host | None) -> bool:
    """Whether a present function matches the request."""
    function = nic.function
    if isinstance(device, VirtualNic):
        is_there = function.kind == "sriov" and nic.network == device.network
        has_mac = nic.mac is None or nic.mac.casefold() == device.mac.casefold()
        return is_there and has_mac and _is_of(nic, device.function, host)
    if function.kind != "passthrough":
        return False
    if function.pin is None and function.label is None and device.group_key is not None:
        return _is_of(nic, device.pci_id or device.assigned_id, host)
    if function.label is not None and function.pin is None:
        names = [name for ids in device.allowed for name in load_nics().names_of(*ids)]
        model = (function.model or "").casefold()
        is_model = not names or any(model in name.casefold() for name in names)
        return not device.is_fixed and device.label == function.label and is_model
    return device.is_fixed and _is_of(nic, device.pci_id, host)


def _is_of(nic: WantedFunction, pci_id: str | None, host: Host | None) -> bool:
    """Whether the function at an address matches the request; an unknown one does unless it is a pin."""
    if nic.function.pin is not None:
        return pci_id == nic.function.pin
    pci = host.device(pci_id) if host is not None and pci_id is not None else None
    return pci is None or is_matching(pci, need_of(nic))


def group_key(place: int) -> int:
    """Return the key in a spec of the group of the vGPU at a place among a VM's GPUs."""
    return _FIRST_KEY + place


def is_of_peers(key: int) -> bool:
    """Whether the key of a group is that of NVLink peers."""
    return key < _FIRST_KEY


def offered(name: str, host: Host) -> DeviceGroupInfo | None:
    """Return a host's offer under a name."""
    return next((group for group in host.device_groups if group.name == name), None)


def nic_parts(group: DeviceGroupInfo) -> tuple[GroupPart, ...]:
    """Return the parts that are no vGPUs."""
    return tuple(part for part in group.parts if part.kind != VGPU_PART)


def vgpu_part(name: str, host: Host | None) -> int:
    """Return the place of the vGPU in a group; the first if unknown."""
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
