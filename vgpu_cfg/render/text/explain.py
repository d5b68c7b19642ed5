"""Explanations: a known failure, and the history of a VM that did not start."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from shlex import quote
from typing import TYPE_CHECKING

from rich.text import Text

from vgpu_cfg.knowledge.collecting import what_to_collect
from vgpu_cfg.knowledge.fault_rows import Confidence
from vgpu_cfg.knowledge.faults import Explanation, Found, line_text
from vgpu_cfg.model.observed.vm import PowerState
from vgpu_cfg.render.layout.lines import both_ends, hanging

if TYPE_CHECKING:
    from vgpu_cfg.planning.remedies.diagnosis import Diagnosis
    from vgpu_cfg.planning.remedies.start_conditions import StartCondition

_LABEL = 8
_KNOWN = {
    Confidence.SEEN: "documented by a vendor or reported by users",
    Confidence.INFERRED: "inferred from a documented rule; exact wording not verified",
}


# ---------------------------------------------------------------- known failures


def render_explanations(explained: Sequence[Found], width: int, *, known: int, text: str = "") -> list[Text]:
    """Lay out known failures, each with the line that shows it, if any.

    If there is none, list the data to collect for that kind of text; `known` is the number of known failures.
    """
    if not explained:
        return _not_known(width, known, text)
    lines: list[Text] = []
    for number, found in enumerate(explained):
        if number:
            lines.append(Text(""))
        key = found.explanation.key
        lines += hanging(
            key, found.explanation.symptom, width, indent=0, label_width=len(key) + 1, style="bold"
        )
        if found.is_likely:
            lines += _row(
                "likely", f"similar wording; the usual message is: {found.explanation.sample}", width
            )
        elif found.line is not None:
            lines += _row("line", line_text(found.line), width)
        lines += _explained(found.explanation, width)
    return lines


def _not_known(width: int, known: int, text: str) -> list[Text]:
    kind, collect = what_to_collect(text)
    said = f"{kind}; " if kind else ""
    lines = hanging(
        "UNKNOWN",
        f"{said}does not match any of the {known} known failures",
        width,
        indent=0,
        label_width=10,
        style="bold yellow",
    )
    if text and not text[-1].isspace() and " " not in text:
        lines += _row("run", f"vgpu-cfg explain --vm {quote(text)}     if it is the name of a VM", width)
    lines += _rows("collect", collect, width)
    return lines + _row("run", "vgpu-cfg explain - < vmware.log     explains a whole log", width)


def _explained(found: Explanation, width: int) -> list[Text]:
    return [
        *_row("cause", found.cause, width),
        *_rows("verify", found.check, width),
        *_row("remedy", found.remedy, width),
        *_row("basis", _KNOWN[found.confidence], width),
        *_row("source", found.source, width),
    ]


# ---------------------------------------------------------------- a VM that did not start


def render_diagnosis(found: Diagnosis, width: int) -> list[Text]:
    """Lay out the failure, the excluded causes, the VM's state, and the command to type next."""
    lines = _heading(found, width)
    if found.failed is not None:
        lines += _row("vCenter", found.failed.error or found.failed.fault, width)
    if found.lines:
        lines += _rows("log", (f"{line.place}  {line.text}" for line in found.lines), width)
    elif found.log_path:
        lines += _row("log", f"{found.log_path}: no matching lines", width)
    lines += _row("cause", cause_text(found), width)
    if found.ruled_out:
        lines += _row("checked", f"ruled out: {_said(found.ruled_out)}", width)
    if found.others:
        lines += _row("also", _said(found.others), width)
    if found.unknown:
        lines += _row("unknown", _said(found.unknown), width)
    if found.explanation is not None and not found.causes:
        lines += _rows("verify", found.explanation.check, width)
        lines += _row("remedy", found.explanation.remedy, width)
    if found.explanation is not None:
        lines += _row("basis", f"{found.explanation.key}, {_KNOWN[found.explanation.confidence]}", width)
    lines += _row("state", state_text(found), width)
    if found.notes:
        lines += _rows("note", found.notes, width)
    return lines + _row("run", f"{found.next_command}     {found.next_reason}", width)


def cause_text(found: Diagnosis) -> str:
    """Describe the cause: the VM's current fault, else the known meaning of the error's words."""
    if found.causes:
        said = _said(found.causes)
        return f"{said}; {_changed(found)}" if found.reconfigured is not None else said
    if found.explanation is None and found.failed is None:
        return "no known failure found" + (
            "" if found.others else ", and nothing in the VM's configuration prevents it from starting"
        )
    if found.explanation is None:
        return "unknown: neither vCenter's message nor the log matches a known failure"
    if found.ruled_out and not found.others:
        return f"{found.explanation.cause}. The VM's current configuration does not confirm this"
    return found.explanation.cause


def state_text(found: Diagnosis) -> str:
    """Describe the VM's state: power, host, owner."""
    word = {PowerState.ON: "runs", PowerState.OFF: "is off", PowerState.SUSPENDED: "is suspended"}
    place = f" on {found.host}" if found.host else ""
    owner = "not owned by a plan" if found.vm.mark is None else f"owned by plan {found.vm.mark.plan}"
    return f"{found.vm.name} {word[found.vm.power_state]}{place}, {owner}"


def operation_text(operation: str) -> str:
    """Spell a description id: "power on" for "VirtualMachine.powerOn"."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", operation.rpartition(".")[2]).lower() or "task"


def _heading(found: Diagnosis, width: int) -> list[Text]:
    if found.failed is None:
        return both_ends(
            Text.assemble(("NO FAILED TASK", "bold yellow"), f"  {found.vm.name}"), Text(""), width
        )
    task = found.failed
    left = Text.assemble(("FAILED", "bold red"), f"  {operation_text(task.operation)} {found.vm.name}")
    when = "" if task.ended_at is None else f", {_clock(task.ended_at)}"
    by = f" by {task.user}" if task.user else ""
    return both_ends(left, Text(f"{task.task}{when}{by}"), width)


def _changed(found: Diagnosis) -> str:
    task = found.reconfigured
    if task is None:
        return ""
    when = "" if task.ended_at is None else f" {_clock(task.ended_at)}"
    return f"last reconfigured{when} by {task.user or 'an unknown user'} ({task.task})"


def _said(conditions: Iterable[StartCondition]) -> str:
    return ", ".join(one.says for one in conditions)


def _clock(time: datetime) -> str:
    return f"{time.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


def _row(label: str, text: str, width: int) -> list[Text]:
    return hanging(label, text, width, label_width=_LABEL)


def _rows(label: str, texts: Iterable[str], width: int) -> list[Text]:
    lines: list[Text] = []
    for text in texts:
        lines += _row("" if lines else label, text, width)
    return lines
