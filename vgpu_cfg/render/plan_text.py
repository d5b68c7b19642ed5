"""How a plan reads: disruptions first, changes with like VMs folded, findings, totals, and what to type."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from rich.text import Text

from vgpu_cfg.model.change import (
    CreateVm,
    DestroyVm,
    Impact,
    ManualStep,
    Plan,
    PowerOffVm,
    PowerOnVm,
    ReconfigureVm,
    Severity,
    UpgradeVm,
)
from vgpu_cfg.render.change_lines import sign_of
from vgpu_cfg.render.changes_text import (
    Block,
    Follower,
    fold_blocks,
    make_blocks,
    render_block,
    render_followers,
)
from vgpu_cfg.render.findings_text import render_findings
from vgpu_cfg.render.layout import both_ends, counted, fold_names, hanging

_IMPACT_WORDS = {
    Impact.SERVICE_RESTART: "service restart",
    Impact.POWER_CYCLE: "power cycle",
    Impact.HOST_MAINTENANCE: "maintenance mode",
    Impact.HOST_REBOOT: "host reboot",
    Impact.HOST_COLD_BOOT: "host cold boot",
}
_LEGEND = (
    ("+", "new", "green"),
    ("~", "change", "yellow"),
    ("-", "remove", "red"),
    ("!", "by hand", "magenta"),
)


@dataclass(frozen=True, slots=True)
class PlanShown:
    """What to say around a plan: the command to type next, and whether it is only being shown."""

    next_command: str = ""
    next_note: str = ""
    is_only_shown: bool = True
    with_all: bool = False


def render_plan(plan: Plan, width: int, shown: PlanShown | None = None) -> list[Text]:
    """Lay out a plan; one that changes nothing and found nothing is one line."""
    shown = shown or PlanShown()
    findings = render_findings(plan.diagnostics, width, with_all=shown.with_all)
    if not plan.changes and not plan.errors:
        return [*_in_sync(plan), *([Text(""), *findings] if findings else [])]
    if not plan.changes:
        return [*_header(plan, width), Text(""), *findings, Text(""), *_totals(plan, width, shown)]
    lines = [*_header(plan, width), Text(""), *_disruption(plan, width)]
    for entry in fold_blocks(make_blocks(plan)):
        lines.append(Text(""))
        match entry:
            case Block():
                lines += render_block(entry, width)
            case Follower():
                lines += render_followers(entry, width, with_all=shown.with_all)
    if findings:
        lines += [Text(""), *findings]
    return [*lines, Text(""), *_totals(plan, width, shown)]


def plan_counts(plan: Plan) -> list[str]:
    """Count what a plan comes to, in words: "2 VMs new", "1 power cycle"."""
    kinds = Counter(change.kind for change in plan.changes)
    removed = {change.subject.name for change in plan.changes if isinstance(change, DestroyVm)}
    new = {change.subject.name for change in plan.changes if isinstance(change, CreateVm)}
    changed = {
        change.subject.name for change in plan.changes if isinstance(change, ReconfigureVm | UpgradeVm)
    } - new
    switched = (
        {change.subject.name for change in plan.changes if isinstance(change, PowerOnVm | PowerOffVm)}
        - new
        - removed
        - changed
    )
    cycled = {change.subject.name for change in plan.changes if change.impact is Impact.POWER_CYCLE} - removed
    rules = kinds["set_rule"] + kinds["remove_rule"]
    counts = [
        (len(new), "VM new", "VMs new"),
        (len(changed), "VM changed", "VMs changed"),
        (len(switched), "VM switched", "VMs switched"),
        (len(removed), "VM removed", "VMs removed"),
        (rules, "DRS rule", "DRS rules"),
        (len(cycled), "power cycle", "power cycles"),
        (kinds["manual_step"], "step by hand", "steps by hand"),
    ]
    words = [counted(number, one, many) for number, one, many in counts if number]
    tasks = sum(not isinstance(change, ManualStep) for change in plan.changes)
    return [*words, f"about {counted(tasks, 'task')}"] if words else ["no changes"]


def _header(plan: Plan, width: int) -> list[Text]:
    left = Text.assemble(
        (plan.name, "bold"), f" on {_place(plan)}, read {plan.read_at.astimezone():%H:%M:%S}"
    )
    used = _signs(plan)
    right = Text("  ").join(
        Text.assemble((sign, style), f" {word}") for sign, word, style in _LEGEND if sign in used
    )
    if any(edit.is_default for change in plan.changes for edit in change.edits):
        right = Text.assemble(right, "  ", ("*", "dim"), " default")
    return both_ends(left, right, width)


def _place(plan: Plan) -> str:
    return ", ".join(part for part in (plan.target.address, plan.target.datacenter) if part)


def _in_sync(plan: Plan) -> list[Text]:
    count = counted(len(plan.in_sync), "VM")
    return [
        Text.assemble(
            (plan.name, "bold"),
            f" on {_place(plan)}: ",
            ("in sync", "green"),
            f", {count}, 0 changes, read {plan.read_at.astimezone():%H:%M:%S}",
        )
    ]


def _signs(plan: Plan) -> set[str]:
    return {sign_of(change) for change in plan.changes}


def _disruption(plan: Plan, width: int) -> list[Text]:
    """Say first what is disturbed, by subject, and what is not touched."""
    removed = {change.subject.name for change in plan.changes if isinstance(change, DestroyVm)}
    impacts: dict[str, set[Impact]] = {}
    by_words: dict[str, list[str]] = {}
    for change in plan.changes:
        if isinstance(change, DestroyVm):
            by_words.setdefault("deletion", []).append(change.subject.name)
        elif change.impact is not Impact.NONE and change.subject.name not in removed:
            impacts.setdefault(change.subject.name, set()).add(change.impact)
    for name, found in impacts.items():
        words = ", ".join(word for impact, word in _IMPACT_WORDS.items() if impact in found)
        by_words.setdefault(words, []).append(name)
    rest = f"{counted(plan.untouched_hosts, 'other host')} and {counted(plan.untouched_vms, 'other VM')}"
    if not by_words:
        return [Text.assemble(("DISRUPTION", "bold"), f"  none; {rest} are not touched")]
    lines = [Text("DISRUPTION", style="bold yellow")]
    for words, names in by_words.items():
        lines += hanging(words, fold_names(names), width, label_width=16, style="yellow")
    return [*lines, Text(f"  {rest} are not touched")]


def _totals(plan: Plan, width: int, shown: PlanShown) -> list[Text]:
    words = plan_counts(plan)
    removed = {change.subject.name for change in plan.changes if isinstance(change, DestroyVm)}
    kept = [name for name in plan.orphans if name not in removed]
    if kept:
        words.append(f"{counted(len(kept), 'orphan')} kept ({fold_names(kept)})")
    lines = hanging("TOTAL", ", ".join(words), width, indent=0, label_width=6, style="bold")
    says = "nothing was changed" if shown.is_only_shown else ""
    lines += hanging(
        "PLAN", ", ".join(part for part in (plan.digest, says) if part), width, indent=0, label_width=6
    )
    errors = sum(found.severity is Severity.ERROR for found in plan.diagnostics)
    if errors:
        lines += hanging(
            "NEXT",
            f"{counted(errors, 'error')} above must be mended first; nothing will be changed before",
            width,
            indent=0,
            label_width=6,
            style="bold red",
        )
    elif shown.next_command:
        note = f"   {shown.next_note}" if shown.next_note else ""
        lines += hanging("NEXT", f"{shown.next_command}{note}", width, indent=0, label_width=6, style="bold")
    return lines
