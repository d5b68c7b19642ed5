"""Conditions of a VM on its host at present that would keep it from starting, and those that would not.

Each condition is about one requirement of a start with GPUs. It checks the VM and the host that it is
registered on as they were read; unread values are reported as unknown, never as right.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from vgpu_cfg.catalog import Board, Catalog
from vgpu_cfg.model.frozen import Frozen
from vgpu_cfg.model.observed.inventory import Connection, Host, Inventory
from vgpu_cfg.model.observed.vm import PassthroughDevice, Vm, VmDetail
from vgpu_cfg.planning.capacity.hardware import highest_version, least_version, passthrough_limit, vgpu_limit
from vgpu_cfg.planning.capacity.host_capacity import CapacityReader, HostCapacity
from vgpu_cfg.planning.capacity.pci_tree import SIZE_KEY, USE_KEY, mmio_size_gb
from vgpu_cfg.planning.findings.codes import Code

MOST_CPUS = 128
"""The limit of vCPUs without a virtual IOMMU, which is refused with a vGPU unless it is allowed."""
VIOMMU_KEY = "pciPassthru.vmiop.allowViommu"
KEYS = frozenset({VIOMMU_KEY, USE_KEY, SIZE_KEY})
"""The extraConfig keys that must be read for the conditions."""
MMIO_FROM_MIB = 32 * 1024
"""From so much memory on NVIDIA's guide asks for 64-bit MMIO; whether less does without is not said."""
DEFAULT_MMIO_GB = 32
"""The 64-bit MMIO window of a VM that names none (Frank Denneman)."""

_REFUSALS: Mapping[Code, str] = {
    Code.NO_SUCH_BOARD: "is a different board model",
    Code.GPU_FULL: "is full",
    Code.SAME_SIZE_LOCK: "is running another size",
    Code.GPU_IN_MIG_MODE: "is in MIG mode",
    Code.GPU_NOT_IN_MIG_MODE: "is not in MIG mode",
    Code.NO_MIG_SLICE: "has no free slices in a valid placement",
    Code.MIXED_SIZE_NO_ROOM: "has no free placement",
    Code.CLASSES_CANNOT_SHARE: "is running another series",
    Code.GPU_IN_PASSTHROUGH: "is in passthrough mode",
    Code.NOT_SHARED_DIRECT: "has a graphics type other than sharedDirect",
    Code.NO_HOST_DRIVER: "is not controlled by NVIDIA's host driver",
    Code.HOLDER_UNKNOWN: "is used by a VM that could not be read",
}
"""Why one GPU does not take a vGPU; a check's title is about all of them."""


class ConditionState(StrEnum):
    """Whether a thing is as a start needs it."""

    RIGHT = "right"
    WRONG = "wrong"
    UNKNOWN = "unknown"


class ConditionKind(StrEnum):
    """The subject of a condition."""

    HOST = "host"
    FIRMWARE = "firmware"
    MEMORY = "memory"
    MMIO = "mmio"
    CPUS = "cpus"
    HARDWARE_VERSION = "hardware_version"
    PASSTHROUGH = "passthrough"
    GRAPHICS_TYPE = "graphics_type"
    GPU_ROOM = "gpu_room"


class StartCondition(Frozen):
    """A condition's result, in words; `command` would correct it if one command can."""

    about: ConditionKind
    verdict: ConditionState
    says: str
    command: str = ""


@dataclass(frozen=True, slots=True)
class _VmOnHost:
    """A VM with its host and the common data of the conditions."""

    vm: Vm
    detail: VmDetail
    host: Host
    capacity: HostCapacity
    reader: CapacityReader
    catalog: Catalog

    @property
    def path(self) -> str:
        return shlex.quote(self.vm.inventory_path or self.vm.name)

    @property
    def settings(self) -> Mapping[str, str]:
        """The extraConfig by lower-case key."""
        return {key.lower(): value for key, value in self.detail.extra_config.items()}

    def boards(self) -> list[Board | None]:
        """Return the board of each vGPU and each passed-through GPU, None where it is not known."""
        found: list[Board | None] = [
            next((entry.board for entry in self.catalog.by_profile(vgpu.profile)), None)
            for vgpu in self.detail.vgpus
        ]
        for device in self.detail.passthrough:
            ids = _ids(device, self.host)
            if ids is not None and (board := self.catalog.by_pci(*ids)) is not None:
                found.append(board)
        return found


