"""The use of a NIC: passed through whole, as virtual functions, or not at all, and its label.

Virtual functions are requested through `SriovConfig`, function by function, as the vSphere Client does. The
driver's own `max_vfs` option is the older way to the same end: one number per port in an order that the host
does not report, for all ports at once. It is left unchanged; that both agree on a host that has it is
unproven. That a label alone needs no restart is recalled.

Belief: passthrough-rebinds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from vgpu_cfg.catalog.nic import load_nics
from vgpu_cfg.changes.kinds.change_host import PassthroughDevice, PassthroughWrite, ShellWrite
from vgpu_cfg.changes.values import Impact
from vgpu_cfg.model.desired import DesiredHosts
from vgpu_cfg.model.observed.inventory import Host, HostNic, PciDevice
from vgpu_cfg.model.plan_file import HostNicEntry
from vgpu_cfg.model.plan_values import NicUse
from vgpu_cfg.model.wording import is_at_least, listed
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
from vgpu_cfg.planning.host_settings.match import nic_rules, with_function
from vgpu_cfg.planning.host_settings.nics.nic_firmware import NIC_FIRMWARE
from vgpu_cfg.planning.host_settings.nics.uplinks import base_unread, cut_off

PASSTHROUGH, LABEL, SRIOV = "nic_passthrough", "nic_label", "nic_sriov"
HANDED_OUT, HOSTS_OWN = "passthrough", "host"

GROUP = "passthrough"
"""Of GPUs and NICs alike: `UpdatePassthruConfig` takes all functions of a host at once."""

TAKE_IT_OUT = "ask the VM's owner to remove the device first, or set `use: passthrough`"

BY_FIRMWARE = "enabled by the plan's firmware settings"
WAITS_FOR_IOMMU = "after the BIOS setting in the same plan file"

_LABELS_SINCE = (7, 0, 2)
_SOURCE = "vSphere API, HostPciPassthruSystem.UpdatePassthruConfig, PciPassthruConfig, SriovConfig"


def nic_names(host: Host) -> dict[str, tuple[str, ...]]:
    """Return the catalog's names for the NICs of a host, by PCI address; also of those passed through."""
    found = {}
    for device in (*host.pci_devices, *(nic.pci for nic in host.nics if nic.pci is not None)):
        if names := load_nics().names_of(device.vendor_id, device.device_id):
            found[device.pci_id] = names
    return found


def _function(view: HostView, pci_id: str) -> PciDevice | None:
    nic = view.nic(pci_id)
    return view.device(pci_id) or (nic.pci if nic is not None else None)


def _not_listed(pci_id: str) -> Reading:
    return Reading(unread=f"the host does not list the PCI function {pci_id}")


# ------------------------------------------------------------ passthrough


def _desired_passthrough(entry: DesiredHosts, view: HostView) -> Iterator[DesiredSetting]:
    waits = [WAITS_FOR_IOMMU] if entry.bios is not None and entry.bios.iommu else []
    for nic, rule in nic_rules(entry, view):
        if rule.use is NicUse.PASSTHROUGH:
            lost = cut_off(view, nic.device) if rule.match.vmnic is not None else None
            yield DesiredSetting(
                PASSTHROUGH, HANDED_OUT, nic.pci_id, note="; ".join(waits), cuts_off=str(lost) if lost else ""
            )
        elif rule.use is not None and _function(view, nic.pci_id) is not None:
            yield DesiredSetting(PASSTHROUGH, HOSTS_OWN, device=nic.pci_id)


def _read_passthrough(view: HostView, device: str) -> Reading:
    function = _function(view, device)
    if function is None:
        return _not_listed(device)
    words = (HOSTS_OWN, HANDED_OUT)
    return Reading(configured=words[function.passthrough_enabled], runtime=words[function.passthrough_active])


