"""Find the objects that trials have left, by their marks, and remove them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from vgpu_cfg.contact.tools import Tools
from vgpu_cfg.errors import VgpuCfgError
from vgpu_cfg.model.observed.vm import PowerState, Vm
from vgpu_cfg.planning.doctor.throw_away import MARK_KEY, PREFIX, Left, Remaining, TrialMark, instance_uuid

_POLL_SECONDS = 5.0


def find_left(tools: Tools, start: str = PREFIX) -> tuple[Left, ...]:
    """Find the objects whose names begin so, once the account's running clones have ended."""
    while not tools.is_late and tools.things.is_making_vms():
        tools.clock.pause(_POLL_SECONDS)
    vms = tools.reader.read_vms(tools.things.vms(start), frozenset({MARK_KEY}))
    alarms = (
        Left("alarm", one.moid, one.name, mark)
        for one in tools.things.alarms(start)
        if (mark := TrialMark.of(one.name)) is not None
    )
    return (*(left for vm in vms if (left := _left_vm(vm)) is not None), *alarms)


def _left_vm(vm: Vm) -> Left | None:
    mark = TrialMark.of(vm.name)
    if mark is None or vm.is_template:
        return None
    marked = vm.detail.extra_config.get(MARK_KEY, "") if vm.detail is not None else ""
    is_proven = marked.startswith(mark.start) or vm.instance_uuid.lower() == instance_uuid(vm.name)
    return Left("VM", vm.moid, vm.name, mark, vm.power_state is not PowerState.OFF, is_proven)


def remove(found: Iterable[Left], tools: Tools) -> Iterator[Remaining]:
    """Remove objects, and yield each that remains with the reason; the others are removed all the same."""
    for left in found:
        try:
            if left.kind == "alarm":
                tools.locks.remove(left.moid)
                continue
            if left.is_on:
                task = tools.writer.power_off_vm(left.moid)
                tools.finished(task, f"power off {left.name}", left.name)
            tools.finished(tools.writer.destroy_vm(left.moid), f"delete {left.name}", left.name)
        except VgpuCfgError as error:
            yield left, error.message
