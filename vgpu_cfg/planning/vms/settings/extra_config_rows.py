"""The settings of a VM in its extraConfig: MMIO, peer-to-peer, and what this tool keeps for itself.

Sources: NVIDIA AI Enterprise 5.0 User Guide, chapter 4 (peer-to-peer past the root complex); `mmio_size_gb`.

Belief: vmx-options-ignore-case, mmio-of-one-gpu, mmio-of-several-gpus, vgpu-needs-efi-memory-mmio.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from vgpu_cfg.model.desired import asks_gpudirect
from vgpu_cfg.model.guests.base import ADDRESSES_KEY
from vgpu_cfg.model.observed.vm import MARK_PLAN_KEY, MARK_VM_KEY, OwnerMark, SettingValue, VmDetail
from vgpu_cfg.model.wording import listed
from vgpu_cfg.planning.capacity.pci_tree import SIZE_KEY, USE_KEY
from vgpu_cfg.planning.vms.lookup.placed import PlacedVm
from vgpu_cfg.planning.vms.settings.edits import current
from vgpu_cfg.planning.vms.settings.setting import Carrier, Topic, VmSetting, Wanted

P2P_KEYS = ("pciPassthru.allowP2P", "pciPassthru.RelaxACSforP2P")
"""The keys that let a VM's GPU and NIC communicate past the root complex."""
_ADVANCED = "VirtualMachine.Config.AdvancedConfig"


def _is_stated(vm: PlacedVm, *keys: str) -> bool:
    stated = {key.casefold() for key in vm.desired.extra_config}
    return any(key.casefold() in stated for key in keys)


def _asks_mmio(vm: PlacedVm) -> bool:
    return vm.manages("gpus") and vm.mmio_gb is not None and not _is_stated(vm, USE_KEY, SIZE_KEY)


def _is_large_enough(value: SettingValue, detail: VmDetail) -> bool:
    found = current(SIZE_KEY, detail) or ""
    return found.isdigit() and int(found) >= int(value)


def _brought_mmio(vm: PlacedVm) -> bool:
    """Whether a VM has just the MMIO space that this tool gives to the GPUs which it gives up."""
    found = current(SIZE_KEY, vm.base), (current(USE_KEY, vm.base) or "").upper()
    return found == (str(vm.held_mmio_gb), "TRUE") and not _is_stated(vm, USE_KEY, SIZE_KEY)


def _brought_p2p(key: str) -> Callable[[PlacedVm], bool]:
    return lambda vm: (current(key, vm.base) or "").upper() == "TRUE" and not _is_stated(vm, key)


def _p2p(key: str) -> Callable[[PlacedVm], Wanted | None]:
    def desired(vm: PlacedVm) -> Wanted | None:
        has_nics = vm.manages("nics") and vm.nics is not None
        is_asked = has_nics and bool(vm.resolved.gpus) and asks_gpudirect(vm.desired)
        return Wanted("TRUE", is_default=True) if is_asked and not _is_stated(vm, key) else None

    return desired


def _pair_in_file(key: str, value: SettingValue) -> object:
    return {key: value}


def _addresses(vm: PlacedVm) -> Wanted | None:
    has_nics = vm.manages("nics") and vm.nics is not None
    return Wanted(vm.addresses, is_default=True) if has_nics and vm.addresses is not None else None


def _mark(vm: PlacedVm) -> Wanted | None:
    """Mark a new VM, and one whose mark holds no id yet, a former name of the plan, or not its disks."""
    found = vm.resolved.existing.mark if vm.resolved.existing is not None else None
    disks = vm.disks.to_record if vm.disks is not None else None
    is_named = found is not None and found.id and (found.plan, found.vm) == (vm.plan, vm.desired.name)
    if is_named and disks is None:
        return None
    is_anew = found is not None and (not found.id or disks is not None)
    notes = [f"of {vm.desired.name}, previously {found.vm}"] if found and found.vm != vm.desired.name else []
    if vm.disks is not None and disks is not None:
        notes.append(f"its disks are {listed(disk.file for disk in vm.disks.own)}")
    mark = OwnerMark(plan=vm.plan, vm=vm.desired.name, disks=disks)
    return Wanted(f"{mark.text}/{mark.vm}", is_default=True, is_anew=is_anew, note="; ".join(notes))


