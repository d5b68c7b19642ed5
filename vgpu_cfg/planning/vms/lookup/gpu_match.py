"""Whether the GPU devices of a VM match the plan file: of lists and labels, any fitting one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress

from vgpu_cfg.catalog import Board, Catalog
from vgpu_cfg.model.desired import DesiredVm
from vgpu_cfg.model.observed.inventory import Inventory
from vgpu_cfg.model.observed.vm import PassthroughDevice, VmDetail
from vgpu_cfg.model.plan_file import DeviceEntry, GpuEntry
from vgpu_cfg.model.vgpu import VgpuProfile

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