def _objects_to_passthrough(view: HostView, desired: DesiredSetting) -> Objection | None:
    if desired.value == HOSTS_OWN:
        holders = view.holders.get(desired.device)
        return Objection(Code.NIC_IN_USE, held_by(holders), TAKE_IT_OUT) if holders else None
    if reason := base_unread(view):
        message = f"cannot determine whether the host uses {desired.device}: {reason}"
        return Objection(Code.SETTING_UNREAD, message, "fix the cause, then run `plan` again")
    function, nic = _function(view, desired.device), view.nic(desired.device)
    if function is not None and not function.passthrough_capable and WAITS_FOR_IOMMU not in desired.note:
        message = f"{desired.device} does not support passthrough"
        remedy = "enable the IOMMU: `bios: {iommu: true}`, or remove the NIC"
        return Objection(Code.NOT_SUPPORTED, message, remedy)
    lost = cut_off(view, nic.device) if nic is not None else None
    if nic is not None and lost is not None and str(lost) != desired.cuts_off:
        remedy = f"to use it anyway, specify `match: {{vmnic: {nic.device}}}`"
        return Objection(Code.NIC_IN_USE, str(lost), remedy)
    return None


def held_by(holders: Sequence[str]) -> str:
    """Say which VMs would lose a device that the host takes back; one that is off would not start again."""
    have = "has" if len(holders) == 1 else "have"
    return f"{listed(holders, shown=6)} {have} it as a DirectPath device"


def rebind_impact(view: HostView, desired: DesiredSetting, reading: Reading) -> Impact:
    """Return the impact of handing a function out or taking it back; a reboot if a write did not rebind.

    A driver may refuse to let go of a device, also on a host that can rebind at once.
    """
    is_stuck = desired.value == reading.configured != reading.in_force
    is_at_once = view.facts.rebind_without_reboot and not is_stuck
    return Impact.HOST_MAINTENANCE if is_at_once else Impact.HOST_REBOOT


def _show_passthrough(host: Host, desired: DesiredSetting) -> Host:
    """Show the function handed out or taken back; a NIC that is handed out is no longer the host's."""
    is_out = desired.value == HANDED_OUT
    changed = with_function(host, desired.device, passthrough_enabled=is_out, passthrough_active=is_out)
    nics = tuple(nic for nic in changed.nics if not (is_out and nic.pci_id == desired.device))
    return changed.model_copy(update={"nics": nics})


def _how_passthrough(view: HostView, desired: DesiredSetting) -> Instructions:
    is_out = desired.value == HANDED_OUT
    now = " -a" if view.facts.rebind_without_reboot else ""
    command = "esxcli hardware pci pcipassthru set -d {} -e {}{}"
    return Instructions(
        why=(
            "A passthrough NIC belongs entirely to one VM, including firmware and RDMA. The host can no "
            "longer access it, so nothing on the host may depend on it."
        ),
        client="host > Configure > Hardware > PCI Devices > Passthrough > {device} > Toggle passthrough",
        commands=(command.format(desired.device, str(is_out).lower(), now),),
        expected="no output" if now else "the host must be rebooted",
        verify=("esxcli hardware pci pcipassthru list",),
        undo=(command.format(desired.device, str(not is_out).lower(), now),),
    )


# ------------------------------------------------------------------ label


def _desired_labels(entry: DesiredHosts, view: HostView) -> Iterator[DesiredSetting]:
    for nic, rule in nic_rules(entry, view):
        if rule.label is not None:
            yield DesiredSetting(LABEL, rule.label, device=nic.pci_id)


def _read_label(view: HostView, device: str) -> Reading:
    function = _function(view, device)
    return Reading(configured=function.hardware_label or "") if function is not None else _not_listed(device)


def object_to_label(view: HostView, desired: DesiredSetting) -> Objection | None:
    if not desired.value or is_at_least(view.host.version, _LABELS_SINCE):
        return None
    message = f"hardware labels require ESXi 7.0 U2, but the host runs {view.host.version}"
    return Objection(Code.NOT_SUPPORTED, message, "remove `label`, or upgrade the host")


