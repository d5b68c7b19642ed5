"""An exported plan file: observations as text, with notes, pairs left out, and the next plan on it.

Unrequested extraConfig pairs of a VM are listed by their names, never with their values.

The next plan on an exported file is made before its release, and differences that it would change are left
alone.

A VM that was made without this tool may differ from a key's request in more than its value: memory that is
not reserved, MMIO that is too small. Such a key is written all the same, since the VM is to be made again
with it, and is listed under `ignore`, with the changes in a comment.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vgpu_cfg.catalog import Catalog
from vgpu_cfg.changes.change import Change
from vgpu_cfg.changes.plan import Plan
from vgpu_cfg.changes.values import Edit
from vgpu_cfg.documents import Part, parse_text
from vgpu_cfg.errors import Ambiguous, DocumentError
from vgpu_cfg.model.desired import DesiredPlan
from vgpu_cfg.model.identity import PlanIdentity
from vgpu_cfg.model.observed.inventory import Inventory
from vgpu_cfg.model.observed.vm import OWN_PREFIX, Vm
from vgpu_cfg.model.plan_file import check_vm_name
from vgpu_cfg.model.ranges import fold_names
from vgpu_cfg.model.wording import as_counted, counted
from vgpu_cfg.planning.estate.ownership import as_imported
from vgpu_cfg.planning.expand.hosts import expand_hosts
from vgpu_cfg.planning.expand.lines import expand_vms
from vgpu_cfg.planning.expand.networks import expand_networks
from vgpu_cfg.planning.expand.site import VmContext
from vgpu_cfg.planning.exporting.hosts import host_entries
from vgpu_cfg.planning.exporting.lines import Content, lift, lines_of, with_findings, written
from vgpu_cfg.planning.exporting.selection import Choice, choose, tie
from vgpu_cfg.planning.exporting.vm_keys import KEY_OF_DEVICE, ExportedVm, Names, vm_keys
from vgpu_cfg.planning.planner import make_plan
from vgpu_cfg.planning.vms.lookup.wanted import device_names
from vgpu_cfg.planning.vms.settings.table import VM_SETTINGS, vm_setting

_UNMARKED = "exported"
_STAND_IN_ID = "00000000-0000-4000-8000-000000000000"
"""The id of a plan that has none yet, while the next plan is made."""

_GUESTINFO = "guestinfo."
_OF_DEVICES = re.compile(r"pcipassthru[0-9]+\.")
"""The keys that vSphere, and `uvm`, write for each passthrough device: they come with the device."""
_OF_ROWS = frozenset(setting.path.casefold() for setting in VM_SETTINGS if setting.path)

_NO_KEY = frozenset({"power"})
_VERSION = "hardware_version"
"""The settings that an existing VM gets only with devices that need them."""


@dataclass(frozen=True, slots=True)
class Asked:
    """The request: VMs and hosts, the file's name for its server, and the plan's name.

    `template` is the source of all VMs, "" if unknown.
    """

    choice: Choice
    vcenter: str
    datacenter: str | None = None
    name: str = ""
    template: str = ""


@dataclass(frozen=True, slots=True)
class Export:
    """The text of the plan file, how many VMs and hosts it is about, and how many VMs are not its plan's.

    `others` are the other plans that own its VMs, by name.
    """

    text: str
    vms: int
    hosts: int
    strangers: int
    others: tuple[str, ...] = ()

    @property
    def what(self) -> str:
        """The content of the file, in words."""
        return f"{counted(self.vms, 'VM')} and {counted(self.hosts, 'host')}"


def export(observed: Inventory, catalog: Catalog, asked: Asked) -> Export:
    """Write a plan file for existing objects; the next plan on it changes nothing.

    Raises NotFound if a glob matches nothing, Ambiguous if several datacenters are possible.
    """
    if asked.datacenter is None and len(observed.datacenters) > 1:
        raise Ambiguous(
            f"the vCenter has {len(observed.datacenters)} datacenters, but a plan file covers one",
            subject=observed.vcenter.address,
            remedy="select one: --datacenter " + " or ".join(one.name for one in observed.datacenters),
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
                f"host {name}: the next plan would change its current settings"
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
                strangers = [one.vm for one in found if not one.vm.is_of(identity)]
                others = {vm.mark.plan for vm in strangers if vm.mark is not None and not vm.is_copy}
                return Export(text, len(found), hosts.count, len(strangers), tuple(sorted(others)))

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
        """Yield the settings that a plan file cannot express, VMs with the same note at once."""
        notes: dict[str, list[str]] = {}
        for one in found:
            stated = one.keys.get("extra_config", ())
            options = ", ".join(name for name in options_without_key(one.vm) if name not in stated)
            for text in (*one.left_out, *([f"the options {options}"] if options else [])):
                notes.setdefault(text, []).append(one.name)
        yield from self.left_out
        for text, names in notes.items():
            yield f"{fold_names(sorted(names, key=as_counted))}: {text}"
        if self.chosen.without_gpus:
            what = counted(self.chosen.without_gpus, "VM")
            yield f"{what} without GPUs and not owned by a plan; to include them, use --vm or --folder"


def _with_id(identity: PlanIdentity) -> PlanIdentity:
    """Return an identity with an id."""
    return identity if identity.id else identity.model_copy(update={"id": _STAND_IN_ID})


def _identity(vms: Iterable[Vm], asked: Asked) -> PlanIdentity:
    """Return the plan that owns the VMs, if there is one; else a new one."""
    plans = {(vm.mark.plan, vm.mark.id) for vm in vms if vm.mark is not None and not vm.is_copy}
    ids = {plan_id for _, plan_id in plans}
    if len(ids) == 1 and (only := next(iter(ids))):
        name = asked.name or min(plans)[0]
        return PlanIdentity(name=name, id=only)
    return PlanIdentity(name=asked.name or _UNMARKED, id="")


def _unnamed(vm: Vm, taken: set[str]) -> str:
    """Say why a plan file cannot name a VM, "" where it can."""
    if vm.detail is None:
        return "its details could not be read"
    if vm.name.casefold() in taken:
        return f"another VM has the same name; this one is at {vm.inventory_path}"
    if "{" in vm.name or "}" in vm.name:
        return "braces in its name would be interpreted as a range"
    try:
        check_vm_name(vm.name)
    except ValueError as error:
        return str(error).partition("\n")[0]
    return ""


def _unplaced(folder: str | None) -> str:
    """Say why a plan file cannot name a VM's folder, "" where it can."""
    return "braces in its folder's name would be interpreted as a range" if folder and "{" in folder else ""


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
    """Yield the remaining changes and findings of the next plan."""
    yield from (change.id for change in plan.changes)
    for error in plan.errors:
        yield f"{error.code} {error.subject.name}: {error.message}"


