"""A VM is deleted."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Literal

from pydantic import Field

from vgpu_cfg.changes import privileges
from vgpu_cfg.changes.base import ChangeBase, Face
from vgpu_cfg.changes.by_hand import Part, command
from vgpu_cfg.changes.places import Places
from vgpu_cfg.changes.privileges import Needed
from vgpu_cfg.changes.reach import Disturbed, Experience, Reach
from vgpu_cfg.changes.tables import Tables
from vgpu_cfg.changes.values import Placement, Row, VmRef, is_nothing, plain
from vgpu_cfg.model.observed.vm import Vm


class DestroyVm(ChangeBase):
    """Delete a powered-off VM with its disks; where `instance_uuid` is given, only the VM that has it.

    `disks` are the identities of those disks (`VirtualDisk.identity`): a VM with another one is not deleted.
    `others` are the files of those among them that the plan did not make, and that are named for deletion.
    Only with `is_imported` is a VM deleted that was imported.
    """

    face = Face("delete", "deleted", done="deleted", sign="-", brings_back=True)
    for_good = ("a deleted VM and its disks cannot be restored", "restore it from a backup")

    kind: Literal["destroy_vm"] = "destroy_vm"
    vm: VmRef
    instance_uuid: str = Field(default="", exclude_if=is_nothing)
    disks: tuple[str, ...] = ()
    others: tuple[str, ...] = Field(default=(), exclude_if=is_nothing)
    is_imported: bool = Field(default=False, exclude_if=is_nothing)

    @property
    def deletes(self) -> VmRef:
        return self.vm

    def vm_then(self, vm: Vm, nics: Collection[tuple[int, int]]) -> Vm | None:
        return None

    @property
    def goes_along(self) -> tuple[str, ...]:
        """Return what else is deleted or disconnected, "disk [vsan] x.vmdk (…)", and a note on the VM."""
        others = (f"{one.key} {one.before}, {one.note}" for one in self.edits if one.key != "vm")
        return (*others, *(one.note for one in self.edits if one.key == "vm" and one.note))

    def head(self, place: Placement | None) -> Row:
        return "delete", plain("; ".join(["with all its disks", *self.goes_along]), "red")

    def by_hand(self, tables: Tables) -> tuple[Part, ...]:
        name = self.vm.name
        return (
            Part(
                what=f"Permanently delete {'; '.join([f'{name} with all its disks', *self.goes_along])}.",
                client=f"{name} > Actions > Delete from Disk",  # noqa: S608 - a menu of the client, no SQL
                commands=(command("govc", "vm.destroy", name),),
                expected=f"{name} is no longer listed",
                verify=(command("govc", "find", "/", "-type", "m", "-name", name),),
                undo=("only from a backup",),
            ),
        )

    def disturbs(self, reach: Reach) -> Iterable[Disturbed]:
        for file in self.others:
            yield reach.thing("disk", file, None, Experience.DISK_DELETED, through=self.vm.name)
        for name in (edit.before or "" for edit in self.edits if edit.key == "device"):
            yield reach.thing("device", name, None, Experience.GOES_WITH_VM, through=self.vm.name)

    def privileges(self, at: Places) -> Iterator[Needed]:
        yield Needed(privileges.DELETE, at.vm(self.vm))

    def no_way_back(self, tables: Tables) -> Iterator[str]:
        yield "a deleted VM cannot be restored"
