"""How a VM gets another name, folder or host by hand, in the words of the vSphere Client and of govc."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from vgpu_cfg.changes.change import MoveVmToFolder, RelocateVm, RenameVm
from vgpu_cfg.changes.commands import command
from vgpu_cfg.changes.values import Edit
from vgpu_cfg.render.markdown.parts import Part

_FLAGS = {"host": "-host", "resource pool": "-pool", "datastore": "-ds"}


def move_part(change: RenameVm | MoveVmToFolder | RelocateVm) -> Part:
    """Tell how a VM is renamed or moved by hand."""
    match change:
        case RenameVm():
            return _rename(change)
        case MoveVmToFolder():
            return _to_folder(change)
        case RelocateVm():
            return _relocate(change)


def _rename(change: RenameVm) -> Part:
    name, edit = change.vm.name, change.edits[0]
    before = edit.before or name
    return Part(
        what=f"Rename {before} to {name}. It may run; its files keep their names.",
        client=f"{before} > Actions > Rename",
        commands=(command("govc", "object.rename", f"vm/{before}", name),),
        expected="the task ends without error",
        verify=(command("govc", "vm.info", name),),
        undo=(command("govc", "object.rename", f"vm/{name}", before),),
    )


def _to_folder(change: MoveVmToFolder) -> Part:
    name, edit = change.vm.name, change.edits[0]
    after, before = edit.after or "", edit.before or ""
    return Part(
        what=f"Move {name} from {before} to the folder {after}. It may run.",
        client=f"{name} > Actions > Move to folder",
        commands=(command("govc", "object.mv", f"{before}/{name}", after),),
        expected="the task ends without error",
        verify=(command("govc", "find", after, "-type", "m", "-name", name),),
        undo=(command("govc", "object.mv", f"{after}/{name}", before),),
    )


def _relocate(change: RelocateVm) -> Part:
    name = change.vm.name
    how = "as it runs, by vMotion" if change.is_running else "while it is off"
    window = f" Only in the window {' and '.join(change.windows)}." if change.windows else ""
    where = ", ".join(f"{edit.key} {edit.after}" for edit in change.edits)
    # govc moves all disks of a VM or none.
    is_split = bool(change.destination.kept_disks)
    client = f"{name} > Actions > Migrate"
    if is_split:
        client += ", with Configure per disk: the disks listed below stay on their datastores"
    return Part(
        what=f"Move {name} {how}: {where}.{window}",
        client=client,
        commands=()
        if is_split
        else (command("govc", "vm.migrate", *_flags(change.edits, back=False), name),),
        expected="the task ends without error",
        verify=(command("govc", "vm.info", name),),
        undo=("move it back likewise",)
        if is_split
        else (command("govc", "vm.migrate", *_flags(change.edits, back=True), name),),
        rows=tuple((edit.key, edit.before or "", edit.after or "") for edit in change.edits),
    )


def _flags(edits: Sequence[Edit], *, back: bool) -> Iterator[str]:
    for edit in edits:
        value = edit.before if back else edit.after
        if value is not None:
            yield from (_FLAGS[edit.key], value)
