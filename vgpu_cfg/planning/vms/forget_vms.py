"""The plan that stops managing VMs: marks, rules and reservations go; the VMs stay unchanged, and run.

Overrides of a VM in its cluster stay: they are the VM's own, from any author. On a host the plan owns only
the mark during work on it: one that is down for the plan is returned in its present state.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

from vgpu_cfg.changes.change import Change, MarkVm, RemoveRule, RemoveVmGroup, SetHostRule, SetRule
from vgpu_cfg.changes.plan import Plan
from vgpu_cfg.changes.severity import Severity
from vgpu_cfg.changes.values import Edit, Subject, extra_config_path
from vgpu_cfg.model.desired import DesiredPlan
from vgpu_cfg.model.observed.inventory import Inventory
from vgpu_cfg.model.observed.vm import MARK_PLAN_KEY, MARK_VM_KEY, OWN_PREFIX, Vm
from vgpu_cfg.model.wording import listed
from vgpu_cfg.planning.estate.down_hosts import GIVEN_UP, bring_all_back, can_go
from vgpu_cfg.planning.estate.named import meant_at
from vgpu_cfg.planning.estate.reserved import give_back
from vgpu_cfg.planning.estate.site import Site
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.findings.collection import Findings
from vgpu_cfg.planning.findings.options import PlanOptions
from vgpu_cfg.planning.vms.host_rules import leave_host_rules
from vgpu_cfg.planning.vms.import_vms import chosen_own_vms, mark_vm, refuse_nothing
from vgpu_cfg.planning.vms.new_vms import plan_about_vms
from vgpu_cfg.planning.vms.rules import leave_rules
from vgpu_cfg.planning.vms.settings.table import vm_setting

_Tie = SetRule | SetHostRule | RemoveRule | RemoveVmGroup


def make_forget_plan(desired: DesiredPlan, observed: Inventory, options: PlanOptions) -> Plan:
    """Plan to give up the plan's VMs that `only` selects; a locked or protected one loses nothing by it.

    Without `only` the plan's reservation is given back with them. One on a host that does not respond keeps
    its marks and its rules: nothing reaches it.
    """
    findings, options = Findings.for_plan(desired), meant_at(options, desired, observed)
    site = Site(desired, observed, findings)
    chosen = chosen_own_vms(desired, observed, options)
    leaving, steps = can_go(chosen, observed, desired.identity, findings, GIVEN_UP)
    hosts = bring_all_back(desired.identity, observed, options, findings)
    _refuse_marked_hosts(desired, observed, {one.host.moid for one in hosts}, findings)
    _report_overrides(leaving, observed, findings)
    ties = list(_ties(desired, observed, leaving))
    needs = tuple(tie.id for tie in ties)
    changes: list[Change] = [*ties, *(_unmarking(vm, needs) for vm in leaving), *steps, *hosts]
    if not options.only:
        changes += give_back(desired, observed, changes)
    if not chosen and not changes:
        is_done = _are_given_up(desired, observed, options)
        refuse_nothing(desired, options, findings, Severity.WARNING if is_done else Severity.ERROR)
    return plan_about_vms(desired, site, changes, findings)


def _are_given_up(desired: DesiredPlan, observed: Inventory, options: PlanOptions) -> bool:
    """Whether VMs that are meant have no mark, as after a run that gave them up; hosts have none by then."""
    if not (desired.vms or options.only) or options.names_host(host.name for host in observed.hosts):
        return True
    meant = {vm.name for vm in desired.vms if options.selects(vm.name)}
    meant |= {selector.removeprefix("vm:") for selector in options.only}
    return any(vm.mark is None and not vm.is_template and vm.name in meant for vm in observed.vms)


def _ties(desired: DesiredPlan, observed: Inventory, leaving: Sequence[Vm]) -> Iterator[_Tie]:
    """Yield what takes the VMs out of the plan's rules and groups, also of those under its former names."""
    moids = {vm.moid for vm in leaving}
    names = {desired.name, *(vm.mark.plan for vm in leaving if vm.mark is not None)}
    for name in sorted(names):
        yield from leave_rules(name, observed, moids)
        yield from leave_host_rules(name, observed, moids)


def _unmarking(vm: Vm, needs: tuple[str, ...]) -> MarkVm:
    """Return the removal of a VM's marks, after all that makes it the plan's in its cluster."""
    kept = vm.detail.extra_config if vm.detail is not None else {}
    others = sorted(key for key in kept if key.startswith(OWN_PREFIX) and key not in _MARK)
    pairs = dict.fromkeys((*_MARK, *others), "")
    label = vm.mark.plan if vm.mark is not None else ""
    imported = ", imported" if vm.mark is not None and vm.mark.is_imported else ""
    edits = [
        Edit(key="owner_mark", before=f"{label}{imported}", sets=_sets(_MARK)),
        *(Edit(key=key, before="written by apply", sets=_sets((key,))) for key in others),
    ]
    return mark_vm("forget", vm, edits, pairs, "none", needs)


_MARK = (MARK_PLAN_KEY, MARK_VM_KEY)


def _sets(keys: Iterable[str]) -> dict[str, str]:
    return {extra_config_path(key): "" for key in keys}


def _report_overrides(leaving: Sequence[Vm], observed: Inventory, findings: Findings) -> None:
    """Report the remaining overrides of each VM in its cluster."""
    clusters = observed.cluster_by_moid
    hosts = observed.host_by_moid
    for vm in leaving:
        host = hosts.get(vm.host_moid or "")
        cluster = clusters.get(host.cluster_moid or "") if host is not None else None
        if cluster is None:
            continue
        rows = ((vm_setting(key), value) for key, value in cluster.overrides_of(vm.moid).items())
        words = [f"{row.name} {row.text(value)}" for row, value in rows if row is not None]
        if words:
            message = f"{cluster.name} keeps its overrides for this VM: {listed(words)}"
            remedy = f"to remove them, go to {cluster.name} > Configure > VM Overrides"
            subject = Subject(kind="vm", name=vm.name, moid=vm.moid)
            findings.add(Code.KEEPS_OVERRIDES, subject, message, remedy)


def _refuse_marked_hosts(
    desired: DesiredPlan, observed: Inventory, given_back: Collection[str], findings: Findings
) -> None:
    """Refuse while the plan works on a host: without its VMs that could not be finished."""
    for moid, facts in sorted(observed.facts.hosts.items()):
        if facts.mark is not None and facts.mark.is_of(desired.identity) and moid not in given_back:
            host = observed.host_by_moid[moid]
            subject = Subject(kind="host", name=host.name, moid=moid)
            message = (
                f"the plan's changes to it have been in progress since {facts.mark.since:%Y-%m-%d %H:%M} "
                "and are not finished"
            )
            remedy = "run `apply` to finish them; then run `forget`"
            findings.add(Code.HOST_STILL_MARKED, subject, message, remedy)