def check_conditions(
    vm: Vm, observed: Inventory, catalog: Catalog, reader: CapacityReader | None = None
) -> tuple[StartCondition, ...]:
    """Check everything that a start of this VM needs, as far as it was read.

    `reader` is that of the same estate, if the caller has one: it keeps facts of boards and profiles.
    """
    host = observed.host_by_moid.get(vm.host_moid or "")
    if host is None:
        return (_unknown(ConditionKind.HOST, "its host was not read"),)
    found = [_host(host)]
    if vm.detail is None:
        return (*found, _unknown(ConditionKind.FIRMWARE, "its configuration could not be read"))
    reader = reader or CapacityReader(observed, catalog)
    resolved = _VmOnHost(
        vm, vm.detail, host, reader.read(host, without=frozenset({vm.moid})), reader, catalog
    )
    found.append(_hardware_version(resolved))
    if vm.detail.vgpus or vm.detail.passthrough:
        found += [_firmware(resolved), _memory(resolved), _mmio(resolved), *_cpus(resolved)]
    found += _passthrough(resolved)
    if vm.detail.vgpus:
        found += [_graphics_type(resolved), _gpu_room(resolved)]
    return tuple(found)


def _host(host: Host) -> StartCondition:
    if host.connection is not Connection.CONNECTED:
        return _wrong(ConditionKind.HOST, f"{host.name} {host.connection.words}")
    if host.is_in_maintenance_mode:
        return _wrong(ConditionKind.HOST, f"{host.name} is in maintenance mode")
    return _right(ConditionKind.HOST, "host available")


def _hardware_version(resolved: _VmOnHost) -> StartCondition:
    version, detail = resolved.detail.hardware_version, resolved.detail
    newest = highest_version(resolved.host)
    if version is None:
        return _unknown(ConditionKind.HARDWARE_VERSION, "its hardware version was not read")
    vgpus, passed = len(detail.vgpus), len(detail.passthrough)
    dynamic = sum(not device.is_fixed for device in detail.passthrough)
    least = least_version(vgpus, dynamic, vgpus + passed)
    upgrade = f"govc vm.upgrade -version={least} -vm {resolved.path}"
    if newest is not None and version > newest:
        return _wrong(
            ConditionKind.HARDWARE_VERSION,
            f"hardware version {version}, but {resolved.host.name} supports up to {newest}",
        )
    if version < least:
        return _wrong(
            ConditionKind.HARDWARE_VERSION,
            f"hardware version {version}, but its devices require {least}",
            upgrade,
        )
    if vgpus > vgpu_limit(resolved.host, version):
        says = f"{vgpus} vGPUs, but hardware version {version} allows {vgpu_limit(resolved.host, version)}"
        return _wrong(ConditionKind.HARDWARE_VERSION, says)
    if passed > passthrough_limit(version):
        most = passthrough_limit(version)
        says = f"{passed} passthrough devices, but hardware version {version} allows {most}"
        return _wrong(ConditionKind.HARDWARE_VERSION, says)
    return _right(ConditionKind.HARDWARE_VERSION, f"hardware version {version}")


def _firmware(resolved: _VmOnHost) -> StartCondition:
    match resolved.detail.firmware.lower():
        case "efi":
            return _right(ConditionKind.FIRMWARE, "EFI")
        case "":
            return _unknown(ConditionKind.FIRMWARE, "its firmware was not read")
        case other:
            return _wrong(
                ConditionKind.FIRMWARE,
                f"firmware is {other}, but must be EFI (a guest installed in BIOS mode will no longer boot)",
                f"govc device.boot -vm {resolved.path} -firmware efi",
            )


def _memory(resolved: _VmOnHost) -> StartCondition:
    detail = resolved.detail
    if detail.memory_reservation_locked or detail.memory_reservation_mib >= detail.memory_mib > 0:
        return _right(ConditionKind.MEMORY, "all memory reserved")
    says = (
        f"{detail.memory_reservation_mib} of {detail.memory_mib} MiB reserved, but all memory must be "
        f"reserved"
    )
    return _wrong(ConditionKind.MEMORY, says, f"govc vm.change -vm {resolved.path} -memory-pin=true")


