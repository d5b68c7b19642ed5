"""Whether a template can carry what the plan makes of it, as far as vCenter tells before it is cloned."""

from __future__ import annotations

from vgpu_cfg.model.desired import DesiredDiskGrowth, DesiredVm
from vgpu_cfg.model.guests.guest import REDACTED, USERDATA_KEY
from vgpu_cfg.model.observed.vm import Vm, VmDetail
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.findings.collection import Findings

NO_TOOLS = "guestToolsNotInstalled"
"""vim `VirtualMachineToolsVersionStatus`: VMware Tools were never installed, or never ran."""


def check_template(vm: DesiredVm, template: Vm, base: VmDetail, findings: Findings) -> None:
    """Check firmware, tools, left user data and, of a linked clone, the snapshot."""
    if base.firmware.casefold() == "bios" and vm.gpus:
        message = f"the template {template.name} boots with BIOS firmware; GPUs need EFI"
        remedy = "clone one whose system was installed in EFI mode: after a mere switch it does not boot"
        findings.refuse_vm(Code.TEMPLATE_IS_BIOS, vm, message, remedy)
    if base.tools_status == NO_TOOLS and vm.guest is not None:
        message = (
            f"vCenter has seen no VMware Tools in the template {template.name}: without them {_without(vm)}"
        )
        remedy = "install open-vm-tools in it; `verify --template` shows whether they are there and never ran"
        findings.add_vm(Code.TEMPLATE_NO_TOOLS, vm, message, remedy)
    is_ours = vm.guest is not None and vm.guest.by == "cloud-init" and vm.guest.is_staged
    if base.extra_config.get(USERDATA_KEY, "") not in ("", REDACTED) and not is_ours:
        message = (
            f"the template {template.name} holds user data of its own ({USERDATA_KEY}): its clone carries "
            "it, and cloud-init acts on it at the first boot"
        )
        remedy = f"empty {USERDATA_KEY} of the template, or write `guest`, whose data takes its place"
        findings.add_vm(Code.TEMPLATE_HAS_USER_DATA, vm, message, remedy)
    if vm.is_linked and any(isinstance(disk, DesiredDiskGrowth) for disk in vm.disks):
        message = "a linked clone shares the template's disk, which cannot grow then"
        findings.add_vm(Code.DISK_HAS_SNAPSHOT, vm, message, "write `clone: full`, or remove `grow`")
    if vm.is_linked and base.snapshot_moid is None:
        message = f"the template {template.name} has no snapshot, which a linked clone starts from"
        remedy = "take a snapshot of it (as a VM), or write `clone: full`"
        findings.refuse_vm(Code.TEMPLATE_WITHOUT_SNAPSHOT, vm, message, remedy)


def _without(vm: DesiredVm) -> str:
    """Say what a guest cannot be given where it has no tools."""
    by = vm.guest.by if vm.guest is not None else ""
    if vm.guest is not None and vm.guest.spec:
        return "its customisation never begins"
    if by == "guest-operations":
        return "no guest operation reaches the guest, and it is not staged"
    if by == "ssh":
        return "vCenter tells no address of the guest, and only one that the plan states leads there"
    return "cloud-init finds no way to its data, and the guest tells neither address nor report"
