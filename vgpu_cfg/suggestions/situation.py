"""The source of ideas: a plan with errors, its estate, and its file."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from vgpu_cfg.catalog import Board, Catalog
from vgpu_cfg.changes.plan import Diagnostic, Plan
from vgpu_cfg.changes.severity import Severity
from vgpu_cfg.documents import Document, Edit, Loc
from vgpu_cfg.model.desired import DesiredHosts, DesiredNetwork, DesiredPlan, DesiredVm
from vgpu_cfg.model.observed.inventory import Cluster, Gpu, Host, Inventory
from vgpu_cfg.model.observed.vm import Vm
from vgpu_cfg.model.ranges import read_members
from vgpu_cfg.planning.capacity.host_capacity import CapacityReader
from vgpu_cfg.planning.estate.site import Site
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.findings.collection import Findings
from vgpu_cfg.planning.host_settings.resolved_host import hosts_of
from vgpu_cfg.planning.placement.candidates import forbidden_by
from vgpu_cfg.planning.remedies.advice import FARTHEST_FIRST
from vgpu_cfg.suggestions.acts import is_added
from vgpu_cfg.suggestions.candidate import Trial


@dataclass(frozen=True)
class Situation:
    """A trial that left errors; `catalog` is the hardware's abilities."""

    trial: Trial
    catalog: Catalog

    @property
    def plan(self) -> Plan:
        """The plan with its errors."""
        return self.trial.plan

    @cached_property
    def observed(self) -> Inventory:
        """The estate, without hosts that acts only think of: nothing is asked of them or sent there."""
        whole = self.trial.observed
        if not any(is_added(host.moid) for host in whole.hosts):
            return whole
        known = tuple(host for host in whole.hosts if not is_added(host.moid))
        return whole.model_copy(update={"hosts": known})

    @property
    def desired(self) -> DesiredPlan:
        """The file's requests."""
        return self.plan.desired

    @property
    def document(self) -> Document:
        """The plan file itself; included files are not edited."""
        return self.trial.loaded.documents[-1]

    @property
    def plan_path(self) -> str:
        """The plan file's path, as it was given."""
        return str(self.trial.loaded.path)

    @cached_property
    def site(self) -> Site:
        """The objects of the plan's datacenter."""
        return Site(self.desired, self.observed, Findings())

    def errors(self, *codes: str) -> Iterator[Diagnostic]:
        """Yield the errors with one of these codes."""
        return (found for found in self.plan.errors if found.code in codes)

    @property
    def in_the_way(self) -> list[Diagnostic]:
        """The errors, and the warnings of hosts that must be emptied for a manual step."""
        return [
            found
            for found in self.plan.diagnostics
            if found.severity is Severity.ERROR or found.code == Code.HOST_NOT_EMPTIED
        ]

    def vms(self, found: Diagnostic) -> list[DesiredVm]:
        """Return the VMs that a finding is about; none where it is about something else."""
        if found.subject.kind != "vm":
            return []
        names = _names(found.subject.name)
        return [vm for vm in self.desired.vms if vm.name in names]

    def lines(self, *codes: str) -> Iterator[DesiredVm]:
        """Yield one VM of each line of the file that errors with these codes are about."""
        seen: set[str] = set()
        for found in self.errors(*codes):
            for vm in self.vms(found):
                if vm.origin not in seen:
                    seen.add(vm.origin)
                    yield vm

    def templates(self, *codes: str) -> Iterator[Vm]:
        """Yield the template of each such line that has one."""
        found = (self.site.template_of(vm) for vm in self.lines(*codes))
        return (template for template in found if template is not None)

    def clusters(self, *codes: str) -> Iterator[tuple[DesiredVm, Cluster]]:
        """Yield one VM of each such line with every cluster that it may be in."""
        return ((vm, cluster) for vm in self.lines(*codes) for cluster in self.site.clusters_of(vm))

    @cached_property
    def unplaced(self) -> list[DesiredVm]:
        """The VMs that have no host in the plan, or keep the one that they have for want of room."""
        placed = {one.vm for one in self.plan.placements}
        placed -= {
            vm.name for found in self.plan.errors if found.code in FARTHEST_FIRST for vm in self.vms(found)
        }
        return [vm for vm in self.desired.vms if vm.name not in placed]

    def host(self, name: str) -> Host | None:
        """Return a host by its name in vCenter."""
        return next((host for host in self.observed.hosts if host.name == name), None)

    def vm(self, name: str) -> Vm | None:
        """Return a VM of the estate by its name."""
        return next((vm for vm in self.observed.vms if vm.name == name), None)

    def hosts_of(self, vm: DesiredVm) -> list[Host]:
        """Return the hosts that a VM could be placed on, whatever state they are in."""
        clusters = {cluster.moid for cluster in self.site.clusters_of(vm)}
        known = self.observed.cluster_by_moid
        return [
            host
            for host in self.observed.hosts
            if host.cluster_moid in clusters
            and not forbidden_by(vm.place, host, known.get(host.cluster_moid or ""))
        ]

    def board_of(self, gpu: Gpu) -> Board | None:
        """Return a GPU's board, None for one that the catalogue does not know."""
        return self.catalog.of_device(gpu.pci)

    def lacks_driver(self, host: Host) -> bool:
        """Whether an idle GPU of a host lacks nothing but NVIDIA's driver, or the right graphics type."""
        without = (Code.NO_HOST_DRIVER, Code.NOT_SHARED_DIRECT)
        gpus = CapacityReader(self.observed, self.catalog).read(host).gpus if host.is_usable else ()
        return any(gpu.obstacle in without and not gpu.held for gpu in gpus)

    def hosts_in_question(self) -> list[Host]:
        """Return the hosts on which VMs without a place could be, in the order of vCenter."""
        alike = {(*vm.clusters, vm.place.model_dump_json()): vm for vm in self.unplaced}
        wanted = {host.moid for vm in alike.values() for host in self.hosts_of(vm)}
        return [host for host in self.observed.hosts if host.moid in wanted]

    def concerned_hosts(self, *codes: str) -> list[Host]:
        """Return the hosts that VMs with errors are or could be on; with codes, none without such errors."""
        if codes and not any(self.errors(*codes)):
            return []
        moids = {one.host_moid for one in self.plan.placements}
        moids |= {host.moid for host in self.hosts_in_question()}
        return [host for host in self.observed.hosts if host.moid in moids]

    def busy(self, cluster: Cluster) -> float:
        """Return which share of a cluster's GPUs is in use, 1 where it has none."""
        gpus = [gpu for host in self.observed.hosts if host.cluster_moid == cluster.moid for gpu in host.gpus]
        return sum(bool(gpu.vm_moids) for gpu in gpus) / len(gpus) if gpus else 1.0

    def data_at(self, loc: Loc) -> Any:
        """Return the file's value at a place, None if there is none."""
        value: Any = self.document.data
        for element in loc:
            if isinstance(value, Mapping):
                value = value.get(str(element))
            elif isinstance(value, list) and isinstance(element, int) and element < len(value):
                value = value[element]
            else:
                return None
        return value

    def line_of(self, vm: DesiredVm) -> Loc | None:
        """Return the place of a VM's line in the plan file."""
        return self._entry("vms", vm.origin)

    def entry_of(self, entry: DesiredHosts | DesiredNetwork) -> Loc | None:
        """Return the place of an entry of `hosts` or `networks` in the file, None if it is included."""
        return self._entry("networks" if isinstance(entry, DesiredNetwork) else "hosts", entry.origin)

    def entries_for(self, host_name: str) -> list[DesiredHosts]:
        """Return the entries of `hosts` that mean a host."""
        return [
            entry
            for entry in self.desired.hosts
            if any(host.name == host_name for host in hosts_of(entry, self.desired, self.observed))
        ]

    def set_key(self, vm: DesiredVm, *steps: tuple[str | int, Any]) -> tuple[Edit, ...]:
        """Return the edits that state keys for a VM's line; None takes one away, in `defaults` too."""
        line = self.line_of(vm)
        if line is None:
            return ()
        edits = []
        for path, value in steps:
            way = tuple(str(path).split(".")) if isinstance(path, str) else (path,)
            at: Loc = (*line, *way)
            if value is None and self.data_at(at) is None:
                at = ("defaults", *way)
            edits.append(Edit(at, value))
        return tuple(edits)

    def stated(self, vm: DesiredVm, *way: str) -> Any:
        """Return the value of a VM's line, or else of `defaults`, under a key."""
        line = self.line_of(vm)
        own = self.data_at((*line, *way)) if line is not None else None
        return own if own is not None else self.data_at(("defaults", *way))

    def _entry(self, section: str, origin: str) -> Loc | None:
        items = self.data_at((section,))
        if isinstance(items, list):
            places: Collection[Loc] = [(section, index) for index in range(len(items))]
        elif isinstance(items, Mapping):
            places = [(section, str(key)) for key in items] if section == "networks" else [(section,)]
        else:
            return None
        for loc in places:
            node = self.document.node(loc)
            if origin == f"{self.document.name}:{node.line}:{node.column}":
                return loc
        return None


def _names(subject: str) -> set[str]:
    names: set[str] = set()
    for part in subject.split(", "):
        try:
            names |= {member.name for member in read_members(part)}
        except ValueError:
            names.add(part)
    return names
