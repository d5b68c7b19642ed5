"""The changes, place and findings of one VM at a time, once all of them have their places."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field

from vgpu_cfg.changes.change import Change, RelocateVm
from vgpu_cfg.changes.kinds.guest import Customization
from vgpu_cfg.changes.kinds.power import NumaPin
from vgpu_cfg.changes.plan import StartQueue
from vgpu_cfg.changes.values import Placement, VmRef
from vgpu_cfg.model.desired import DesiredPlan
from vgpu_cfg.model.observed.inventory import Cluster, Host, Inventory, ResourcePool
from vgpu_cfg.model.observed.vm import AFFINITY_KEY, Vm
from vgpu_cfg.model.plan_values import NumaPolicy
from vgpu_cfg.model.wording import gib, listed
from vgpu_cfg.planning.addresses import AddressBook, NicAddress
from vgpu_cfg.planning.capacity.hardware import highest_version, least_known, nodes_of_affinity
from vgpu_cfg.planning.capacity.topology import Topologies
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.findings.collection import Findings
from vgpu_cfg.planning.findings.options import PlanOptions
from vgpu_cfg.planning.placement.host_state import Fit, HostState
from vgpu_cfg.planning.placement.place import Placed
from vgpu_cfg.planning.vms.checks.nic_checks import check_bound, check_functions
from vgpu_cfg.planning.vms.checks.place_checks import (
    check_assignable,
    check_moves,
    check_place,
    check_running,
)
from vgpu_cfg.planning.vms.checks.topology_checks import check_nics_near, check_one_node, check_peers_place
from vgpu_cfg.planning.vms.checks.vm_checks import (
    check_creation_keys,
    check_hardware,
    check_kept,
    check_made_anew,
    check_mmio,
    check_raised,
    hardware_of_options,
    least_hardware,
)
from vgpu_cfg.planning.vms.compare import (
    SharedNeeds,
    check_options,
    check_tags,
    compare_vm,
    differing_at_creation,
    report_dropped,
)
from vgpu_cfg.planning.vms.customization import of_existing, plan_customization
from vgpu_cfg.planning.vms.existing_vms import after, assess_changes, plan_existing
from vgpu_cfg.planning.vms.lookup.affinity import (
    choosable_gpus,
    held_gpus,
    held_nodes,
    is_choice_certain,
    is_covering,
    numa_pin,
)
from vgpu_cfg.planning.vms.lookup.baseline import device_kinds
from vgpu_cfg.planning.vms.lookup.gpu_choice import why_chosen
from vgpu_cfg.planning.vms.lookup.placed import PlacedVm
from vgpu_cfg.planning.vms.lookup.resolved_vm import Lookup, ResolvedVm
from vgpu_cfg.planning.vms.lookup.wanted import PlannedFunction, report_others
from vgpu_cfg.planning.vms.new_vms import NewPlace, change_id, plan_new
from vgpu_cfg.planning.vms.place_preferences import (
    check_existing_place,
    check_others_rules,
    check_spread_numa,
)
from vgpu_cfg.planning.vms.placing import Surroundings, place_vm, wanted_functions
from vgpu_cfg.planning.vms.relocate import relocation
from vgpu_cfg.planning.vms.rules import Member
from vgpu_cfg.planning.vms.settings.cluster_rows import Overridden
from vgpu_cfg.planning.vms.settings.edits import VmEdits


@dataclass(slots=True)
class VmPlans:
    """The results for the VMs, as they grow. `freeing` names by host moid the changes that free GPUs.

    `contests` are the hosts whose VMs start one by one, `overrides` the clusters' new ones (by moid) for VMs.
    """

    changes: list[Change] = field(default_factory=list)
    placements: list[Placement] = field(default_factory=list)
    in_sync: list[str] = field(default_factory=list)
    members: list[Member] = field(default_factory=list)
    freeing: dict[str, list[str]] = field(default_factory=dict)
    contests: list[StartQueue] = field(default_factory=list)
    overrides: dict[str, list[Overridden]] = field(default_factory=dict)


class VmPlanner:
    """Plans VMs one by one; its facts of the estate are the same for all of them."""

    def __init__(  # noqa: PLR0913 - what is the same for all VMs
        self,
        desired: DesiredPlan,
        observed: Inventory,
        lookup: Lookup,
        options: PlanOptions,
        findings: Findings,
        topologies: Topologies,
        addresses: AddressBook,
        *,
        names: Mapping[str, Sequence[Change]],
    ) -> None:
        self.desired, self.observed, self.lookup = desired, observed, lookup
        self.options, self.findings, self.topologies = options, findings, topologies
        self.addresses, self.names = addresses, names
        self.site = lookup.reporting
        self._network_names = {one.portgroup_key or one.moid: one.name for one in observed.networks}
        self._needs = SharedNeeds()
        self._choosable: dict[Hashable, tuple[str, ...]] = {}
        self._reasons: dict[Hashable, str] = {}
        self._common_versions: dict[str, int | None] = {}
        self._specs = {one.name: one for one in observed.customization_specs or ()}
        self._spec_users = Counter(vm.guest.spec for vm in desired.vms if vm.guest is not None)

    def plan_vm(self, resolved: ResolvedVm, placed: Placed, result: VmPlans) -> None:
        """Plan one VM, once all have their places."""
        initial = placed.initial[resolved.fit.host] if resolved.fit else None
        final = placed.hosts[resolved.fit.host] if resolved.fit else None
        if resolved.fit is not None and initial is not None:
            resolved.choosable = self._choosable_gpus(initial, resolved.fit)
        functions = wanted_functions(resolved, final)
        nic_ids = _nic_ids(resolved, functions)
        surroundings = Surroundings(
            plan=self.desired.name,
            vcenter=self.observed.vcenter,
            names=self.lookup.device_names,
            cluster=self.observed.cluster_of(resolved.host),
            initial=initial,
            final=final,
            tag_categories=self.observed.tag_categories,
        )
        nics = self._nics_of(resolved, nic_ids) if resolved.nics is not None else ()
        addresses = self.addresses.record_of(resolved.desired, nics) if resolved.nics is not None else None
        wanted = place_vm(resolved, surroundings, self._final_version(resolved), functions, addresses)
        check_mmio(resolved.desired, wanted, self.findings)
        if resolved.fit is not None and initial is not None and final is not None:
            check_place(resolved, resolved.fit, final, self.findings)
            check_moves(wanted, resolved.fit, self.findings)
            check_assignable(resolved, resolved.fit, initial, self.findings)
            topology = self.topologies.of(final.host)
            check_nics_near(resolved, resolved.fit, (initial, final), topology, self.findings)
            check_one_node(resolved, resolved.fit, initial, self.findings)
            check_peers_place(resolved, resolved.fit, initial, self.findings)
            check_spread_numa(resolved, resolved.fit, initial, self.findings)
            self._check_nics(resolved, resolved.fit, initial, final, wanted)
        if resolved.existing is not None:
            self._plan_existing(resolved, resolved.existing, wanted, placed, result)
        elif resolved.fit is not None and resolved.host is not None:
            guest = resolved.desired.guest
            name = guest.spec if guest is not None else ""
            spec, users = self._specs.get(name), self._spec_users[name]
            customization = plan_customization(resolved, nics, spec, users, self.findings)
            self._plan_new(resolved, resolved.host, wanted, placed, result, customization)
        if resolved.host is not None and (resolved.fit is not None or resolved.existing is not None):
            result.placements.append(self._placement(resolved, resolved.host, placed, nic_ids))

    def _choosable_gpus(self, initial: HostState, fit: Fit) -> tuple[str, ...]:
        """Return the GPUs that ESXi could choose, found once for all VMs with the same GPUs of a host."""
        key = (fit.host, fit.gpus, fit.variant, fit.groups)
        if key not in self._choosable:
            self._choosable[key] = choosable_gpus(initial, fit)
        return self._choosable[key]

    def _choice_of(self, resolved: ResolvedVm, hosts: Sequence[HostState]) -> str:
        """Return why a VM gets new profiles for the GPU memory it asks for, "" if it does not."""
        shape, fit = resolved.shape, resolved.fit
        sizes = dict.fromkeys(gib(gpu.memory) for gpu in resolved.asked_gpus if gpu.memory)
        if shape is None or fit is None or resolved.has_devices or not sizes:
            return ""
        key = (shape.variants, shape.hosts, fit.variant, dict(shape.hosts)[fit.host])
        if key not in self._reasons:
            self._reasons[key] = why_chosen(shape, fit, hosts)
        until = "; may change until the VM is created" if resolved.existing is None else ""
        return f"for {' and '.join(sizes)}: {self._reasons[key]}{until}"

    def keep_lost(self, resolved: ResolvedVm, placed: Placed, result: VmPlans) -> None:
        """Leave a VM alone whose host does not respond: it stays there, and in its rules."""
        cluster = self.observed.cluster_of(resolved.host)
        if cluster is None or resolved.host is None:
            return
        result.members.append(Member(resolved, cluster))
        nic_ids = _nic_ids(resolved, wanted_functions(resolved, None))
        result.placements.append(self._placement(resolved, resolved.host, placed, nic_ids))

    def _nics_of(self, resolved: ResolvedVm, nic_ids: tuple[str, ...]) -> tuple[NicAddress, ...]:
        """Return the VM's NICs with their addresses, in the plan file's order."""
        host = resolved.host.moid if resolved.host is not None else None
        return self.addresses.nics_of(resolved.desired, host, nic_ids)

    def _check_nics(
        self, resolved: ResolvedVm, fit: Fit, initial: HostState, final: HostState, wanted: PlacedVm
    ) -> None:
        if needs := resolved.shape.nics if resolved.shape is not None else ():
            nodes = final.gpu_nodes(fit.gpus, fit.slots)
            possible = [gpu.node for gpu in initial.gpus if gpu.pci_id in resolved.choosable]
            check_functions(resolved.desired, needs, fit.nics, final.stock, nodes, self.findings, possible)
        check_bound(resolved.desired, wanted.functions, final.host, self.findings)

    def _plan_new(
        self,
        resolved: ResolvedVm,
        host: Host,
        wanted: PlacedVm,
        placed: Placed,
        result: VmPlans,
        customization: Customization | None,
    ) -> None:
        cluster = self.observed.cluster_of(host)
        pool = self.site.pool_of(resolved.desired, cluster) if cluster is not None else None
        if cluster is None or pool is None or resolved.datastore is None or resolved.fit is None:
            return
        version = wanted.hardware_version
        check_hardware(resolved, host, version, self.findings)
        place = NewPlace(host, pool, resolved.datastore, version)
        pin = numa_pin(resolved, placed.initial[resolved.fit.host], resolved.fit, wanted.affinity or ())
        needs = self._needs.of(wanted)
        check_options(wanted, needs.asked, self.findings)
        check_tags(wanted, self.findings)
        edits = compare_vm(wanted, needs, self._network_names)
        changes = plan_new(resolved, edits, place, pin, customization)
        result.changes += changes
        self._override(resolved, cluster, edits, change_id("create", resolved.name), result)
        result.members.append(Member(resolved, cluster, change_id("create", resolved.name)))

    def _plan_existing(
        self, resolved: ResolvedVm, vm: Vm, wanted: PlacedVm, placed: Placed, result: VmPlans
    ) -> None:
        needs = self._needs.of(wanted)
        check_creation_keys(resolved, differing_at_creation(wanted, needs.asked), self.lookup, self.findings)
        check_kept(resolved, self.findings)
        check_made_anew(resolved.desired, self.site, self.findings)
        check_running(resolved, self.lookup.silent, self.findings)
        cluster = self.observed.cluster_of(resolved.host)
        check_existing_place(resolved, cluster, self.findings)
        check_others_rules(resolved, cluster, self.observed, self.desired.name, self.findings)
        move = self._relocation(resolved, vm, cluster)
        moved_by = move.id if move is not None else None
        if cluster is not None:
            result.members.append(Member(resolved, cluster, moved_by))
        has_no_place = resolved.shape is not None and resolved.fit is None
        upgrade_to = self._upgrade_of(resolved, cluster)
        if resolved.host is not None:
            check_hardware(
                resolved, resolved.host, upgrade_to or resolved.base.hardware_version, self.findings
            )
        if upgrade_to is not None:
            check_raised(resolved, upgrade_to, self.findings)
        pin = self._pin_of_existing(resolved, wanted, placed)
        check_options(wanted, needs.asked, self.findings)
        check_tags(wanted, self.findings)
        report_dropped(wanted, self.findings)
        if resolved.devices is not None:
            report_others(resolved.desired, resolved.devices, self._network_names, self.findings)
        edits = compare_vm(wanted, needs, self._network_names)
        changes = after(
            self.names.get(vm.name, ()), plan_existing(resolved, vm, edits, pin, upgrade_to, move)
        )
        changes += of_existing(resolved, changes, self.observed.failed_customizations, self.findings)
        assess_changes(resolved, vm, edits, needs.disks, changes, self.options, self.findings)
        if cluster is not None:
            self._override(resolved, cluster, edits, moved_by or "", result)
        if not (changes or edits.overrides or has_no_place):
            result.in_sync.append(vm.name)
        result.changes += changes
        if vm.is_on and not resolved.stays_put and vm.host_moid is not None:
            freed = [change.id for change in changes if change.face.equips or change.moves]
            result.freeing.setdefault(vm.host_moid, []).extend(freed)

    def _relocation(self, resolved: ResolvedVm, vm: Vm, cluster: Cluster | None) -> RelocateVm | None:
        """Return the move of a VM to the host that it was given, or of its disks alone."""
        move, target = resolved.move, resolved.host
        if move is None or target is None or (move.changes_host and resolved.fit is None):
            return None
        pool = None
        if cluster is not None and cluster.moid != move.source.owner_moid:
            names = {one.moid: one.inventory_path or one.name for one in self.observed.resource_pools}
            moid = self.site.pool_of(resolved.desired, cluster) or cluster.resource_pool_moid
            before = names.get(resolved.base.resource_pool_moid, "another")
            pool = (before, ResourcePool(moid=moid, name=names.get(moid, "the root pool")))
        stores = {one.moid: one.name for one in self.observed.datastores}
        before = listed(stores.get(moid, moid) for moid in resolved.own_datastores)
        return relocation(
            vm,
            resolved.name,
            move.source,
            target,
            pool=pool,
            datastore=None if move.datastore is None else (before, move.datastore),
            kept=resolved.disks.others if resolved.disks is not None else (),
            is_running=vm.is_on and not move.why_cold,
            stun_ms=move.stun_ms,
        )

    def _override(
        self, resolved: ResolvedVm, cluster: Cluster, edits: VmEdits, needs: str, result: VmPlans
    ) -> None:
        """Note an override of a VM in its cluster; all of a cluster's are set at once."""
        if edits.overrides:
            moid = resolved.existing.moid if resolved.existing is not None else None
            ref = VmRef(name=resolved.name, moid=moid)
            result.overrides.setdefault(cluster.moid, []).append(Overridden(ref, edits.overrides, needs))

    def _pin_of_existing(self, resolved: ResolvedVm, wanted: PlacedVm, placed: Placed) -> NumaPin | None:
        """Return the pin for a VM that is powered on anew: ESXi then chooses anew as well.

        A VM without an affinity that the plan file does not speak of is left without one.
        """
        current = nodes_of_affinity(resolved.base.extra_config.get(AFFINITY_KEY, ""))
        is_compared = resolved.manages("numa") and wanted.affinity is not None
        nodes = (wanted.affinity or ()) if is_compared else current
        if not is_compared and not current:
            return None
        if resolved.fit is not None:
            return numa_pin(resolved, placed.initial[resolved.fit.host], resolved.fit, nodes)
        follows = resolved.desired.numa.policy is NumaPolicy.FOLLOW_GPU and resolved.base.vgpus
        if not follows or resolved.host is None:
            return None
        known = {gpu.pci_id: gpu.numa_node for gpu in resolved.host.gpus if gpu.numa_node is not None}
        possible = set(known.values())
        if len(known) != len(resolved.host.gpus) or possible == set(nodes) or is_covering(nodes, {*possible}):
            return None
        return NumaPin(node_by_pci_id=known, nodes=nodes)

    def _hardware_version(self, resolved: ResolvedVm, host: Host, cluster: Cluster) -> int | None:
        """Return a VM's wanted version.

        A template's own is kept if its devices allow that: raising it needs two more tasks and cannot be
        undone. Else it is the least that serves on this host. A VM from scratch gets the newest that all
        hosts of the cluster run, if that serves.
        """
        base = resolved.base.hardware_version
        highest = highest_version(host)
        if base is not None and highest is not None and base > highest:
            message = f"the template has hardware version {base}, but {host.name} supports up to {highest}"
            remedy = "use a template with an earlier hardware version, or specify newer hosts"
            self.findings.refuse_vm(Code.HARDWARE_VERSION, resolved.desired, message, remedy)
        if base is not None and base >= least_hardware(resolved):
            return base
        common = self._common_version(cluster)
        if base is None and (common is None or common >= least_hardware(resolved)):
            return common
        return self._least_on(resolved, host) or base

    def _final_version(self, resolved: ResolvedVm) -> int | None:
        """Return a VM's future hardware version, None if unknown."""
        cluster = self.observed.cluster_of(resolved.host)
        if resolved.existing is not None:
            return self._upgrade_of(resolved, cluster) or resolved.base.hardware_version
        if resolved.host is None or cluster is None:
            return None
        return self._hardware_version(resolved, resolved.host, cluster)

    def _upgrade_of(self, resolved: ResolvedVm, cluster: Cluster | None) -> int | None:
        """Return the least version for an existing VM's requests, None if its own suffices.

        A version is never lowered again, so the VM gets none that it does not need.
        """
        base = resolved.base.hardware_version
        is_asked = resolved.manages("gpus") or resolved.manages("nics") or any(hardware_of_options(resolved))
        if base is None or resolved.host is None or cluster is None or not is_asked:
            return None
        if base >= least_hardware(resolved):
            return None
        least = self._least_on(resolved, resolved.host)
        return least if least is not None and least > base else None

    def _least_on(self, resolved: ResolvedVm, host: Host) -> int | None:
        """Return the least version that serves on a host, its newest if none does, None if unknown."""
        highest = highest_version(host)
        if highest is None:
            return None
        least = max(least_hardware(resolved), resolved.base.hardware_version or 0)
        return least_known(host, least, device_kinds(resolved).count("vgpu"), highest)

    def _placement(
        self, resolved: ResolvedVm, host: Host, placed: Placed, nic_ids: tuple[str, ...]
    ) -> Placement:
        fit = resolved.fit
        if fit is None:
            moid = resolved.existing.moid if resolved.existing else ""
            gpus = tuple(pci_id for pci_id, _ in held_gpus(moid, resolved))
            nodes, is_certain = held_nodes(resolved) or (), bool(gpus)
        else:
            initial = placed.initial[fit.host]
            gpus = (*(initial.gpus[index].pci_id for index in fit.gpus), *fit.slots)
            nodes, is_certain = fit.nodes, bool(gpus) and is_choice_certain(resolved, initial, fit)
        return Placement(
            vm=resolved.name,
            host_moid=host.moid,
            host_name=host.name,
            gpu_pci_ids=gpus,
            numa_nodes=nodes,
            is_certain=is_certain,
            nic_pci_ids=nic_ids,
            choice=self._choice_of(resolved, placed.initial),
        )

    def _common_version(self, cluster: Cluster) -> int | None:
        if cluster.moid not in self._common_versions:
            known = [
                version
                for host in self.observed.hosts
                if host.owner_moid == cluster.moid
                if (version := highest_version(host)) is not None
            ]
            self._common_versions[cluster.moid] = min(known, default=None)
        return self._common_versions[cluster.moid]


def _nic_ids(resolved: ResolvedVm, functions: Sequence[PlannedFunction]) -> tuple[str, ...]:
    """Return the addresses of the functions of a VM's NICs, in their order; "" if one is unknown."""
    own: dict[int, str] = {
        one.key: one.pci_id or one.assigned_id or "" for one in resolved.base.passthrough_nics
    } | {nic.key: nic.function or "" for nic in resolved.base.nics}
    chosen = resolved.fit.nics if resolved.fit is not None else ()
    return tuple(
        own.get(plan.keeps, "") if plan.keeps is not None else (chosen[index] if index < len(chosen) else "")
        for index, plan in enumerate(functions)
    )
