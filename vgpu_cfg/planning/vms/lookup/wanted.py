"""The wanted NICs and GPUs of a plan's VM, which of its devices are these, and findings on the others.

Lists and labels match any fitting GPU. A vendor's device group of a GPU with its NIC is requested by its
exact name. The host reports its content (vim `VendorDeviceGroupInfo`); only one vGPU with NICs that are
passed through whole has keys in a plan file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from vgpu_cfg.catalog import Board, Catalog
from vgpu_cfg.catalog.nic import load_nics
from vgpu_cfg.changes.kinds.vm_spec import (
    NewDynamicPassthrough,
    NewPassthrough,
    NewSriovNic,
    NewVgpu,
    NicBacking,
)
from vgpu_cfg.model.desired import DesiredFunction, DesiredVm
from vgpu_cfg.model.observed.inventory import VGPU_PART, DeviceGroupInfo, GroupPart, Host, Inventory
from vgpu_cfg.model.observed.vm import PassthroughDevice, VgpuDevice, VirtualNic, Vm, VmDetail
from vgpu_cfg.model.plan_file import DeviceEntry, GpuEntry
from vgpu_cfg.model.vgpu import VgpuProfile
from vgpu_cfg.model.wording import listed
from vgpu_cfg.planning.capacity.host_capacity import SRIOV
from vgpu_cfg.planning.capacity.nic_needs import NicKind, NicNeed, host_functions, is_matching
from vgpu_cfg.planning.estate.devices import Device, OwnedDevices, Wanting, device_text, owned_devices
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.findings.collection import Findings

VMXNET3 = "vmxnet3"
PVRDMA = "pvrdma"
"""The `VirtualNic.kind` of a paravirtual RDMA NIC."""


WantedGpu = NewVgpu | NewPassthrough | NewDynamicPassthrough

NewFunction = NewPassthrough | NewDynamicPassthrough | NewSriovNic


def has_pinning_nics(detail: VmDetail) -> bool:
    """Whether a VM has NICs that read and write all of its memory: functions of physical ones, or PVRDMA."""
    return bool(detail.passthrough_nics) or any(nic.kind in (SRIOV, PVRDMA) for nic in detail.nics)


@dataclass(frozen=True, slots=True)
class WantedNic:
    """A NIC of the kind "vmxnet3" or "pvrdma" on a network that was found.

    `new_mac` is the MAC that the NIC is given where it is made, and that one which is there keeps its own
    in place of.
    """

    backing: NicBacking
    mac: str | None = None
    kind: str = VMXNET3
    new_mac: str | None = None

    @property
    def network(self) -> str:
        """The network's id in a VM's NIC: the portgroup key if distributed, else the moid."""
        return self.backing.portgroup_key or self.backing.network_moid


@dataclass(frozen=True, slots=True)
class WantedFunction:
    """A NIC that is a function of a physical one.

    `backing` is that of a virtual function; `called` is the plan file's name for the network, if any.
    `new_mac` as of `WantedNic`. `is_ethernet` is whether it has a network, an address, or RoCE.
    """

    function: DesiredFunction
    backing: NicBacking | None = None
    mac: str | None = None
    called: str = ""
    new_mac: str | None = None
    is_ethernet: bool = True

    @property
    def network(self) -> str:
        """The network's id in a VM's NIC, empty if vSphere knows of none."""
        return (self.backing.portgroup_key or self.backing.network_moid) if self.backing is not None else ""


@dataclass(frozen=True, slots=True)
class PlannedFunction:
    """The wanted device for one NIC of a VM: the present one with the key `keeps`, else a new one.

    Both are None where there is no place for the NIC.
    """

    device: NewFunction | None = None
    keeps: int | None = None
    note: str = ""


DEVICE_GROUPS_SINCE = (8,)
"""The ESXi release that brought device groups; before, NVLink peers are several plain vGPUs."""

DeviceNames = Mapping[tuple[int, int], Sequence[str]]
"""The names of devices, by vendor and device id."""


def effective_gpus(vm: DesiredVm, detail: VmDetail) -> tuple[GpuEntry, ...]:
    """Return the future GPUs of an existing VM.

    A list of profiles shrinks to the present one, if it is among them. If the plan does not manage its GPUs
    they are the present ones.
    """
    if not vm.is_managed("gpus"):
        return own_gpus(detail)
    chosen = iter(chosen_profiles(vm.gpus, detail))
    return tuple(
        gpu.model_copy(update={"profile": (VgpuProfile.parse(name),)})
        if gpu.kind == "vgpu" and (name := next(chosen, ""))
        else gpu
        for gpu in vm.gpus
    )


def has_wanted_gpus(
    gpus: Sequence[GpuEntry], detail: VmDetail, names: DeviceNames, *, has_device_groups: bool = True
) -> bool:
    """Whether a VM has exactly these GPU devices; unified memory aside, which moves none.

    NVLink peers are a device group of their own, plain vGPUs on a host that has no device groups. vGPUs that
    came with other devices in a group count as plain ones.
    """
    vgpus = [gpu for gpu in gpus if gpu.kind == "vgpu"]
    if any(len(gpu.profile) > 1 for gpu in vgpus):
        return False
    wanted = [(gpu.nvlink if has_device_groups else None, gpu.profile[0].name) for gpu in vgpus]
    staying = staying_groups([as_asked(gpu) for gpu in vgpus if gpu.nvlink is None], detail)
    held = [
        (device.group_key if has_device_groups and device.group_key not in staying else None, device.profile)
        for device in detail.vgpus
    ]
    if has_device_groups and not staying.issuperset(detail.mixed_groups):
        return False
    if Counter(gpu.group for gpu in vgpus if gpu.group) - Counter(
        detail.device_groups[key] for key in staying
    ):
        return False
    if _bundles(wanted) != _bundles(held):
        return False
    left = list(detail.passthrough_gpus)
    for gpu in gpus:
        if gpu.kind == "vgpu":
            continue
        found = next((device for device in left if is_wanted_device(gpu, device, names)), None)
        if found is None:
            return False
        left.remove(found)
    return all(device.group_key is not None for device in left)


def as_asked(gpu: GpuEntry) -> tuple[str, str]:
    """Return the profile of a vGPU, and the name of its device group or ""."""
    return (gpu.profile[0].name, gpu.group or "")


def staying_groups(vgpus: Iterable[tuple[str, str]], detail: VmDetail) -> frozenset[int]:
    """Return the device groups of GPUs with other devices that stay if a VM gets these vGPUs.

    Each is a profile and the name of its requested group, "" if it is requested plainly. A group goes whole,
    so it stays if all of its vGPUs are wanted, by its name or plainly, and if it has none.
    """
    if not detail.device_groups:
        return frozenset()
    left = Counter(vgpus)
    found = set()
    for key in detail.mixed_groups:
        own = [device.profile for device in detail.vgpus if device.group_key == key]
        for name in (detail.device_groups[key], ""):
            asked = Counter((profile, name) for profile in own)
            if asked <= left:
                left -= asked
                found.add(key)
                break
    return frozenset(found)


def going_groups(gpus: Sequence[GpuEntry], detail: VmDetail) -> frozenset[int]:
    """Return the device groups of GPUs with other devices that a VM loses if it gets these GPUs."""
    plain = [as_asked(gpu) for gpu in gpus if gpu.kind == "vgpu" and gpu.nvlink is None]
    return frozenset(detail.mixed_groups) - staying_groups(plain, detail)


def new_groups(gpus: Sequence[GpuEntry], detail: VmDetail | None) -> dict[int, str]:
    """Return, by the place of its vGPU among `gpus`, each device group that is asked for and not held yet."""
    if not any(gpu.group for gpu in gpus):
        return {}
    held: Counter[str] = Counter()
    if detail is not None:
        asked = [as_asked(gpu) for gpu in gpus if gpu.kind == "vgpu" and gpu.nvlink is None]
        held = Counter(detail.device_groups[key] for key in staying_groups(asked, detail))
    found = {}
    for place, gpu in enumerate(gpus):
        if gpu.group and held[gpu.group]:
            held[gpu.group] -= 1
        elif gpu.group:
            found[place] = gpu.group
    return found


def is_wanted_device(gpu: GpuEntry, device: PassthroughDevice, names: DeviceNames) -> bool:
    """Whether a passed-through device matches the plan file."""
    if gpu.pin:
        return device.pci_id == gpu.pin
    wanted = gpu.device
    if device.is_fixed or (device.label or None) != wanted.label:
        return False
    if wanted.device_id is not None and device.allowed != (wanted.device_id,):
        return False
    return all(ids not in names or is_named(wanted.model or "", ids, names) for ids in device.allowed)


def is_named(model: str, ids: tuple[int, int], names: DeviceNames) -> bool:
    """Whether `model` of a plan file is part of a name of the devices with this ID."""
    return any(model.casefold() in name.casefold() for name in names.get(ids, ()))


def held_groups(gpus: Sequence[GpuEntry], detail: VmDetail) -> dict[int, str]:
    """Return, by peers number, the names of the device groups that a VM has for its NVLink peers."""
    left = {
        key: sorted(device.profile for device in detail.vgpus if device.group_key == key)
        for key in detail.device_groups
        if key not in detail.mixed_groups
    }
    found: dict[int, str] = {}
    vgpus = [gpu for gpu in gpus if gpu.kind == "vgpu"]
    for peers in sorted({gpu.nvlink for gpu in vgpus if gpu.nvlink is not None}):
        wanted = sorted(gpu.profile[0].name for gpu in vgpus if gpu.nvlink == peers)
        key = next((key for key, profiles in sorted(left.items()) if profiles == wanted), None)
        if key is not None:
            del left[key]
            found[peers] = detail.device_groups[key]
    return found


def _bundles(vgpus: Sequence[tuple[int | None, str]]) -> tuple[list[str], list[list[str]]]:
    """Return the plain profiles, and those of each group: equal where two VMs have the same."""
    groups = {group for group, _ in vgpus if group is not None}
    return (
        sorted(name for group, name in vgpus if group is None),
        sorted(sorted(name for group, name in vgpus if group == one) for one in groups),
    )


def own_gpus(detail: VmDetail) -> tuple[GpuEntry, ...]:
    """Return the GPUs that a VM has, in the words of a plan file."""
    own: list[GpuEntry] = []
    peers_of = sorted(set(detail.device_groups) - set(detail.mixed_groups))
    numbers = {key: number for number, key in enumerate(peers_of, start=1)}
    for vgpu in detail.vgpus:
        peers = numbers.get(vgpu.group_key) if vgpu.group_key is not None else None
        with suppress(ValueError):
            own.append(GpuEntry(profile=(VgpuProfile.parse(vgpu.profile),), nvlink=peers))
    for device in detail.passthrough_gpus:
        if device.pci_id is not None:
            own.append(GpuEntry(pin=device.pci_id))
        else:
            ids = device.allowed[0] if len(device.allowed) == 1 else None
            own.append(GpuEntry(device=DeviceEntry(label=device.label, device_id=ids)))
    return tuple(own)


def chosen_profiles(gpus: Sequence[GpuEntry], detail: VmDetail) -> list[str]:
    """Return, for each desired vGPU, the profile that a VM has for it; empty where it has other ones."""
    lists = [{profile.name for profile in gpu.profile} for gpu in gpus if gpu.kind == "vgpu"]
    names = [device.profile for device in detail.vgpus]
    pairs: dict[int, int] = {}
    if len(lists) != len(names) or not _can_pair(lists, names, pairs):
        return []
    by_list = {place: number for number, place in pairs.items()}
    return [names[by_list[place]] for place in range(len(lists))]


def _can_pair(lists: Sequence[set[str]], names: Sequence[str], pairs: dict[int, int]) -> bool:
    """Match every list with a name of its own (augmenting paths); `pairs` maps names to lists."""

    def settle(place: int, tried: set[int]) -> bool:
        for number, name in enumerate(names):
            if name in lists[place] and number not in tried:
                tried.add(number)
                if number not in pairs or settle(pairs[number], tried):
                    pairs[number] = place
                    return True
        return False

    return all(settle(place, set()) for place in range(len(lists)))


def device_names(observed: Inventory, catalog: Catalog) -> DeviceNames:
    """Collect the names of the estate's devices, by vendor and device id."""
    names: dict[tuple[int, int], dict[str, None]] = {}
    boards: dict[tuple[int, int, int], Board | None] = {}
    for host in observed.hosts:
        for device in (*host.pci_devices, *(gpu.pci for gpu in host.gpus)):
            if not (device.is_gpu or device.hardware_label or device.passthrough_active):
                continue
            ids = (device.vendor_id, device.device_id, device.subsystem_id)
            if ids not in boards:
                boards[ids] = catalog.by_pci(*ids)
            board = boards[ids]
            known = names.setdefault(ids[:2], {})
            known[device.device_name] = None
            known |= dict.fromkeys(board.names if board else ())
    result: Mapping[tuple[int, int], Sequence[str]] = {ids: tuple(found) for ids, found in names.items()}
    return result


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


