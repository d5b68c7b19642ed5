"""Rename a VM or move it to another place, otherwise unchanged."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Literal

from pydantic import Field

from vgpu_cfg.changes import privileges
from vgpu_cfg.changes.base import ChangeBase, Face, Timing
from vgpu_cfg.changes.by_hand import Part, command
from vgpu_cfg.changes.places import Places
from vgpu_cfg.changes.privileges import Needed
from vgpu_cfg.changes.reach import Disturbed, Experience, Reach
from vgpu_cfg.changes.tables import Tables
from vgpu_cfg.changes.values import Edit, Placement, Row, VmRef, Words, changed, is_nothing, plain, plain_rows
from vgpu_cfg.model.frozen import Frozen
from vgpu_cfg.model.observed.vm import Vm
from vgpu_cfg.model.wording import duration

_FLAGS = {"host": "-host", "resource pool": "-pool", "datastore": "-ds"}


def _told(edits: Sequence[Edit]) -> Words:
    """Write edits one after the other; those in the verb, or of a host, need no name."""
    words: Words = ()
    for number, edit in enumerate(edits):
        name = "" if edit.key in ("name", "folder", "host") else f"{edit.key} "
        words += (*plain(f"{', ' if number else ''}{name}"), *changed(edit))
    return words


class RenameVm(ChangeBase):
    """Give a VM its name, in one task; `vm` has the new one. Its files keep their names."""

    face = Face("set", "renamed", done="renamed")

    kind: Literal["rename_vm"] = "rename_vm"
    vm: VmRef

    def vm_then(self, vm: Vm, nics: Collection[tuple[int, int]]) -> Vm | None:
        return vm.model_copy(update={"name": self.vm.name})

    @property
    def pictured(self) -> tuple[str, str]:
        return "changed", "renamed"

    def head(self, place: Placement | None) -> Row:
        return "rename", _told(self.edits)

    def by_hand(self, tables: Tables) -> tuple[Part, ...]:
        name = self.vm.name
        before = self.edits[0].before or name
        return (
            Part(
                what=f"Rename {before} to {name}. The VM may be running; its files are not renamed.",
                client=f"{before} > Actions > Rename",
                commands=(command("govc", "object.rename", f"vm/{before}", name),),
                expected="the task completes without error",
                verify=(command("govc", "vm.info", name),),
                undo=(command("govc", "object.rename", f"vm/{name}", before),),
            ),
        )

    def disturbs(self, reach: Reach) -> Iterable[Disturbed]:
        return ()

    def privileges(self, at: Places) -> Iterator[Needed]:
        yield Needed(privileges.RENAME, at.vm(self.vm))


class MoveVmToFolder(ChangeBase):
    """Move a VM to another folder of its datacenter, in one task; nothing of it changes on its host."""

    face = Face("set", "moved to its folder", done="moved to its folder")

    kind: Literal["move_vm_to_folder"] = "move_vm_to_folder"
    vm: VmRef
    folder_moid: str
    source_moid: str

    def head(self, place: Placement | None) -> Row:
        return "folder", _told(self.edits)

    def by_hand(self, tables: Tables) -> tuple[Part, ...]:
        name, edit = self.vm.name, self.edits[0]
        after, before = edit.after or "", edit.before or ""
        return (
            Part(
                what=f"Move {name} from {before} to the folder {after}. The VM may be running.",
                client=f"{name} > Actions > Move to folder",
                commands=(command("govc", "object.mv", f"{before}/{name}", after),),
                expected="the task completes without error",
                verify=(command("govc", "find", after, "-type", "m", "-name", name),),
                undo=(command("govc", "object.mv", f"{after}/{name}", before),),
            ),
        )

    def disturbs(self, reach: Reach) -> Iterable[Disturbed]:
        return ()

    def privileges(self, at: Places) -> Iterator[Needed]:
        for moid in (at.vm(self.vm), self.folder_moid, self.source_moid):
            yield Needed(privileges.MOVE, moid)


class Destination(Frozen):
    """The destination of a moved VM: its pool and its datastore stay if none is named.

    `kept_disks` maps the keys of the disks that are not the plan's to the datastores on which they stay.
    """

    host_moid: str
    host_name: str
    resource_pool_moid: str | None = None
    datastore_moid: str | None = None
    kept_disks: Mapping[int, str] = Field(default_factory=dict, exclude_if=is_nothing)


class RelocateVm(ChangeBase):
    """Move a VM to another host, pool or datastore, in one task: by vMotion if it runs, otherwise off.

    `is_running` is the planned case, and the other is never used instead. `stun_ms` is how long vMotion is
    expected to stop the VM, None if unknown. `windows` are those of the source and target hosts; it does not
    begin if one closes within `takes_seconds`. If `source_moid` names a host, the VM is moved only from
    there: on any other host, another user has moved it.
    """

    face = Face("move", "moved", done="moved", needs_host=True)

    kind: Literal["relocate_vm"] = "relocate_vm"
    vm: VmRef
    destination: Destination
    source_moid: str | None = None
    is_running: bool = False
    stun_ms: int | None = None
    windows: tuple[str, ...] = ()
    takes_seconds: int = Field(default=0, exclude_if=is_nothing)

    @property
    def moves(self) -> VmRef:
        return self.vm

    def vm_then(self, vm: Vm, nics: Collection[tuple[int, int]]) -> Vm | None:
        return vm.model_copy(update={"host_moid": self.destination.host_moid})

    @property
    def pictured(self) -> tuple[str, str]:
        return "moved", "moved by vMotion" if self.is_running else "moved while powered off"

    @property
    def timing(self) -> Timing:
        return Timing(self.takes_seconds, self.windows, self.stun_ms)

    @property
    def came_to(self) -> tuple[str, ...]:
        how = "while running" if self.is_running else "while powered off"
        return (f"{self.vm.name}: moved to {self.destination.host_name} {how}",)

    @property
    def takes_gpus(self) -> bool:
        return self.is_running

    @property
    def way(self) -> str:
        """How the VM is moved, and how long vMotion stops it if that is known."""
        window = f", only during {' and '.join(self.windows)}" if self.windows else ""
        if not self.is_running:
            return f"while powered off{window}"
        stun = "" if self.stun_ms is None else f", paused for about {duration(self.stun_ms / 1000)}"
        return f"by vMotion, while running{stun}{window}"

    def head(self, place: Placement | None) -> Row:
        return "move", (*plain(f"{self.way}: "), *_told(self.edits))

    def by_hand(self, tables: Tables) -> tuple[Part, ...]:
        name = self.vm.name
        how = "while running, by vMotion" if self.is_running else "while powered off"
        window = f" Only during {' and '.join(self.windows)}." if self.windows else ""
        where = ", ".join(f"{edit.key} {edit.after}" for edit in self.edits)
        # govc moves all disks of a VM or none.
        is_split = bool(self.destination.kept_disks)
        client = f"{name} > Actions > Migrate"
        if is_split:
            client += ", with Configure per disk: keep the disks listed below on their datastores"
        return (
            Part(
                what=f"Move {name} {how}: {where}.{window}",
                client=client,
                commands=() if is_split else (self._migrate(back=False),),
                expected="the task completes without error",
                verify=(command("govc", "vm.info", name),),
                undo=("move it back in the same way",) if is_split else (self._migrate(back=True),),
                rows=plain_rows(self.edits),
            ),
        )

    def _migrate(self, *, back: bool) -> str:
        values = {edit.key: edit.before if back else edit.after for edit in self.edits}
        flags = (word for key, value in values.items() if value is not None for word in (_FLAGS[key], value))
        return command("govc", "vm.migrate", *flags, self.vm.name)

    def disturbs(self, reach: Reach) -> Iterable[Disturbed]:
        if self.vm.moid is not None and self.vm.moid not in reach.own:
            how = Experience.VMOTION if self.is_running else Experience.MOVED_OFF
            through = self.destination.host_name
            yield reach.thing("vm", self.vm.name, self.vm.moid, how, through=through)
        vm = reach.observed.vm_by_moid.get(self.vm.moid or "")
        if vm is None or vm.detail is None or self.is_running or vm.host_moid == self.destination.host_moid:
            return
        # USB devices are plugged into the host. Those of a running VM stay connected over vMotion (vSphere
        # Virtual Machine Administration).
        for name in (name for name in vm.detail.media if name.startswith("USB")):
            yield reach.thing("device", name, None, Experience.USB_LOST, through=vm.name)

    def privileges(self, at: Places) -> Iterator[Needed]:
        if self.vm.moid is not None:
            yield Needed(privileges.MIGRATE, self.vm.moid)
            if self.is_running:
                yield Needed(privileges.MIGRATE_RUNNING, self.vm.moid)
        if self.destination.resource_pool_moid is not None:
            yield Needed(privileges.ASSIGN_TO_POOL, self.destination.resource_pool_moid)
        if self.destination.datastore_moid is not None:
            yield Needed(privileges.ALLOCATE_SPACE, self.destination.datastore_moid)
