"""A VM is made: cloned from a template or made from nothing, with everything it needs."""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from ipaddress import ip_interface
from typing import Annotated, Literal

from pydantic import Field

from vgpu_cfg.changes import privileges
from vgpu_cfg.changes.base import ChangeBase, Face
from vgpu_cfg.changes.by_hand import Part, command
from vgpu_cfg.changes.kinds.guest import Customization
from vgpu_cfg.changes.kinds.vm_spec import VmSpec
from vgpu_cfg.changes.places import Places
from vgpu_cfg.changes.privileges import Needed
from vgpu_cfg.changes.reach import Disturbed, Reach
from vgpu_cfg.changes.tables import Tables
from vgpu_cfg.changes.values import GPU_TOPIC, Edit, Placement, Row, VmRef, edit_value, is_nothing, plain
from vgpu_cfg.model.frozen import Frozen
from vgpu_cfg.model.observed.inventory import Inventory
from vgpu_cfg.model.observed.vm import OwnerMark, Vm, VmDetail

THE_VM = "VM"
"""The difference of a VM that is missing, or should not exist."""
_TOLD_BY_PLACE = frozenset({"clone", "linked clone", "create", "host", "datastore", "folder", "power", "vm"})


class CloneFrom(Frozen):
    """Clone a template; `snapshot_moid` is set for a linked clone.

    A full clone of a template with snapshots `consolidates` its disks: without that they cannot grow
    (kubernetes-sigs/cluster-api-provider-vsphere, issue 1189).
    """

    kind: Literal["clone"] = "clone"
    template: VmRef
    snapshot_moid: str | None = None
    consolidates: bool = Field(default=False, exclude_if=operator.not_)


class MakeFromScratch(Frozen):
    """Create an empty VM with EFI firmware."""

    kind: Literal["scratch"] = "scratch"
    guest_id: str


class Location(Frozen):
    """The place of a new VM: managed object ids, with the names a reader knows."""

    folder_moid: str
    folder_path: str
    host_moid: str
    host_name: str
    resource_pool_moid: str
    datastore_moid: str
    datastore_name: str