def _how_label(view: HostView, desired: DesiredSetting) -> Instructions:
    label = desired.value or "(empty)"
    return Instructions(
        why="With Dynamic DirectPath, VMs can request a device by its hardware label on any host that has "
        "one.",
        client=f"host > Configure > Hardware > PCI Devices > {{device}} > Hardware Label: {label}",
        expected=f"Hardware Label of {{device}}: {label}",
        verify=(f"govc object.collect -json HostSystem:{view.host.moid} config.pciPassthruInfo",),
        undo=("in the vSphere Client, set the Hardware Label back to {before}",),
    )


# ------------------------------------------------------ virtual functions


def _desired_sriov(entry: DesiredHosts, view: HostView) -> Iterator[DesiredSetting]:
    for nic, rule in nic_rules(entry, view):
        count = _functions_wanted(nic, rule)
        if count is not None:
            note = BY_FIRMWARE if _firmware_brings(rule, count) else ""
            yield DesiredSetting(SRIOV, str(count), device=nic.pci_id, note=note)


def _functions_wanted(nic: HostNic, rule: HostNicEntry) -> int | None:
    """Return how many functions a rule asks for: none where the NIC stays whole and could be cut."""
    if rule.use in (None, NicUse.SRIOV):
        return rule.vfs
    could = nic.pci is not None and nic.pci.sriov is not None and nic.pci.sriov.is_capable
    return 0 if could else None


def _firmware_brings(rule: HostNicEntry, count: int) -> bool:
    most = rule.firmware.get("NUM_OF_VFS", "0")
    return most.isdigit() and int(most) >= count > 0


def _read_sriov(view: HostView, device: str) -> Reading:
    function = _function(view, device)
    if function is None:
        return _not_listed(device)
    if function.sriov is None:
        return Reading(unread=f"{device} has no virtual functions", is_absent=True)
    found = function.sriov
    return Reading(configured=str(found.requested), runtime=str(found.functions if found.is_active else 0))


def _objects_to_sriov(view: HostView, desired: DesiredSetting) -> Objection | None:
    function = _function(view, desired.device)
    wanted, found = int(desired.value), function.sriov if function is not None else None
    if not wanted or desired.note == BY_FIRMWARE:
        return None
    remedy = (
        f"add `firmware: {{SRIOV_EN: true, NUM_OF_VFS: {wanted}}}` to the rule; SR-IOV must be enabled in "
        "the BIOS"
    )
    if found is None or not found.is_capable:
        message = f"{desired.device} does not currently offer virtual functions"
        return Objection(Code.NOT_SUPPORTED, message, remedy)
    if wanted > found.most:
        message = f"{desired.device} offers at most {found.most} virtual functions"
        return Objection(Code.NOT_SUPPORTED, message, remedy)
    return None


def _show_sriov(host: Host, desired: DesiredSetting) -> Host:
    function = host.device(desired.device)
    if function is None or function.sriov is None:
        return host
    count = int(desired.value)
    sriov = function.sriov.model_copy(
        update={"functions": count, "requested": count, "is_active": count > 0, "is_capable": True}
    )
    return with_function(host, desired.device, sriov=sriov)


def _how_sriov(view: HostView, desired: DesiredSetting) -> Instructions:
    nic = view.nic(desired.device)
    name = nic.device if nic is not None and nic.device else "vmnicN"
    # Belief: virtual-functions-by-vcenter.
    return Instructions(
        why=(
            "Virtual functions share one NIC among VMs. The firmware must offer them (SRIOV_EN, "
            "NUM_OF_VFS), and SR-IOV must be enabled in the BIOS. The host keeps the NIC, and its driver "
            "sets PFC and trust for all functions. If the driver's option string contains `max_vfs`, set it "
            "to the same number."
        ),
        client=f"host > Configure > Networking > Physical adapters > {name} > Edit > SR-IOV: {{value}}",
        expected="the host must be rebooted; then the requested number of functions is listed",
        verify=(f"esxcli network sriovnic vf list -n {name}",),
        undo=(f"in the vSphere Client, set the virtual functions of {name} back to {{before}}",),
    )


# ------------------------------------------------------------------- write


