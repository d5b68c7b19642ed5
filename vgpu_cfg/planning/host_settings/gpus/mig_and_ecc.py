"""A whole GPU's settings on its host: MIG mode, ECC, passthrough with its obstacles, and hardware label.

Only `nvidia-smi` on the host's shell writes MIG mode or ECC. MIG: Ampere needs a reboot and then keeps the
mode; Hopper and later need none, and come up without MIG after every reboot. From ESXi 8.0 U3 on the API
reports the mode that is in force, the pending one shows in `nvidia-smi` alone. ECC needs a reboot and stays.
That ESXi itself loses MIG mode on Hopper at a reboot is derived from the general rule.

Passthrough and label are parts of `PciPassthruConfig`, and go into one call with those of NICs. A host that
can rebind a device to another driver does it at once, every other one when it boots. While a GPU is passed
through, neither the NVIDIA driver nor the graphics manager of the host sees it. That a label may be set
without disturbing anything is recalled.

Sources: NVIDIA AI Enterprise 5.0 User Guide 2.11, 2.13; NVIDIA MIG User Guide; vim `HostPciPassthruConfig`
(hardwareLabel 7.0.2.0), `HostPciPassthruInfo`, `HostCapability.deviceRebindWithoutRebootSupported` (7.0).

Belief: mig-mode-on-ampere, mig-mode-from-hopper.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial

from vgpu_cfg.changes.kinds.change_host import HostWrite, ShellWrite
from vgpu_cfg.changes.values import Impact
from vgpu_cfg.model.desired import DesiredHosts
from vgpu_cfg.model.observed.host_facts import FactGroup
from vgpu_cfg.model.observed.inventory import Host, PciDevice
from vgpu_cfg.model.plan_values import GpuUse
from vgpu_cfg.model.vgpu import Sharing
from vgpu_cfg.model.wording import counted, is_at_least
from vgpu_cfg.planning.capacity.pci_tree import is_switched
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.findings.collection import Objection
from vgpu_cfg.planning.host_settings.entry import (
    DesiredSetting,
    HostSetting,
    HostView,
    InFile,
    Instructions,
    Invalidator,
    Part,
    Reading,
    Remembering,
    only,
)
from vgpu_cfg.planning.host_settings.gpus.gpu_support import (
    architecture,
    objection_to,
    served_gpus,
    shell_facts,
    with_gpu,
)
from vgpu_cfg.planning.host_settings.match import gpu_rules, with_function
from vgpu_cfg.planning.host_settings.nics.handed_out import (
    GROUP,
    TAKE_IT_OUT,
    held_by,
    object_to_label,
    passthrough_by_esxcli,
    rebind_impact,
    write_passthrough,
)

ON, OFF = "enabled", "disabled"

_API_TELLS_MIG = (8, 0, 3)
_AT_ONCE = ("Hopper", "Blackwell")

PASSTHROUGH, HOST = "passthrough", "host"

_NVSWITCH_SINCE = (9, 0)
_WAITS_FOR_IOMMU = "after the BIOS setting in the same plan file"


def _word(is_on: bool) -> str:  # noqa: FBT001 - the value itself is what is put into words
    return ON if is_on else OFF


def _states(*, current: bool | None, pending: bool | None) -> Reading | None:
    """Return the configured value and the one in force, None if `nvidia-smi` prints N/A."""
    if current is None:
        return None
    return Reading(configured=_word(current if pending is None else pending), runtime=_word(current))


def _desired_mig(entry: DesiredHosts, view: HostView) -> Iterable[DesiredSetting]:
    """Ask for MIG or against it; against it not on boards that have none."""
    for gpu, rule, note in served_gpus(entry, view):
        if rule.sharing is None:
            continue
        board = view.boards.get(gpu.pci_id)
        if rule.sharing is Sharing.TIME_SLICED and board is not None and board.mig is None:
            continue
        yield DesiredSetting("mig", _word(rule.sharing is Sharing.MIG), gpu.pci_id, note=note)


def _read_mig(view: HostView, device: str) -> Reading:
    """Read it from `nvidia-smi`; without a shell the API's value in force, from 8.0 U3 on."""
    facts, reason = shell_facts(view, device)
    if facts is not None:
        return _states(current=facts.mig_current, pending=facts.mig_pending) or Reading(configured=OFF)
    gpu = view.gpu(device)
    if gpu is None:
        return Reading(unread="the host does not list this GPU", is_absent=True)
    if gpu.sharing is not None and not gpu.is_passthrough and is_at_least(view.host.version, _API_TELLS_MIG):
        return Reading(configured=_word(gpu.sharing is Sharing.MIG))
    return Reading(unread=reason)


