"""From what is desired and what was observed to a plan: the order in which everything is asked."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from vgpu_cfg.catalog import Board, Catalog
from vgpu_cfg.model.change import Change, CreateVm, Plan, PlanTarget, Subject
from vgpu_cfg.model.desired import DesiredPlan
from vgpu_cfg.model.inventory import Inventory
from vgpu_cfg.model.vm import Vm
from vgpu_cfg.planning.addresses import AddressBook
from vgpu_cfg.planning.case import Case
from vgpu_cfg.planning.case_maker import CaseMaker
from vgpu_cfg.planning.checks import Code
from vgpu_cfg.planning.contests import narrow_contests
from vgpu_cfg.planning.destroy import plan_removal
from vgpu_cfg.planning.findings import Findings
from vgpu_cfg.planning.gpu_checks import OfferedBy, check_api, check_gpus
from vgpu_cfg.planning.guest.plan import GuestPlanner
from vgpu_cfg.planning.host_rules import plan_host_rules
from vgpu_cfg.planning.hosts.plan import HostPlanner, join_changes
from vgpu_cfg.planning.movables import Movables
from vgpu_cfg.planning.networks import plan_networks
from vgpu_cfg.planning.nvlink_checks import check_lone_members, check_peers
from vgpu_cfg.planning.only import only_chosen
from vgpu_cfg.planning.options import PlanOptions
from vgpu_cfg.planning.orphans import orphans_to_delete, report_orphans
from vgpu_cfg.planning.ownership import Ownership, judge_ownership, marked_moids
from vgpu_cfg.planning.place_checks import (
    check_boards,
    check_datastores,
    check_host,
    check_spread,
)
from vgpu_cfg.planning.place_wishes import check_keep_free, check_not_hosts, check_numa_residents, check_pack
from vgpu_cfg.planning.placement import Placed
from vgpu_cfg.planning.rdma.asked import asks_rdma, with_nearness
from vgpu_cfg.planning.rdma.checks import RdmaChecks
from vgpu_cfg.planning.rules import after_rules, plan_rules
from vgpu_cfg.planning.sequence import check_left_out, order_power_ons
from vgpu_cfg.planning.settings.cluster import plan_cluster_options
from vgpu_cfg.planning.site import check_networks
from vgpu_cfg.planning.stage import (
    Stage,
    place_cases,
    report_failures,
    set_stage,
)
from vgpu_cfg.planning.topology import Topologies
from vgpu_cfg.planning.topology_checks import check_topology
from vgpu_cfg.planning.vm_checks import (
    check_date,
    check_settings,
)
from vgpu_cfg.planning.vm_plans import VmPlanner, VmPlans
from vgpu_cfg.planning.vmknic_networks import tie_vmknics
from vgpu_cfg.planning.vms.overrides import plan_overrides


def make_plan(
    desired: DesiredPlan, observed: Inventory, catalog: Catalog, options: PlanOptions | None = None
) -> Plan:
    """Compare what is desired with what was observed; pure, and the same whatever their order.

    Errors among the plan's diagnostics mean that it must not be carried out; the changes are
    those that would be made nevertheless.
    """
    plan = _make_plan(with_nearness(desired), observed, catalog, options or PlanOptions())
    return plan.model_copy(update={"desired": desired})


def _make_plan(desired: DesiredPlan, observed: Inventory, catalog: Catalog, options: PlanOptions) -> Plan:
    best, prepared = _with_hosts_for_vms(desired, observed, catalog, options)
    hosts = _hosts_for_rdma(best.plan, best.derivable)
    if not hosts:
        return best.plan
    # What the VMs take is there; the RDMA of the new ones may need more of their hosts.
    with_rdma = _Planning(desired, observed, catalog, options, prepared, hosts).run()
    is_worse = _shortfall(with_rdma) > _shortfall(best.plan) or len(with_rdma.errors) > len(best.plan.errors)
    return best.plan if is_worse else with_rdma


def _with_hosts_for_vms(
    desired: DesiredPlan, observed: Inventory, catalog: Catalog, options: PlanOptions
) -> tuple[_Tried, Mapping[str, Collection[str] | None]]:
    """Plan on the hosts as they are; where VMs find no place there, with those hosts prepared that help.

    Returns the plan, and the hosts that are prepared for the VMs with these VMs' names.
    """
    first = _Planning(desired, observed, catalog, options)
    plan = first.run()
    derivable = frozenset(first.host_plans.derivable)
    missing = _shortfall(plan)
    if not derivable or not missing:
        return _Tried(plan, derivable), {}
    # Some VMs find no place on the hosts as they are: prepare all that may be, then only those that are used.
    everything: dict[str, Collection[str] | None] = dict.fromkeys(derivable)
    second = _Planning(desired, observed, catalog, options, everything).run()
    # Where every VM has its place, how GPUs might be shared instead is no question.
    is_short = len(plan.placements) < len(plan.desired.vms)
    unclear = [found for found in second.diagnostics if is_short and found.code == Code.SHARING_UNCLEAR]
    if _shortfall(second) >= missing:
        told = plan.model_copy(update={"diagnostics": (*unclear, *plan.diagnostics)})
        return _Tried(told, derivable), {}
    used: dict[str, set[str]] = {}
    for placement in second.placements:
        if placement.host_moid in derivable:
            used.setdefault(placement.host_moid, set()).add(placement.vm)
    third = _Planning(desired, observed, catalog, options, used).run()
    best, prepared = (third, used) if _shortfall(third) <= _shortfall(second) else (second, everything)
    if _shortfall(best):
        untold = [found for found in unclear if found not in best.diagnostics]
        best = best.model_copy(update={"diagnostics": (*untold, *best.diagnostics)})
    return _Tried(best, derivable - prepared.keys()), prepared


@dataclass(frozen=True, slots=True)
class _Tried:
    """A plan, and the hosts (moids) that the VMs could have prepared for them and that it leaves alone."""

    plan: Plan
    derivable: frozenset[str]


def _hosts_for_rdma(plan: Plan, derivable: frozenset[str]) -> dict[str, set[str]]:
    """Return the hosts, with the VMs to come there, that are left as they are although these want RDMA."""
    asking = {vm.name for vm in plan.desired.vms if asks_rdma(vm)}
    new = {change.vm.name for change in plan.changes if isinstance(change, CreateVm)}
    hosts: dict[str, set[str]] = {}
    for placement in plan.placements:
        if placement.host_moid in derivable and placement.vm in asking & new:
            hosts.setdefault(placement.host_moid, set()).add(placement.vm)
    return hosts


def _shortfall(plan: Plan) -> int:
    """Count what keeps VMs from running: those without a place, and the errors about VMs."""
    errors = sum(found.subject.kind == "vm" for found in plan.errors)
    return len(plan.desired.vms) - len(plan.placements) + errors


class _Planning:
    def __init__(
        self,
        desired: DesiredPlan,
        observed: Inventory,
        catalog: Catalog,
        options: PlanOptions,
        derive_for: Mapping[str, Collection[str] | None] = MappingProxyType({}),
        rdma_for: Mapping[str, Collection[str]] = MappingProxyType({}),
    ) -> None:
        self.desired, self.catalog, self.options = desired, catalog, options
        self.findings = Findings.for_plan(desired)
        self.as_read = observed
        self.cluster_options = plan_cluster_options(desired, observed, self.findings)
        hosts = HostPlanner(desired, observed, catalog, options, self.findings, self.cluster_options)
        self.host_plans = hosts.plan(derive_for, rdma_for)
        # VMs are placed on the hosts as they will be.
        self.observed = observed = self.host_plans.as_prepared(observed)
        self.maker = CaseMaker(desired, observed, catalog, self.findings)
        self.site, self.reader, self.hosts = self.maker.site, self.maker.reader, self.maker.hosts
        self.topologies = Topologies(observed, catalog)

    def run(self) -> Plan:
        """Go through the stages."""
        check_networks(self.desired, self.site, self.findings)
        folders = self.maker.folders()
        owned = judge_ownership(self.desired, self.observed, folders, self.findings)
        book = AddressBook(self.desired, self.as_read, owned.existing, self.findings)
        self.maker.lookup = replace(self.maker.lookup, new_macs=book.default_macs)
        cases = list(self.maker.cases(folders, owned))
        self._judge(cases)
        deleted = orphans_to_delete(self.desired, self.observed, owned, self.options, self.findings)
        for case in cases:
            self.maker.shape(case)
        stage, placed = self._place(cases, deleted)
        result = VmPlans()
        planner = VmPlanner(
            self.desired,
            self.observed,
            self.maker.lookup,
            self.options,
            self.findings,
            self.topologies,
            book,
        )
        self._remove(deleted, result)
        for case in cases:
            planner.plan_case(case, placed, result)
        self._judge_places(cases, stage)
        self._judge_keep_free(cases, deleted)
        guests = self._guests(book, result)
        result.changes = guests.stage(cases, result.changes, result.in_sync)
        by_name = {case.name: case for case in cases}
        ordered = order_power_ons(result.changes, by_name, result.freeing, placed.initial, self.findings)
        changes, result.contests = ordered.changes, ordered.contests
        told = {vm.moid for vm in (*owned.existing.values(), *deleted)}
        staying = marked_moids(self.desired.name, self.observed) - told
        rules = [
            *plan_rules(self.desired, self.observed, result.members, staying, self.findings),
            *plan_host_rules(self.desired, self.observed, result.members, staying, self.findings),
            *plan_overrides(result.overrides, self.observed.cluster_by_moid),
        ]
        changes = join_changes(self.host_plans, [*after_rules(changes, rules), *rules])
        changes = [
            *self.cluster_options,
            *plan_networks(self.desired, self.as_read, self.findings),
            *changes,
        ]
        changes = tie_vmknics(changes, self.as_read)
        rdma = RdmaChecks(self.desired, self.as_read, self.topologies, self.findings)
        changes += rdma.judge(cases, result.placements, changes)
        report_orphans(owned, deleted, "apply", self.findings)
        return self._plan(changes, cases, owned, deleted, result, guests)

    def _guests(self, book: AddressBook, result: VmPlans) -> GuestPlanner:
        """Return what plans the guests, which know their NICs by where their VMs go."""
        placed = {one.vm: (one.host_moid, one.nic_pci_ids) for one in result.placements}
        addresses = {vm.name: book.nics_of(vm, *placed.get(vm.name, (None, ()))) for vm in self.desired.vms}
        return GuestPlanner(
            self.desired, self.as_read, addresses, result.placements, self.options, self.findings
        )

    def _judge(self, cases: Sequence[Case]) -> None:
        """Say what can be said before any host is looked at."""
        offered = OfferedBy(self.hosts)
        today = self.observed.read_at.date()
        for case in cases:
            check_date(case.desired, today, self.findings)
            check_not_hosts(case, self.hosts, self.findings)
            check_settings(case, self.findings)
            check_api(case.desired, case.gpus, self.observed.vcenter.api_version, self.findings)
            check_gpus(case, self.catalog, self.reader, offered, self.findings)
            if not case.is_hopeless:
                check_peers(case, self.catalog, self.hosts, self.findings)
            if case.keeps_gpus:
                case.held_boards = tuple(self._held_boards(case))

    def _held_boards(self, case: Case) -> Iterator[Board]:
        """Yield the boards behind a running VM's GPUs, as far as they can be told."""
        for device in case.base.vgpus:
            yield from (entry.board for entry in self.catalog.by_profile(device.profile)[:1])
        devices = {pci.pci_id: pci for pci in case.host.pci_devices} if case.host else {}
        for passed in case.base.passthrough_gpus:
            pci = devices.get(passed.pci_id or passed.assigned_id or "")
            if pci is not None:
                board = self.reader.board_of(pci)
            else:
                boards = [self.catalog.by_pci(*ids) for ids in passed.allowed]
                board = next((one for one in boards if one is not None), None)
            if board is not None:
                yield board

    def _place(self, cases: Sequence[Case], deleted: Sequence[Vm]) -> tuple[Stage, Placed]:
        """Place the VMs; a running one for whose new GPUs there is no room keeps those that it holds."""
        while True:
            stage = set_stage(self.hosts, self.observed, cases, deleted, self.reader, self.findings)
            placed = place_cases(stage, cases)
            failed = [case for case in cases if case.name in placed.failed]
            stuck = [case for case in failed if case.existing is not None and case.existing.is_on]
            changing = {case.existing.moid for case in cases if case.existing and not case.stays_put}
            changing |= {vm.moid for vm in deleted}
            movables = Movables(self.observed, self.hosts, self.reader, self.desired.protect, changing)
            report_failures(placed, stuck or failed, stage, self.findings, movables.around)
            if not stuck:
                return stage, placed
            for case in stuck:
                case.is_stuck = True

    def _remove(self, deleted: Sequence[Vm], result: VmPlans) -> None:
        for vm in deleted:
            removal = plan_removal(vm)
            result.changes += removal
            if vm.host_moid is not None and vm.is_on:
                result.freeing.setdefault(vm.host_moid, []).append(removal[-1].id)

    def _judge_places(self, cases: Sequence[Case], stage: Stage) -> None:
        """Report what concerns hosts, datastores and VMs together."""
        check_datastores((case for case in cases if case.fit is not None), self.findings)
        used: dict[int, list[str]] = {}
        residents: dict[tuple[str, str], list[Case]] = {}
        for case in cases:
            if case.fit is not None and (case.fit.gpus or case.fit.slots):
                used.setdefault(case.fit.host, []).append(case.name)
            if case.host is not None:
                residents.setdefault((case.desired.line, case.host.name), []).append(case)
        check_spread(residents, self.findings)
        check_numa_residents(residents, self.findings)
        check_pack(residents, self.findings)
        for index, users in used.items():
            host = stage.hosts[index]
            check_host(host, stage.claims[index], users, stage.unread[index], self.findings)
            check_topology(self.topologies.of(host), self.findings)
        for index in {index for case in cases if case.shape for index, _ in case.shape.hosts}:
            check_boards(stage.hosts[index], stage.unknown_boards[index], self.findings)
        check_lone_members(cases, self.hosts, self.observed.vms, self.catalog, self.findings)

    def _judge_keep_free(self, cases: Sequence[Case], deleted: Sequence[Vm]) -> None:
        wanted = [
            (case, [self.hosts[index] for index, _ in self.maker.might_go_to(case)])
            for case in cases
            if case.desired.place.keep_free and "place" not in case.desired.ignore
        ]
        check_keep_free(wanted, self.observed, {vm.moid for vm in deleted}, self.findings)

    def _plan(
        self,
        changes: list[Change],
        cases: Sequence[Case],
        owned: Ownership,
        deleted: Sequence[Vm],
        result: VmPlans,
        guests: GuestPlanner,
    ) -> Plan:
        chosen = self._chosen(cases, owned, deleted)
        if chosen is not None:
            changes = only_chosen(changes, chosen)
        changes = guests.order(changes)
        contests = tuple(narrow_contests(result.contests, changes))
        check_left_out(result.contests, changes, {case.name: case for case in cases}, self.findings)
        touched = {vm.moid for vm in owned.existing.values()} | {vm.moid for vm in owned.orphans}
        placements = [one for one in result.placements if chosen is None or one.vm in chosen]
        hosts = {one.host_moid for one in placements} | {change.host_moid for change in changes}
        in_sync = self.host_plans.in_sync
        vcenter = self.observed.vcenter
        return Plan(
            name=self.desired.name,
            target=PlanTarget(
                address=vcenter.address,
                instance_uuid=vcenter.instance_uuid,
                datacenter=self.site.datacenter.name if self.site.datacenter else "",
            ),
            read_at=self.observed.read_at,
            desired=self.desired,
            placements=tuple(placements),
            diagnostics=self.findings.diagnostics(chosen),
            changes=tuple(changes),
            contests=contests,
            in_sync=tuple(name for name in result.in_sync if chosen is None or name in chosen),
            orphans=tuple(vm.name for vm in owned.orphans),
            hosts_in_sync=tuple(in_sync),
            untouched_vms=sum(not vm.is_template and vm.moid not in touched for vm in self.observed.vms),
            untouched_hosts=sum(
                host.moid not in hosts and host.name not in in_sync for host in self.observed.hosts
            ),
        )

    def _chosen(self, cases: Sequence[Case], owned: Ownership, deleted: Sequence[Vm]) -> set[str] | None:
        """Return the names that `only` selects, with those deleted, None for all.

        A selector that matches nothing is an error.
        """
        if not self.options.only:
            return None
        hosts = {case.name: case.host.name if case.host else "" for case in cases}
        names = {vm.name for vm in self.desired.vms} | {vm.name for vm in owned.orphans}
        chosen = {name for name in names if self.options.selects(name, hosts.get(name, ""))}
        chosen |= {vm.name for vm in deleted}
        by_host = all(selector.startswith("host:") for selector in self.options.only)
        has_networks = by_host and any(network.switch for network in self.desired.networks)
        if not (chosen or has_networks or self.host_plans.changes or self.host_plans.in_sync):
            subject = Subject(kind="plan", name=self.desired.name)
            message = f"nothing in the plan matches {' or '.join(self.options.only)}"
            remedy = "give a VM's name or glob, or host:NAME"
            self.findings.add(Code.NOTHING_SELECTED, subject, message, remedy)
        return chosen
