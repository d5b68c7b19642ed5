"""The changes, place and findings of one VM at a time, once all of them have their places."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from vgpu_cfg.model.desired import DesiredPlan
from vgpu_cfg.model.observed.inventory import Cluster, Host, Inventory
from vgpu_cfg.model.observed.vm import AFFINITY_KEY, Vm
from vgpu_cfg.model.plan.change import Change, NumaPin, Placement, StartContest, VmRef
from vgpu_cfg.model.plan_words import NumaPolicy
from vgpu_cfg.planning.addresses.nic_addresses import AddressBook
from vgpu_cfg.planning.capacity.hardware import highest_version
from vgpu_cfg.planning.capacity.numa import nodes_of_affinity
from vgpu_cfg.planning.capacity.topology import Topologies
from vgpu_cfg.planning.findings.checks import Code
from vgpu_cfg.planning.findings.collection import Findings
from vgpu_cfg.planning.findings.options import PlanOptions
from vgpu_cfg.planning.placement.host_state import Fit, HostState
from vgpu_cfg.planning.placement.place import Placed
from vgpu_cfg.planning.vms.checks.nic_checks import check_bound, check_functions
from vgpu_cfg.planning.vms.checks.nvlink_checks import check_peers_place
from vgpu_cfg.planning.vms.checks.place_checks import (
    check_assignable,
    check_moves,
    check_place,
    check_running,
)
from vgpu_cfg.planning.vms.checks.topology_checks import check_nics_near, check_one_node
from vgpu_cfg.planning.vms.checks.vm_checks import (
    check_creation_keys,
    check_hardware,
    check_mmio,
    hardware_of_options,
    least_hardware,
)
from vgpu_cfg.planning.vms.compare import check_options, compare_vm, differing_at_creation
from vgpu_cfg.planning.vms.existing_vms import judge_changes, plan_existing
from vgpu_cfg.planning.vms.lookup.affinity import (
    choosable_gpus,
    held_gpus,
    held_nodes,
    is_choice_certain,
    numa_pin,
)
from vgpu_cfg.planning.vms.lookup.case import Case, Lookup
from vgpu_cfg.planning.vms.lookup.placed import PlacedVm
from vgpu_cfg.planning.vms.lookup.wanted import FunctionPlan
from vgpu_cfg.planning.vms.new_vms import NewPlace, change_id, plan_new
from vgpu_cfg.planning.vms.place_wishes import check_existing_place, check_others_rules, check_spread_numa
from vgpu_cfg.planning.vms.placing import Around, place_vm, wanted_functions
from vgpu_cfg.planning.vms.rules import Member
from vgpu_cfg.planning.vms.settings.edits import VmEdits
from vgpu_cfg.planning.vms.settings.overrides import Overridden


@dataclass(slots=True)
class VmPlans:
    """What came of the cases, as it grows. `freeing` names by host moid the changes that free GPUs.

    `contests` are the hosts whose VMs start one by one, `overrides` what clusters (by moid) must be told of
    VMs.
    """

    changes: list[Change] = field(default_factory=list)
    placements: list[Placement] = field(default_factory=list)
    in_sync: list[str] = field(default_factory=list)
    members: list[Member] = field(default_factory=list)
    freeing: dict[str, list[str]] = field(default_factory=dict)
    contests: list[StartContest] = field(default_factory=list)
    overrides: dict[str, list[Overridden]] = field(default_factory=dict)


class VmPlanner:
    """Plans VMs one by one; what it knows of the estate is the same for all of them."""

    def __init__(
        self,
        desired: DesiredPlan,
        observed: Inventory,
        lookup: Lookup,
        options: PlanOptions,
        findings: Findings,
        topologies: Topologies,
        addresses: AddressBook,
    ) -> None:
        self.desired, self.observed, self.lookup = desired, observed, lookup
        self.options, self.findings, self.topologies = options, findings, topologies
        self.addresses = addresses
        self.site = lookup.loud
        self.networks = {one.portgroup_key or one.moid: one.name for one in observed.networks}
        self._common_versions: dict[str, int | None] = {}

    def plan_case(self, case: Case, placed: Placed, result: VmPlans) -> None:
        """Plan one VM, once all have their places."""
        initial = placed.initial[case.fit.host] if case.fit else None
        final = placed.hosts[case.fit.host] if case.fit else None
        functions = wanted_functions(case, final)
        nic_ids = _nic_ids(case, functions)
        around = Around(
            plan=self.desired.name,
            vcenter=self.observed.vcenter,
            names=self.lookup.device_names,
            cluster=self._cluster_of(case.host),
            initial=initial,
            final=final,
        )
        addresses = self._addresses_of(case, nic_ids)
        wanted = place_vm(case, around, self._final_version(case), functions, addresses)
        check_mmio(case.desired, wanted, self.findings)
        if case.fit is not None and initial is not None and final is not None:
            check_place(case, case.fit, final, self.findings)
            check_moves(wanted, case.fit, self.findings)
            check_assignable(case, case.fit, initial, self.findings)
            topology = self.topologies.of(final.host)
            check_nics_near(case, case.fit, (initial, final), topology, self.findings)
            check_one_node(case, case.fit, initial, self.findings)
            check_peers_place(case, case.fit, initial, self.findings)
            check_spread_numa(case, case.fit, initial, self.findings)
            self._check_nics(case, case.fit, initial, final, wanted)
        if case.existing is not None:
            self._plan_existing(case, case.existing, wanted, placed, result)
        elif case.fit is not None and case.host is not None:
            self._plan_new(case, case.host, wanted, placed, result)
        if case.host is not None and (case.fit is not None or case.existing is not None):
            result.placements.append(self._placement(case, case.host, placed, nic_ids))

    def _addresses_of(self, case: Case, nic_ids: tuple[str, ...]) -> str | None:
        """Return what is kept of the VM's NICs on it, None where the plan leaves its NICs alone."""
        if case.nics is None:
            return None
        host = case.host.moid if case.host is not None else None
        return self.addresses.record_of(case.desired, self.addresses.nics_of(case.desired, host, nic_ids))

    def _check_nics(
        self, case: Case, fit: Fit, initial: HostState, final: HostState, wanted: PlacedVm
    ) -> None:
        needs = case.shape.nics if case.shape is not None else ()
        nodes = final.gpu_nodes(fit.gpus, fit.slots)
        choosable = set(choosable_gpus(initial, fit)) if fit.gpus else set()
        possible = [gpu.node for gpu in initial.gpus if gpu.pci_id in choosable]
        check_functions(case.desired, needs, fit.nics, final.stock, nodes, self.findings, possible)
        check_bound(case.desired, wanted.functions, final.host, self.findings)

    def _plan_new(self, case: Case, host: Host, wanted: PlacedVm, placed: Placed, result: VmPlans) -> None:
        cluster = self._cluster_of(host)
        pool = self.site.pool_of(case.desired, cluster) if cluster is not None else None
        if cluster is None or pool is None or case.datastore is None or case.fit is None:
            return
        version = self._hardware_version(case, host, cluster)
        check_hardware(case, host, version, self.findings)
        place = NewPlace(host, pool, case.datastore, version)
        pin = numa_pin(case, placed.initial[case.fit.host], case.fit, wanted.affinity or ())
        check_options(wanted, self.findings)
        edits = compare_vm(wanted, self.networks)
        changes = plan_new(case, edits, place, pin)
        result.changes += changes
        self._override(case, cluster, edits, change_id("create", case.name), result)
        result.members.append(Member(case, cluster, change_id("create", case.name)))

    def _plan_existing(self, case: Case, vm: Vm, wanted: PlacedVm, placed: Placed, result: VmPlans) -> None:
        check_creation_keys(case, differing_at_creation(wanted), self.lookup, self.findings)
        check_running(case, self.findings)
        cluster = self._cluster_of(case.host)
        check_existing_place(case, cluster, self.findings)
        check_others_rules(case, cluster, self.observed, self.desired.name, self.findings)
        if cluster is not None:
            result.members.append(Member(case, cluster))
        if case.shape is not None and case.fit is None:
            return
        upgrade_to = self._upgrade_of(case, cluster)
        if case.host is not None:
            check_hardware(case, case.host, upgrade_to or case.base.hardware_version, self.findings)
        pin = self._pin_of_existing(case, wanted, placed)
        check_options(wanted, self.findings)
        edits = compare_vm(wanted, self.networks)
        changes = plan_existing(case, vm, edits, pin, upgrade_to)
        judge_changes(case, vm, edits, changes, self.options, self.findings)
        if cluster is not None:
            self._override(case, cluster, edits, "", result)
        if not changes and not edits.overrides:
            result.in_sync.append(vm.name)
        result.changes += changes
        if vm.is_on and not case.keeps_gpus and vm.host_moid is not None:
            freed = [change.id for change in changes if change.kind == "reconfigure_vm"]
            result.freeing.setdefault(vm.host_moid, []).extend(freed)

    def _override(self, case: Case, cluster: Cluster, edits: VmEdits, needs: str, result: VmPlans) -> None:
        """Note what the cluster must be told of a VM; all of a cluster's is told at once."""
        if edits.overrides:
            moid = case.existing.moid if case.existing is not None else None
            ref = VmRef(name=case.name, moid=moid)
            result.overrides.setdefault(cluster.moid, []).append(Overridden(ref, edits.overrides, needs))

    def _pin_of_existing(self, case: Case, wanted: PlacedVm, placed: Placed) -> NumaPin | None:
        """Return the pin for a VM that is powered on anew: ESXi then chooses anew as well.

        A VM without an affinity that the plan file does not speak of is left without one.
        """
        current = nodes_of_affinity(case.base.extra_config.get(AFFINITY_KEY, ""))
        is_compared = case.manages("numa") and wanted.affinity is not None
        nodes = (wanted.affinity or ()) if is_compared else current
        if not is_compared and not current:
            return None
        if case.fit is not None:
            return numa_pin(case, placed.initial[case.fit.host], case.fit, nodes)
        follows = case.desired.numa.policy is NumaPolicy.FOLLOW_GPU and case.base.vgpus
        if not follows or case.host is None:
            return None
        known = {gpu.pci_id: gpu.numa_node for gpu in case.host.gpus if gpu.numa_node is not None}
        if len(known) != len(case.host.gpus) or set(known.values()) == set(nodes):
            return None
        return NumaPin(node_by_pci_id=known, nodes=nodes)

    def _hardware_version(self, case: Case, host: Host, cluster: Cluster) -> int | None:
        """Return the version that a VM shall have.

        A template's own is kept where its devices allow that: raising it takes two more tasks and
        cannot be undone. Else, and for a VM from scratch, it is the newest that all hosts of the cluster run.
        """
        common, base = self._common_version(cluster), case.base.hardware_version
        highest = highest_version(host)
        if base is not None and highest is not None and base > highest:
            message = f"the template has hardware version {base}, and {host.name} runs {highest} at most"
            remedy = "clone a template of an older version, or name newer hosts"
            self.findings.refuse_vm(Code.HARDWARE_VERSION, case.desired, message, remedy)
        if base is None:
            return common
        if common is None or base >= least_hardware(case):
            return base
        return max(common, base)

    def _final_version(self, case: Case) -> int | None:
        """Return the hardware version that a VM will have, None where nobody tells."""
        cluster = self._cluster_of(case.host)
        if case.existing is not None:
            return self._upgrade_of(case, cluster) or case.base.hardware_version
        if case.host is None or cluster is None:
            return None
        return self._hardware_version(case, case.host, cluster)

    def _upgrade_of(self, case: Case, cluster: Cluster | None) -> int | None:
        """Return the version that a VM must be raised to for what is asked, None where its own does."""
        base = case.base.hardware_version
        is_asked = case.manages("gpus") or case.manages("nics") or any(hardware_of_options(case))
        if base is None or case.host is None or cluster is None or not is_asked:
            return None
        if base >= least_hardware(case):
            return None
        version = self._hardware_version(case, case.host, cluster)
        return version if version is not None and version > base else None

    def _cluster_of(self, host: Host | None) -> Cluster | None:
        if host is None:
            return None
        return self.observed.cluster_by_moid.get(host.cluster_moid or host.compute_moid)

    def _placement(self, case: Case, host: Host, placed: Placed, nic_ids: tuple[str, ...]) -> Placement:
        fit = case.fit
        if fit is None:
            moid = case.existing.moid if case.existing else ""
            gpus = tuple(pci_id for pci_id, _ in held_gpus(moid, case))
            nodes, is_certain = held_nodes(case) or (), bool(gpus)
        else:
            initial = placed.initial[fit.host]
            gpus = (*(initial.gpus[index].pci_id for index in fit.gpus), *fit.slots)
            nodes, is_certain = fit.nodes, bool(gpus) and is_choice_certain(case, initial, fit)
        return Placement(
            vm=case.name,
            host_moid=host.moid,
            host_name=host.name,
            gpu_pci_ids=gpus,
            numa_nodes=nodes,
            is_certain=is_certain,
            nic_pci_ids=nic_ids,
        )

    def _common_version(self, cluster: Cluster) -> int | None:
        if cluster.moid not in self._common_versions:
            known = [
                version
                for host in self.observed.hosts
                if (host.cluster_moid or host.compute_moid) == cluster.moid
                if (version := highest_version(host)) is not None
            ]
            self._common_versions[cluster.moid] = min(known, default=None)
        return self._common_versions[cluster.moid]


def _nic_ids(case: Case, functions: Sequence[FunctionPlan]) -> tuple[str, ...]:
    """Return the addresses of the functions behind a VM's NICs, in their order; "" where nobody tells one."""
    own: dict[int, str] = {
        one.key: one.pci_id or one.assigned_id or "" for one in case.base.passthrough_nics
    } | {nic.key: nic.function or "" for nic in case.base.nics}
    chosen = case.fit.nics if case.fit is not None else ()
    return tuple(
        own.get(plan.keeps, "") if plan.keeps is not None else (chosen[index] if index < len(chosen) else "")
        for index, plan in enumerate(functions)
    )
