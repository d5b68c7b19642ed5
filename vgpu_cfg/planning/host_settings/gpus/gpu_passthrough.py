"""How a GPU is handed through whole or taken back, what forbids it, and what its hardware label is.

Both are parts of `PciPassthruConfig`, and go into one call with those of NICs. A host that can rebind a
device to another driver does it at once, every other one when it boots. While a GPU is passed through,
neither the NVIDIA driver nor the graphics manager of the host sees it. That a label may be set without
disturbing anything is recalled. Sources: vim `HostPciPassthruConfig` (hardwareLabel 7.0.2.0),
`HostPciPassthruInfo`, `HostCapability.deviceRebindWithoutRebootSupported` (7.0).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from vgpu_cfg.changes.values import Impact
from vgpu_cfg.model.desired import DesiredHosts
from vgpu_cfg.model.observed.inventory import Host, PciDevice
from vgpu_cfg.model.plan_values import GpuUse
from vgpu_cfg.model.wording import is_at_least
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.findings.collection import Objection
from vgpu_cfg.planning.host_settings.entry import (
    DesiredSetting,
    HostSetting,
    HostView,
    InFile,
    Instructions,
    Part,
    Reading,
    only,
)
from vgpu_cfg.planning.host_settings.match import gpu_rules
from vgpu_cfg.planning.host_settings.nics.handed_out import (
    GROUP,
    TAKE_IT_OUT,
    held_by,
    object_to_label,
    passthrough_by_esxcli,
    rebind_impact,
    with_function,
    write_passthrough,
)

PASSTHROUGH, HOST = "passthrough", "host"

_NVSWITCH_SINCE = (9, 0)
_WAITS_FOR_IOMMU = "the BIOS entry of the same plan file comes first"


def _desired_use(entry: DesiredHosts, view: HostView) -> Iterable[DesiredSetting]:
    """Ask for passthrough or against it; a GPU for vGPUs must not be passed through."""
    waits = entry.bios is not None and entry.bios.iommu is True
    for gpu, rule in gpu_rules(entry, view):
        if rule.use is GpuUse.PASSTHROUGH:
            yield DesiredSetting(
                "gpu_passthrough", PASSTHROUGH, gpu.pci_id, note=_WAITS_FOR_IOMMU if waits else ""
            )
        elif rule.use is GpuUse.VGPU:
            yield DesiredSetting("gpu_passthrough", HOST, gpu.pci_id)


def _read_use(view: HostView, device: str) -> Reading:
    """Read what the list of PCI functions says; a GPU that the graphics manager shows is the host's own."""
    found = _listed(view, device)
    gpu = view.gpu(device)
    if found is None and gpu is not None and gpu.graphics_type is not None:
        return Reading(configured=HOST)
    if found is None:
        return Reading(unread="the host's list of PCI functions lacks it")
    return Reading(configured=_word(found.passthrough_enabled), runtime=_word(found.passthrough_active))


def _word(is_passthrough: bool) -> str:  # noqa: FBT001 - the value itself is what is put into words
    return PASSTHROUGH if is_passthrough else HOST


def _listed(view: HostView, device: str) -> PciDevice | None:
    """Return the function as the host's own list has it: one that stands in for a GPU tells no state."""
    return view.host.device(device)


def _object_to_use(view: HostView, desired: DesiredSetting) -> Objection | None:
    gpu = view.gpu(desired.device)
    if desired.value == HOST and (holders := view.holders.get(desired.device)):
        return Objection(Code.GPU_SERVES_VGPUS, held_by(holders), TAKE_IT_OUT)
    if desired.value == HOST or gpu is None:
        return None
    board = view.boards.get(desired.device)
    if gpu.vm_moids and not gpu.is_passthrough:
        message = f"it holds vGPUs of {len(gpu.vm_moids)} running VM(s)"
        return Objection(Code.GPU_SERVES_VGPUS, message, "move or switch these VMs off, then plan again")
    if board is not None and board.is_nvswitch and not is_at_least(view.host.version, _NVSWITCH_SINCE):
        message = f"{board.name} sits on NVSwitch, whose GPUs vSphere before 9.0 does not pass through"
        return Objection(Code.NVSWITCH_PASSTHROUGH, message, "give VMs full-size vGPUs or device groups")
    found = _listed(view, desired.device)
    if found is not None and not found.passthrough_capable and desired.note != _WAITS_FOR_IOMMU:
        message = "the host cannot pass it through"
        return Objection(Code.NOT_SUPPORTED, message, "switch the IOMMU on: `bios: {iommu: true}`")
    return None