def devices_of(
    vm: DesiredVm, existing: Vm, nics: Sequence[AnyNic] | None, names: DeviceNames, host: Host | None
) -> OwnedDevices:
    """Separate the devices of an existing VM; `nics` are those that the plan file requests."""
    if nics is None:
        return owned_devices(existing, None, _gpus(vm, names), None)
    has_group = any(gpu.group for gpu in vm.gpus)
    virtual = [nic for nic in nics if isinstance(nic, WantedNic) or nic.function.kind == SRIOV]
    passed = [nic for nic in functions_of(nics) if nic.function.kind != SRIOV]
    # A NIC of the GPU's device group comes and goes with the GPU.
    passed = [nic for nic in passed if nic.function.pin or nic.function.label or not has_group]

    def is_nic(number: int, device: Device) -> bool:
        return is_like(number, device) and _has_mac(virtual[number], device)

    def is_like(number: int, device: Device) -> bool:
        nic = virtual[number]
        if isinstance(nic, WantedFunction):
            return isinstance(device, VirtualNic) and is_wanted_function(nic, device, host)
        return isinstance(device, VirtualNic) and (device.network, device.kind) == (nic.network, nic.kind)

    def is_function(number: int, device: Device) -> bool:
        return isinstance(device, PassthroughDevice) and is_wanted_function(passed[number], device, host)

    return owned_devices(
        existing, Wanting(len(virtual), is_nic, is_like), _gpus(vm, names), Wanting(len(passed), is_function)
    )


