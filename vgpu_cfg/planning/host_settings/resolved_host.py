"""The hosts of the entries of `hosts`: the facts, requests and deviations of each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from vgpu_cfg.catalog import Catalog
from vgpu_cfg.changes.values import HostRef, Impact, Subject
from vgpu_cfg.documents import did_you_mean
from vgpu_cfg.model.desired import DesiredHosts, DesiredPlan
from vgpu_cfg.model.identity import PlanIdentity
from vgpu_cfg.model.observed.host_facts import ClusterFacts, HostFacts
from vgpu_cfg.model.observed.inventory import Cluster, Host, Inventory
from vgpu_cfg.model.ranges import is_glob
from vgpu_cfg.model.wording import as_counted, listed
from vgpu_cfg.planning.estate.protection import Protection
from vgpu_cfg.planning.estate.site import find_named, inside, which_of
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.findings.collection import Findings
from vgpu_cfg.planning.findings.options import PlanOptions, matches_any
from vgpu_cfg.planning.host_settings.entry import DesiredSetting, HostSetting, HostView, Reading
from vgpu_cfg.planning.host_settings.nics.handed_out import nic_names

DISTURBS = (
    Impact.NONE,
    Impact.SERVICE_RESTART,
    Impact.POWER_CYCLE,
    Impact.HOST_MAINTENANCE,
    Impact.HOST_REBOOT,
    Impact.HOST_COLD_BOOT,
)
"""The disturbances of a change, the least first."""


class DriftKind(StrEnum):
    """Why a setting is not as wanted."""

    WRONG = "wrong"
    PENDING = "pending"
    """Configured as wanted; a restart has yet to bring it."""
    SUPPOSED = "supposed"
    """It cannot be read before other work of the plan is done, and is read before it is written."""
    UNKNOWN = "unknown"
    """An unknown value that may be as wanted: no part of the work."""
    DROPPED = "dropped"
    """It is right now, and the plan's own reboot will drop it."""
    UNDONE = "undone"
    """It is right now, and another change of the plan would undo it: it is written along."""


@dataclass(frozen=True, slots=True)
class Drift:
    """One setting of one device that must change, be waited for or be asserted again."""

    setting: HostSetting
    desired: DesiredSetting
    reading: Reading
    kind: DriftKind
    impact: Impact

    @property
    def restarts(self) -> bool:
        """Whether it takes a restart of the host to be in force."""
        return self.impact in (Impact.HOST_REBOOT, Impact.HOST_COLD_BOOT)

    @property
    def is_to_be_seen(self) -> bool:
        """Whether nothing shows the setting, and a look at the host is all that it takes."""
        return self.kind is DriftKind.SUPPOSED and self.impact is Impact.NONE

    @property
    def is_written(self) -> bool:
        """Whether nothing but a restart is left to do: what holds at once and does not is written again."""
        waits = self.restarts or self.impact is Impact.SERVICE_RESTART
        return self.kind is DriftKind.PENDING and waits


@dataclass(slots=True)
class ResolvedHost:
    """A host of an entry of `hosts`. `is_blocked` if a finding forbids to change anything on it.

    `unknown` are unread settings that may be as requested. `has_refusals` is whether a request is impossible:
    the host does not meet it.
    """

    entry: DesiredHosts
    view: HostView
    wave: str
    desired_settings: dict[str, tuple[HostSetting, DesiredSetting]] = field(default_factory=dict)
    drifts: list[Drift] = field(default_factory=list)
    right: list[tuple[HostSetting, DesiredSetting, Reading]] = field(default_factory=list)
    unknown: list[Drift] = field(default_factory=list)
    is_blocked: bool = False
    has_refusals: bool = False

    @property
    def name(self) -> str:
        """The host's name."""
        return self.view.host.name

    @property
    def ref(self) -> HostRef:
        """The host as changes name it."""
        return HostRef(name=self.view.host.name, moid=self.view.host.moid)

    @property
    def subject(self) -> Subject:
        """The host as findings and changes are about it."""
        return Subject(kind="host", name=self.view.host.name, moid=self.view.host.moid)

    @property
    def is_checked_only(self) -> bool:
        """Whether the plan file says `mode: check`."""
        return self.entry.mode == "check"


def hosts_of(entry: DesiredHosts, desired: DesiredPlan, observed: Inventory) -> list[Host]:
    """Return the hosts of the plan's datacenter that an entry means, in the order in which people count.

    A cluster's name that several clusters have means none of them; a glob means all clusters that match.
    """
    clusters = _clusters_of(entry, desired, observed)
    wanted = set() if _is_ambiguous(entry, clusters) else {cluster.moid for cluster in clusters}
    found = [
        host
        for host in inside(desired, observed, observed.hosts)
        if (entry.cluster is None or host.owner_moid in wanted)
        and (not entry.names or matches_any(host.name, entry.names))
    ]
    return sorted(found, key=lambda host: (as_counted(host.name), host.moid))


def _clusters_of(entry: DesiredHosts, desired: DesiredPlan, observed: Inventory) -> list[Cluster]:
    clusters = inside(desired, observed, observed.clusters)
    if entry.cluster is None:
        return []
    named = find_named(entry.cluster, clusters)
    # A glob means clusters only: a standalone host is a compute resource of its own.
    return named or [
        one for one in clusters if not one.is_standalone and matches_any(one.name, [entry.cluster])
    ]


def _is_ambiguous(entry: DesiredHosts, clusters: Sequence[Cluster]) -> bool:
    """Whether several clusters have the name of an entry, which is not a glob."""
    return len(clusters) > 1 and not is_glob(entry.cluster or "")