def _show_use(host: Host, desired: DesiredSetting) -> Host:
    is_passed = desired.value == PASSTHROUGH
    return with_function(host, desired.device, passthrough_enabled=is_passed, passthrough_active=is_passed)


def _desired_label(entry: DesiredHosts, view: HostView) -> Iterable[DesiredSetting]:
    """Ask for a label; an empty one removes it."""
    for gpu, rule in gpu_rules(entry, view):
        if rule.label is not None and rule.use is not GpuUse.LEAVE:
            yield DesiredSetting("gpu_label", rule.label, gpu.pci_id)


def _read_label(view: HostView, device: str) -> Reading:
    found = _listed(view, device)
    if found is None:
        return Reading(unread="the host's list of PCI functions lacks it")
    return Reading(configured=found.hardware_label or "")


def _esxcli(view: HostView, desired: DesiredSetting) -> tuple[str, ...]:
    write = passthrough_by_esxcli(view, [desired])
    return () if write is None else write.typed(view.host.name)


def _how_use(view: HostView, desired: DesiredSetting) -> Instructions:
    other = HOST if desired.value == PASSTHROUGH else PASSTHROUGH
    why = (
        "a VM gets the whole GPU only when the host hands it out. The host's NVIDIA driver no longer sees it"
        if desired.value == PASSTHROUGH
        else "the NVIDIA host driver serves vGPUs only on a GPU that the host has not handed out"
    )
    return Instructions(
        why=why,
        client="host > Configure > Hardware > PCI Devices > {device} > Toggle Passthrough",
        commands=_esxcli(view, desired),
        expected=f"Enabled: {'true' if desired.value == PASSTHROUGH else 'false'} for the device",
        verify=("esxcli hardware pci pcipassthru list",),
        undo=_esxcli(view, replace(desired, value=other)),
    )


def _how_label(_view: HostView, _desired: DesiredSetting) -> Instructions:
    return Instructions(
        why="a VM with a Dynamic DirectPath device may ask for a GPU by this label, whatever host has it",
        client="host > Configure > Hardware > PCI Devices > {device} > Hardware Label",
        expected="the label stands beside the device",
        verify=("govc object.collect -json -s {host} config.pciPassthruInfo",),
        undo=("# as above, with the label {before}",),
    )


PASSTHROUGH_SETTINGS = (
    HostSetting(
        key="gpu_passthrough",
        title="passthrough of the GPU",
        source="vim HostPciPassthruConfig",
        desired_settings=_desired_use,
        read=_read_use,
        write=write_passthrough,
        other_way=passthrough_by_esxcli,
        impact=lambda view, desired: rebind_impact(view, desired, _read_use(view, desired.device)),
        how=_how_use,
        group=GROUP,
        in_file=only(Part.GPU, "use", "passthrough", where=PASSTHROUGH),
        remembered=None,
        needs_in_force=("bios_iommu",),
        objects=_object_to_use,
        show=_show_use,
    ),
    HostSetting(
        key="gpu_label",
        title="hardware label of the GPU",
        source="vim HostPciPassthruConfig.hardwareLabel (7.0.2.0)",
        desired_settings=_desired_label,
        read=_read_label,
        write=write_passthrough,
        other_way=passthrough_by_esxcli,
        impact=lambda _view, _desired: Impact.NONE,
        how=_how_label,
        group=GROUP,
        in_file=InFile(Part.GPU, lambda label: {"label": label} if label else {}),
        remembered=None,
        after=("gpu_passthrough",),
        objects=object_to_label,
        show=lambda host, desired: with_function(host, desired.device, hardware_label=desired.value or None),
    ),
)
