"""Makes the cases of a plan and says what each needs: the ground that planning and its what-ifs share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from vgpu_cfg.catalog import Catalog
from vgpu_cfg.model.desired import DesiredPlan, DesiredVm
from vgpu_cfg.model.observed.inventory import Folder, Host, Inventory
from vgpu_cfg.model.observed.vm import Vm
from vgpu_cfg.planning.capacity.host_capacity import CapacityReader
from vgpu_cfg.planning.estate.ownership import Ownership, protects_vm
from vgpu_cfg.planning.estate.site import Site
from vgpu_cfg.planning.findings.checks import Code
from vgpu_cfg.planning.findings.collection import Findings
from vgpu_cfg.planning.findings.wording import as_counted
from vgpu_cfg.planning.placement.candidates import Candidates, Ranked, Wish, make_wish
from vgpu_cfg.planning.vms.lookup.case import Case, Lookup, leave_protected, make_case
from vgpu_cfg.planning.vms.lookup.gpu_match import device_names
from vgpu_cfg.planning.vms.lookup.nic_match import has_wanted_functions
from vgpu_cfg.planning.vms.lookup.shapes import make_shape
from vgpu_cfg.planning.vms.lookup.stage import hosts_in_order


@dataclass(slots=True)
class CaseMaker:
    """What is read once of an estate for a plan, and the plan's VMs looked up in it."""

    desired: DesiredPlan
    observed: Inventory
    catalog: Catalog
    findings: Findings
    site: Site = field(init=False)
    lookup: Lookup = field(init=False)
    reader: CapacityReader = field(init=False)
    hosts: list[Host] = field(init=False)
    candidates: Candidates = field(init=False)

    def __post_init__(self) -> None:
        self.site = Site(self.desired, self.observed, self.findings)
        quiet = Site(self.desired, self.observed, Findings())
        self.lookup = Lookup(self.site, quiet, device_names(self.observed, self.catalog))
        self.reader = CapacityReader(self.observed, self.catalog)
        self.hosts = hosts_in_order(self.observed)
        self.candidates = Candidates.among(self.hosts, self.observed)

    def folders(self) -> dict[str, Folder | None]:
        """Return the folder of every VM of the plan by its name."""
        return {vm.name: self.site.folder_of(vm) for vm in self.in_order()}

    def in_order(self) -> list[DesiredVm]:
        """Return the plan's VMs in the order in which they are asked about."""
        return sorted(self.desired.vms, key=lambda vm: (as_counted(vm.name), vm.name))

    def cases(self, folders: Mapping[str, Folder | None], owned: Ownership) -> Iterator[Case]:
        """Yield the plan's VMs, looked up; those that are protected or not the plan's are findings."""
        for vm in self.in_order():
            folder = folders[vm.name]
            covering = protects_vm(self.desired.protect, vm.name, folder)
            if covering:
                message = f"{covering} is protected by the plan file"
                remedy = "remove it from `protect`, or the VM from the plan file"
                self.findings.refuse_vm(Code.PROTECTED, vm, message, remedy)
            elif folder is None or vm.name not in owned.blocked:
                case = self.case(vm, folder, owned.existing.get(vm.name))
                if case is not None:
                    yield case

    def case(self, vm: DesiredVm, folder: Folder | None, existing: Vm | None) -> Case | None:
        """Look up everything that one VM names; None where too little is there to go on."""
        case = make_case(vm, folder, existing, self.lookup, self.findings)
        if case is None:
            return None
        case.host = self.observed.host_by_moid.get(existing.host_moid or "") if existing else None
        case.keeps_gpus &= has_wanted_functions(case.nics, case.base, case.host)
        leave_protected(case, self.desired.protect, self.findings)
        return case

    def shape(self, case: Case) -> None:
        """Say what a VM needs that must be given a place; others get no shape."""
        if case.is_hopeless or case.keeps_gpus:
            return
        if case.existing is not None:
            if case.host is None or not (case.host.is_usable or case.desired.power == "on"):
                return
            owner = case.host.cluster_moid or case.host.compute_moid
            wish = Wish((owner,), (), frozenset(), frozenset(), case.host.moid)
        else:
            place = case.desired.place
            wish = make_wish(case.clusters, place, case.network_moids, case.datastore_moids)
        if ranked := self.candidates.of(wish, case.desired, self.findings):
            case.shape = make_shape(case, ranked, self.reader)

    def might_go_to(self, case: Case) -> Ranked:
        """Return the hosts that a VM might go to if it were new."""
        if case.existing is None:
            return case.shape.hosts if case.shape else ()
        return self.candidates.of(make_wish(case.clusters, case.desired.place), case.desired, Findings())
