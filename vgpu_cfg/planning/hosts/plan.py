"""The `hosts` part of a plan: changes, findings, and the hosts as they will be for the VMs.

A finding shows the effect of the branch of a host's NVIDIA driver: boards that it has dropped, and its own
end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType

from vgpu_cfg.catalog import Catalog
from vgpu_cfg.catalog.version_pairs import DriverBranch, load_driver_branches
from vgpu_cfg.changes.base import of_kind
from vgpu_cfg.changes.change import Change, ChangeHost, SetClusterOption, SetImage, SetVCenterOption
from vgpu_cfg.changes.plan import Canary, UnknownHost
from vgpu_cfg.model.desired import DesiredPlan
from vgpu_cfg.model.observed.inventory import Host, Inventory
from vgpu_cfg.model.wording import listed
from vgpu_cfg.planning.estate.down_hosts import exit_id
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.findings.collection import Findings
from vgpu_cfg.planning.findings.options import PlanOptions
from vgpu_cfg.planning.host_settings.cluster import with_options
from vgpu_cfg.planning.host_settings.gpus.driver import branch_of, driver_facts
from vgpu_cfg.planning.host_settings.modules import NONE
from vgpu_cfg.planning.host_settings.resolved_host import ResolvedHost, clusters_of, resolve_hosts, waves_of
from vgpu_cfg.planning.hosts.alternatives import Alternative, Alternatives, is_derivable
from vgpu_cfg.planning.hosts.assess import AssessedHost, HostAssessor, HostWork
from vgpu_cfg.planning.hosts.compare import desired_settings_of
from vgpu_cfg.planning.hosts.evacuate import hosts_down, needed_options
from vgpu_cfg.planning.hosts.host_checks import (
    check_drivers,
    check_link_types,
    check_matches,
    check_vmknic_networks,
    check_window,
    report_absence,
)
from vgpu_cfg.planning.hosts.packages import needed_image, plan_images
from vgpu_cfg.planning.hosts.sequence import HostSequence, host_seconds
from vgpu_cfg.planning.vms.new_vms import with_needs


@dataclass(slots=True)
class HostPlans:
    """The results for the hosts.

    `ready_after` names, by host moid, the change after which a VM may be put on a host that is prepared;
    `prepared` the hosts as they will be then. `canaries` are the hosts that go first.
    """

    changes: list[Change] = field(default_factory=list)
    in_sync: list[str] = field(default_factory=list)
    unknown: list[UnknownHost] = field(default_factory=list)
    ready_after: dict[str, str] = field(default_factory=dict)
    prepared: dict[str, Host] = field(default_factory=dict)
    canaries: list[Canary] = field(default_factory=list)


class HostPlanner:
    """Plans the hosts: the plan file's requests, and its VMs' needs of the hosts that run them.

    Stated requests are checked at once. The possible preparations for the VMs (`alternatives`) wait until the
    VMs have their places: `plan` gets the ones in use.
    """

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
        self.observed = with_options(observed, cluster_options)
        self.findings, self.cluster_options, self._desired = findings, cluster_options, desired
        self.resolved_hosts = resolve_hosts(desired, self.observed, catalog, options, findings)
        if not options.only:
            check_matches(self.resolved_hosts, findings)
            check_link_types(self.resolved_hosts, desired, findings)
        check_vmknic_networks(self.resolved_hosts, desired, self.observed, findings)
        for resolved in self.resolved_hosts:
            resolved.desired_settings = {
                wanted.id: (setting, wanted)
                for setting, wanted in desired_settings_of(resolved.entry, resolved.view)
            }
        self._assessor = HostAssessor(desired, self.observed, options)
        self._assessed = {
            resolved.view.host.moid: self._assessor.assess(resolved, findings)
            for resolved in self.resolved_hosts
            if not is_derivable(resolved)
        }
        self.alternatives = Alternatives(
            self.resolved_hosts, self._assessor, desired, self.observed, catalog, findings
        )

    @property
    def windows(self) -> dict[str, tuple[str, int]]:
        """The windows of hosts, by their moids, with the seconds that a VM there is thought to take."""
        entries = ((one.view.host.moid, one.entry.disruption) for one in self.resolved_hosts)
        return {moid: (one.window, 60 * one.estimate.vm) for moid, one in entries if one.window}

    def as_stated(self, observed: Inventory) -> Inventory:
        """Return the inventory with the hosts as they will be with the plan file's requests alone."""
        assessed = {moid: one.host for moid, one in self._assessed.items() if one.host is not None}
        return observed.with_hosts(assessed | self.alternatives.as_stated())

    def plan(self, chosen: Mapping[str, Alternative] = MappingProxyType({})) -> HostPlans:
        """Put the changes of all hosts in order. `chosen` are the hosts (moids) prepared for VMs, and how."""
        for moid, resolved in self.alternatives.resolved_hosts.items():
            if moid in chosen:
                resolved.desired_settings = dict(chosen[moid].desired_settings)
            self._assessed[moid] = self._assessor.assess(resolved, self.findings)
        result = HostPlans()
        assessed = [self._assessed[resolved.view.host.moid] for resolved in self.resolved_hosts]
        for one in assessed:
            _take(one, result)
        works = [one.work for one in assessed if one.work is not None]
        by_moid = {work.resolved.view.host.moid: work for work in works}
        images = plan_images([work.resolved for work in works], self.observed, self._desired, self.findings)
        result.changes += images.values()
        for number, wave in enumerate(waves_of([work.resolved for work in works]), start=1):
            for resolved in wave:
                resolved.wave = f"wave {number}"
            self._sequence([by_moid[resolved.view.host.moid] for resolved in wave], images, result)
        check_window(
            [
                (work.resolved, host_seconds(work.resolved, work.phases))
                for work in works
                if work.phases.needs_empty_host and not work.is_blocked
            ],
            self.observed,
            self.findings,
        )
        check_drivers(self.resolved_hosts, self.findings)
        check_branches(self.resolved_hosts, self.observed.read_at, self.findings)
        check_canary(result.changes, result.canaries, self.findings)
        return result

    def report_absent(
        self, needed_by: Callable[[Host], Sequence[str]], waiting: Mapping[str, Sequence[str]]
    ) -> None:
        """Report the hosts on which nothing is done; `needed_by` names the plan's VMs that need one.

        `waiting` names, by the host's moid, those on it that wait for it to respond.
        """
        for assessed in self._assessed.values():
            if assessed.absence is not None:
                host = assessed.resolved.view.host
                report_absence(
                    assessed.resolved,
                    assessed.absence,
                    needed_by(host),
                    waiting.get(host.moid, ()),
                    self.findings,
                )

    def _sequence(self, works: Sequence[HostWork], images: Mapping[str, SetImage], result: HostPlans) -> None:
        """Order the hosts of one wave: canaries first, no more down at once than allowed.

        Blocked hosts are ordered, too: the plan shows them, and is refused.
        """
        down = [
            work for work in works if work.phases.needs_empty_host and not (work.is_held or work.is_blocked)
        ]
        evacuations = {work.resolved.view.host.moid: work.evacuation for work in down}
        most = min(
            (
                hosts_down(group, evacuations, self.observed, self.findings)
                for group in clusters_of([work.resolved for work in down]).values()
            ),
            default=1,
        )
        works, first = _canaries_first(works)
        canaries: list[str] = []
        order: dict[bool, dict[str, list[Change]]] = {True: {}, False: {}}
        for index, work in enumerate(works):
            is_canary = index < first
            sequence = HostSequence(
                work.resolved,
                work.phases,
                work.evacuation,
                max_down=max(most, 1),
                first_needs=(
                    *needed_options(work.resolved, work.evacuation, self.cluster_options),
                    *needed_image(work.resolved, images),
                    *(() if is_canary else canaries),
                ),
                manual_first=work.manual_first,
                is_held=work.is_held,
            )
            changes = sequence.build()
            result.changes += changes
            order[is_canary][work.resolved.name] = changes
            result.ready_after[work.resolved.view.host.moid] = _ready_after(changes, work.resolved.name)
            if is_canary:
                canaries.append(_ready_after(changes, work.resolved.name))
        result.canaries.append(
            Canary(
                names=tuple(order[True]),
                others=tuple(order[False]),
                first=tuple(change.id for changes in order[True].values() for change in changes),
                held=tuple(change.id for changes in order[False].values() for change in changes),
            )
        )


