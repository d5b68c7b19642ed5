"""From what was observed to the text of a plan file, and what is told beside it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vgpu_cfg.catalog import Catalog
from vgpu_cfg.changes.plan import Plan
from vgpu_cfg.errors import Ambiguous
from vgpu_cfg.model.identity import PlanIdentity
from vgpu_cfg.model.observed.inventory import Inventory
from vgpu_cfg.model.observed.vm import Vm
from vgpu_cfg.model.plan_file import check_vm_name
from vgpu_cfg.model.ranges import fold_names
from vgpu_cfg.model.wording import as_counted, counted
from vgpu_cfg.planning.exporting.hosts import host_entries
from vgpu_cfg.planning.exporting.lines import lift, lines_of
from vgpu_cfg.planning.exporting.names import Names
from vgpu_cfg.planning.exporting.options import options_without_key
from vgpu_cfg.planning.exporting.selection import Choice, choose
from vgpu_cfg.planning.exporting.settling import changed_hosts, desired_of, next_plan, settle
from vgpu_cfg.planning.exporting.ties import tie
from vgpu_cfg.planning.exporting.vm_keys import ExportedVm, vm_keys
from vgpu_cfg.planning.exporting.writing import Content, with_findings, written
from vgpu_cfg.planning.vms.lookup.gpu_match import device_names

_UNMARKED = "exported"
_STAND_IN_ID = "00000000-0000-4000-8000-000000000000"
"""The id of a plan that has none yet, while the next plan is made."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What is asked for: which VMs and hosts, how the file names its server, and what it shall be called.

    `template` is what all VMs would be made from, "" where nobody says.
    """

    choice: Choice
    vcenter: str
    datacenter: str | None = None
    name: str = ""
    template: str = ""


@dataclass(frozen=True, slots=True)
class Export:
    """The text of the plan file, how many VMs and hosts it is about, and how many VMs are not its plan's."""

    text: str
    vms: int
    hosts: int
    strangers: int

    @property
    def what(self) -> str:
        """What is in the file, in words."""
        return f"{counted(self.vms, 'VM')} and {counted(self.hosts, 'host')}"


def export(observed: Inventory, catalog: Catalog, asked: Asked) -> Export:
    """Write a plan file for what is there; the next plan on it changes nothing.

    Raises NotFound where a glob matches nothing, Ambiguous where several datacenters could be meant.
    """
    if asked.datacenter is None and len(observed.datacenters) > 1:
        raise Ambiguous(
            f"the vCenter has {len(observed.datacenters)} datacenters, and a plan file is for one",
            subject=observed.vcenter.address,
            remedy="say which: --datacenter " + " or ".join(one.name for one in observed.datacenters),
        )
    return _Exporting(observed, catalog, asked).run()


