"""Hosts that cordon, drain and uncordon must not write: of another datacenter, or of a protected cluster."""

from __future__ import annotations

from collections.abc import Iterator

from vgpu_cfg.changes.plan import Diagnostic, Plan
from vgpu_cfg.changes.values import Subject
from vgpu_cfg.model.desired import DesiredPlan
from vgpu_cfg.model.observed.inventory import Host, Inventory
from vgpu_cfg.planning.estate.protection import Protection
from vgpu_cfg.planning.estate.site import inside
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.findings.collection import Findings


def within_reach(plan: Plan, desired: DesiredPlan, observed: Inventory) -> Plan:
    """Return the plan with an error for each host it changes out of reach.

    `desired` names the datacenter, and the contexts that protect clusters.
    """
    moids = {moid for change in plan.changes for moid in (change.subject.moid, change.host_moid)}
    hosts = [host for host in observed.hosts if host.moid in moids]
    return plan.model_copy(update={"diagnostics": (*plan.diagnostics, *_beyond(hosts, desired, observed))})


def _beyond(hosts: list[Host], desired: DesiredPlan, observed: Inventory) -> Iterator[Diagnostic]:
    findings, protection = Findings(), Protection.of(desired)
    near = hosts if desired.datacenter is None else inside(desired, observed, hosts)
    for host in hosts:
        subject = Subject(kind="host", name=host.name, moid=host.moid)
        if host not in near:
            message = f"the host is not in datacenter {desired.datacenter}"
            findings.add(Code.HOST_NOT_MATCHED, subject, message, "specify its datacenter with --datacenter")
        if covering := protection.of_cluster(observed.cluster_of(host)):
            findings.add(Code.PROTECTED, subject, covering.message, covering.remedy())
    yield from findings.diagnostics()