def _canaries_first(works: Sequence[HostWork]) -> tuple[list[HostWork], int]:
    """Put the canaries first, and count them: the hosts that cost least, among those that try the work.

    A host that is down for this plan already comes back before another goes.
    """
    chosen: list[HostWork] = []
    for work in sorted(works, key=_cost):
        if len(chosen) < work.resolved.entry.disruption.canary:
            chosen.append(work)
    moids = {work.resolved.view.host.moid for work in chosen}
    return [*chosen, *(work for work in works if work.resolved.view.host.moid not in moids)], len(chosen)


def _cost(work: HostWork) -> tuple[bool, bool, bool, int, int]:
    """Return the cost of a host that goes first; VMs that move count before those that are switched off."""
    mark = work.resolved.view.facts.mark
    leaving = work.evacuation
    return (
        work.is_held or work.is_blocked,
        mark is None or not mark.maintenance,
        not work.phases.needs_empty_host,
        len(leaving.moved),
        len(leaving.switched_off),
    )


def _take(assessed: AssessedHost, result: HostPlans) -> None:
    moid = assessed.resolved.view.host.moid
    if assessed.is_in_sync:
        result.in_sync.append(assessed.resolved.name)
    if assessed.unknown is not None:
        result.unknown.append(assessed.unknown)
    if assessed.host is not None:
        result.prepared[moid] = assessed.host
    if assessed.step is not None:
        result.changes.append(assessed.step)
        result.ready_after[moid] = assessed.step.id


