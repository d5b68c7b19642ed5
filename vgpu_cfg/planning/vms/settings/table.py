"""The table of all VM settings in the order of a plan, and which of its keys a VM's owner mark records.

The mark records the keys that the plan file stated when the VM was last marked. So a key that was dropped
from the file is distinguished from one that was never there. A pair, an attribute and a category of tags are
keys of their own.

Sources of the rows of firmware, hardware version and virtual TPM: vSphere API reference,
VirtualMachineConfigSpec and VirtualMachineBootOptions; vSphere Security 8.0, "Securing Virtual Machines with
Virtual Trusted Platform Module" (EFI, hardware version 14, a key provider).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from vgpu_cfg.model.desired import DesiredVm
from vgpu_cfg.model.observed.vm import SettingValue
from vgpu_cfg.model.wording import counted
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.findings.collection import Objection
from vgpu_cfg.planning.vms.lookup.placed import PlacedVm
from vgpu_cfg.planning.vms.settings.cluster_rows import CLUSTER_SETTINGS
from vgpu_cfg.planning.vms.settings.cpu_rows import CPU_SETTINGS
from vgpu_cfg.planning.vms.settings.edits import current
from vgpu_cfg.planning.vms.settings.extra_config_rows import EXTRA_CONFIG_SETTINGS
from vgpu_cfg.planning.vms.settings.setting import Carrier, Topic, VmSetting, Wanted, as_it_is, as_stated

EFI = "efi"
_CONFIG_SPEC = "vSphere API reference, VirtualMachineConfigSpec"
_BOOT_OPTIONS = "vSphere API reference, VirtualMachineBootOptions"
_SETTINGS = "VirtualMachine.Config.Settings"


def needs_efi(vm: PlacedVm) -> bool:
    """Whether the firmware is ours to decide: a VM without GPUs keeps its template's."""
    return bool(vm.resolved.gpus) or vm.is_scratch


def _version(vm: PlacedVm) -> Wanted | None:
    """Request the version of a VM that is made without a template; for others a change raises it."""
    return Wanted(vm.hardware_version, is_default=True) if vm.is_scratch and vm.hardware_version else None


def _boot_delay(vm: PlacedVm) -> Wanted | None:
    stated = vm.stated("boot_delay")
    return Wanted(stated * 1000) if isinstance(stated, int) else None


def _without_efi(vm: PlacedVm, what: str) -> Objection | None:
    if needs_efi(vm) and vm.is_new:
        return None
    if vm.base.firmware.casefold() in ("", EFI):
        return None
    message = f"{what} requires EFI firmware, but the VM uses {vm.base.firmware.upper()}"
    return Objection(Code.OPTION_NEEDS_EFI, message, "use a template with EFI firmware, or remove the key")


def _objects_to_vtpm(vm: PlacedVm, value: SettingValue) -> Objection | None:
    if not value or (not vm.is_new and vm.base.tpm_key is not None):
        return None
    if vm.key_providers is not None and not vm.key_providers:
        message = "`vtpm: true` requires a key provider, but this vCenter has none"
        remedy = (
            "add one (vCenter > Configure > Key Providers; a native key provider is sufficient), or "
            "remove `vtpm`"
        )
        return Objection(Code.KEY_PROVIDER_ABSENT, message, remedy)
    return _without_efi(vm, "`vtpm`")


