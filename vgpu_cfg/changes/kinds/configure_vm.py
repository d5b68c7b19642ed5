"""An existing VM gets other hardware, settings, attributes, tags, or an owner mark."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Literal

from vgpu_cfg.changes import privileges
from vgpu_cfg.changes.base import ChangeBase, Face
from vgpu_cfg.changes.by_hand import Part, command
from vgpu_cfg.changes.kinds.vm_spec import GrowDisk, NewDisk, RemoveDevice, VmSpec
from vgpu_cfg.changes.places import VM, Places
from vgpu_cfg.changes.privileges import Needed
from vgpu_cfg.changes.reach import Disturbed, Experience, Reach
from vgpu_cfg.changes.tables import Tables
from vgpu_cfg.changes.values import Edit, Impact, Placement, Row, VmRef, changed, plain, table_rows
from vgpu_cfg.model.choices import Approval
from vgpu_cfg.model.observed.cordon import HOME_ATTRIBUTE
from vgpu_cfg.model.observed.inventory import Inventory
from vgpu_cfg.model.observed.own_items import Tag
from vgpu_cfg.model.observed.vm import Vm, VmDetail

_MARKING = {
    "imported": ("import", plain("no other changes; the VM may be running", "dim")),
    "none": ("stop managing", plain("no other changes; the VM may be running", "dim")),
}
"""The verbs for writing or removing a VM's owner mark."""


VTPM = "virtual TPM"
"""The name of a removed virtual TPM in a request."""
EFI_LAYOUT_FROM = 20


def raised_text(detail: VmDetail | None, version: int) -> str:
    """Say what another hardware version comes to.

    From 20 on an EFI guest has another PCI layout, so that its devices are on other slots (KB 407595).
    """
    before = detail.hardware_version if detail is not None else None
    text = f"hardware version {before if before is not None else 'unknown'} to {version}"
    is_bios = detail is not None and detail.firmware.casefold() == "bios"
    if version < EFI_LAYOUT_FROM or (before is not None and before >= EFI_LAYOUT_FROM) or is_bios:
        return text
    return f"{text}; NIC names in the guest may change (KB 407595)"


def _for_good(reach: Reach, vm: VmRef, note: str) -> Iterable[Disturbed]:
    """Say what of a VM that is there cannot be taken back."""
    if vm.moid is not None:
        found = reach.thing("vm", vm.name, vm.moid, Experience.NOT_REVERSIBLE, note=note)
        yield found.model_copy(update={"is_own": True, "needs": Approval.IRREVERSIBLE})


class UpgradeVm(ChangeBase):
    """Raise the hardware version of a powered-off VM."""

    face = Face(
        "set",
        ("hardware version upgraded"),
        done="upgraded",
        changes_vm=True,
        needs_host=True,
        stays_at_vm=True,
    )
    for_good = ("a hardware version cannot be downgraded", "revert to an earlier snapshot")

    kind: Literal["upgrade_vm"] = "upgrade_vm"
    vm: VmRef
    hardware_version: int

    def head(self, place: Placement | None) -> Row:
        words = [changed(edit) for edit in self.edits if edit.key == "hardware_version"]
        return "upgrade", words[0] if words else plain(f"to vmx-{self.hardware_version}")

    def by_hand(self, tables: Tables) -> tuple[Part, ...]:
        name, version = self.vm.name, self.hardware_version
        return (
            Part(
                what=f"Upgrade {name} to hardware version {version}. It must be off; this cannot be undone.",
                client=f"{name} > Actions > Compatibility > Upgrade VM Compatibility",
                commands=(command("govc", "vm.upgrade", f"-version={version}", "-vm", name),),
                expected="the task completes without error",
                verify=(command("govc", "device.info", "-vm", name),),
                undo=("only by reverting to an earlier snapshot",),
            ),
        )

    def disturbs(self, reach: Reach) -> Iterable[Disturbed]:
        vm = reach.observed.vm_by_moid.get(self.vm.moid or "")
        note = raised_text(vm.detail if vm is not None else None, self.hardware_version)
        return _for_good(reach, self.vm, note)

    def privileges(self, at: Places) -> Iterator[Needed]:
        yield Needed(privileges.UPGRADE, at.vm(self.vm))

    def no_way_back(self, tables: Tables) -> Iterator[str]:
        if self.vm.moid is not None:
            yield "a hardware version cannot be downgraded"


