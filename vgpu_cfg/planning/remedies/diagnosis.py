"""Why a VM did not start: its failed task, its log and its state now, brought together.

The words of task and log show ESXi's error; the conditions of the VM's present state show which of its
possible causes still hold. Correct conditions are ruled out.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from vgpu_cfg.catalog import Catalog
from vgpu_cfg.knowledge.faults import (
    RECONFIGURE,
    Explanation,
    PastTask,
    VmHistory,
    VmLog,
    explain_fault,
    explanation_of,
    message,
    time_of,
)
from vgpu_cfg.model.frozen import Frozen
from vgpu_cfg.model.observed.inventory import Inventory
from vgpu_cfg.model.observed.vm import Vm
from vgpu_cfg.planning.remedies.start_conditions import (
    ConditionKind,
    ConditionState,
    StartCondition,
    check_conditions,
)

MOST_LINES = 5
CLOCKS_APART = timedelta(minutes=5)
"""So far the clocks of host and vCenter may differ, or a log end before its task does."""

BEHIND: Mapping[str, tuple[ConditionKind, ...]] = {
    "mmio-too-small": (ConditionKind.MMIO, ConditionKind.FIRMWARE),
    "device-power-on": (
        ConditionKind.MMIO,
        ConditionKind.FIRMWARE,
        ConditionKind.MEMORY,
        ConditionKind.PASSTHROUGH,
        ConditionKind.GPU_ROOM,
        ConditionKind.GRAPHICS_TYPE,
    ),
    "graphics-resources": (ConditionKind.GRAPHICS_TYPE, ConditionKind.GPU_ROOM),
    "vgpu-plugin": (ConditionKind.GRAPHICS_TYPE, ConditionKind.MEMORY),
    "no-device-for-profile": (ConditionKind.GPU_ROOM, ConditionKind.GRAPHICS_TYPE),
    "memory-not-reserved": (ConditionKind.MEMORY,),
    "not-a-passthrough-device": (ConditionKind.PASSTHROUGH,),
    "wrong-system-id": (ConditionKind.PASSTHROUGH,),
    "device-backing": (ConditionKind.PASSTHROUGH,),
    "viommu-with-vgpu": (ConditionKind.CPUS,),
    "placement-gaps": (ConditionKind.GPU_ROOM,),
    "fragmented-by-breadth": (ConditionKind.GPU_ROOM,),
    "mig-4g-slice": (ConditionKind.GPU_ROOM,),
    "hardware-version": (ConditionKind.HARDWARE_VERSION,),
    "bios-to-efi": (ConditionKind.FIRMWARE,),
}
"""The possible causes of a known failure, the likeliest first."""


class ShownLine(Frozen):
    """A relevant line of the log: its position, its time, its text."""

    place: str
    at: datetime | None
    text: str


class Diagnosis(Frozen):
    """The known facts of a VM's failure.

    `explanation` is of the words of task or log, None if they are unknown. Of the conditions, `causes` are
    wrong and explain it, `others` are wrong as well; `ruled_out` are right. `notes` are unreadable or
    inconsistent facts. `next_command` is the command to type, `next_reason` its effect.
    """

    vm: Vm
    host: str = ""
    failed: PastTask | None = None
    reconfigured: PastTask | None = None
    log_path: str = ""
    lines: tuple[ShownLine, ...] = ()
    explanation: Explanation | None = None
    causes: tuple[StartCondition, ...] = ()
    others: tuple[StartCondition, ...] = ()
    ruled_out: tuple[StartCondition, ...] = ()
    unknown: tuple[StartCondition, ...] = ()
    notes: tuple[str, ...] = ()
    next_command: str = ""
    next_reason: str = ""


def diagnose(
    vm: Vm,
    observed: Inventory,
    catalog: Catalog,
    history: VmHistory,
    log: VmLog | None,
    *,
    notes: Sequence[str] = (),
    server: Sequence[str] = (),
) -> Diagnosis:
    """Combine the failure, the log, and the VM's present state.

    `notes` are the facts that the caller could not read, `server` the words that name the vCenter to a
    command.
    """
    reported = list(notes)
    failed = history.failed
    if failed is None:
        reported.append("vCenter has no failed task for this VM")
    conditions = check_conditions(vm, observed, catalog)
    wrong = [one for one in conditions if one.verdict is ConditionState.WRONG]
    usable = log if log is not None and _is_of(log, failed, reported) else None
    explanation, lines = _explain(failed, usable)
    behind = BEHIND.get(explanation.key, ()) if explanation is not None else tuple(ConditionKind)
    causes = sorted((one for one in wrong if one.about in behind), key=lambda one: behind.index(one.about))
    host = observed.host_by_moid.get(vm.host_moid or "")
    if host is not None:
        server = ("--host", host.name, *server)
    command, reason = _next(vm, causes or wrong, explanation, log, shlex.join(server))
    return Diagnosis(
        vm=vm,
        host="" if host is None else host.name,
        failed=failed,
        reconfigured=history.reconfigured,
        log_path="" if log is None else log.path,
        lines=lines,
        explanation=explanation,
        causes=tuple(causes),
        others=tuple(one for one in wrong if one not in causes),
        ruled_out=tuple(one for one in conditions if one.verdict is ConditionState.RIGHT),
        unknown=tuple(one for one in conditions if one.verdict is ConditionState.UNKNOWN),
        notes=tuple(reported),
        next_command=command,
        next_reason=reason,
    )


def _is_of(log: VmLog, failed: PastTask | None, notes: list[str]) -> bool:
    """Whether a log is of the failed task; a note gives the reason if not."""
    if failed is None or failed.ended_at is None:
        return True
    if failed.operation == RECONFIGURE:  # nothing of the VM ran
        return False
    begun, ended = log.begun_at, log.ended_at
    if begun is not None and begun > failed.ended_at + CLOCKS_APART:
        notes.append(
            f"vmware.log is from a later start, {_clock(begun)}; older logs are named vmware-N.log in the "
            "same folder"
        )
        return False
    if ended is not None and ended < failed.ended_at - CLOCKS_APART:
        notes.append(f"vmware.log ends {_clock(ended)}, before the task: ESXi did not start the VM")
        return False
    return True


def _explain(failed: PastTask | None, log: VmLog | None) -> tuple[Explanation | None, tuple[ShownLine, ...]]:
    """Take the most telling of log and task, and the lines to show."""
    by_task = explain_fault(failed.error, failed.fault) if failed is not None else None
    if log is None:
        return by_task, ()
    known = log.known
    by_log = explanation_of(known[0].key) if known else None
    if by_log is not None and (by_task is None or by_task.is_general or not by_log.is_general):
        chosen: Explanation | None = by_log
    else:
        chosen = by_task
    shown = [line.index for line in known[:1]] or list(log.signs[-MOST_LINES:])
    lines = tuple(
        ShownLine(place=log.place(index), at=time_of(log.lines[index]), text=message(log.lines[index]))
        for index in shown
    )
    return chosen, lines


def _next(
    vm: Vm, wrong: Sequence[StartCondition], explanation: Explanation | None, log: VmLog | None, of_host: str
) -> tuple[str, str]:
    """Return the next command to type, and its effect."""
    path = shlex.quote(vm.inventory_path or vm.name)
    for found in wrong:
        if found.command and vm.mark is not None:
            reason = f"fixes this; use the plan file for {vm.mark.plan}, which owns the VM"
            return "vgpu-cfg plan PLAN", reason
        if found.command:
            off = " with the VM powered off" if vm.is_on else ""
            return found.command, f"fixes this{off}; then run govc vm.power -on {path}"
    if wrong and wrong[0].about in (
        ConditionKind.GPU_ROOM,
        ConditionKind.GRAPHICS_TYPE,
        ConditionKind.PASSTHROUGH,
        ConditionKind.HOST,
    ):
        return f"vgpu-cfg inventory -v {of_host}".rstrip(), "shows each GPU's mode and the VMs that use it"
    if explanation is not None and not explanation.is_general:
        return f"vgpu-cfg explain {explanation.key}", "explains how to confirm the cause"
    if log is not None:
        datastore, _, file = log.path.removeprefix("[").partition("] ")
        words = ["govc", "datastore.tail", "-n", "200", "-ds", datastore, file]
        return shlex.join(words), "shows the end of the log"
    return f"govc tasks -l {path}", "shows the VM's recent tasks"


def _clock(time: datetime) -> str:
    return f"{time:%Y-%m-%d %H:%M:%S} UTC"