def _object_to_mig(view: HostView, desired: DesiredSetting) -> Objection | None:
    board = view.boards.get(desired.device)
    facts, _ = shell_facts(view, desired.device)
    has_none = (board is not None and board.mig is None) or (facts is not None and facts.mig_current is None)
    if desired.value == ON and has_none:
        name = board.name if board is not None else "the GPU"
        return Objection(
            Code.NOT_SUPPORTED, f"{name} does not support MIG mode", "set `sharing: time_sliced` for this GPU"
        )
    return objection_to(view, desired)


def _is_at_once(view: HostView, desired: DesiredSetting) -> bool:
    return architecture(view, desired.device) in _AT_ONCE


def _mig_impact(view: HostView, desired: DesiredSetting) -> Impact:
    """Return the impact; an unknown board is assumed to need a reboot, as Ampere does."""
    return Impact.HOST_MAINTENANCE if _is_at_once(view, desired) else Impact.HOST_REBOOT


def _nvidia_smi(option: str, desired: DesiredSetting, value: str) -> tuple[str, ...]:
    return ("nvidia-smi", "-i", desired.device, option, "1" if value == ON else "0")


def _write(option: str, _view: HostView, desired_settings: Sequence[DesiredSetting]) -> Sequence[HostWrite]:
    return (
        ShellWrite(
            commands=tuple(_nvidia_smi(option, desired, desired.value) for desired in desired_settings)
        ),
    )


def _show_mig(host: Host, desired: DesiredSetting) -> Host:
    if desired.value == ON:
        return with_gpu(host, desired.device, sharing=Sharing.MIG, vgpu_mode=None)
    return with_gpu(host, desired.device, sharing=Sharing.TIME_SLICED)


def _how_mig(view: HostView, desired: DesiredSetting) -> Instructions:
    reboot = () if _is_at_once(view, desired) else ("esxcli system shutdown reboot --reason=MIG",)
    stays = (
        "A host reboot turns MIG mode off, so it is set again after every reboot"
        if _is_at_once(view, desired)
        else "MIG mode takes effect after a reboot and remains on until it is turned off"
    )
    other = OFF if desired.value == ON else ON
    shown = "Enabled" if desired.value == ON else "Disabled"
    return Instructions(
        why=(
            "a GPU in MIG mode accepts only MIG-backed profiles; any other GPU accepts only time-sliced "
            "ones. vSphere creates the MIG instances. The GPU must be idle, or the mode remains pending. "
            f"{stays}"
        ),
        commands=(" ".join(_nvidia_smi("-mig", desired, desired.value)),),
        expected=f"{shown} MIG Mode for GPU 0000{{device}}, then: All done.",
        verify=(
            "nvidia-smi -i {device} --query-gpu=pci.bus_id,mig.mode.current,mig.mode.pending --format=csv",
        ),
        undo=(" ".join(_nvidia_smi("-mig", desired, other)), *reboot),
    )


def _desired_ecc(entry: DesiredHosts, view: HostView) -> Iterable[DesiredSetting]:
    for gpu, rule, note in served_gpus(entry, view):
        if rule.ecc is not None:
            yield DesiredSetting("ecc", _word(rule.ecc), gpu.pci_id, note=note)


def _read_ecc(view: HostView, device: str) -> Reading:
    facts, reason = shell_facts(view, device)
    if facts is None:
        return Reading(unread=reason)
    absent = Reading(unread="the GPU does not support ECC (nvidia-smi prints N/A)", is_absent=True)
    return _states(current=facts.ecc_current, pending=facts.ecc_pending) or absent


def _how_ecc(view: HostView, desired: DesiredSetting) -> Instructions:
    board = view.boards.get(desired.device)
    cost = (
        "On boards with HBM, it is on by default and uses no framebuffer; on boards with GDDR, it uses 1/16"
    )
    if board is not None:
        has_hbm = board.memory_type.upper().startswith("HBM")
        cost = (
            f"{board.name} has {board.memory_type}: ECC uses {'no' if has_hbm else '1/16 of the'} framebuffer"
        )
    other = OFF if desired.value == ON else ON
    return Instructions(
        why=f"ECC corrects single-bit errors. {cost}. A VM can migrate only between GPUs with the same ECC "
        "state.",
        commands=(" ".join(_nvidia_smi("-e", desired, desired.value)),),
        expected="after the reboot, Current and Pending match under Ecc Mode",
        verify=("nvidia-smi -i {device} -q | grep -A 2 -i 'ecc mode'",),
        undo=(" ".join(_nvidia_smi("-e", desired, other)), "esxcli system shutdown reboot --reason=ECC"),
    )