def _mmio(resolved: _VmOnHost) -> StartCondition:
    boards = resolved.boards()
    needed = mmio_size_gb(boards) if boards else None
    if needed is None:
        return _right(ConditionKind.MMIO, "64-bit MMIO (not required by its devices)")
    use, size = resolved.settings.get(USE_KEY.lower()), resolved.settings.get(SIZE_KEY.lower())
    command = f"govc vm.change -vm {resolved.path} -e {USE_KEY}=TRUE -e {SIZE_KEY}={needed}"
    if (use or "").upper() != "TRUE" and resolved.detail.memory_mib < MMIO_FROM_MIB:
        return _unknown(
            ConditionKind.MMIO, "64-bit MMIO is off, but NVIDIA requires it for 32 GiB of memory or more"
        )
    if (use or "").upper() != "TRUE":
        return _wrong(ConditionKind.MMIO, f"{USE_KEY} is {use or 'not set'}, but must be TRUE", command)
    if None in boards:
        return _unknown(
            ConditionKind.MMIO, "a device's board is not in the catalog, so the required MMIO size is unknown"
        )
    given = int(size) if size is not None and size.strip().isdigit() else None
    if size is None and needed > DEFAULT_MMIO_GB:
        return _wrong(ConditionKind.MMIO, f"{SIZE_KEY} is not set, but must be {needed}", command)
    if size is not None and (given is None or given < needed):
        return _wrong(ConditionKind.MMIO, f"{SIZE_KEY} is {size}, but must be {needed}", command)
    return _right(ConditionKind.MMIO, f"64-bit MMIO {size or DEFAULT_MMIO_GB} GB")


def _cpus(resolved: _VmOnHost) -> Iterator[StartCondition]:
    cpus = resolved.detail.cpus
    if not resolved.detail.vgpus or cpus <= MOST_CPUS:
        return
    if resolved.settings.get(VIOMMU_KEY.lower(), "").upper() == "TRUE":
        yield _right(ConditionKind.CPUS, f"{cpus} vCPUs with {VIOMMU_KEY}")
    else:
        says = f"{cpus} vCPUs require a virtual IOMMU, which a VM with a vGPU can use only with {VIOMMU_KEY}"
        yield _wrong(ConditionKind.CPUS, says)


def _passthrough(resolved: _VmOnHost) -> Iterator[StartCondition]:
    wrong = [says for device in resolved.detail.passthrough if (says := _passthrough_fault(resolved, device))]
    if wrong:
        yield _wrong(ConditionKind.PASSTHROUGH, "; ".join(wrong))
    elif resolved.detail.passthrough:
        yield _right(ConditionKind.PASSTHROUGH, "passthrough active and available")


def _passthrough_fault(resolved: _VmOnHost, device: PassthroughDevice) -> str:
    """Return the fault of a passed-through device, "" without one."""
    host = resolved.host
    if device.pci_id is None:
        return _dynamic_fault(resolved, device)
    pci = host.device(device.pci_id)
    if pci is None:
        return f"{host.name} does not have a device {device.pci_id}"
    if not pci.passthrough_active:
        waits = ", pending reboot" if pci.passthrough_enabled else ""
        return f"{device.pci_id} is not in passthrough mode{waits}"
    if host.system_id and device.system_id and host.system_id != device.system_id:
        return f"{device.pci_id} was configured for another host (systemId)"
    slot = next((one for one in resolved.capacity.slots if one.pci.pci_id == device.pci_id), None)
    if slot is not None and slot.holder is not None:
        return f"{device.pci_id} is used by {slot.holder}"
    return ""


def _dynamic_fault(resolved: _VmOnHost, device: PassthroughDevice) -> str:
    fitting = [
        slot
        for slot in resolved.capacity.slots
        if (slot.pci.vendor_id, slot.pci.device_id) in device.allowed
        and (not device.label or slot.pci.hardware_label == device.label)
    ]
    what = f"labeled {device.label}" if device.label else "with the specified IDs"
    if not fitting:
        return f"{resolved.host.name} does not have a device {what}"
    if not any(slot.pci.passthrough_active for slot in fitting):
        return f"no device {what} is in passthrough mode"
    if not any(slot.pci.passthrough_active and slot.holder is None for slot in fitting):
        return f"all devices {what} are used by other VMs"
    return ""