def options_without_key(vm: Vm) -> Iterator[str]:
    """Yield the names; all of guestinfo, which may hold secrets, is one."""
    if vm.detail is None:
        return
    names = {*vm.detail.extra_config, *vm.detail.option_names}
    for name in sorted(names, key=str.casefold):
        folded = name.casefold()
        is_known = folded in _OF_ROWS or folded.startswith(OWN_PREFIX) or _OF_DEVICES.match(folded)
        if not is_known and not folded.startswith(_GUESTINFO):
            yield name
    if any(name.casefold().startswith(_GUESTINFO) for name in names):
        yield f"{_GUESTINFO}*"


def desired_of(text: str, identity: PlanIdentity, vcenter: str, datacenter: str | None) -> DesiredPlan:
    """Read an exported file back. Raises DocumentError where it cannot be read, which is a bug."""
    document = parse_text(text, "export")

    def section(key: str) -> list[Part]:
        return [Part(document, (key,), document.data[key])] if key in document.data else []

    networks = expand_networks(section("networks"))
    context = VmContext({network.name: network for network in networks.networks})
    vms = expand_vms(next(iter(section("vms")), None), section("defaults"), context)
    hosts = expand_hosts(
        section("hosts"), networks=networks.networks, secrets=set(), has_vms=bool(document.data.get("vms"))
    )
    faults = [*networks.faults, *vms.faults, *hosts.faults]
    if faults:
        raise DocumentError(faults)
    return DesiredPlan(
        name=identity.name,
        id=identity.id,
        vcenter=vcenter,
        datacenter=datacenter,
        hosts=tuple(hosts.hosts),
        networks=tuple(networks.networks),
        vms=tuple(vms.vms),
    )


def next_plan(
    desired: DesiredPlan, observed: Inventory, found: Sequence[ExportedVm], catalog: Catalog
) -> Plan:
    """Make the plan that would be made of the file if its VMs were its own."""
    taken_in = as_imported(observed, {one.vm.moid for one in found}, desired.identity)
    return make_plan(desired, taken_in, catalog)


def changed_hosts(plan: Plan) -> set[str]:
    """Return the hosts that the plan would change: something of them waits, or is set GPU by GPU."""
    return {change.subject.name for change in plan.changes if change.subject.kind == "host"}


def settle(plan: Plan, found: Sequence[ExportedVm]) -> bool:
    """Leave the plan's changes alone; return whether any were added."""
    by_name = {one.name: one for one in found}
    news = False
    for change in plan.changes:
        for name, edits in _by_vm(change).items():
            one = by_name.get(name)
            for edit in edits if one is not None else ():
                news |= _ignore(one, change, edit) if one is not None else False
    return news


def _by_vm(change: Change) -> Mapping[str, Sequence[Edit]]:
    if change.ruled:
        return {vm.name: change.edits[:1] for vm in change.ruled}
    return {change.subject.name: change.edits} if change.subject.kind == "vm" else {}


def _ignore(one: ExportedVm, change: Change, edit: Edit) -> bool:
    """Put the first key under `ignore` that the edit may come from and that is not there yet."""
    return any(
        key in one.keys and one.ignore(key, f"covered by `ignore: {key}`: {_says(change, edit)}")
        for key in _keys_of(change, edit, one)
    )


def _says(change: Change, edit: Edit) -> str:
    if change.ruled:
        return f"the next plan would {change.id}"
    return f"the next plan would set {edit.key} to {edit.after or 'nothing'}"


def _keys_of(change: Change, edit: Edit, one: ExportedVm) -> Iterator[str]:
    row = vm_setting(edit.key)
    if change.ruled:
        yield "place"
    elif edit.key == _VERSION:
        yield from ("gpus", "nics", "vtpm")
    elif row is not None:
        yield from (row.plan_key,) if row.plan_key else row.follows
    elif edit.key in KEY_OF_DEVICE:
        yield KEY_OF_DEVICE[edit.key]
    elif edit.key in one.keys.get("extra_config", {}):
        yield "extra_config"
    elif edit.key in one.keys.get("attributes", {}):
        yield "attributes"
    elif edit.key not in _NO_KEY:
        yield "gpus"