def _mark_in(detail: VmDetail) -> OwnerMark | None:
    plan, name = (detail.extra_config.get(key) for key in (MARK_PLAN_KEY, MARK_VM_KEY))
    return OwnerMark.parse(plan, name or "") if plan else None


def _mark_of(detail: VmDetail) -> str | None:
    mark = _mark_in(detail)
    return None if mark is None else f"{mark.plan}/{mark.vm}"


def _mark_text(detail: VmDetail) -> str | None:
    mark = _mark_in(detail)
    if mark is None:
        return None
    lacks = "" if mark.disks is not None or mark.new_disks else ", without its disks"
    return f"{mark.plan}{lacks}" if mark.id else f"{mark.plan}, without an ID"


def _is_true(key: str) -> Callable[[SettingValue, VmDetail], bool]:
    return lambda _value, detail: (current(key, detail) or "").upper() == "TRUE"


def _pair(
    key: str,
    desired: Callable[[PlacedVm], Wanted | None],
    default: str,
    same: Callable[[SettingValue, VmDetail], bool],
    *,
    source: str,
    follows: tuple[str, ...],
    is_live: bool = False,
) -> VmSetting:
    return VmSetting(
        key=key,
        topic=Topic.OPTIONS,
        name=key,
        source=source,
        desired=desired,
        path=key,
        carrier=Carrier.EXTRA_CONFIG,
        read=lambda detail: current(key, detail),
        same=same,
        text=str,
        default=default,
        follows=follows,
        privilege=_ADVANCED,
        is_live=is_live,
    )


_MMIO_SOURCE = "NVIDIA AI Enterprise Infra 6.x, vGPU C-Series; Frank Denneman's rule"
_P2P_SOURCE = "NVIDIA AI Enterprise 5.0 User Guide, chapter 4"

MARK_ROW = VmSetting(
    key="owner_mark",
    topic=Topic.OPTIONS,
    name="owner mark",
    source="specific to vgpu-cfg: extraConfig vgpu_cfg.plan and vgpu_cfg.vm, with the plan's name and ID, "
    "the VM's instance UUID, the account and the time, added by the run",
    desired=_mark,
    carrier=Carrier.EXTRA_CONFIG,
    leaves=lambda value: dict(
        zip((MARK_PLAN_KEY, MARK_VM_KEY), str(value).split("/", maxsplit=1), strict=True)
    ),
    read=_mark_of,
    text=lambda value: str(value).partition("/")[0].partition(" ")[0],
    found_text=_mark_text,
    default="the names of the plan and the VM",
    privilege=_ADVANCED,
    is_live=True,
    is_always=True,
)

ADDRESSES_ROW = _pair(
    ADDRESSES_KEY,
    _addresses,
    "the addresses assigned to the VM's NICs",
    lambda value, detail: (current(ADDRESSES_KEY, detail) or "") == value,
    source="specific to vgpu-cfg",
    follows=("nics",),
    is_live=True,
)

OWN_ROWS = (ADDRESSES_ROW, MARK_ROW)
"""The rows that differ from VM to VM of a line."""

EXTRA_CONFIG_SETTINGS = (
    replace(
        _pair(
            USE_KEY,
            lambda vm: Wanted("TRUE", is_default=True) if _asks_mmio(vm) else None,
            "TRUE for a VM with GPUs that require it",
            _is_true(USE_KEY),
            source=_MMIO_SOURCE,
            follows=("gpus",),
        ),
        brought=_brought_mmio,
    ),
    replace(
        _pair(
            SIZE_KEY,
            lambda vm: Wanted(str(vm.mmio_gb), is_default=True) if _asks_mmio(vm) else None,
            "the size that its boards require; a larger value is kept",
            _is_large_enough,
            source=_MMIO_SOURCE,
            follows=("gpus",),
        ),
        brought=_brought_mmio,
    ),
    *(
        replace(
            _pair(
                key,
                _p2p(key),
                "TRUE with `rdma: gpudirect`",
                _is_true(key),
                source=_P2P_SOURCE,
                follows=("nics",),
            ),
            brought=_brought_p2p(key),
            in_file=partial(_pair_in_file, key),
            said_in="extra_config",
            needs_saying=lambda _vm, value: str(value).upper() == "TRUE",
        )
        for key in P2P_KEYS
    ),
    *OWN_ROWS,
)