def resolve_hosts(
    desired: DesiredPlan, observed: Inventory, catalog: Catalog, options: PlanOptions, findings: Findings
) -> list[ResolvedHost]:
    """Look up every host that `hosts` names; a missing one is a finding."""
    resolved_hosts: dict[str, ResolvedHost] = {}
    protection = Protection.of(desired)
    for index, entry in enumerate(desired.hosts):
        found = hosts_of(entry, desired, observed)
        _check_globs(entry, found, observed, desired, findings)
        for host in found:
            if options.only and not options.selects("", host.name):
                continue
            cluster = observed.cluster_of(host)
            if covering := protection.of_cluster(cluster):
                message = covering.message
                if cluster is not None:
                    message = f"its cluster {cluster.name} is protected by {covering.source}"
                remedy = covering.remedy("from `hosts`", "remove it from `hosts`")
                _add(findings, Code.PROTECTED, host, message, remedy)
                continue
            if host.moid in resolved_hosts:
                message = "two entries in `hosts` match this host"
                remedy = "include the host in only one entry"
                _add(findings, Code.HOST_TWICE, host, message, remedy)
                resolved_hosts[host.moid].is_blocked = True
                continue
            view = make_view(host, observed, catalog, plan=desired.identity)
            resolved_hosts[host.moid] = ResolvedHost(entry, view, wave=f"hosts {index + 1}")
    return list(resolved_hosts.values())


def make_view(
    host: Host, observed: Inventory, catalog: Catalog, *, plan: PlanIdentity | None = None
) -> HostView:
    """Combine the readings of a host, its VMs and the catalog's facts of its devices.

    The VMs of `plan` do not count as holders of devices.
    """
    boards = {}
    names = nic_names(host)
    for gpu in host.gpus:
        board = catalog.of_device(gpu.pci)
        if board is not None:
            boards[gpu.pci_id] = board
            names[gpu.pci_id] = (board.key, *board.names)
    return HostView(
        host=host,
        facts=observed.facts.hosts.get(host.moid, HostFacts()),
        cluster=observed.cluster_of(host),
        cluster_facts=observed.facts.clusters.get(host.owner_moid, ClusterFacts()),
        boards=boards,
        names=names,
        holders=_holders(host, observed, plan),
    )


def _holders(host: Host, observed: Inventory, plan: PlanIdentity | None) -> dict[str, tuple[str, ...]]:
    """Return `HostView.holders`; templates hold nothing."""
    found: dict[str, tuple[str, ...]] = {}
    vms = observed.vms_by_host.get(host.moid, ())
    for vm in sorted(vms, key=lambda one: as_counted(one.name)):
        if vm.is_template or (plan is not None and vm.is_of(plan)):
            continue
        held = [""] if vm.detail is None else [one.pci_id for one in vm.detail.passthrough if one.pci_id]
        for pci_id in held:
            found[pci_id] = (*found.get(pci_id, ()), vm.name)
    return found


def _check_globs(
    entry: DesiredHosts, found: Sequence[Host], observed: Inventory, desired: DesiredPlan, findings: Findings
) -> None:
    subject = Subject(kind="plan", name=desired.name)
    clusters = _clusters_of(entry, desired, observed)
    if entry.cluster is not None and not clusters:
        known = [cluster.name for cluster in inside(desired, observed, observed.clusters)]
        message = f"`hosts` specifies the cluster {entry.cluster!r}, which does not exist"
        remedy = did_you_mean(entry.cluster, known, noun="clusters")
        findings.add(Code.CLUSTER_NOT_FOUND, subject, message, remedy)
        return
    if _is_ambiguous(entry, clusters):
        message = (
            f"`hosts` specifies the cluster {entry.cluster!r}, but {len(clusters)} clusters have this name"
        )
        in_order = sorted(clusters, key=lambda one: one.inventory_path or one.moid)
        findings.add(Code.CLUSTER_AMBIGUOUS, subject, message, which_of(in_order))
        return
    names = [host.name for host in found]
    for glob in entry.names or ("*",):
        if not any(matches_any(name, (glob,)) for name in names):
            everyone = [host.name for host in inside(desired, observed, observed.hosts)]
            message = f"no host matches {glob!r}" + (f" in {entry.cluster}" if entry.cluster else "")
            remedy = did_you_mean(glob, everyone, noun="hosts")
            if outside := [one.name for one in observed.hosts if matches_any(one.name, (glob,))]:
                message += f"; outside the plan's datacenter or cluster: {listed(outside, shown=6)}"
            findings.add(Code.HOST_NOT_MATCHED, subject, message, remedy)


def _add(findings: Findings, code: Code, host: Host, message: str, remedy: str) -> None:
    findings.add(code, Subject(kind="host", name=host.name, moid=host.moid), message, remedy)


def clusters_of(resolved_hosts: Iterable[ResolvedHost]) -> dict[str, list[ResolvedHost]]:
    """Group hosts by cluster; a standalone host is a group of its own."""
    found: dict[str, list[ResolvedHost]] = {}
    for resolved in resolved_hosts:
        host = resolved.view.host
        found.setdefault(host.owner_moid, []).append(resolved)
    return found


def waves_of(resolved_hosts: Sequence[ResolvedHost]) -> list[list[ResolvedHost]]:
    """Group hosts that share a cluster or an entry: they share the limit on how many are down at once."""
    waves: list[list[ResolvedHost]] = []
    for resolved in resolved_hosts:
        host = resolved.view.host
        mine, others = [resolved], []
        for wave in waves:
            is_shared = any(
                host.owner_moid == one.view.host.owner_moid or one.wave == resolved.wave for one in wave
            )
            if is_shared:
                mine = [*wave, *mine]
            else:
                others.append(wave)
        waves = [*others, mine]
    return waves