def _gpus(vm: DesiredVm, names: DeviceNames) -> Wanting | None:
    if not vm.is_managed("gpus"):
        return None

    def is_gpu(number: int, device: Device) -> bool:
        gpu = vm.gpus[number]
        if isinstance(device, VgpuDevice):
            return device.profile in {profile.name for profile in gpu.profile}
        if gpu.kind == "vgpu" or not isinstance(device, PassthroughDevice):
            return False
        return is_wanted_device(gpu, device, names)

    return Wanting(len(vm.gpus), is_gpu)


def _has_mac(nic: AnyNic, device: Device) -> bool:
    return nic.mac is None or (isinstance(device, VirtualNic) and device.mac.casefold() == nic.mac.casefold())


def report_others(
    vm: DesiredVm, owned: OwnedDevices, networks: Mapping[str, str], findings: Findings
) -> None:
    """Say which devices of a VM the plan did not make, and what to do about them."""
    of_gpus = [
        one for one in owned.others if not isinstance(one, VirtualNic) and not getattr(one, "is_nic", False)
    ]
    of_nics = [one for one in owned.others if one not in of_gpus]
    for key, what, devices in (("gpus", "GPUs", of_gpus), ("nics", "NICs", of_nics)):
        if not devices:
            continue
        named = listed(device_text(one, networks) for one in devices)
        place = " and use capacity on the host" if any(_needs_host(one) for one in devices) else ""
        message = f"{what} that the plan did not add are kept{place}: {named}"
        remedy = f"to manage such a device, add it to `{key}`; otherwise remove it in the vSphere Client"
        if any(isinstance(one, VirtualNic) and one.kind not in (VMXNET3, PVRDMA, SRIOV) for one in devices):
            remedy = (
                "remove it in the vSphere Client, or set `ignore: [nics]`; plan files do not support this "
                "type"
            )
        findings.add_vm(Code.DEVICES_OF_OTHERS, vm, message, remedy)


def _needs_host(device: Device) -> bool:
    return not isinstance(device, VirtualNic) or device.kind in (PVRDMA, SRIOV)
