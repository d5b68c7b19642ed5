"""Find the objects that trials have left, by their marks, and remove them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from vgpu_cfg.contact.tools import Tools
from vgpu_cfg.errors import VgpuCfgError
from vgpu_cfg.model.observed.vm import PowerState, Vm, VmDetail
from vgpu_cfg.planning.doctor.trials import MARK_KEY, PREFIX, Left, Remaining, TrialMark, instance_uuid

_POLL_SECONDS = 5.0


def find_left(tools: Tools, start: str = PREFIX) -> tuple[Left, ...]:
    """Find the objects whose names begin so, once their tasks have ended."""
    while not tools.is_late and tools.things.is_busy(start):
        tools.clock.pause(_POLL_SECONDS)
    vms = tools.reader.read_vms(tools.things.vms(start), frozenset({MARK_KEY}))
    names = tools.things.made | {one.moid: one.name for one in tools.things.alarms(start)}
    alarms = (
        Left("alarm", moid, name, mark)
        for moid, name in names.items()
        if (mark := TrialMark.of(name)) is not None
    )
    attributes = (
        Left("attribute", moid, name, mark)
        for moid, name in tools.things.attributes(start).items()
        if (mark := TrialMark.of(name)) is not None
    )
    return (*(left for vm in vms if (left := _left_vm(vm)) is not None), *alarms, *attributes)


def _left_vm(vm: Vm) -> Left | None:
    mark = TrialMark.of(vm.name)
    if mark is None or vm.is_template:
        return None
    detail = vm.detail or VmDetail()
    is_marked = detail.extra_config.get(MARK_KEY, "").startswith(mark.start)
    has_others_disk = any(mark.start not in disk.file for disk in detail.disks)
    is_proven = not has_others_disk and (is_marked or vm.instance_uuid.lower() == instance_uuid(vm.name))
    return Left("VM", vm.moid, vm.name, mark, vm.power_state is not PowerState.OFF, is_proven)


def remove(found: Iterable[Left], tools: Tools) -> Iterator[Remaining]:
    """Remove objects, and yield each that remains with the reason; the others are removed all the same."""
    for left in found:
        try:
            if left.kind == "alarm":
                tools.locks.remove(left.moid)
                continue
            if left.kind == "attribute":
                tools.things.remove_attribute(left.moid)
                continue
            if left.is_on:
                task = tools.writer.power_off_vm(left.moid)
                tools.finished(task, f"power off {left.name}", left.name)
            tools.finished(tools.writer.destroy_vm(left.moid), f"delete {left.name}", left.name)
        except VgpuCfgError as error:
            yield left, error.message
