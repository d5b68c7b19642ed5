"""The expiry of VMs by their date: two warnings before it, after it a shutdown by a run started for that.

Past its date a VM is neither made nor started (`VmResolver.resolved_vms` passes one over that is not there).

The day counts in UTC, by the reader's clock; a VM is expired once its day is over. It is never deleted
automatically.
"""

from __future__ import annotations

from datetime import date, timedelta

from vgpu_cfg.changes.plan import Plan
from vgpu_cfg.changes.severity import Severity
from vgpu_cfg.model.desired import DesiredPlan, DesiredPower, DesiredVm
from vgpu_cfg.model.observed.inventory import Inventory
from vgpu_cfg.model.observed.vm import Vm
from vgpu_cfg.model.wording import as_counted
from vgpu_cfg.planning.estate.down_hosts import Intent, can_go
from vgpu_cfg.planning.estate.named import meant_at
from vgpu_cfg.planning.estate.ownership import own_vms
from vgpu_cfg.planning.estate.protection import Protection
from vgpu_cfg.planning.estate.site import Site
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.findings.collection import Findings
from vgpu_cfg.planning.findings.options import PlanOptions
from vgpu_cfg.planning.vms.existing_vms import switch_off
from vgpu_cfg.planning.vms.new_vms import plan_about_vms

FIRST_WARNING = timedelta(days=7)
LAST_WARNING = timedelta(days=1)
_LATER = "set a later date, or allow the VM to be shut down on that date"
_SHUT_DOWN = Intent("shut down", "shut it down again", "it is not changed")


def check_expiry(vm: DesiredVm, existing: Vm | None, today: date, findings: Findings) -> None:
    """Warn of a VM whose date is near, once a week before and once a day, and report expired ones."""
    if vm.expires is None:
        return
    left = vm.expires - today
    day = vm.expires.isoformat()
    if vm.is_expired(today):
        if existing is not None and not existing.is_on:
            message = f"the VM expired on {day}, so it stays powered off"
            findings.add_vm(
                Code.EXPIRED, vm, message, "remove the VM from the plan file, or set another date"
            )
        elif existing is None:
            message = f"the VM expired on {day}, so it is not created"
            remedy = "remove the VM from the plan file, or set another date"
            findings.add_vm(Code.EXPIRED, vm, message, remedy, Severity.WARNING)
        else:
            message = f"the VM expired on {day}"
            remedy = "use `vgpu-cfg apply --expired` to shut down expired VMs, or set another date"
            findings.add_vm(Code.EXPIRED, vm, message, remedy, Severity.WARNING)
    elif left <= LAST_WARNING:
        when = "tomorrow" if left else "today"
        findings.add_vm(Code.EXPIRES_NEXT, vm, f"the VM expires {when}, on {day}", _LATER)
    elif left <= FIRST_WARNING:
        findings.add_vm(Code.EXPIRES_SOON, vm, f"the VM expires in {left.days} days, on {day}", _LATER)


def with_expired_at_rest(desired: DesiredPlan, observed: Inventory) -> DesiredPlan:
    """Leave expired VMs off that are: else the next `apply` would start them again."""
    today = observed.read_at.date()
    expired = {vm.name for vm in desired.vms if vm.is_expired(today) and vm.power is DesiredPower.ON}
    if not expired:
        return desired
    off = {vm.name for vm in observed.vms if vm.is_of(desired.identity) and not vm.is_on} & expired
    vms = (
        vm.model_copy(update={"power": DesiredPower.LEAVE}) if vm.name in off else vm for vm in desired.vms
    )
    return desired.model_copy(update={"vms": tuple(vms)})


def make_expiry_plan(desired: DesiredPlan, observed: Inventory, options: PlanOptions | None = None) -> Plan:
    """Plan to shut down the plan's VMs that run past their date, and nothing else."""
    chosen = meant_at(options or PlanOptions(), desired, observed)
    findings = Findings.for_plan(desired)
    site, today = Site(desired, observed, findings), observed.read_at.date()
    own = own_vms(desired, observed)
    protection = Protection.of(desired)
    expired: list[Vm] = []
    for vm in desired.vms:
        existing = own.get(vm.name)
        if not vm.is_expired(today) or existing is None or not existing.is_on:
            continue
        if not chosen.selects(vm.name, observed.host_name_of(existing)):
            continue
        folder = observed.folder_by_moid.get(existing.folder_moid or "")
        if covering := protection.of_vm(existing.called or existing.name, folder):
            findings.add_vm(Code.PROTECTED, vm, covering.message, covering.remedy())
        expired.append(existing)
    going, steps = can_go(expired, observed, desired.identity, findings, _SHUT_DOWN)
    going.sort(key=lambda vm: (as_counted(vm.name), vm.moid))
    return plan_about_vms(desired, site, [*(switch_off(vm) for vm in going), *steps], findings)