MIG = HostSetting(
    key="mig",
    title="MIG mode",
    source="NVIDIA AI Enterprise 5.0 User Guide 2.11; NVIDIA MIG User Guide",
    desired_settings=_desired_mig,
    read=_read_mig,
    write=partial(_write, "-mig"),
    impact=_mig_impact,
    how=_how_mig,
    group="mig",
    # From Hopper on the mode changes without a reboot, and before ESXi 8.0 U3 nothing else would show that.
    in_file=only(Part.GPU, "sharing", "mig", where=ON),
    remembered=Remembering(
        (Invalidator.BOOT, Invalidator.BUILD, Invalidator.DRIVER),
        attributes=2,
        words=(ON, OFF),
        changes_unseen=lambda view, device: architecture(view, device) in ("", *_AT_ONCE),
    ),
    facts=frozenset({FactGroup.SHELL_GPUS, FactGroup.SOFTWARE}),
    needs_in_force=("driver", "gpu_passthrough"),
    is_dropped_by_reboot=lambda view, desired: desired.value == ON and _is_at_once(view, desired),
    objects=_object_to_mig,
    show=_show_mig,
)

ECC = HostSetting(
    key="ecc",
    title="ECC",
    source="NVIDIA AI Enterprise 5.0 User Guide 2.13",
    desired_settings=_desired_ecc,
    read=_read_ecc,
    write=partial(_write, "-e"),
    impact=lambda _view, _desired: Impact.HOST_REBOOT,
    how=_how_ecc,
    group="ecc",
    # Another state is pending until the host has booted.
    in_file="readable only with nvidia-smi on the host",
    remembered=Remembering(
        (Invalidator.BOOT, Invalidator.BUILD, Invalidator.DRIVER), attributes=2, words=(ON, OFF)
    ),
    facts=frozenset({FactGroup.SHELL_GPUS, FactGroup.SOFTWARE}),
    needs_in_force=("driver", "gpu_passthrough"),
    objects=objection_to,
)


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
    """Read it from the list of PCI functions; a GPU that the graphics manager shows is the host's own."""
    found = _listed(view, device)
    gpu = view.gpu(device)
    if found is None and gpu is not None and gpu.graphics_type is not None:
        return Reading(configured=HOST)
    if found is None:
        return Reading(unread="not in the host's list of PCI functions")
    return Reading(
        configured=_gpu_passthrough_word(found.passthrough_enabled),
        runtime=_gpu_passthrough_word(found.passthrough_active),
    )


def _gpu_passthrough_word(is_passthrough: bool) -> str:  # noqa: FBT001 - the value itself is what is put into words
    return PASSTHROUGH if is_passthrough else HOST


def _listed(view: HostView, device: str) -> PciDevice | None:
    """Return the function as in the host's own list: a substitute for a GPU has no state."""
    return view.host.device(device)


def _object_to_use(view: HostView, desired: DesiredSetting) -> Objection | None:
    gpu = view.gpu(desired.device)
    if desired.value == HOST and (holders := view.holders.get(desired.device)):
        return Objection(Code.GPU_SERVES_VGPUS, held_by(holders), TAKE_IT_OUT)
    if desired.value == HOST or gpu is None:
        return None
    board = view.boards.get(desired.device)
    if gpu.vm_moids and not gpu.is_passthrough:
        message = f"its vGPUs are used by {counted(len(gpu.vm_moids), 'running VM')}"
        return Objection(Code.GPU_SERVES_VGPUS, message, "move or power off these VMs, then run `plan` again")
    is_new = is_at_least(view.host.version, _NVSWITCH_SINCE)
    if board is not None and not is_new and is_switched(view.host, board):
        message = (
            f"{board.name} is connected to NVSwitch, and vSphere versions earlier than 9.0 do not support "
            "passthrough of such GPUs"
        )
        return Objection(Code.NVSWITCH_PASSTHROUGH, message, "use full-size vGPUs or device groups")
    found = _listed(view, desired.device)
    if found is not None and not found.passthrough_capable and desired.note != _WAITS_FOR_IOMMU:
        message = "the host does not support passthrough for it"
        return Objection(Code.NOT_SUPPORTED, message, "enable the IOMMU: `bios: {iommu: true}`")
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
        return Reading(unread="not in the host's list of PCI functions")
    return Reading(configured=found.hardware_label or "")


def _esxcli(view: HostView, desired: DesiredSetting) -> tuple[str, ...]:
    write = passthrough_by_esxcli(view, [desired])
    return () if write is None else write.typed(view.host.name)


def _how_use(view: HostView, desired: DesiredSetting) -> Instructions:
    other = HOST if desired.value == PASSTHROUGH else PASSTHROUGH
    why = (
        "a VM can use the entire physical GPU only through passthrough. The host's NVIDIA driver can then "
        "no longer access it"
        if desired.value == PASSTHROUGH
        else "the NVIDIA host driver provides vGPUs only on GPUs that are not in passthrough mode"
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
        why="a VM with a Dynamic DirectPath device can request a GPU by this label on any host that has one",
        client="host > Configure > Hardware > PCI Devices > {device} > Hardware Label",
        expected="the label is listed next to the device",
        verify=("govc object.collect -json -s {host} config.pciPassthruInfo",),
        undo=("# use the same command with the label {before}",),
    )


PASSTHROUGH_SETTINGS = (
    HostSetting(
        key="gpu_passthrough",
        title="GPU passthrough",
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
        title="GPU hardware label",
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