HARDWARE_SETTINGS = (
    VmSetting(
        key="hardware_version",
        topic=Topic.HARDWARE,
        name="version",
        source=_CONFIG_SPEC,
        desired=_version,
        path="version",
        leaves=lambda value: {"version": f"vmx-{value}"},
        read=lambda detail: detail.hardware_version,
        same=lambda value, detail: (detail.hardware_version or 0) >= int(value),
        text=lambda value: f"vmx-{value}",
        default="the latest version supported by all hosts in the cluster, for a VM without a template",
        is_of_creation=True,
        govc=lambda value: ("vm.upgrade", f"-version={value}"),
        undo="can be undone only with a snapshot taken beforehand",
    ),
    VmSetting(
        key="firmware",
        topic=Topic.HARDWARE,
        name="firmware",
        source=_CONFIG_SPEC,
        desired=lambda vm: Wanted(EFI, is_default=True) if vm.is_new and needs_efi(vm) else None,
        path="firmware",
        read=lambda detail: detail.firmware,
        same=lambda value, detail: detail.firmware.casefold() == value,
        text=str,
        default="efi for a VM with GPUs; otherwise, the template's value",
        follows=("gpus",),
        privilege=_SETTINGS,
        is_of_creation=True,
        govc=lambda value: ("device.boot", "-firmware", str(value)),
    ),
    VmSetting(
        key="secure_boot",
        topic=Topic.HARDWARE,
        name="secure boot",
        source=_BOOT_OPTIONS,
        desired=as_stated("secure_boot"),
        path="bootOptions.efiSecureBootEnabled",
        read_path="config.bootOptions.efiSecureBootEnabled",
        unset=False,
        plan_key="secure_boot",
        in_file=as_it_is,
        default="the template's",
        privilege=_SETTINGS,
        is_of_creation=True,
        govc=lambda value: ("device.boot", f"-secure={str(value).lower()}"),
        objects=lambda vm, value: _without_efi(vm, "`secure_boot`") if value else None,
    ),
    VmSetting(
        key="boot_delay",
        topic=Topic.HARDWARE,
        name="boot delay",
        source=f"{_BOOT_OPTIONS}: milliseconds",
        desired=_boot_delay,
        path="bootOptions.bootDelay",
        read_path="config.bootOptions.bootDelay",
        unset=0,
        text=lambda value: f"{int(value) / 1000:g} s",
        plan_key="boot_delay",
        in_file=lambda value: -(-int(value) // 1000),
        default="the template's",
        privilege=_SETTINGS,
        is_live=True,
        govc=lambda value: ("device.boot", "-delay", str(value)),
    ),
    VmSetting(
        key="vtpm",
        topic=Topic.HARDWARE,
        name="virtual TPM",
        source="vSphere Security 8.0, virtual TPM: EFI, hardware version 14, a key provider",
        desired=as_stated("vtpm"),
        carrier=Carrier.DEVICE,
        read=lambda detail: detail.tpm_key is not None,
        unset=False,
        plan_key="vtpm",
        in_file=as_it_is,
        default="the template's",
        hardware=14,
        client=lambda _value: "Add New Device > Trusted Platform Module",
        undo="removing a virtual TPM also removes its keys",
        objects=_objects_to_vtpm,
    ),
)
VM_SETTINGS: tuple[VmSetting, ...] = (
    *HARDWARE_SETTINGS,
    *CPU_SETTINGS,
    *EXTRA_CONFIG_SETTINGS,
    *CLUSTER_SETTINGS,
)
_BY_KEY: Mapping[str, VmSetting] = {setting.key: setting for setting in VM_SETTINGS}

READ_PATHS: Mapping[str, VmSetting] = {
    setting.read_path: setting for setting in VM_SETTINGS if setting.read_path
}
"""The properties that are read for the rows alone, with their rows."""


def vm_setting(key: str) -> VmSetting | None:
    """Return the row with a key, None where there is none: a device, or a pair that the plan file states."""
    return _BY_KEY.get(key)


def rows_of(settings: Mapping[str, SettingValue]) -> Iterator[tuple[VmSetting, SettingValue]]:
    """Yield the row of each setting with its value, in the order of the table."""
    for setting in VM_SETTINGS:
        if setting.key in settings:
            yield setting, settings[setting.key]


def overrides(leaves: Mapping[str, SettingValue]) -> Iterator[tuple[str, SettingValue]]:
    """Yield the rows and values that a cluster's override of a VM says, by what its fields hold."""
    for setting in VM_SETTINGS:
        if setting.carrier is Carrier.CLUSTER:
            for value in setting.values:
                if all(leaves.get(path) == leaf for path, leaf in setting.on_wire(value).items()):
                    yield setting.key, value


_DEVICES = frozenset({"gpus", "nics", "disks", "storage_policy"})
_PAIR, _ATTRIBUTE, _TAGS = "extra_config.", "attributes.", "tags."


def kept_keys(vm: DesiredVm) -> tuple[str, ...]:
    """Return the keys that a plan file states of a VM, and that `apply` brings about on one that exists."""
    rows = {row.plan_key for row in VM_SETTINGS if row.plan_key and not row.is_of_creation}
    pairs = {f"{_PAIR}{key}" for key in vm.extra_config}
    attributes = {f"{_ATTRIBUTE}{name}" for name in vm.attributes or {}}
    tags = {f"{_TAGS}{category}" for category in vm.tags or {}}
    return tuple(sorted((vm.managed & (rows | _DEVICES)) | pairs | attributes | tags))


def dropped_keys(vm: PlacedVm) -> dict[str, str]:
    """Return the keys in a VM's mark that its plan file no longer states, each with its present value."""
    mark = vm.resolved.existing.mark if vm.resolved.existing is not None else None
    stated = set(kept_keys(vm.desired))
    return {key: _shown(key, vm) for key in (mark.keys if mark is not None else ()) if key not in stated}


def _shown(key: str, vm: PlacedVm) -> str:
    base = vm.base
    if key.startswith(_PAIR):
        return current(key.removeprefix(_PAIR), base) or "unset"
    if key.startswith(_ATTRIBUTE):
        return base.attributes.get(key.removeprefix(_ATTRIBUTE)) or "unset"
    if key.startswith(_TAGS):
        return "not read because it is not in any plan file"
    match key:
        case "gpus":
            return counted(len(base.vgpus) + len(base.passthrough_gpus), "GPU")
        case "nics":
            return counted(len(base.nics) + len(base.passthrough_nics), "NIC")
        case "disks":
            return counted(len(base.disks), "disk")
        case "storage_policy":
            return "unchanged"  # nobody asks for policies where no file names one
        case _:
            return ", ".join(_rows(key, vm)) or "unset"


def _rows(key: str, vm: PlacedVm) -> Iterator[str]:
    """Yield the present values on a VM of the rows that a key states."""
    for row in VM_SETTINGS:
        if row.plan_key != key:
            continue
        if row.carrier is not Carrier.CLUSTER:
            text = row.text_of(vm.base)
        else:
            text = row.text(vm.overrides[row.key]) if row.key in vm.overrides else None
        if text:
            yield text
