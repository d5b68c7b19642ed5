"""Looks up the VMs of a plan and says what each needs, for planning and its what-ifs alike."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from vgpu_cfg.catalog import Catalog
from vgpu_cfg.model.desired import DesiredPlan, DesiredVm
from vgpu_cfg.model.guests.modules import branch_of_package
from vgpu_cfg.model.observed.inventory import Folder, Host, Inventory
from vgpu_cfg.model.observed.vm import Vm, VmDetail
from vgpu_cfg.model.plan_file import PlaceEntry
from vgpu_cfg.model.plan_values import Spread
from vgpu_cfg.model.wording import as_counted
from vgpu_cfg.planning.capacity.hardware import DEVICE_GROUPS_FROM
from vgpu_cfg.planning.capacity.host_capacity import CapacityReader
from vgpu_cfg.planning.estate.down_hosts import lost_host
from vgpu_cfg.planning.estate.ownership import Ownership
from vgpu_cfg.planning.estate.protection import Covering, Protection
from vgpu_cfg.planning.estate.site import Site
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.findings.collection import Findings
from vgpu_cfg.planning.placement.candidates import CandidateQuery, Candidates, Fitness, Ranked, make_query
from vgpu_cfg.planning.vms.lookup.baseline import device_kinds, hosts_in_order, least_of_devices, make_shape
from vgpu_cfg.planning.vms.lookup.gpu_choice import with_choices
from vgpu_cfg.planning.vms.lookup.moving import Moving, is_known, stun_ms, why_bound, why_cold
from vgpu_cfg.planning.vms.lookup.resolved_vm import (
    Lookup,
    ResolvedVm,
    is_elsewhere,
    leave_protected,
    other_datastore,
    resolve_vm,
)
from vgpu_cfg.planning.vms.lookup.wanted import device_names, has_wanted_functions


@dataclass(slots=True)
class VmResolver:
    """The common readings of an estate for a plan, and the plan's VMs looked up in it.

    `in_order` are the plan's VMs in the order in which they are asked about; `protected_clusters` go by moid.
    `refused_drivers` are as of `Candidates.refused`.
    """

    desired: DesiredPlan
    observed: Inventory
    catalog: Catalog
    findings: Findings
    allow_move: bool = False
    refused_drivers: Mapping[str, Sequence[str]] = field(default_factory=dict)
    site: Site = field(init=False)
    lookup: Lookup = field(init=False)
    reader: CapacityReader = field(init=False)
    hosts: list[Host] = field(init=False)
    candidates: Candidates = field(init=False)
    protection: Protection = field(init=False)
    protected_clusters: dict[str, Covering] = field(init=False)
    in_order: list[DesiredVm] = field(init=False)
    staying: dict[str, Counter[str]] = field(init=False, default_factory=dict)
    """How many VMs of a line stay on a host, by moid."""

    def __post_init__(self) -> None:
        self.desired = with_choices(self.desired, self.observed, self.catalog)
        self.site = Site(self.desired, self.observed, self.findings)
        silent = Site(self.desired, self.observed, Findings())
        self.lookup = Lookup(self.site, silent, device_names(self.observed, self.catalog))
        self.reader = CapacityReader(self.observed, self.catalog)
        self.hosts = hosts_in_order(self.observed)
        self.protection = Protection.of(self.desired)
        covered = ((one.moid, self.protection.of_cluster(one)) for one in self.observed.clusters)
        self.protected_clusters = {moid: covering for moid, covering in covered if covering is not None}
        self.in_order = sorted(self.desired.vms, key=lambda vm: (as_counted(vm.name), vm.name))
        self.candidates = Candidates.among(self.hosts, self.observed, self.refused_drivers)

    def folders(self) -> dict[str, Folder | None]:
        """Return the folder of every VM of the plan by its name."""
        return {vm.name: self.site.folder_of(vm) for vm in self.in_order}

    def resolved_vms(self, folders: Mapping[str, Folder | None], owned: Ownership) -> Iterator[ResolvedVm]:
        """Yield the plan's VMs, looked up; those that are protected or not the plan's are findings.

        Those on hosts that do not respond are none of them: see `lost_vms`. Nor are those that are not there
        and past their date: they are not made.
        """
        for vm in self.in_order:
            folder = folders[vm.name]
            existing = owned.existing.get(vm.name)
            if existing is None and vm.is_expired(self.observed.read_at.date()):
                continue
            if self.is_protected(vm, folder, existing) or self._lost_host(vm.name, owned) is not None:
                continue
            if folder is None or vm.name not in owned.blocked:
                resolved = self.resolve(vm, folder, owned.existing.get(vm.name))
                if resolved is not None:
                    yield resolved

    def lost_vms(self, folders: Mapping[str, Folder | None], owned: Ownership) -> Iterator[ResolvedVm]:
        """Yield the plan's VMs on hosts that do not respond, as vCenter saw them last; it reports nothing."""
        lookup = replace(self.lookup, reporting=self.lookup.silent)
        for vm in self.in_order:
            host, folder = self._lost_host(vm.name, owned), folders[vm.name]
            if host is None or folder is None:
                continue
            existing = owned.existing[vm.name]
            resolved = resolve_vm(vm, folder, existing, lookup, Findings())
            resolved = resolved or ResolvedVm(vm, folder, (), VmDetail(), existing=existing)
            resolved.host = host
            yield resolved

    def _lost_host(self, name: str, owned: Ownership) -> Host | None:
        existing = owned.existing.get(name)
        return lost_host(existing, self.observed, self.desired.identity) if existing is not None else None

    def is_protected(self, vm: DesiredVm, folder: Folder | None, existing: Vm | None = None) -> bool:
        """Whether a VM is protected that the plan file names itself, which is a finding.

        One that exists is under its name and folder in vCenter, too.
        """
        covering = self.protection.of_vm(vm.name, folder) if folder is not None else None
        if covering is None and existing is not None:
            where = self.observed.folder_by_moid.get(existing.folder_moid or "")
            covering = self.protection.of_vm(existing.called or existing.name, where, existing.manager)
        if covering is not None:
            remedy = covering.remedy("the VM from the plan file", "remove the VM from the plan file")
            self.findings.refuse_vm(Code.PROTECTED, vm, covering.message, remedy)
        return covering is not None

    def resolve(self, vm: DesiredVm, folder: Folder | None, existing: Vm | None) -> ResolvedVm | None:
        """Look up everything that one VM names; None where too little is there to go on."""
        resolved = resolve_vm(vm, folder, existing, self.lookup, self.findings)
        if resolved is None:
            return None
        resolved.host = self.observed.host_by_moid.get(existing.host_moid or "") if existing else None
        own = resolved.kept_devices or resolved.base
        resolved.has_devices &= has_wanted_functions(resolved.nics, own, resolved.host)
        leave_protected(resolved, self.protected_clusters, self.findings)
        self._assess_move(resolved)
        return resolved

    def _assess_move(self, resolved: ResolvedVm) -> None:
        """Say of a VM that is elsewhere than the plan file says how it gets there, or why it does not."""
        vm, host = resolved.existing, resolved.host
        if vm is None or host is None:
            return
        is_elsewhere_now = is_elsewhere(resolved, self.observed, self.lookup.silent)
        is_surplus = not is_elsewhere_now and self._is_surplus(resolved, host)
        if not is_elsewhere_now and not is_surplus:
            return
        cluster = self.observed.cluster_of(host)
        silent = Findings()
        ranked = self.candidates.of(self._query_of_move(resolved), resolved.desired, silent)
        is_here = not is_surplus and any(self.hosts[index].moid == host.moid for index, _ in ranked)
        ranked = tuple(pair for pair in ranked if is_here or self.hosts[pair[0]].moid != host.moid)
        protected = self.protected_clusters.get(cluster.moid) if cluster is not None else None
        if protected is not None:
            resolved.why_stays = protected.message
        elif bound := why_bound(vm, resolved.base, host):
            resolved.why_stays = bound
        elif not ranked:
            resolved.why_stays = next(
                (one.text for one in silent.diagnostics()), "no other host is specified"
            )
        if resolved.why_stays:
            return
        store = other_datastore(resolved, self.lookup.silent)
        why = why_cold(resolved.base, self.observed) if vm.is_on else ""
        move = Moving(
            host,
            why_cold=why,
            changes_host=not is_here,
            datastore=store,
            stun_ms=stun_ms(resolved.base, host) if vm.is_on else None,
            is_known=not vm.is_on or is_known(resolved.base, self.observed),
        )
        resolved.possible_move = move
        resolved.move = move if self.allow_move else None

    def _is_surplus(self, resolved: ResolvedVm, host: Host) -> bool:
        """Whether `place` allows fewer VMs of the line on this host, or fewer hosts; the last by name are."""
        place, on = resolved.desired.place, self.staying.setdefault(resolved.desired.line, Counter())
        if not place.must or "place" in resolved.desired.ignore:
            return False
        most = 1 if place.spread is Spread.HOSTS else place.max_per_host
        is_surplus = bool(most and on[host.moid] >= most)
        is_surplus |= bool(place.max_hosts and host.moid not in on and len(on) >= place.max_hosts)
        if not is_surplus:
            on[host.moid] += 1
        return is_surplus

    def _query_of_move(self, resolved: ResolvedVm) -> CandidateQuery:
        """Return a moved VM's request for its new host: all its present devices there, and the rest."""
        own = self.observed.networks_of(resolved.base)
        store = other_datastore(resolved, self.lookup.silent)
        stores = set(resolved.base.datastore_moids)
        if store is not None:
            others = resolved.disks.others if resolved.disks is not None else ()
            stores = {store.moid, *(disk.datastore_moid for disk in others)} - {""}
        place = PlaceEntry() if "place" in resolved.desired.ignore else resolved.desired.place
        networks = own | resolved.network_moids
        return make_query(
            resolved.clusters, place, networks, frozenset(stores), fitness=_fitness_for(resolved)
        )

    def shape(self, resolved: ResolvedVm) -> None:
        """Return the needs of a VM without a place; others get no shape."""
        if resolved.cannot_be_placed or (resolved.keeps_gpus and not resolved.changes_host):
            return
        if resolved.changes_host:
            query = self._query_of_move(resolved)
        elif resolved.existing is not None:
            if resolved.host is None or not (resolved.host.takes_vms or resolved.desired.power == "on"):
                return
            names = frozenset(resolved.new_groups.values())
            query = CandidateQuery(
                (resolved.host.owner_moid,),
                (),
                frozenset(),
                frozenset(),
                resolved.host.moid,
                device_groups=names,
            )
        else:
            place = resolved.desired.place
            query = make_query(
                resolved.clusters,
                place,
                resolved.network_moids,
                resolved.datastore_moids,
                frozenset(resolved.new_groups.values()),
                _fitness_for(resolved),
            )
        if ranked := self.candidates.of(query, resolved.desired, self.findings):
            shape = make_shape(resolved, ranked, self.reader)
            resolved.shape = replace(shape, unfit=self.candidates.unfit(query))

    def might_go_to(self, resolved: ResolvedVm) -> Ranked:
        """Return the hosts that a VM might go to if it were new, or if it were moved."""
        if resolved.existing is None:
            return resolved.shape.hosts if resolved.shape else ()
        return self.candidates.of(self._query_of_move(resolved), resolved.desired, Findings())


def _fitness_for(resolved: ResolvedVm) -> Fitness:
    """Return the fitness that a VM's devices and hardware version require of a host."""
    has_peers = any(gpu.nvlink is not None for gpu in resolved.gpus)
    least = max(
        resolved.base.hardware_version or 0,
        least_of_devices(resolved),
        DEVICE_GROUPS_FROM if has_peers else 0,
    )
    guest, vgpus = resolved.desired.guest, device_kinds(resolved).count("vgpu")
    driver = guest.driver if vgpus and guest is not None else None
    return Fitness(least, vgpus, has_peers, branch_of_package(driver.package or "") if driver else "")
