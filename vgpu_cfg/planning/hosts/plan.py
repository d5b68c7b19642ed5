"""The `hosts` part of a plan: changes, findings, and the hosts as they will be for the VMs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from vgpu_cfg.catalog import Catalog, ProfileEntry
from vgpu_cfg.model.change import Change, Impact, ManualStep, SetClusterOption, SetVCenterOption
from vgpu_cfg.model.desired import DesiredPlan
from vgpu_cfg.model.inventory import Connection, Host, Inventory, ProfileInfo
from vgpu_cfg.planning.checks import Code
from vgpu_cfg.planning.findings import Findings
from vgpu_cfg.planning.hosts.case import Gap, GapKind, HostCase
from vgpu_cfg.planning.hosts.compare import compare_host, wishes_of
from vgpu_cfg.planning.hosts.derive import derived_entry
from vgpu_cfg.planning.hosts.evacuate import (
    Evacuation,
    hosts_down,
    needed_options,
    plan_evacuation,
    plan_graphics_pause,
)
from vgpu_cfg.planning.hosts.gap_checks import (
    check_bios,
    check_matches,
    check_restarts,
    check_vmknic_networks,
)
from vgpu_cfg.planning.hosts.host_checks import (
    check_disruption,
    check_driver_owner,
    check_drivers,
    check_maintenance,
    check_nodes,
    check_other_plan,
    check_owners,
    check_reachable,
    check_standing,
    check_taken_back,
    check_window,
)
from vgpu_cfg.planning.hosts.select import clusters_of, host_cases, waves_of
from vgpu_cfg.planning.hosts.sequence import HostSequence, exit_id, is_by_hand
from vgpu_cfg.planning.hosts.stretches import Stretches, make_stretches
from vgpu_cfg.planning.new_vms import with_needs
from vgpu_cfg.planning.options import PlanOptions
from vgpu_cfg.planning.settings.cluster import with_options
from vgpu_cfg.planning.words import is_at_least, version_tuple

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


@dataclass(slots=True)
class _Work:
    """One host that has something to change."""

    case: HostCase
    stretches: Stretches
    evacuation: Evacuation
    prelude: list[Gap]
    is_held: bool


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
        works = [work for case in cases if (work := self._prepare(case, result)) is not None]
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

    def _prepare(self, case: HostCase, result: HostPlans) -> _Work | None:
        """Compare one host, judge what that takes, and return what is to be done; None where nothing is."""
        if case.wishes or case.view.facts.mark is not None:
            check_standing(case, self.desired.name, self.findings)
        if not check_reachable(case, self.desired.name, self.findings):
            self._wait_for_power(case, result)
            return None
        compare_host(case, self.findings, supposes=self.options.supposes)
        check_owners(case, self.findings)
        check_driver_owner(case, case.gaps, self.findings)
        check_nodes(case, self.findings)
        check_taken_back(case, self.findings)
        if case.is_checked_only:
            self._report_differences(case)
            self._report_in_sync(case, result)
            return None
        check_other_plan(case, self.desired.name, self.findings)
        _see_at_cold_boot(case)
        check_bios(case, self.findings)
        check_restarts(case, self.findings)
        is_held = check_maintenance(case, self.findings)
        mark = case.view.facts.mark
        is_left = mark is not None and mark.plan == self.desired.name
        if not case.gaps and not is_left:
            self._report_in_sync(case, result)
            return None
        if case.is_blocked:
            return None
        prelude = [gap for gap in case.gaps if is_by_hand(case, gap) and _comes_first(gap)]
        stretches = make_stretches(
            case.view,
            [gap for gap in case.gaps if gap not in prelude],
            case.right,
        )
        is_allowed = check_disruption(case, stretches, self.findings)
        evacuation = Evacuation()
        if not is_held and (stretches.needs_empty_host or stretches.touches_graphics):
            if stretches.needs_empty_host:
                evacuation = plan_evacuation(case, self.desired, self.observed, self.options, self.findings)
            else:
                evacuation = plan_graphics_pause(
                    case, self.desired, self.observed, self.options, self.findings
                )
        self._show(case, result)
        return (
            _Work(case, stretches, evacuation, prelude, is_held)
            if is_allowed and evacuation.is_possible
            else None
        )

    def _report_in_sync(self, case: HostCase, result: HostPlans) -> None:
        """List a host of which everything that is asked was told, and is so."""
        if case.wishes and not (case.gaps or case.is_blocked or case.has_refusals):
            result.in_sync.append(case.name)

    def _show(self, case: HostCase, result: HostPlans) -> None:
        host = case.view.host
        for gap in case.gaps:
            host = gap.setting.show(host, gap.wish)
        if host is not case.view.host:
            host = self._with_profiles(case, host)
        mark = case.view.facts.mark
        if mark is not None and mark.maintenance:
            host = host.model_copy(update={"is_in_maintenance_mode": False})
        if host.system_id is None and any(device.passthrough_active for device in host.pci_devices):
            # It is told once a first device is handed out, and asked for when a VM is made.
            host = host.model_copy(update={"system_id": ""})
        result.prepared[host.moid] = host

    def _with_profiles(self, case: HostCase, host: Host) -> Host:
        """Add what the catalogue knows of the host's boards: the driver's list was read before the change."""
        told = {profile.name: profile for profile in host.profiles or ()}
        names: dict[str, None] = dict.fromkeys((*told, *host.creatable_profiles))
        for gpu in host.gpus:
            board = case.view.boards.get(gpu.pci_id)
            if gpu.is_passthrough or board is None:
                continue
            of_gpu = [one for one in board.profiles if gpu.sharing in (None, one.profile.sharing)]
            if not any(one.name in names for one in of_gpu):
                names |= dict.fromkeys(one.name for one in of_gpu if _is_known(one, host))
        profiles = tuple(told.get(name) or ProfileInfo(name=name) for name in names)
        return host.model_copy(update={"profiles": profiles, "creatable_profiles": tuple(names)})

    def _wait_for_power(self, case: HostCase, result: HostPlans) -> None:
        mark = case.view.facts.mark
        if mark is None or not mark.maintenance or mark.plan != self.desired.name or mark.restart == "reboot":
            return
        told = mark.reason if mark.reason.startswith(f"power {case.name} on") else ""
        step = ManualStep(
            id=f"cold boot {case.name}",
            subject=case.subject,
            text=told or f"power {case.name} on by hand: this plan shut it down for a cold boot",
            proof=f"{case.name} is connected in vCenter",
            is_shown=True,
            impact=Impact.HOST_COLD_BOOT,
            host_moid=case.view.host.moid,
        )
        result.changes.append(step)
        result.ready_after[case.view.host.moid] = step.id
        host = case.view.host
        update = {"is_in_maintenance_mode": False, "connection": Connection.CONNECTED}
        result.prepared[host.moid] = host.model_copy(update=update)

    def _report_differences(self, case: HostCase) -> None:
        for gap in case.gaps:
            shown = gap.reading.configured or "unset"
            what = f"{gap.setting.title} {gap.wish.device}".rstrip()
            message = f"{what} is {shown}, and the plan asks for {gap.wish.value or 'none'}"
            if gap.kind is GapKind.PENDING:
                message = f"{what} is set to {shown}, and waits for a restart"
            remedy = "give the entry `mode: enforce` to have it changed"
            self.findings.add(Code.SETTING_DIFFERS, case.subject, message, remedy)

    def _sequence(self, works: Sequence[_Work], result: HostPlans) -> None:
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


def _comes_first(gap: Gap) -> bool:
    """Whether a step by hand is done before the tool takes the host down."""
    return gap.impact is Impact.HOST_REBOOT or gap.is_to_be_seen


def _see_at_cold_boot(case: HostCase) -> None:
    """Leave to a cold boot of the plan what needs a look into the BIOS: somebody stands there anyway."""
    if any(gap.impact is Impact.HOST_COLD_BOOT for gap in case.gaps):
        case.gaps = [
            replace(gap, impact=Impact.HOST_COLD_BOOT) if gap.is_to_be_seen and is_by_hand(case, gap) else gap
            for gap in case.gaps
        ]


def _is_known(profile: ProfileEntry, host: Host) -> bool:
    """Whether the host's release knows a profile."""
    least = profile.mig.min_esxi if profile.mig is not None else None
    return is_at_least(host.version, version_tuple(least or ""))


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
