"""Completed work on hosts: the cordons, the new place of each VM, and the next step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from rich.text import Text

from vgpu_cfg.changes.by_hand import command
from vgpu_cfg.changes.plan import Plan
from vgpu_cfg.changes.report import Report, in_place
from vgpu_cfg.model.observed.inventory import Host, Inventory
from vgpu_cfg.planning.vms.lookup.moving import running_vms
from vgpu_cfg.render.layout.lines import fold, hanging
from vgpu_cfg.render.text.plan.findings import render_findings


@dataclass(frozen=True, slots=True)
class Drained:
    """The current state of a host to be emptied, and the VMs that still run there."""

    host: Host
    running: tuple[str, ...]
    back: str

    @classmethod
    def of(cls, host: Host, after: Inventory, back: str) -> Self:
        """Look at a host after the run; `back` is the command that gives it back."""
        return cls(host, tuple(vm.name for vm in running_vms(host, after)), back)


def render_upkeep(
    plan: Plan, report: Report | None, width: int, *, drained: Drained | None = None, journal: str = ""
) -> list[Text]:
    """Lay out the completed work, nothing without a report; for a `drained` host its current state."""
    findings = render_findings(plan.diagnostics, width)
    apart = [Text(""), *findings] if findings else []
    ending = _left(drained, width) if drained is not None else []
    if report is None:
        return [Text(f"Nothing to do for {plan.name}: already in the requested state."), *apart, *ending]
    done = in_place(report.outcomes)
    lines: list[Text] = []
    for change in plan.changes:
        for words in change.came_to if change.id in done else ():
            lines += fold(Text(words), width, hang=2)
    for outcome in report.failed:
        lines += fold(Text(f"{outcome.change_id} failed: {outcome.message}", "red"), width, hang=2)
        lines += hanging("do", outcome.remedy, width, style="bold") if outcome.remedy else []
    log = hanging("LOG", journal, width, indent=0, label_width=6, style="dim") if journal else []
    return [*lines, *apart, *ending, *log]


def _left(drained: Drained, width: int) -> list[Text]:
    """Say whether a host is empty now, and what to do with it."""
    name = drained.host.name
    if drained.running:
        words = (
            f"{name} still runs {', '.join(drained.running)}; to continue, rerun the command with the "
            "same options"
        )
        return [Text(""), *fold(Text(words, "bold yellow"), width, hang=2)]
    enter = command("govc", "host.maintenance.enter", drained.host.inventory_path or name)
    return [
        Text(""),
        *fold(Text(f"{name} runs no VMs and can enter maintenance mode", "bold green"), width, hang=2),
        *hanging("NEXT", enter, width, indent=0, label_width=6),
        *hanging("THEN", f"{drained.back}   when maintenance is complete", width, indent=0, label_width=6),
    ]
