"""A plan about whose VMs are, or whether they are: what of it follows from its changes and findings alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from vgpu_cfg.changes.change import Change
from vgpu_cfg.changes.plan import Plan, PlanTarget
from vgpu_cfg.changes.reckoning import all_disturbed, reckoned
from vgpu_cfg.model.desired import DesiredPlan
from vgpu_cfg.model.observed.vm import Vm
from vgpu_cfg.planning.estate.site import Site
from vgpu_cfg.planning.findings.collection import Findings


def plan_about_vms(
    desired: DesiredPlan,
    site: Site,
    changes: Sequence[Change],
    findings: Findings,
    *,
    in_sync: Iterable[str] = (),
    orphans: Iterable[Vm] = (),
    chosen: Iterable[str] | None = None,
) -> Plan:
    """Put a plan together; `chosen` names the VMs of which findings are told, None for all."""
    observed, vcenter = site.observed, site.observed.vcenter
    vms = {change.subject.moid or "" for change in changes if change.subject.kind == "vm"}
    hosts = {change.host_moid for change in changes}
    plan = Plan(
        name=desired.name,
        target=PlanTarget(
            address=vcenter.address,
            instance_uuid=vcenter.instance_uuid,
            datacenter=site.datacenter.name if site.datacenter else "",
        ),
        read_at=observed.read_at,
        desired=desired,
        diagnostics=findings.diagnostics(chosen),
        changes=tuple(changes),
        in_sync=tuple(in_sync),
        orphans=tuple(vm.name for vm in orphans),
    )
    return reckoned(plan, observed, all_disturbed(changes, observed, vms), vms=vms, hosts=hosts)