def _graphics_type(resolved: _VmOnHost) -> StartCondition:
    gpus = [gpu for gpu in resolved.host.gpus if not gpu.is_passthrough]
    if not gpus:
        return _wrong(ConditionKind.GRAPHICS_TYPE, f"{resolved.host.name} has no GPU for vGPUs")
    if any(gpu.gives_vgpus for gpu in gpus):
        return _right(ConditionKind.GRAPHICS_TYPE, "graphics type sharedDirect")
    if all(gpu.gives_vgpus is None for gpu in gpus):
        return _unknown(ConditionKind.GRAPHICS_TYPE, "the graphics type of the GPUs was not read")
    shown = ", ".join(sorted({gpu.graphics_type.value for gpu in gpus if gpu.graphics_type is not None}))
    return _wrong(
        ConditionKind.GRAPHICS_TYPE, f"the GPUs' graphics type is {shown}, but must be sharedDirect"
    )


def _gpu_room(resolved: _VmOnHost) -> StartCondition:
    """Put the VM's vGPUs on the host's GPUs as they are held now, one after the other."""
    if resolved.vm.is_on:
        return _right(ConditionKind.GPU_ROOM, "GPU capacity (it is running)")
    trial = [gpu.copy() for gpu in resolved.capacity.gpus]
    for vgpu in sorted(resolved.detail.vgpus, key=lambda one: one.profile, reverse=True):
        needs = resolved.reader.needs(vgpu.profile)
        if not needs:
            return _unknown(ConditionKind.GPU_ROOM, f"no known board has {vgpu.profile}")
        refusals: list[tuple[str, Code]] = []
        for gpu in trial:
            need = needs.get(gpu.board_key or "")
            refusal = Code.NO_SUCH_BOARD if need is None else gpu.refuse(need)
            if refusal is None and need is not None:
                gpu.take(need, resolved.vm.name)
                break
            refusals.append((gpu.pci_id, refusal or Code.NO_SUCH_BOARD))
        else:
            return _wrong(ConditionKind.GPU_ROOM, _no_room(resolved, vgpu.profile, refusals))
    return _right(ConditionKind.GPU_ROOM, "GPU capacity")


def _no_room(resolved: _VmOnHost, profile: str, refusals: list[tuple[str, Code]]) -> str:
    by_code: dict[Code, list[str]] = {}
    for pci_id, code in refusals:
        by_code.setdefault(code, []).append(pci_id)
    held = {gpu.pci_id: sorted({one.vm for one in gpu.held}) for gpu in resolved.capacity.gpus if gpu.held}
    reasons = []
    for code, pci_ids in by_code.items():
        holders = sorted({name for pci_id in pci_ids for name in held.get(pci_id, ())})
        by = f", with {', '.join(holders)}" if holders else ""
        reasons.append(f"{', '.join(pci_ids)} {_REFUSALS.get(code, code.summary)}{by} ({code})")
    reported = "; ".join(reasons) or "it has no GPU for vGPUs"
    return f"no GPU on {resolved.host.name} can currently run {profile}: {reported}"


def _ids(device: PassthroughDevice, host: Host) -> tuple[int, int, int | None] | None:
    """Return vendor, device and subsystem of a passed-through device, None if unknown."""
    pci = host.device(device.pci_id) if device.pci_id is not None else None
    if pci is not None:
        return pci.vendor_id, pci.device_id, pci.subsystem_id
    first = next(iter(device.allowed), None)
    return None if first is None else (*first, None)


def _right(about: ConditionKind, says: str) -> StartCondition:
    return StartCondition(about=about, verdict=ConditionState.RIGHT, says=says)


def _wrong(about: ConditionKind, says: str, command: str = "") -> StartCondition:
    return StartCondition(about=about, verdict=ConditionState.WRONG, says=says, command=command)


def _unknown(about: ConditionKind, says: str) -> StartCondition:
    return StartCondition(about=about, verdict=ConditionState.UNKNOWN, says=says)