def _ready_after(changes: Sequence[Change], host: str) -> str:
    """Return the change after which a host can take VMs."""
    ids = {change.id for change in changes}
    if exit_id(host) in ids:
        return exit_id(host)
    return next(change.id for change in reversed(changes) if not change.starts)


def join_changes(hosts: HostPlans, of_vms: Sequence[Change]) -> list[Change]:
    """Put the changes of hosts before those of VMs, and let each VM wait for its host.

    A VM that is switched off for both is switched off once, and on once.
    """
    ids = {change.id for change in of_vms}
    joined = [change for change in hosts.changes if change.id not in ids or change.stops]
    taken = {change.id for change in joined}
    for change in of_vms:
        if change.id in taken:
            continue
        after = hosts.ready_after.get(change.host_moid or "")
        joined.append(with_needs(change, (after,)) if after and change.face.needs_host else change)
    return joined


def check_branches(resolved_hosts: Sequence[ResolvedHost], now: datetime, findings: Findings) -> None:
    """Report boards that a host's driver, the wanted or else the present one, has dropped, and its end."""
    for resolved in resolved_hosts:
        branch = load_driver_branches().find(_number(resolved))
        if branch is not None and resolved.view.host.gpus:
            _check_boards(resolved, branch, findings)
            _check_end(resolved, branch, now, findings)


def _number(resolved: ResolvedHost) -> str:
    wanted = resolved.entry.driver.version if resolved.entry.driver is not None else None
    present = driver_facts(resolved.view.facts.software).version
    return branch_of(wanted or "") or branch_of(present or "")


def _check_boards(resolved: ResolvedHost, branch: DriverBranch, findings: Findings) -> None:
    known = load_driver_branches()
    told: set[str] = set()
    for gpu in resolved.view.host.gpus:
        board = resolved.view.boards.get(gpu.pci_id)
        end = known.end_of(board, gpu.name) if not gpu.is_passthrough else None
        name = board.key if board is not None else gpu.name
        if end is None or branch.release <= end.release or name in told:
            continue
        told.add(name)
        last = next((one.number for one in known.branches if one.release == end.release), "")
        message = (
            f"the host's driver (branch {branch.number}) is vGPU {branch.release}, but "
            f"{end.release} was the last "
            f"release to support the {name} ({end.source}); vGPUs would not be available"
        )
        remedy = f"keep this host on a driver from branch {last}, or use GPU passthrough"
        # Belief: end-of-support.
        findings.add(Code.BOARD_ENDED, resolved.subject, message, remedy)


def _check_end(resolved: ResolvedHost, branch: DriverBranch, now: datetime, findings: Findings) -> None:
    end = branch.end_of_life
    if end is None or f"{now:%Y-%m}" <= end.date:
        return
    message = (
        f"the host's driver is from branch {branch.number}, which reached end of life in "
        f"{end.date} ({end.source})"
    )
    findings.add(
        Code.BRANCH_ENDED,
        resolved.subject,
        message,
        "plan an upgrade to a later branch with `verify --target-branch`",
    )


def check_canary(changes: Sequence[Change], canaries: Sequence[Canary], findings: Findings) -> None:
    """Report hosts that get another driver without one of them going first to try it."""
    first = {change_id for canary in canaries if canary.others for change_id in canary.first}
    upgraded = [
        change
        for change in of_kind(changes, ChangeHost)
        if any(one.setting == "driver" and one.before not in (None, NONE) for one in change.settings)
    ]
    if len(upgraded) > 1 and not any(change.id in first for change in upgraded):
        others = listed([change.host.name for change in upgraded[1:]], shown=6)
        message = f"the host is updated to the new driver at the same time as {others}, without a canary"
        remedy = "set disruption: {canary: 1} to check its guests before the next host is changed"
        findings.add(Code.DRIVER_WITHOUT_CANARY, upgraded[0].subject, message, remedy)