class ReconfigureVm(ChangeBase):
    """Reconfigure a VM with one ConfigSpec.

    `undo` restores its settings and extraConfig; it does not cover devices.
    """

    face = Face(
        "set",
        "reconfigured",
        done="reconfigured",
        changes_vm=True,
        equips=True,
        names_freely=True,
        tells_edits=True,
        needs_host=True,
        stays_at_vm=True,
    )

    kind: Literal["reconfigure_vm"] = "reconfigure_vm"
    vm: VmRef
    spec: VmSpec
    undo: VmSpec = VmSpec()

    def vm_then(self, vm: Vm, nics: Collection[tuple[int, int]]) -> Vm | None:
        detail = self.spec.applied(vm.detail, nics) if vm.detail is not None else None
        return vm.model_copy(update={"detail": detail})

    @property
    def extra_config(self) -> Mapping[str, str]:
        return self.spec.extra_config

    def spares_pool(self, observed: Inventory) -> bool:
        """Whether the VM is off and gets no devices: its memory counts once it runs."""
        vm = observed.vm_by_moid.get(self.vm.moid or "")
        return not self.spec.devices and vm is not None and not vm.is_on

    def head(self, place: Placement | None) -> Row:
        return "configure", plain("while powered off" if self.impact is Impact.POWER_CYCLE else "")

    def by_hand(self, tables: Tables) -> tuple[Part, ...]:
        return self.spec.by_hand(self.vm.name, self.edits, tables.vm_rows, undo=self.undo)

    def disturbs(self, reach: Reach) -> Iterable[Disturbed]:
        """List the disks that the VM gives up, which are others', and say if its keys go."""
        gone = [one for one in self.spec.devices if isinstance(one, RemoveDevice)]
        disks = {one.key for one in gone if one.is_disk}
        vm = reach.observed.vm_by_moid.get(self.vm.moid or "") if disks else None
        for disk in vm.detail.disks if vm is not None and vm.detail is not None else ():
            if disk.key in disks:
                yield reach.thing("disk", disk.file, None, Experience.DISK_DETACHED, through=self.vm.name)
        if any(one.was == VTPM for one in gone):
            yield from _for_good(reach, self.vm, "removing a virtual TPM also removes its keys")

    def privileges(self, at: Places) -> Iterator[Needed]:
        return self.spec.privileges(at.vm(self.vm), at)

    def no_way_back(self, tables: Tables) -> Iterator[str]:
        if self.vm.moid is not None and any(isinstance(one, NewDisk | GrowDisk) for one in self.spec.devices):
            yield "disks are not removed or shrunk"


class MarkVm(ChangeBase):
    """Write a VM's owner mark or take it away, and touch nothing else of the VM; it may run.

    The mark that it leaves is that of an "imported" VM, which carried none before, or "none".
    """

    face = Face(
        "set", "marked", done="marked", changes_vm=True, names_freely=True, tells_edits=True, stays_at_vm=True
    )

    kind: Literal["mark_vm"] = "mark_vm"
    vm: VmRef
    spec: VmSpec
    mark: Literal["imported", "none"]

    def spares_pool(self, observed: Inventory) -> bool:
        return True

    def head(self, place: Placement | None) -> Row:
        return _MARKING[self.mark]

    def by_hand(self, tables: Tables) -> tuple[Part, ...]:
        return self.spec.by_hand(self.vm.name, self.edits, tables.vm_rows)

    def disturbs(self, reach: Reach) -> Iterable[Disturbed]:
        return ()

    def privileges(self, at: Places) -> Iterator[Needed]:
        return self.spec.privileges(at.vm(self.vm), at)


