"""The `hosts` part of a plan: changes, findings, and the hosts as they will be for the VMs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from vgpu_cfg.catalog import Catalog
from vgpu_cfg.model.change import Change, SetClusterOption, SetVCenterOption
from vgpu_cfg.model.desired import DesiredPlan
from vgpu_cfg.model.inventory import Host, Inventory
from vgpu_cfg.planning.findings import Findings
from vgpu_cfg.planning.hosts.case import HostCase
from vgpu_cfg.planning.hosts.compare import wishes_of
from vgpu_cfg.planning.hosts.derive import derived_entry
from vgpu_cfg.planning.hosts.evacuate import (
    hosts_down,
    needed_options,
)
from vgpu_cfg.planning.hosts.gap_checks import (
    check_matches,
    check_vmknic_networks,
)
from vgpu_cfg.planning.hosts.host_checks import (
    check_drivers,
    check_window,
)
from vgpu_cfg.planning.hosts.judge import HostJudge, HostWork, JudgedHost
from vgpu_cfg.planning.hosts.select import clusters_of, host_cases, waves_of
from vgpu_cfg.planning.hosts.sequence import HostSequence, exit_id
from vgpu_cfg.planning.new_vms import with_needs
from vgpu_cfg.planning.options import PlanOptions
from vgpu_cfg.planning.settings.cluster import with_options

_ON_A_HOST = ("create_vm", "upgrade_vm", "reconfigure_vm", "power_on_vm", "stage_guest")


@dataclass(slots=True)
class HostPlans:
    """What came of the hosts.

    `ready_after` names, by host moid, the change after which a VM may be put on a host that is
    prepared; `prepared` the hosts as they will be then. `derivable` are hosts that the VMs could have
    prepared for them, and were not.
    """

    changes: list[Change] = field(default_factory=list)
    in_sync: list[str] = field(default_factory=list)
    ready_after: dict[str, str] = field(default_factory=dict)
    prepared: dict[str, Host] = field(default_factory=dict)
    derivable: set[str] = field(default_factory=set)

    def as_prepared(self, observed: Inventory) -> Inventory:
        """Return the inventory with the hosts as they will be."""
        if not self.prepared:
            return observed
        hosts = tuple(self.prepared.get(host.moid, host) for host in observed.hosts)
        return observed.model_copy(update={"hosts": hosts})


class HostPlanner:
    """Plans the hosts: what the plan file states, and what its VMs need of the hosts that run them."""

    def __init__(
        self,
        desired: DesiredPlan,
        observed: Inventory,
        catalog: Catalog,
        options: PlanOptions,
        findings: Findings,
        cluster_options: Sequence[SetClusterOption | SetVCenterOption] = (),
    ) -> None:
        """`cluster_options` are the plan's changes to DRS and vCenter: hosts wait for those they need."""
        self.desired, self.catalog = desired, catalog
        self.observed = with_options(observed, cluster_options)
        self.options, self.findings = options, findings
        self.cluster_options = cluster_options
        self._judge = HostJudge(desired, self.observed, options)

    def plan(
        self,
        derive_for: Mapping[str, Collection[str] | None],
        rdma_for: Mapping[str, Collection[str]] = MappingProxyType({}),
    ) -> HostPlans:
        """Compare every host of the plan with what is asked, and put the changes in order.

        `derive_for` are the hosts (moids) that are prepared for the VMs (`prepare: from_vms`), with the
        names of those that are to run there, None where that is not known yet. `rdma_for` are hosts that
        have what the VMs take, and are prepared for their RDMA alone.
        """
        result = HostPlans()
        cases = host_cases(self.desired, self.observed, self.catalog, self.options, self.findings)
        if not self.options.only:
            check_matches(cases, self.findings)
        check_vmknic_networks(cases, self.desired, self.observed, self.findings)
        for case in cases:
            self._collect(case, derive_for, rdma_for, result)
        judged = [self._judge.judge(case, self.findings) for case in cases]
        for one in judged:
            _take(one, result)
        works = [one.work for one in judged if one.work is not None]
        by_moid = {work.case.view.host.moid: work for work in works}
        for number, wave in enumerate(waves_of([work.case for work in works]), start=1):
            for case in wave:
                case.wave = f"wave {number}"
            self._sequence([by_moid[case.view.host.moid] for case in wave], result)
        check_window(
            [work.case for work in works if work.stretches.needs_empty_host], self.observed, self.findings
        )
        check_drivers(cases, self.findings)
        return result

    def _collect(
        self,
        case: HostCase,
        derive_for: Mapping[str, Collection[str] | None],
        rdma_for: Mapping[str, Collection[str]],
        result: HostPlans,
    ) -> None:
        """Gather what is asked of a host, by the plan file and by the VMs."""
        stated = {wish.id: (setting, wish) for setting, wish in wishes_of(case.entry, case.view)}
        case.wishes = stated
        if case.entry.prepare != "from_vms" or case.is_checked_only:
            return
        moid = case.view.host.moid
        quiet = Findings() if moid not in derive_for else self.findings
        is_rdma = moid in rdma_for and moid not in derive_for
        names = rdma_for[moid] if is_rdma else derive_for.get(moid)
        entry = derived_entry(
            case, self.desired, self.observed, self.catalog, quiet, names, only_rdma=is_rdma
        )
        if quiet is not self.findings and quiet.diagnostics():
            result.derivable.add(moid)
        if entry is case.entry:
            return
        derived = {}
        for setting, wish in wishes_of(entry, case.view):
            if wish.id in stated:
                derived[wish.id] = stated[wish.id]
            else:
                note = wish.note or "the VMs need it"
                derived[wish.id] = (setting, replace(wish, is_derived=True, note=note))
        if is_rdma or moid in derive_for:
            case.wishes = derived
        elif derived.keys() - stated.keys():
            result.derivable.add(moid)

    def _sequence(self, works: Sequence[HostWork], result: HostPlans) -> None:
        """Put the hosts of one wave in line: canaries first, no more down at once than can be."""
        down = [work for work in works if work.stretches.needs_empty_host and not work.is_held]
        evacuations = {work.case.view.host.moid: work.evacuation for work in down}
        most = min(
            (
                hosts_down(group, evacuations, self.observed, self.findings)
                for group in clusters_of([work.case for work in down]).values()
            ),
            default=1,
        )
        if down and not most:
            return
        canaries: list[str] = []
        for index, work in enumerate(works):
            is_canary = index < work.case.entry.disruption.canary
            sequence = HostSequence(
                work.case,
                work.stretches,
                work.evacuation,
                max_down=most,
                first_needs=(
                    *needed_options(work.case, work.evacuation, self.cluster_options),
                    *(() if is_canary else canaries),
                ),
                prelude=work.prelude,
                is_held=work.is_held,
            )
            changes = sequence.build()
            result.changes += changes
            result.ready_after[work.case.view.host.moid] = _ready_after(changes, work.case.name)
            if is_canary:
                canaries.append(_ready_after(changes, work.case.name))


