"""The plan that removes exactly what a plan owns: its VMs and its rules, and nothing of anybody else's."""

from __future__ import annotations

from collections.abc import Sequence

from vgpu_cfg.model.change import (
    Change,
    DestroyVm,
    Edit,
    Impact,
    Plan,
    PlanTarget,
    PowerOffVm,
    Subject,
    VmRef,
)
from vgpu_cfg.model.desired import DesiredPlan
from vgpu_cfg.model.inventory import Inventory
from vgpu_cfg.model.vm import PowerState, Vm
from vgpu_cfg.planning.checks import Code
from vgpu_cfg.planning.findings import Findings
from vgpu_cfg.planning.host_rules import remove_host_rules
from vgpu_cfg.planning.new_vms import change_id
from vgpu_cfg.planning.options import PlanOptions
from vgpu_cfg.planning.ownership import judge_ownership, protects_vm
from vgpu_cfg.planning.rules import remove_rules
from vgpu_cfg.planning.site import Site
from vgpu_cfg.planning.words import as_counted


def plan_removal(vm: Vm) -> list[Change]:
    """List the changes that delete a VM: off first, then away with its disks."""
    subject = Subject(kind="vm", name=vm.name, moid=vm.moid)
    ref = VmRef(name=vm.name, moid=vm.moid)
    changes: list[Change] = []
    if vm.power_state is not PowerState.OFF:
        changes.append(
            PowerOffVm(
                id=change_id("power off", vm.name),
                subject=subject,
                edits=(Edit(key="power", before="on" if vm.is_on else "suspended", after="off"),),
                impact=Impact.POWER_CYCLE,
                host_moid=vm.host_moid,
                vm=ref,
            )
        )
    changes.append(
        DestroyVm(
            id=change_id("delete", vm.name),
            subject=subject,
            edits=(Edit(key="vm", before=vm.inventory_path or vm.name),),
            needs=tuple(change.id for change in changes),
            host_moid=vm.host_moid,
            vm=ref,
        )
    )
    return changes


def make_destroy_plan(desired: DesiredPlan, observed: Inventory, options: PlanOptions | None = None) -> Plan:
    """Plan the removal of the VMs that are truly this plan's, those that left the plan file included.

    A VM with `lock: true` or under `protect` is an error; one that only looks like the plan's is
    left alone with a warning.
    """
    chosen = options or PlanOptions()
    findings, quiet = Findings.for_plan(desired), Findings()
    site, quiet_site = Site(desired, observed, findings), Site(desired, observed, Findings())
    folders = {vm.name: quiet_site.folder_of(vm) for vm in desired.vms}
    owned = judge_ownership(desired, observed, folders, quiet)
    for found in quiet.diagnostics():
        if found.code in (Code.MARK_DISAGREES, Code.MARK_COPIED, Code.NOT_OURS):
            findings.add(Code.MARK_COPIED, found.subject, f"left alone: {found.message}", found.remedy)
    hosts = observed.host_by_moid
    folder_by_moid = {folder.moid: folder for folder in observed.folders}
    wanted = {vm.name: vm for vm in desired.vms}
    vms = sorted((*owned.existing.values(), *owned.orphans), key=lambda vm: (as_counted(vm.name), vm.moid))
    kept: set[str] = set()
    changes: list[Change] = []
    for vm in vms:
        host = hosts.get(vm.host_moid or "")
        if not chosen.selects(vm.name, host.name if host else ""):
            kept.add(vm.moid)
            continue
        subject = Subject(kind="vm", name=vm.name, moid=vm.moid)
        if vm.name in wanted and wanted[vm.name].lock:
            message = "it is locked by `lock: true`"
            findings.add(Code.LOCKED, subject, message, "write `lock: false`, and run destroy again")
        if covering := protects_vm(desired.protect, vm.name, folder_by_moid.get(vm.folder_moid or "")):
            message = f"{covering} is protected by the plan file"
            findings.add(Code.PROTECTED, subject, message, "remove it from `protect`")
        changes += plan_removal(vm)
    if chosen.only and len(kept) == len(vms):
        subject = Subject(kind="plan", name=desired.name)
        message = f"no VM of the plan matches {' or '.join(chosen.only)}"
        findings.add(Code.NOTHING_SELECTED, subject, message, "give a VM's name or glob, or host:NAME")
    if not kept:
        changes = [*_rules_first(desired, observed), *changes]
    vcenter = observed.vcenter
    gone = {vm.moid for vm in vms if vm.moid not in kept}
    touched = {change.host_moid for change in changes}
    return Plan(
        name=desired.name,
        target=PlanTarget(
            address=vcenter.address,
            instance_uuid=vcenter.instance_uuid,
            datacenter=site.datacenter.name if site.datacenter else "",
        ),
        read_at=observed.read_at,
        desired=desired,
        diagnostics=findings.diagnostics(),
        changes=tuple(changes),
        orphans=tuple(vm.name for vm in owned.orphans),
        untouched_vms=sum(not vm.is_template and vm.moid not in gone for vm in observed.vms),
        untouched_hosts=sum(host.moid not in touched for host in observed.hosts),
    )


def _rules_first(desired: DesiredPlan, observed: Inventory) -> Sequence[Change]:
    """Remove the rules before their VMs: vCenter may drop a rule by itself once its VMs are gone."""
    return [*remove_rules(desired.name, observed, ()), *remove_host_rules(desired.name, observed)]
