"""A VM that exists is given other hardware and settings, or an owner mark."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from vgpu_cfg.changes import privileges
from vgpu_cfg.changes.base import ChangeBase
from vgpu_cfg.changes.by_hand import Part
from vgpu_cfg.changes.commands import command
from vgpu_cfg.changes.edits import changed
from vgpu_cfg.changes.need import Needed
from vgpu_cfg.changes.places import Places
from vgpu_cfg.changes.tables import Tables
from vgpu_cfg.changes.values import Impact, Placement, Row, VmRef, plain
from vgpu_cfg.changes.vm_spec import GrowDisk, NewDisk, VmSpec

_MARKING = {
    "imported": ("take in", plain("nothing else of it is changed, and it may run", "dim")),
    "own": ("allow", plain("that `destroy` deletes it", "red")),
    "none": ("give up", plain("it stays as it is, and may run", "dim")),
}
"""What is done with a VM whose owner mark is written or taken away."""


class UpgradeVm(ChangeBase):
    """Raise the hardware version of a powered-off VM."""

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
                what=f"Raise the hardware version of {name} to {version}. It must be off, and cannot go "
                "back.",
                client=f"{name} > Actions > Compatibility > Upgrade VM Compatibility",
                commands=(command("govc", "vm.upgrade", f"-version={version}", "-vm", name),),
                expected="the task ends without error",
                verify=(command("govc", "device.info", "-vm", name),),
                undo=("there is no way back but a snapshot that was taken before",),
            ),
        )

    def privileges(self, at: Places) -> Iterator[Needed]:
        yield Needed(privileges.UPGRADE, at.vm(self.vm))

    def no_way_back(self, tables: Tables) -> Iterator[str]:
        if self.vm.moid is not None:
            yield "a hardware version is never lowered"


class ReconfigureVm(ChangeBase):
    """Reconfigure a VM with one ConfigSpec.

    `undo` takes its settings and extraConfig back to what they were; it knows nothing of devices.
    """

    names_freely = True

    kind: Literal["reconfigure_vm"] = "reconfigure_vm"
    vm: VmRef
    spec: VmSpec
    undo: VmSpec = VmSpec()

    def head(self, place: Placement | None) -> Row:
        return "configure", plain("while it is off" if self.impact is Impact.POWER_CYCLE else "")

    def rows(self, place: Placement | None, tables: Tables) -> Iterator[Row]:
        return ((edit.key, changed(edit)) for edit in self.edits)

    def by_hand(self, tables: Tables) -> tuple[Part, ...]:
        return self.spec.by_hand(self.vm.name, self.edits, tables.vm_rows, undo=self.undo)

    def privileges(self, at: Places) -> Iterator[Needed]:
        return self.spec.privileges(at.vm(self.vm), at)

    def no_way_back(self, tables: Tables) -> Iterator[str]:
        if self.vm.moid is not None and any(isinstance(one, NewDisk | GrowDisk) for one in self.spec.devices):
            yield "disks are neither taken away nor made smaller"


class MarkVm(ChangeBase):
    """Write a VM's owner mark or take it away, and touch nothing else of the VM; it may run.

    The mark that it leaves is that of an "imported" VM, which carried none before, that of the plan's "own",
    or "none".
    """

    names_freely = True

    kind: Literal["mark_vm"] = "mark_vm"
    vm: VmRef
    spec: VmSpec
    mark: Literal["imported", "own", "none"]

    def head(self, place: Placement | None) -> Row:
        return _MARKING[self.mark]

    def rows(self, place: Placement | None, tables: Tables) -> Iterator[Row]:
        return ((edit.key, changed(edit)) for edit in self.edits)

    def by_hand(self, tables: Tables) -> tuple[Part, ...]:
        return self.spec.by_hand(self.vm.name, self.edits, tables.vm_rows)

    def privileges(self, at: Places) -> Iterator[Needed]:
        return self.spec.privileges(at.vm(self.vm), at)