class SetAttributes(ChangeBase):
    """Set custom attributes of a VM, by their names; an empty text clears one. Plain calls, no task."""

    face = Face(
        "set",
        "attributes set",
        done="attribute change*",
        is_task=False,
        changes_vm=True,
        names_freely=True,
        tells_edits=True,
    )

    kind: Literal["set_attributes"] = "set_attributes"
    vm: VmRef
    values: Mapping[str, str]

    def head(self, place: Placement | None) -> Row:
        home = self.values.get(HOME_ATTRIBUTE)
        if home is None:
            return "attributes", plain("")
        why = "while it moves" if '"is_moving":true' in home else "for its return"
        owner = next((f" ({edit.note})" for edit in self.edits if edit.note), "")
        return "place", plain(f"record its host {why}{owner}" if home else f"clear its recorded host{owner}")

    @property
    def compared(self) -> tuple[Edit, ...]:
        return tuple(edit for edit in self.edits if edit.key != HOME_ATTRIBUTE)

    def told_below(self) -> tuple[Edit, ...]:
        return self.compared

    def by_hand(self, tables: Tables) -> tuple[Part, ...]:
        name = self.vm.name
        add = ("govc", "fields.set", "-add", "-type", "VirtualMachine")
        return (
            Part(
                what=f"Set the custom attributes {', '.join(self.values)} of {name}. The VM may be running.",
                client=f"{name} > Summary > Custom Attributes",
                commands=tuple(command(*add, key, value, name) for key, value in self.values.items()),
                expected="no output",
                verify=(command("govc", "fields.info", name),),
                undo=tuple(
                    command("govc", "fields.set", edit.key, edit.before or "", name) for edit in self.edits
                ),
                rows=table_rows(self.edits),
            ),
        )

    def disturbs(self, reach: Reach) -> Iterable[Disturbed]:
        return ()

    def privileges(self, at: Places) -> Iterator[Needed]:
        return at.attributes(at.vm(self.vm), privileges.SET_ATTRIBUTES, VM, self.values)


class SetTags(ChangeBase):
    """Take tags from a VM and give it others, in this order: of some categories it has one at most.

    Plain calls to vCenter's REST side, no task.
    """

    face = Face(
        "set",
        "tags set",
        done="tag change*",
        is_task=False,
        changes_vm=True,
        names_freely=True,
        tells_edits=True,
    )

    kind: Literal["set_tags"] = "set_tags"
    vm: VmRef
    detach: tuple[Tag, ...] = ()
    attach: tuple[Tag, ...] = ()

    def head(self, place: Placement | None) -> Row:
        return "tags", plain("")

    def by_hand(self, tables: Tables) -> tuple[Part, ...]:
        """Return the tags to add and remove; govc accepts a VM by its path here, and no ambiguous name."""
        name = self.vm.name
        path = f'"$({command("govc", "find", "/", "-type", "m", "-name", name)})"'

        def lines(verb: str, tags: Sequence[Tag]) -> tuple[str, ...]:
            return tuple(
                f"{command('govc', f'tags.{verb}', '-c', tag.category, tag.name)} {path}" for tag in tags
            )

        return (
            Part(
                what=f"Set the tags of {name}. The VM may be running.",
                client=f"{name} > Summary > Tags > Assign",
                commands=lines("detach", self.detach) + lines("attach", self.attach),
                expected="no output",
                verify=(f"govc tags.attached.ls -r {path}",),
                undo=lines("detach", self.attach) + lines("attach", self.detach),
                rows=table_rows(self.edits),
            ),
        )

    def disturbs(self, reach: Reach) -> Iterable[Disturbed]:
        return ()

    def privileges(self, at: Places) -> Iterator[Needed]:
        yield Needed(privileges.SET_TAGS, at.vm(self.vm))
