"""Which edits give a VM exactly the desired GPU devices: vGPUs as a multiset, passthrough by function.

A device is matched by what it is, never by its slot. Removals come first, since the
framebuffer they free may be what the additions need; a profile is replaced by a
removal and an addition (there is no proof that vSphere lets it be edited).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from vgpu_cfg.model.change import Edit
from vgpu_cfg.model.vm import PassthroughDevice, VgpuDevice, VmDetail
from vgpu_cfg.model.vm_spec import DeviceEdit, NewDynamicPassthrough, NewPassthrough, NewVgpu, RemoveDevice

FIRST_PASSTHROUGH_KEY = 13000
"""`pciPassthru<n>` is the device with the key 13000 + n: seen on vSphere 8.0.3 for passthrough."""

WantedGpu = NewVgpu | NewPassthrough | NewDynamicPassthrough


def uvm_key(device_key: int) -> str:
    """Return the extraConfig key that turns a vGPU's unified memory on."""
    return f"pciPassthru{device_key - FIRST_PASSTHROUGH_KEY}.cfg.enable_uvm"


def has_uvm(device: VgpuDevice, detail: VmDetail) -> bool:
    """Whether a vGPU's unified memory is on."""
    return detail.extra_config.get(uvm_key(device.key), "0").strip() in ("1", "TRUE", "true")


@dataclass(slots=True)
class GpuEdits:
    """The difference. `removals` stand apart, so that all of a VM's removals can come first."""

    removals: list[DeviceEdit] = field(default_factory=list)
    additions: list[DeviceEdit] = field(default_factory=list)
    extra_config: dict[str, str] = field(default_factory=dict)
    edits: list[Edit] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        """Whether the VM has what is wanted."""
        return not (self.removals or self.additions or self.extra_config)


def compare_gpus(wanted: Sequence[WantedGpu], detail: VmDetail, notes: Sequence[str] = ()) -> GpuEdits:
    """List the edits that give a VM exactly these GPU devices; `notes` go with the wanted ones."""
    result = GpuEdits()
    remarks = {index: note for index, note in enumerate(notes) if note}
    left_vgpus = list(detail.vgpus)
    left_others = list(detail.passthrough_gpus)
    new: list[tuple[WantedGpu, str]] = []
    for index, gpu in enumerate(wanted):
        if isinstance(gpu, NewVgpu):
            found = _best_vgpu(gpu, left_vgpus, detail)
            if found is not None:
                left_vgpus.remove(found)
                _compare_uvm(gpu, found, detail, result)
                continue
        else:
            other = next((one for one in left_others if _is_same(gpu, one)), None)
            if other is not None:
                left_others.remove(other)
                continue
        new.append((gpu, remarks.get(index, "")))
    before = [(device.key, device.profile) for device in left_vgpus]
    before += [(device.key, _passthrough_words(device)) for device in left_others]
    result.removals = [RemoveDevice(key=key, was=was) for key, was in before]
    result.additions = [gpu for gpu, _ in new]
    result.extra_config |= {
        key: "" for device in left_vgpus if (key := uvm_key(device.key)) in detail.extra_config
    }
    for place in range(max(len(before), len(new))):
        was = before[place][1] if place < len(before) else None
        gpu_is, note = (gpu_words(new[place][0]), new[place][1]) if place < len(new) else (None, "")
        result.edits.append(Edit(key="gpu", before=was, after=gpu_is, note=note))
    return result


def gpu_words(gpu: WantedGpu) -> str:
    """Spell a GPU device for a reader."""
    match gpu:
        case NewVgpu():
            return f"{gpu.profile}, unified memory" if gpu.uvm else gpu.profile
        case NewPassthrough():
            return f"passthrough {gpu.pci_id}"
        case NewDynamicPassthrough():
            ids = ", ".join(f"{vendor:04x}:{device:04x}" for vendor, device in gpu.allowed)
            return f"passthrough of any {ids}" + (f" with label {gpu.label}" if gpu.label else "")


def _best_vgpu(gpu: NewVgpu, left: Sequence[VgpuDevice], detail: VmDetail) -> VgpuDevice | None:
    same = [device for device in left if device.profile == gpu.profile]
    return min(same, key=lambda device: has_uvm(device, detail) is not gpu.uvm, default=None)


def _compare_uvm(gpu: NewVgpu, found: VgpuDevice, detail: VmDetail, result: GpuEdits) -> None:
    if has_uvm(found, detail) is gpu.uvm:
        return
    key = uvm_key(found.key)
    result.extra_config[key] = "1" if gpu.uvm else ""
    before = detail.extra_config.get(key)
    result.edits.append(Edit(key=key, before=before, after="1" if gpu.uvm else None, note=gpu.profile))


def _is_same(gpu: NewPassthrough | NewDynamicPassthrough, device: PassthroughDevice) -> bool:
    if isinstance(gpu, NewPassthrough):
        return device.pci_id == gpu.pci_id
    return (
        not device.is_fixed
        and bool(device.allowed)
        and set(device.allowed) == set(gpu.allowed)
        and (device.label or None) == (gpu.label or None)
    )


def _passthrough_words(device: PassthroughDevice) -> str:
    if device.pci_id is not None:
        return f"passthrough {device.pci_id}"
    ids = ", ".join(f"{vendor:04x}:{found:04x}" for vendor, found in device.allowed)
    return f"passthrough of any {ids}" + (f" with label {device.label}" if device.label else "")