class CreateVm(ChangeBase):
    """Clone or create a VM with everything it needs in one ConfigSpec, powered off.

    With `customization` its guest is customised at its first start.
    """

    face = Face("make", "created", done="created", sign="+", equips=True, needs_host=True, stays_at_vm=True)

    kind: Literal["create_vm"] = "create_vm"
    vm: VmRef
    source: Annotated[CloneFrom | MakeFromScratch, Field(discriminator="kind")]
    location: Location
    spec: VmSpec
    customization: Customization | None = Field(default=None, exclude_if=is_nothing)

    @property
    def extra_config(self) -> Mapping[str, str]:
        return self.spec.extra_config

    @property
    def makes(self) -> VmRef:
        return self.vm

    def new_vm(self, moid: str, plan: str, observed: Inventory) -> Vm:
        source = self.source.template.moid if self.source.kind == "clone" else None
        template = observed.vm_by_moid.get(source or "")
        size = template.detail if template is not None and template.detail else VmDetail()
        return Vm(
            moid=moid,
            name=self.vm.name,
            host_moid=self.location.host_moid,
            mark=OwnerMark(plan=plan, vm=self.vm.name),
            detail=VmDetail(cpus=size.cpus, memory_mib=size.memory_mib),
        )

    def vm_then(self, vm: Vm, nics: Collection[tuple[int, int]]) -> Vm | None:
        detail = self.spec.applied(vm.detail, nics) if vm.detail is not None else None
        return vm.model_copy(update={"detail": detail})

    @property
    def in_short(self) -> tuple[str, ...]:
        """Return the values that the plan file states, without its place."""
        return tuple(
            f"{edit.key} {edit_value(edit)}"
            for edit in self.edits
            if not (edit.is_default or edit.key in _TOLD_BY_PLACE)
        )

    @property
    def differing(self) -> tuple[Edit, ...]:
        return (Edit(key=THE_VM, after="present"),)

    def home(self) -> tuple[str, str, str]:
        return "vm", self.vm.name, self.location.folder_moid

    def likeness(self, name: str) -> object:
        return self.source.kind

    def differs_from(self, other: ChangeBase) -> Iterator[str]:
        if not isinstance(other, CreateVm):
            return
        here, there = self.location, other.location
        if here.datastore_moid != there.datastore_moid:
            yield here.datastore_name
        if here.folder_moid != there.folder_moid:
            yield here.folder_path
        if self.source != other.source and self.source.kind == "clone":
            yield f"from {self.source.template.name}"

    def head(self, place: Placement | None) -> Row:
        stars = {edit.key for edit in self.edits if edit.is_default}
        if self.source.kind == "clone":
            verb = "clone"
            notes = ["linked"] if self.source.snapshot_moid else []
            notes += [edit.note for edit in self.edits if edit.key in ("clone", "linked clone") and edit.note]
            origin = self.source.template.name + (f" ({', '.join(notes)})" if notes else "")
        else:
            verb, origin = "create", f"empty, guest OS {self.source.guest_id}"
        places = {
            "host": self.location.host_name,
            "datastore": self.location.datastore_name,
            "folder": self.location.folder_path,
        }
        where = ", ".join(f"{name}{'*' if key in stars else ''}" for key, name in places.items() if name)
        return verb, plain(f"{origin} -> {where}")

    def rows(self, place: Placement | None, tables: Tables) -> Iterator[Row]:
        """Yield a line per topic; that of the GPUs says where they are expected, as their notes do."""
        topics: dict[str, Counter[str]] = {}
        for edit in self.told_below():
            topic, name = tables.topic_of(edit)
            value = f"no {edit.before}" if edit.after is None else edit_value(edit)
            if edit.note and topic != GPU_TOPIC:
                value += f" ({edit.note})"
            topics.setdefault(topic, Counter())[f"{name} {value}".strip()] += 1
        for topic, counts in topics.items():
            words = (words if count == 1 else f"{count} x {words}" for words, count in counts.items())
            yield topic, plain(", ".join(words) + (_gpus_at(place) if topic == GPU_TOPIC else ""))

    def by_hand(self, tables: Tables) -> tuple[Part, ...]:
        name = self.vm.name
        made = replace(
            self._cloned(self.source) if self.source.kind == "clone" else self._created(self.source),
            expected="the task completes without error; the VM is powered off",
            verify=(command("govc", "vm.info", name),),
            undo=(command("govc", "vm.destroy", name),),
        )
        configured = self.spec.by_hand(name, self.edits, tables.vm_rows, heading="Configure")
        customised = () if self.customization is None else (_customised(name, self.customization),)
        return (made, *configured, *customised)

    @property
    def _where(self) -> tuple[str, ...]:
        place = self.location
        return ("-host", place.host_name, "-ds", place.datastore_name, "-folder", place.folder_path)

    def _created(self, source: MakeFromScratch) -> Part:
        name, place, guest = self.vm.name, self.location, source.guest_id
        made = ("-on=false", "-g", guest, "-firmware", "efi", *self._where)
        return Part(
            heading="Create",
            what=f"Create the empty VM {name} for {guest} on {place.host_name}; do not power it on.",
            client=f"{place.folder_path} > New Virtual Machine > Create a new virtual machine",
            commands=(command("govc", "vm.create", *made, name),),
        )

    def _cloned(self, source: CloneFrom) -> Part:
        name, place = self.vm.name, self.location
        template, is_linked = source.template.name, source.snapshot_moid is not None
        link = ("-link",) if is_linked else ()
        return Part(
            heading="Clone",
            what=f"Clone {template} to {name} on {place.host_name}, {place.datastore_name}, in "
            f"{place.folder_path}; do not power it on.",
            client=f"VMs and Templates > {template} > New VM from This Template (Clone > Clone to Virtual "
            "Machine, if it is a VM)" + ("; a linked clone requires govc" if is_linked else ""),
            commands=(command("govc", "vm.clone", "-vm", template, "-on=false", *self._where, *link, name),),
        )

    def disturbs(self, reach: Reach) -> Iterable[Disturbed]:
        return ()

    def privileges(self, at: Places) -> Iterator[Needed]:
        folder = self.location.folder_moid
        moid = self.source.template.moid if self.source.kind == "clone" else None
        if moid is not None:
            yield Needed(privileges.CLONE_TEMPLATE if at.is_template(moid) else privileges.CLONE_VM, moid)
            if self.customization is not None:
                yield Needed(privileges.CUSTOMIZE, moid)
            yield Needed(privileges.CREATE_FROM_EXISTING, folder)
            yield Needed(privileges.ADD_DISK, folder)
        else:
            yield Needed(privileges.CREATE, folder)
        yield Needed(privileges.BASIC_SETTINGS, folder)
        yield Needed(privileges.ASSIGN_TO_POOL, self.location.resource_pool_moid)
        yield Needed(privileges.ALLOCATE_SPACE, self.location.datastore_moid)
        yield from self.spec.privileges(folder, at, is_first=moid is None, is_copy=moid is not None)


def _gpus_at(place: Placement | None) -> str:
    """Say on which GPU, "probably" if ESXi chooses among several, and why with this profile."""
    if place is None or not place.gpu_pci_ids:
        return ""
    why = f" ({place.choice})" if place.choice else ""
    return f"{why}, {'on' if place.is_certain else 'probably on'} {', '.join(place.gpu_pci_ids)}"


def _customised(name: str, asked: Customization) -> Part:
    """Describe how a cloned VM that is off is customized at its first start."""
    words = ["-vm", name, "-name", asked.host_name]
    if asked.kind == "linux":
        words += ["-domain", asked.domain]
    for nic in asked.nics:
        if not nic.ip:
            break  # govc takes addresses in order: one that follows is typed in by hand
        words += ["-ip", nic.ip.partition("/")[0]]
        if nic.ip != "dhcp":
            words += ["-netmask", str(ip_interface(nic.ip).netmask)]
        if nic.gateway:
            words += ["-gateway", nic.gateway]
    if asked.dns:
        words += ["-dns-server", ",".join(asked.dns)]
    nics = [
        f"NIC {number}: {nic.ip or 'as defined in the specification'}"
        + (f", gateway {nic.gateway}" if nic.gateway else "")
        for number, nic in enumerate(asked.nics, 1)
    ]
    told = [f"host name {asked.host_name}", *([f"domain {asked.domain}"] if asked.sets_domain else []), *nics]
    told += [f"DNS {', '.join(asked.dns)}"] if asked.dns else []
    return Part(
        heading="Customize",
        what=f"Customize {name} at first boot with the specification {asked.spec} and "
        f"{'; '.join(told)}. The VM must be powered off.",
        client=f"{name} > Actions > Guest OS > Customize Guest OS > {asked.spec}",
        commands=(command("govc", "vm.customize", *words, asked.spec),),
        expected="the task completes without error",
    )
