"""The changes of a VM whose host is emptied or filled again."""

from __future__ import annotations

from collections.abc import Iterable

from vgpu_cfg.changes.change import Change, PowerOnVm, RelocateVm, SetAttributes
from vgpu_cfg.changes.values import Edit, Subject, VmRef
from vgpu_cfg.model.observed.cordon import HOME_ATTRIBUTE
from vgpu_cfg.model.observed.inventory import Host, Inventory
from vgpu_cfg.model.observed.vm import Vm
from vgpu_cfg.planning.vms.new_vms import change_id
from vgpu_cfg.planning.vms.relocate import relocation


def remember(vm: Vm, text: str, note: str = "", *, verb: str = "record the location of") -> SetAttributes:
    """Return the change that keeps on a VM where it was."""
    before = (vm.detail.attributes if vm.detail is not None else {}).get(HOME_ATTRIBUTE)
    return SetAttributes(
        id=change_id(verb, vm.name),
        subject=_subject(vm),
        edits=(Edit(key=HOME_ATTRIBUTE, before=before, after=text or None, note=note),),
        host_moid=vm.host_moid,
        vm=_ref(vm),
        values={HOME_ATTRIBUTE: text},
    )


def forget(vm: Vm, note: str) -> SetAttributes:
    """Return the change that forgets where a VM was."""
    return remember(vm, "", note, verb="clear the recorded location of")


def move(vm: Vm, source: Host, target: Host, *, is_running: bool, stun_ms: int | None = None) -> RelocateVm:
    """Return the change that moves a VM from one host to another, and leaves its pool and its files alone."""
    moving = relocation(vm, vm.name, source, target, is_running=is_running, stun_ms=stun_ms)
    return moving.model_copy(update={"source_moid": source.moid})


def switch_on(vm: Vm, host: Host) -> PowerOnVm:
    """Return the change that starts a VM on the host where it is then."""
    return PowerOnVm(
        id=change_id("power on", vm.name),
        subject=_subject(vm),
        edits=(Edit(key="power", before="off", after="on"),),
        host_moid=host.moid,
        vm=_ref(vm),
    )


def in_turn(vm: Vm, changes: Iterable[Change], observed: Inventory) -> list[Change]:
    """Let each change of a VM wait for the one before it; ids distinguish VMs of the same name."""
    is_alone = sum(one.name == vm.name for one in observed.vms) == 1
    ordered: list[Change] = []
    for change in changes:
        update = {"needs": (ordered[-1].id,) if ordered else ()}
        own = {} if is_alone else {"id": f"{change.id} ({vm.moid})"}
        ordered.append(change.model_copy(update=update | own))
    return ordered


def _subject(vm: Vm) -> Subject:
    return Subject(kind="vm", name=vm.name, moid=vm.moid)


def _ref(vm: Vm) -> VmRef:
    return VmRef(name=vm.name, moid=vm.moid)
