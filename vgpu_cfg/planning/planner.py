"""Turn the desired state and observations into a plan: the order of all questions, and required approvals.

A plan's disturbances are refused without the necessary approval.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from vgpu_cfg.catalog import Board, Catalog
from vgpu_cfg.changes.change import Change
from vgpu_cfg.changes.plan import (
    Diagnostic,
    LostHost,
    Plan,
    PlanTarget,
    all_disturbed,
    how_to_approve,
    lacking,
    reckoned,
)
from vgpu_cfg.changes.reach import Disturbed
from vgpu_cfg.changes.severity import Severity
from vgpu_cfg.changes.values import Subject
from vgpu_cfg.documents import did_you_mean
from vgpu_cfg.model.choices import Approval
from vgpu_cfg.model.desired import DesiredPlan, with_nearness
from vgpu_cfg.model.observed.inventory import Folder, Host, Inventory
from vgpu_cfg.model.observed.vm import Vm
from vgpu_cfg.model.wording import listed
from vgpu_cfg.planning.addresses import AddressBook
from vgpu_cfg.planning.canaries import plan_canaries
from vgpu_cfg.planning.capacity.host_capacity import CapacityReader
from vgpu_cfg.planning.capacity.topology import Topologies
from vgpu_cfg.planning.estate.down_hosts import can_go, report_all_left
from vgpu_cfg.planning.estate.named import meant_at, split
from vgpu_cfg.planning.estate.ownership import (
    Ownership,
    as_named,
    assess_ownership,
    marked_moids,
    others_moids,
)
from vgpu_cfg.planning.estate.protection import orphans_to_delete, refuse_many_deletions, report_orphans
from vgpu_cfg.planning.estate.site import Site, check_networks, with_own_networks
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.findings.collection import (
    DIFFERENCES_OF_VMS,
    Findings,
    beliefs_here,
    blocked_changes,
    report_beliefs,
)
from vgpu_cfg.planning.findings.options import PlanOptions
from vgpu_cfg.planning.guests.drivers import host_branches, refused_branches
from vgpu_cfg.planning.guests.plan import GuestPlanner
from vgpu_cfg.planning.host_settings.cluster import plan_cluster_options
from vgpu_cfg.planning.host_settings.nics.nic_firmware import with_link_types
from vgpu_cfg.planning.hosts.plan import HostPlanner, join_changes
from vgpu_cfg.planning.locks import report_locks
from vgpu_cfg.planning.networks.compare import plan_networks, tie_vmknics
from vgpu_cfg.planning.placement.candidates import forbidden_by
from vgpu_cfg.planning.placement.place import Placed
from vgpu_cfg.planning.placement.start_queues import narrow_queues
from vgpu_cfg.planning.pool.quotas import holdings_of, report_licences, report_quotas
from vgpu_cfg.planning.pool.reservations import is_waiting, plan_reservation, report_waiting
from vgpu_cfg.planning.pool.spare import Spares, report_spare
from vgpu_cfg.planning.rdma.checks import RdmaChecks
from vgpu_cfg.planning.remedies.advice import report_cordons
from vgpu_cfg.planning.remedies.lost_hosts import assess_lost, report_lost, steps_of_lost
from vgpu_cfg.planning.vms.checks.gpu_checks import OfferedBy, check_api, check_gpus
from vgpu_cfg.planning.vms.checks.mixture_checks import check_mixtures, check_twins
from vgpu_cfg.planning.vms.checks.place_checks import (
    check_boards,
    check_datastores,
    check_failover,
    check_host,
    check_own_cores,
    check_pools,
    check_spread,
)
from vgpu_cfg.planning.vms.checks.topology_checks import check_lone_members, check_peers, check_topology
from vgpu_cfg.planning.vms.checks.vm_checks import check_groups, check_settings
from vgpu_cfg.planning.vms.destroy import plan_removal, refuse_disks
from vgpu_cfg.planning.vms.expiry import check_expiry, with_expired_at_rest
from vgpu_cfg.planning.vms.lookup.baseline import Baseline, StateReader, make_baseline, place_vms
from vgpu_cfg.planning.vms.lookup.gpu_choice import with_choices
from vgpu_cfg.planning.vms.lookup.resolved_vm import ResolvedVm
from vgpu_cfg.planning.vms.lookup.vm_resolver import VmResolver
from vgpu_cfg.planning.vms.new_vms import plan_about_vms
from vgpu_cfg.planning.vms.place_preferences import (
    check_host_names,
    check_keep_free,
    check_numa_residents,
    check_pack,
)
from vgpu_cfg.planning.vms.relocate import NamePlanner, within_windows
from vgpu_cfg.planning.vms.rules import (
    after_rules,
    plan_host_rules,
    plan_rules,
    remove_host_rules,
    remove_rules,
)
from vgpu_cfg.planning.vms.sequence import check_left_out, only_chosen, order_power_ons, report_included
from vgpu_cfg.planning.vms.settings.cluster_rows import plan_overrides
from vgpu_cfg.planning.vms.vm_plans import VmPlanner, VmPlans

if TYPE_CHECKING:
    from vgpu_cfg.planning.hosts.choose import Chosen

_SHOWN = 6


def make_plan(
    desired: DesiredPlan, observed: Inventory, catalog: Catalog, options: PlanOptions | None = None
) -> Plan:
    """Compare the desired state with the observed one; pure, and the same for any order of them.

    Errors among the plan's diagnostics mean that it must not be carried out; the changes are those that would
    be made nevertheless.
    """
    if is_waiting(desired, observed):
        return _plan_until_it_begins(desired, as_named(desired, observed), catalog)
    desired = with_choices(desired, as_named(desired, observed), catalog)
    told = meant_at(options or PlanOptions(), desired, observed)
    plan = _Planning(with_nearness(desired), observed, catalog, told).run()
    return plan.model_copy(update={"desired": desired})


def _plan_until_it_begins(desired: DesiredPlan, observed: Inventory, catalog: Catalog) -> Plan:
    """Plan for a time that is still to come: its GPUs are reserved, and nothing else is done."""
    findings = Findings.for_plan(desired)
    report_waiting(desired, findings)
    changes = list(plan_reservation(desired, observed, catalog, (), (), findings))
    report_locks(desired.identity, changes, observed, findings)
    plan = plan_about_vms(desired, Site(desired, observed, findings), changes, findings)
    blocked = blocked_changes(changes, plan.diagnostics, findings.vms_with_errors())
    return plan.model_copy(update={"blocked": blocked})


class _Planning:
    def __init__(
        self, desired: DesiredPlan, observed: Inventory, catalog: Catalog, options: PlanOptions
    ) -> None:
        self.catalog, self.options = catalog, options
        observed = with_link_types(with_own_networks(desired, as_named(desired, observed)))
        self.desired = desired = with_expired_at_rest(desired, observed)
        self.findings = Findings.for_plan(desired)
        self.as_read = observed
        self.unclear: tuple[Diagnostic, ...] = ()
        self.cluster_options = plan_cluster_options(desired, observed, self.findings)
        self.host_planner = HostPlanner(
            desired, observed, catalog, options, self.findings, self.cluster_options
        )
        self._stand_on(self.host_planner.as_stated(observed))

    def _stand_on(self, observed: Inventory) -> None:
        """Take an inventory for the one that VMs are placed on: its hosts are as they will be."""
        self.observed = observed
        allow_move = self.options.allow_move
        is_strict = self.findings.severity_of(Code.GUEST_DRIVER_BRANCH) is Severity.ERROR
        drivers = host_branches(self.desired, observed) if is_strict else {}
        refused = {moid: refused_branches(branch) for moid, branch in drivers.items()}
        self.resolver = VmResolver(self.desired, observed, self.catalog, self.findings, allow_move, refused)
        self.site, self.reader, self.hosts = self.resolver.site, self.resolver.reader, self.resolver.hosts
        self.topologies = Topologies(observed, self.catalog)

    def run(self) -> Plan:
        """Go through the stages."""
        check_networks(self.desired, self.site, self.findings)
        folders = self.resolver.folders()
        owned = assess_ownership(self.desired, self.observed, folders, self.findings)
        self._report_expired(owned)
        book = AddressBook(self.desired, self.as_read, owned.existing, self.findings)
        named = orphans_to_delete(self.desired, self.observed, owned, self.options, self.findings)
        deleted, self.steps = can_go(named, self.observed, self.desired.identity, self.findings)
        of = len(owned.existing) + len(owned.orphans)
        refuse_many_deletions(self.desired, len(deleted), self.options, self.findings, of=of)
        resolved_vms = self._resolved(folders, owned, book)
        baseline, placed = self._place(resolved_vms, deleted)
        chosen = self._choose(resolved_vms, deleted, baseline, placed)
        self.host_plans = self.host_planner.plan(chosen)
        known = {resolved.view.host.moid for resolved in self.host_planner.resolved_hosts}
        report_all_left(self.desired.identity, self.as_read, known, self.findings)
        if any(not one.is_so for one in chosen.values()):
            self._stand_on(self.as_read.with_hosts(self.host_plans.prepared))
            resolved_vms = self._resolved(folders, owned, book)
            baseline, placed = self._place(resolved_vms, deleted)
        baseline, placed = self._settle(resolved_vms, deleted, baseline, placed)
        result = VmPlans()
        planner = VmPlanner(
            self.desired,
            self.observed,
            self.resolver.lookup,
            self.options,
            self.findings,
            self.topologies,
            book,
            names=NamePlanner(self.observed, self.findings).plan(resolved_vms, self.desired.moved),
        )
        self._remove(deleted, result)
        for resolved in resolved_vms:
            planner.plan_vm(resolved, placed, result)
        self.lost_vms = list(self.resolver.lost_vms(folders, owned))
        for resolved in self.lost_vms:
            planner.keep_lost(resolved, placed, result)
        self._assess_places(resolved_vms, baseline)
        self._assess_keep_free(resolved_vms, deleted)
        guests = self._guests(book, result)
        result.changes = guests.stage(resolved_vms, result.changes, result.in_sync)
        by_name = {resolved.name: resolved for resolved in resolved_vms}
        changes, result.contests = order_power_ons(
            result.changes, by_name, result.freeing, placed.initial, self.findings
        )
        reported = {vm.moid for vm in (*owned.existing.values(), *deleted)}
        staying = marked_moids(self.desired.identity, self.observed) - reported
        staying |= others_moids(self.desired.identity, self.observed)
        rules = [
            *plan_rules(self.desired, self.observed, result.members, staying, self.findings),
            *plan_host_rules(self.desired, self.observed, result.members, staying, self.findings),
            *plan_overrides(result.overrides, self.observed.cluster_by_moid),
            *self._rules_of_former_names(owned),
        ]
        changes = within_windows(changes, self.host_planner.windows, self.observed)
        changes = join_changes(self.host_plans, [*after_rules(changes, rules), *rules])
        changes = [*self.cluster_options, *plan_networks(self.desired, self.as_read, self.findings), *changes]
        changes = tie_vmknics(changes, self.as_read)
        rdma = RdmaChecks(self.desired, self.as_read, self.topologies, self.findings)
        changes += rdma.assess(resolved_vms, result.placements, changes)
        nics = book.nics_of_all(result.placements)
        check_mixtures(
            self.desired, self.as_read, resolved_vms, placed.initial, result.placements, nics, self.findings
        )
        places = {one.vm: one for one in result.placements}
        check_twins(self.as_read, resolved_vms, deleted, places, self.findings)
        report_orphans(self.desired, owned, deleted, "apply", self.findings)
        return self._plan(changes, resolved_vms, owned, deleted, result, guests)

    def _report_expired(self, owned: Ownership) -> None:
        """Say of VMs that are not there and past their date that they are not made."""
        today = self.observed.read_at.date()
        for vm in self.desired.vms:
            if vm.name not in owned.existing and vm.is_expired(today):
                check_expiry(vm, None, today, self.findings)

    def _rules_of_former_names(self, owned: Ownership) -> Iterator[Change]:
        """Yield the removal of rules that the plan made under another name, found in its VMs' marks."""
        marks = [vm.mark for vm in owned.existing.values() if vm.mark is not None]
        own = {vm.moid for vm in self.observed.vms if vm.is_of(self.desired.identity)}
        others = frozenset(vm.moid for vm in self.observed.vms if vm.moid not in own)
        for name in sorted({mark.plan for mark in marks} - {self.desired.name}):
            yield from remove_rules(name, self.observed, others)
            yield from remove_host_rules(name, self.observed, others)

    def _resolved(
        self, folders: Mapping[str, Folder | None], owned: Ownership, book: AddressBook
    ) -> list[ResolvedVm]:
        """Look up the plan's VMs, and say what each needs of its host."""
        self.resolver.lookup = replace(self.resolver.lookup, new_macs=book.default_macs)
        resolved_vms = list(self.resolver.resolved_vms(folders, owned))
        self._assess(resolved_vms)
        for resolved in resolved_vms:
            self.resolver.shape(resolved)
        return resolved_vms

    def _choose(
        self, resolved_vms: Sequence[ResolvedVm], deleted: Sequence[Vm], baseline: Baseline, placed: Placed
    ) -> Chosen:
        """Decide which hosts are prepared for the VMs, if `prepare: from_vms` allows it."""
        alternatives = self.host_planner.alternatives
        if not alternatives.resolved_hosts:
            return {}
        from vgpu_cfg.planning.hosts.choose import Chooser

        reader = StateReader(self.observed, resolved_vms, deleted, self.findings)
        chooser = Chooser(alternatives, self.observed, self.catalog, baseline, resolved_vms, reader)
        chosen = chooser.choose(placed)
        self.unclear = chooser.unclear
        return chosen

    def _guests(self, book: AddressBook, result: VmPlans) -> GuestPlanner:
        """Return what plans the guests, which know their NICs by where their VMs go."""
        addresses = book.nics_of_all(result.placements)
        return GuestPlanner(
            self.desired, self.as_read, addresses, result.placements, self.options, self.findings
        )

    def _assess(self, resolved_vms: Sequence[ResolvedVm]) -> None:
        """Say what can be said before any host is looked at."""
        offered = OfferedBy(self.hosts)
        today = self.observed.read_at.date()
        for resolved in resolved_vms:
            check_expiry(resolved.desired, resolved.existing, today, self.findings)
            check_host_names(resolved, self.hosts, self.findings)
            check_settings(resolved, self.findings)
            check_api(resolved.desired, resolved.gpus, self.observed.vcenter.api_version, self.findings)
            check_gpus(resolved, self.catalog, self.reader, offered, self.findings)
            if not resolved.cannot_be_placed:
                check_peers(resolved, self.catalog, self.hosts, self.findings)
                check_groups(resolved, self.hosts, self.findings)
            if resolved.keeps_gpus or resolved.sheds_gpus:
                resolved.held_boards = tuple(self._held_boards(resolved))

    def _held_boards(self, resolved: ResolvedVm) -> Iterator[Board]:
        """Yield the boards of a running VM's GPUs that are the plan's, as far as known."""
        for device in resolved.own.vgpus:
            yield from (entry.board for entry in self.catalog.by_profile(device.profile)[:1])
        devices = {pci.pci_id: pci for pci in resolved.host.pci_devices} if resolved.host else {}
        for passed in resolved.own.passthrough_gpus:
            pci = devices.get(passed.pci_id or passed.assigned_id or "")
            if pci is not None:
                board = self.reader.board_of(pci)
            else:
                boards = [self.catalog.by_pci(*ids) for ids in passed.allowed]
                board = next((one for one in boards if one is not None), None)
            if board is not None:
                yield board

    def _place(self, resolved_vms: Sequence[ResolvedVm], deleted: Sequence[Vm]) -> tuple[Baseline, Placed]:
        baseline = make_baseline(self.hosts, self.observed, resolved_vms, deleted, self.reader, self.findings)
        return baseline, place_vms(baseline, resolved_vms)

    def _settle(
        self, resolved_vms: Sequence[ResolvedVm], deleted: Sequence[Vm], baseline: Baseline, placed: Placed
    ) -> tuple[Baseline, Placed]:
        """Report VMs without a place; a running one that lacks room for new GPUs keeps its present ones."""
        while True:
            failed = [resolved for resolved in resolved_vms if resolved.name in placed.failed]
            if not failed:
                return baseline, placed
            from vgpu_cfg.planning.remedies.refusals import report_failures

            stuck = [
                resolved for resolved in failed if resolved.existing is not None and resolved.existing.is_on
            ]
            report_failures(placed, stuck or failed, baseline, self.resolver.might_go_to, self.findings)
            if not stuck:
                return baseline, placed
            for resolved in stuck:
                resolved.is_stuck = True
            baseline, placed = self._place(resolved_vms, deleted)

    def _remove(self, deleted: Sequence[Vm], result: VmPlans) -> None:
        for vm in deleted:
            allow = (*self.desired.allow, *self.options.allow)
            removal = plan_removal(vm, self.findings, delete=self.options.deleted_disks, allow=allow)
            result.changes += removal
            if vm.host_moid is not None and vm.is_on:
                result.freeing.setdefault(vm.host_moid, []).append(removal[-1].id)
        refuse_disks(self.desired, self.observed, result.changes, self.options.deleted_disks, self.findings)

    def _assess_places(self, resolved_vms: Sequence[ResolvedVm], baseline: Baseline) -> None:
        """Report what concerns hosts, datastores and VMs together."""
        check_datastores((resolved for resolved in resolved_vms if resolved.fit is not None), self.findings)
        check_own_cores(resolved_vms, self.findings)
        check_failover(resolved_vms, self.site, self.findings)
        check_pools(resolved_vms, self.site, self.findings)
        concerned = {resolved.host.moid for resolved in resolved_vms if resolved.host is not None}
        used: dict[int, list[str]] = {}
        residents: dict[tuple[str, str], list[ResolvedVm]] = {}
        for resolved in resolved_vms:
            if resolved.fit is not None and (resolved.fit.gpus or resolved.fit.slots):
                used.setdefault(resolved.fit.host, []).append(resolved.name)
            is_heeded = resolved.existing is None or "place" not in resolved.desired.ignore
            if resolved.host is not None and is_heeded:
                residents.setdefault((resolved.desired.line, resolved.host.name), []).append(resolved)
        report_cordons(self.observed.hosts, concerned, self.findings)
        check_spread(residents, self.findings)
        check_numa_residents(residents, self.findings)
        check_pack(residents, self.findings)
        for index, users in used.items():
            host = baseline.hosts[index]
            check_host(host, baseline.claims[index], users, baseline.unread[index], self.findings)
            check_topology(self.topologies.of(host), self.findings)
        asked = {id(one.shape.hosts): one.shape.hosts for one in resolved_vms if one.shape}
        for index in {index for ranked in asked.values() for index, _ in ranked}:
            check_boards(baseline.hosts[index], baseline.unknown_boards[index], self.findings)
        check_lone_members(resolved_vms, self.hosts, self.observed.vms, self.catalog, self.findings)

    def _assess_keep_free(self, resolved_vms: Sequence[ResolvedVm], deleted: Sequence[Vm]) -> None:
        wanted = [
            (resolved, [self.hosts[index] for index, _ in self.resolver.might_go_to(resolved)])
            for resolved in resolved_vms
            if resolved.desired.place.keep_free and "place" not in resolved.desired.ignore
        ]
        check_keep_free(wanted, self.observed, {vm.moid for vm in deleted}, self.findings)

    def _plan(
        self,
        changes: list[Change],
        resolved_vms: Sequence[ResolvedVm],
        owned: Ownership,
        deleted: Sequence[Vm],
        result: VmPlans,
        guests: GuestPlanner,
    ) -> Plan:
        chosen = self._chosen(resolved_vms, owned, deleted)
        if chosen is not None:
            changes = only_chosen(changes, chosen)
            report_included(changes, chosen, self.findings)
        lost_hosts = self._lost_hosts(chosen)
        self.host_planner.report_absent(
            lambda host: self._needing(host, resolved_vms, owned, chosen),
            {one.host.moid: [vm.name for vm in one.vms] for one in lost_hosts},
        )
        own_steps = steps_of_lost(lost_hosts, self.observed.host_by_moid)
        changes += {step.id: step for step in (*self.steps, *own_steps)}.values()
        changes = guests.order(changes, result.in_sync)
        contests = tuple(narrow_queues(result.contests, changes))
        check_left_out(
            result.contests, changes, {resolved.name: resolved for resolved in resolved_vms}, self.findings
        )
        touched = {vm.moid for vm in owned.existing.values()} | {vm.moid for vm in owned.orphans}
        placements = [one for one in result.placements if chosen is None or one.vm in chosen]
        hosts = {one.host_moid for one in placements} | {change.host_moid for change in changes}
        differing = self.findings.vms_with(DIFFERENCES_OF_VMS)
        as_stated = [name for name in result.in_sync if name not in differing]
        in_sync, unknown = self.host_plans.in_sync, self.host_plans.unknown
        known = {*in_sync, *(one.host.name for one in unknown)}
        vcenter = self.observed.vcenter
        reserved = plan_reservation(
            self.desired, self.as_read, self.catalog, result.placements, deleted, self.findings
        )
        changes = [*reserved, *changes]
        report_locks(self.desired.identity, changes, self.as_read, self.findings)
        holders = (*resolved_vms, *self.lost_vms)
        if self.desired.quotas:
            held = holdings_of(self.as_read, self.catalog, holders, deleted, chosen)
            report_quotas(self.desired, held, self.findings)
            report_licences(self.desired, self.as_read, held, self.findings)
            made = [one for one in resolved_vms if chosen is None or one.name in chosen]
            spares = Spares(self.observed, CapacityReader(self.observed, self.catalog))
            report_spare(self.desired, spares, made, deleted, self.hosts, changes, self.findings)
        report_beliefs(self.desired, self.as_read, changes, self.findings)
        disturbed = all_disturbed(changes, self.as_read, touched)
        check_approvals(disturbed, self.desired, self.options, self.findings)
        found = (*self.unclear, *self.findings.diagnostics(chosen))
        plan = Plan(
            name=self.desired.name,
            target=PlanTarget(
                address=vcenter.address,
                instance_uuid=vcenter.instance_uuid,
                datacenter=self.site.datacenter.name if self.site.datacenter else "",
            ),
            read_at=self.observed.read_at,
            desired=self.desired,
            placements=tuple(placements),
            diagnostics=found,
            changes=tuple(changes),
            blocked=blocked_changes(changes, found, self.findings.vms_with_errors()),
            contests=contests,
            canaries=plan_canaries(changes, self.host_plans.canaries, contests, self.options.canary),
            in_sync=tuple(name for name in as_stated if chosen is None or name in chosen),
            orphans=tuple(vm.name for vm in owned.orphans),
            hosts_in_sync=tuple(in_sync),
            unknown=tuple(unknown),
            lost_hosts=lost_hosts,
            beliefs=beliefs_here(self.desired, self.as_read),
        )
        hosts |= {host.moid for host in self.observed.hosts if host.name in known}
        return reckoned(plan, self.observed, disturbed, vms=touched, hosts=hosts)

    def _lost_hosts(self, chosen: set[str] | None) -> tuple[LostHost, ...]:
        """Say what becomes of the chosen VMs whose hosts do not respond."""
        lost = [one for one in self.lost_vms if chosen is None or one.name in chosen]
        found = assess_lost(self.resolver, lost)
        report_lost(found, self.findings)
        return found

    def _needing(
        self, host: Host, resolved_vms: Sequence[ResolvedVm], owned: Ownership, chosen: set[str] | None
    ) -> list[str]:
        """Name the VMs that are on a host or are to go there, else those without a place that could."""
        lost = {resolved.name for resolved in self.lost_vms}
        there = [
            name for name, vm in owned.existing.items() if vm.host_moid == host.moid and name not in lost
        ]
        there += [
            one.name
            for one in resolved_vms
            if one.existing is None and one.host is not None and one.host.moid == host.moid
        ]
        waiting = [
            resolved.name
            for resolved in resolved_vms
            if resolved.existing is None and resolved.fit is None and not resolved.cannot_be_placed
            for cluster in resolved.clusters
            if cluster.moid == host.owner_moid and not forbidden_by(resolved.desired.place, host, cluster)
        ]
        return [name for name in there or waiting if chosen is None or name in chosen]

    def _chosen(
        self, resolved_vms: Sequence[ResolvedVm], owned: Ownership, deleted: Sequence[Vm]
    ) -> set[str] | None:
        """Return the names that `only` selects, with those deleted, None for all.

        A selector that matches nothing is an error.
        """
        if not self.options.only:
            return None
        known = (*resolved_vms, *self.lost_vms)
        hosts = {resolved.name: resolved.host.name if resolved.host else "" for resolved in known}
        names = {vm.name for vm in self.desired.vms} | {vm.name for vm in owned.orphans}
        chosen = {name for name in names if self.options.selects(name, hosts.get(name, ""))}
        chosen |= {vm.name for vm in deleted}
        by_host = all(selector.startswith("host:") for selector in self.options.only)
        has_networks = by_host and any(network.switch for network in self.desired.networks)
        of_hosts = self.host_plans
        if not (chosen or has_networks or of_hosts.changes or of_hosts.in_sync or of_hosts.unknown):
            subject = Subject(kind="plan", name=self.desired.name)
            message = f"nothing in the plan matches {' or '.join(self.options.only)}"
            typed = [split(selector)[1] for selector in self.options.only]
            close = [hint for name in typed if (hint := did_you_mean(name, {*names, *hosts.values()} - {""}))]
            remedy = "; ".join(close) or "specify a VM name, a glob, or host:NAME"
            self.findings.add(Code.NOTHING_SELECTED, subject, message, remedy)
        return chosen


def check_approvals(
    disturbed: Iterable[Disturbed], desired: DesiredPlan, options: PlanOptions, findings: Findings
) -> None:
    """Report one error for each cause and approval that is missing: it names everything disturbed."""
    missing: dict[tuple[str, Approval, str], list[Disturbed]] = {}
    for one in lacking(disturbed, {*desired.allow, *options.allow}):
        if one.needs is not None:
            missing.setdefault((one.through, one.needs, one.experience.value), []).append(one)
    for (through, approval, what), found in missing.items():
        names = listed(dict.fromkeys(one.subject.name for one in found), shown=_SHOWN)
        subject = Subject(kind="network", name=through) if through else found[0].subject
        notes = "; ".join(dict.fromkeys(one.note for one in found if one.note))
        why = f" ({notes})" if approval is Approval.IRREVERSIBLE and notes else ""
        message = f"not approved for {names}: {what}{why}"
        remedy = f"to approve, {how_to_approve(approval)}"
        findings.add(Code.DISRUPTION_NOT_ALLOWED, subject, message, remedy)