class _Exporting:
    def __init__(self, observed: Inventory, catalog: Catalog, asked: Asked) -> None:
        self.observed, self.catalog, self.asked = observed, catalog, asked
        self.names = Names(observed, asked.datacenter)
        self.chosen = choose(asked.choice, self.names)
        self.left_out: list[str] = []

    def run(self) -> Export:
        """Write the file anew until the next plan on it finds nothing to do."""
        identity = _identity(self.chosen.vms, self.asked)
        found = list(self._exported())
        tied = tie(found, self.observed, identity.name)
        awry: set[str] = set()
        while True:
            hosts = host_entries(
                [host for host in self.chosen.hosts if host.name not in awry], self.observed, self.catalog
            )
            lines = lines_of(found, tied)
            lifted = lift(lines)
            changing = [
                f"the host {name}: as it is now, the next plan would change it"
                for name in sorted(awry, key=as_counted)
            ]
            content = Content(
                head=self._head(identity),
                shared={"template": self.asked.template, **lifted} if self.asked.template else lifted,
                hosts=hosts.entries,
                networks=_networks(found),
                lines=lines,
                left_out=[*self._notes(found), *tied.left_out, *hosts.left_out, *changing],
            )
            text = written(content)
            desired = desired_of(text, _with_id(identity), self.asked.vcenter, self.asked.datacenter)
            plan = next_plan(desired, self.observed, found, self.catalog)
            changed = changed_hosts(plan) - awry
            awry |= changed
            if not settle(plan, found) and not changed:
                text = with_findings(text, list(_said_by(plan)))
                strangers = sum(not one.vm.is_of(identity) for one in found)
                return Export(text, len(found), hosts.count, strangers)

    def _exported(self) -> Iterator[ExportedVm]:
        """Yield the VMs that a plan file can name, each once."""
        devices = device_names(self.observed, self.catalog)
        template = self.names.template(self.asked.template).detail if self.asked.template else None
        taken: set[str] = set()
        for vm in self.chosen.vms:
            if reason := _unnamed(vm, taken) or _unplaced(self.names.folder_of(vm)):
                self.left_out.append(f"{vm.name}: {reason}")
                continue
            taken.add(vm.name.casefold())
            yield vm_keys(vm, self.names, devices, template)

    def _head(self, identity: PlanIdentity) -> Mapping[str, Any]:
        head: dict[str, Any] = {"version": 1, "name": identity.name}
        if identity.id:
            head["id"] = identity.id
        server, datacenter = self.asked.vcenter, self.asked.datacenter
        head["vcenter"] = {"server": server, "datacenter": datacenter} if datacenter else server
        return head

    def _notes(self, found: Sequence[ExportedVm]) -> Iterator[str]:
        """Yield what has no words in a plan file, VMs of which the same is to be said at once."""
        notes: dict[str, list[str]] = {}
        for one in found:
            options = ", ".join(options_without_key(one.vm))
            for text in (*one.left_out, *([f"the options {options}"] if options else [])):
                notes.setdefault(text, []).append(one.name)
        yield from self.left_out
        for text, names in notes.items():
            yield f"{fold_names(sorted(names, key=as_counted))}: {text}"
        if self.chosen.without_gpus:
            what = counted(self.chosen.without_gpus, "VM")
            yield f"{what} without GPUs, which no plan made: name them with --vm or --folder"


def _with_id(identity: PlanIdentity) -> PlanIdentity:
    """Return an identity with an id."""
    return identity if identity.id else identity.model_copy(update={"id": _STAND_IN_ID})


def _identity(vms: Iterable[Vm], asked: Asked) -> PlanIdentity:
    """Return the plan whose the VMs are, where it is one; else one that is yet to be."""
    plans = {(vm.mark.plan, vm.mark.id) for vm in vms if vm.mark is not None and not vm.is_copy}
    ids = {plan_id for _, plan_id in plans}
    if len(ids) == 1 and (only := next(iter(ids))):
        name = asked.name or min(plans)[0]
        return PlanIdentity(name=name, id=only)
    return PlanIdentity(name=asked.name or _UNMARKED, id="")


def _unnamed(vm: Vm, taken: set[str]) -> str:
    """Say why a plan file cannot name a VM, "" where it can."""
    if vm.detail is None:
        return "it could not be read in detail"
    if vm.name.casefold() in taken:
        return f"another VM has its name; it is at {vm.inventory_path}"
    if "{" in vm.name or "}" in vm.name:
        return "braces in a name would be a range"
    try:
        check_vm_name(vm.name)
    except ValueError as error:
        return str(error).partition("\n")[0]
    return ""


def _unplaced(folder: str | None) -> str:
    """Say why a plan file cannot name a VM's folder, "" where it can."""
    return "braces in its folder's name would be a range" if folder and "{" in folder else ""


def _networks(found: Iterable[ExportedVm]) -> list[str]:
    """Return the networks that the VMs need, by name."""
    names: dict[str, None] = {}
    for one in found:
        nics = one.keys.get("nics", ())
        for nic in [nics] if isinstance(nics, str) else nics:
            name = nic if isinstance(nic, str) else nic.get("network")
            if name:
                names[name] = None
    return sorted(names, key=as_counted)


def _said_by(plan: Plan) -> Iterator[str]:
    """Yield what the next plan would change or complain of all the same."""
    yield from (change.id for change in plan.changes)
    for error in plan.errors:
        yield f"{error.code} {error.subject.name}: {error.message}"