def write_passthrough(_view: HostView, desired_settings: Sequence[DesiredSetting]) -> list[PassthroughWrite]:
    """Make one call of all desired settings for PCI functions, device by device, of GPUs as of NICs."""
    devices: dict[str, dict[str, object]] = {}
    for desired in desired_settings:
        requested = devices.setdefault(desired.device, {"pci_id": desired.device})
        if desired.setting == SRIOV:
            requested["virtual_functions"] = int(desired.value)
        elif desired.setting.endswith("_label"):
            requested["label"] = desired.value
        else:
            requested["is_passthrough"] = desired.value == HANDED_OUT
    rows = tuple(PassthroughDevice.model_validate(row) for row in devices.values())
    return [PassthroughWrite(devices=rows)]


def passthrough_by_esxcli(view: HostView, desired_settings: Sequence[DesiredSetting]) -> ShellWrite | None:
    """Toggle by esxcli on the shell (ESXi 7.0 on); nothing does so for labels and virtual functions.

    The short options are those in use in the field; the long ones are unproven.
    """
    if not all(desired.setting.endswith("_passthrough") for desired in desired_settings):
        return None
    now = ("-a",) if view.facts.rebind_without_reboot else ()
    start = ("esxcli", "hardware", "pci", "pcipassthru", "set")
    return ShellWrite(
        commands=tuple(
            (*start, "-d", desired.device, "-e", str(desired.value == HANDED_OUT).lower(), *now)
            for desired in desired_settings
        )
    )


NIC_PASSTHROUGH = HostSetting(
    key=PASSTHROUGH,
    title="NIC passthrough",
    source=_SOURCE,
    desired_settings=_desired_passthrough,
    read=_read_passthrough,
    write=write_passthrough,
    impact=lambda view, desired: rebind_impact(view, desired, _read_passthrough(view, desired.device)),
    how=_how_passthrough,
    group=GROUP,
    in_file=only(Part.NIC, "use", "passthrough", where=HANDED_OUT),
    remembered=None,
    needs_in_force=(NIC_FIRMWARE.key, "bios_iommu"),
    has_need=lambda desired, _key: desired.value == HANDED_OUT,
    objects=_objects_to_passthrough,
    other_way=passthrough_by_esxcli,
    show=_show_passthrough,
)

NIC_LABEL = HostSetting(
    key=LABEL,
    title="NIC label",
    source=_SOURCE,
    desired_settings=_desired_labels,
    read=_read_label,
    write=write_passthrough,
    impact=lambda _view, _desired: Impact.NONE,
    how=_how_label,
    group=GROUP,
    in_file=InFile(Part.NIC, lambda label: {"label": label} if label else {}),
    remembered=None,
    after=(PASSTHROUGH,),
    objects=object_to_label,
    other_way=passthrough_by_esxcli,
    show=lambda host, desired: with_function(host, desired.device, hardware_label=desired.value or None),
    by_hand=lambda _view, desired: (
        f"in the vSphere Client, set the label of {desired.device} to {desired.value!r}"
    ),
)

NIC_SRIOV = HostSetting(
    key=SRIOV,
    title="virtual functions",
    source=f"{_SOURCE}; vSphere Networking 8.0, SR-IOV; NVIDIA native ESXi driver manual, virtualization",
    desired_settings=_desired_sriov,
    read=_read_sriov,
    write=write_passthrough,
    impact=lambda _view, _desired: Impact.HOST_REBOOT,
    how=_how_sriov,
    group=GROUP,
    in_file=InFile(Part.NIC, lambda count: {"use": "sriov", "vfs": int(count)} if int(count) else {}),
    remembered=None,
    after=(PASSTHROUGH,),
    needs_in_force=(NIC_FIRMWARE.key, "bios_sriov"),
    has_need=lambda desired, _key: desired.value != "0",
    objects=_objects_to_sriov,
    other_way=passthrough_by_esxcli,
    show=_show_sriov,
    by_hand=lambda _view, desired: (
        f"in the vSphere Client, enable {desired.value} virtual functions on {desired.device}"
    ),
)