def _take(judged: JudgedHost, result: HostPlans) -> None:
    moid = judged.case.view.host.moid
    if judged.is_in_sync:
        result.in_sync.append(judged.case.name)
    if judged.host is not None:
        result.prepared[moid] = judged.host
    if judged.step is not None:
        result.changes.append(judged.step)
        result.ready_after[moid] = judged.step.id


def _ready_after(changes: Sequence[Change], host: str) -> str:
    """Return the change after which a host can take VMs."""
    ids = {change.id for change in changes}
    if exit_id(host) in ids:
        return exit_id(host)
    return next(change.id for change in reversed(changes) if change.kind != "power_on_vm")


def join_changes(hosts: HostPlans, of_vms: Sequence[Change]) -> list[Change]:
    """Put the changes of hosts before those of VMs, and let each VM wait for its host.

    A VM that is switched off for both is switched off once, and on once.
    """
    ids = {change.id for change in of_vms}
    joined = [change for change in hosts.changes if change.id not in ids or change.kind == "power_off_vm"]
    taken = {change.id for change in joined}
    for change in of_vms:
        if change.id in taken:
            continue
        after = hosts.ready_after.get(change.host_moid or "")
        joined.append(with_needs(change, (after,)) if after and change.kind in _ON_A_HOST else change)
    return joined
