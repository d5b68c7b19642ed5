"""Settings of DRS and vCenter for moving VMs with vGPUs: the options, and how to turn them off.

`VgpuMMAutomationTimeoutSecs` = -1, an advanced option of a cluster's DRS, lets a host that enters maintenance
mode send its vGPU VMs away (vCenter 7.0 U3f, KB 88271); without it they stay, which is why taking it out is
turning it off. `vgpu.hotmigrate.enabled` of vCenter itself allows their vMotion at all. Any other option of
DRS goes by the name that the plan file gives it.

The stun time limit of vSphere 8.0 U2 is no option of a cluster: it is a setting of each vGPU VM, and no type
of the 9.1 API names it. Public documents do not name the configuration parameter of the vSphere Client, so
this tool writes none: if you know the parameter, set it in the VM's `extra_config`.

Belief: empty-option-removes-it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from vgpu_cfg.changes.base import of_kind
from vgpu_cfg.changes.change import SetClusterOption, SetVCenterOption
from vgpu_cfg.changes.values import Edit, Subject
from vgpu_cfg.model.desired import DesiredHosts, DesiredPlan
from vgpu_cfg.model.observed.inventory import Cluster, Inventory
from vgpu_cfg.model.wording import is_at_least
from vgpu_cfg.planning.estate.protection import Protection
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.findings.collection import Findings
from vgpu_cfg.planning.host_settings.resolved_host import hosts_of
from vgpu_cfg.planning.vms.lookup.moving import HOT_MIGRATE_OPTION

EVACUATE_OPTION = "VgpuMMAutomationTimeoutSecs"
EVACUATE_VALUE = "-1"

_EVACUATES_SINCE = (7, 0, 3)
"""U3f is a build of 7.0.3; earlier builds of it take the option and do nothing (KB 88271)."""

_ABSENT = "(absent)"


@dataclass(frozen=True, slots=True)
class _DesiredOption:
    """One option of one cluster and the value that is wanted, None to have it out."""

    cluster: Cluster
    option: str
    value: str | None
    is_checked_only: bool


def plan_cluster_options(
    desired: DesiredPlan, observed: Inventory, findings: Findings
) -> list[SetClusterOption | SetVCenterOption]:
    """List the options of clusters and of vCenter that are not as the plan file asks; else findings."""
    changes: list[SetClusterOption | SetVCenterOption] = []
    requested: dict[tuple[str, str], _DesiredOption] = {}
    for one in _desired_options(desired, observed):
        before = requested.setdefault((one.cluster.moid, one.option), one)
        if before.value != one.value:
            _refuse_twice(one.cluster, one.option, findings)
    latest: dict[str, str] = {}
    for one in requested.values():
        change = _cluster_change(one, observed, findings)
        if change is not None:
            # The options of a cluster are one list that is read and written whole: one after the other.
            before_it = latest.get(one.cluster.moid)
            changes.append(change.model_copy(update={"needs": (before_it,) if before_it else ()}))
            latest[one.cluster.moid] = change.id
    vcenter = _vcenter_change(desired, observed, findings)
    return [*changes, vcenter] if vcenter is not None else changes


def with_options(observed: Inventory, changes: Sequence[SetClusterOption | SetVCenterOption]) -> Inventory:
    """Return the inventory as it will be once the options are set: hosts are checked by that."""
    if not changes:
        return observed
    facts = observed.facts
    clusters, vcenter = dict(facts.clusters), dict(facts.vcenter_options)
    vcenter |= {one.option: str(one.value).lower() for one in of_kind(changes, SetVCenterOption)}
    for change in of_kind(changes, SetClusterOption):
        found = clusters[change.cluster_moid]
        kept = {name: value for name, value in found.drs_options.items() if name != change.option}
        set_now = {} if change.value is None else {change.option: change.value}
        clusters[change.cluster_moid] = found.model_copy(update={"drs_options": kept | set_now})
    facts = facts.model_copy(update={"clusters": clusters, "vcenter_options": vcenter})
    return observed.model_copy(update={"facts": facts})


def _desired_options(desired: DesiredPlan, observed: Inventory) -> Iterator[_DesiredOption]:
    for entry in desired.hosts:
        options = _options(entry)
        if not options:
            continue
        moids = dict.fromkeys(host.owner_moid for host in hosts_of(entry, desired, observed))
        for moid in moids:
            cluster = observed.cluster_by_moid.get(moid)
            if cluster is None or Protection.of(desired).of_cluster(cluster):
                continue
            for option, value in options.items():
                yield _DesiredOption(cluster, option, value, entry.mode == "check")


def _options(entry: DesiredHosts) -> dict[str, str | None]:
    wanted = entry.cluster_options
    options: dict[str, str | None] = {}
    if wanted.evacuate_vgpu is not None:
        options[EVACUATE_OPTION] = EVACUATE_VALUE if wanted.evacuate_vgpu else None
    return options | {name: value or None for name, value in wanted.drs.items()}


def _cluster_change(
    requested: _DesiredOption, observed: Inventory, findings: Findings
) -> SetClusterOption | None:
    cluster, option = requested.cluster, requested.option
    subject = Subject(kind="cluster", name=cluster.name, moid=cluster.moid)
    facts = observed.facts.clusters.get(cluster.moid)
    if cluster.is_standalone:
        if requested.value is not None:
            message = f"{cluster.name} is a standalone host without DRS, so {option} cannot be set"
            findings.add(Code.NOT_SUPPORTED, subject, message, "remove it, or add the host to a cluster")
        return None
    if facts is None:
        message = f"{option} could not be read from cluster {cluster.name}"
        findings.add(Code.SETTING_UNREAD, subject, message, "grant the account read access to the cluster")
        return None
    before = facts.drs_options.get(option)
    if before == requested.value:
        return None
    edit = Edit(key=option, before=before, after=requested.value)
    if requested.is_checked_only:
        _report_difference(subject, edit, findings)
        return None
    if (
        option == EVACUATE_OPTION
        and requested.value
        and not is_at_least(observed.vcenter.version, _EVACUATES_SINCE)
    ):
        message = f"vCenter {observed.vcenter.version} does not support {option}, which requires 7.0 U3f"
        remedy = "upgrade vCenter, or move VMs with vGPUs manually"
        findings.add(Code.NOT_SUPPORTED, subject, message, remedy)
        return None
    return SetClusterOption(
        id=f"set {option} on {cluster.name}",
        subject=subject,
        edits=(edit,),
        cluster_moid=cluster.moid,
        option=option,
        value=requested.value,
    )


def _vcenter_change(desired: DesiredPlan, observed: Inventory, findings: Findings) -> SetVCenterOption | None:
    entries = [entry for entry in desired.hosts if entry.cluster_options.hot_migrate is not None]
    values = {entry.cluster_options.hot_migrate for entry in entries}
    if not values:
        return None
    name = observed.vcenter.name or observed.vcenter.address
    subject = Subject(kind="plan", name=desired.name)
    if len(values) > 1:
        message = f"two entries in `hosts` set different values for the vCenter setting {HOT_MIGRATE_OPTION}"
        findings.add(Code.HOST_TWICE, subject, message, "it applies to the whole vCenter; set it once")
        return None
    wanted = values == {True}
    found = observed.facts.vcenter_options.get(HOT_MIGRATE_OPTION)
    if found is None:
        message = f"vCenter {name} does not report {HOT_MIGRATE_OPTION}"
        findings.add(Code.SETTING_UNREAD, subject, message, "grant the account read access to its settings")
        return None
    if (found.casefold() == "true") == wanted:
        return None
    edit = Edit(key=HOT_MIGRATE_OPTION, before=found.lower(), after=str(wanted).lower())
    if all(entry.mode == "check" for entry in entries):
        _report_difference(subject, edit, findings)
        return None
    return SetVCenterOption(
        id=f"set {HOT_MIGRATE_OPTION} on {name}",
        subject=subject,
        edits=(edit,),
        option=HOT_MIGRATE_OPTION,
        value=wanted,
    )


def _report_difference(subject: Subject, edit: Edit, findings: Findings) -> None:
    message = f"{edit.key} is {edit.before or _ABSENT}, but the plan file requires {edit.after or _ABSENT}"
    findings.add(Code.SETTING_DIFFERS, subject, message, "change it manually, or set `mode: enforce`")


def _refuse_twice(cluster: Cluster, option: str, findings: Findings) -> None:
    subject = Subject(kind="cluster", name=cluster.name, moid=cluster.moid)
    message = f"two entries in `hosts` set different values for {option} in cluster {cluster.name}"
    findings.add(Code.HOST_TWICE, subject, message, "the option applies to the whole cluster; set it once")
