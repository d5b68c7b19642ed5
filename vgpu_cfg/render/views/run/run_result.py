"""What a run came to as a whole: one word for it, and counts of what was done."""

from __future__ import annotations

from collections import Counter

from vgpu_cfg.changes.change import Change, CreateVm, DestroyVm, SetCordon, SetReservation, StageGuest
from vgpu_cfg.changes.plan import Plan
from vgpu_cfg.changes.report import OutcomeStatus, Report
from vgpu_cfg.model.wording import counted
from vgpu_cfg.render.views.run.host_result import host_result_counts


def run_verdict(report: Report) -> str:
    """Return DONE, WAITING (for a step by hand, or another time), FAILED or STOPPED (by its user)."""
    if report.is_interrupted:
        return "STOPPED"
    if report.has_failed:
        return "FAILED"
    return "WAITING" if report.waiting_for or report.put_off else "DONE"


def run_counts(plan: Plan, report: Report) -> list[str]:
    """Count what was done, in words: "2 made", "1 failed", "4 tasks"."""
    changes = {change.id: change for change in plan.changes}
    counts: Counter[str] = Counter()
    for outcome in report.outcomes:
        if outcome.status is OutcomeStatus.DONE:
            word = _done_text(changes[outcome.change_id])
            counts.update([word] if word else [])
        elif outcome.status is not OutcomeStatus.NOT_NEEDED and outcome.change_id not in report.waiting_for:
            counts[outcome.status.value] += 1
    words = [f"{number} {word}" for word, number in counts.items()]
    return [*host_result_counts(plan, report), *words, counted(report.tasks, "task")]


def _done_text(change: Change) -> str:
    """Say what was done; nothing for what is counted by host, or only leads to what is."""
    match change:
        case CreateVm():
            return "made"
        case DestroyVm():
            return "deleted"
        case SetReservation() if change.reservation is None:
            return "reservation given back"
        case SetCordon() if not any(change.values.values()):
            return "cordon lifted"
        case StageGuest() if change.rest:
            return ""  # the other part counts
        case _:
            return {
                "set_rule": "rule set",
                "set_host_rule": "rule set",
                "remove_rule": "rule removed",
                "set_overrides": "overrides set",
                "set_attributes": "attributes set",
                "set_tags": "tags set",
                "remove_vm_group": "VM group removed",
                "power_on_vm": "powered on",
                "power_off_vm": "powered off",
                "reconfigure_vm": "reconfigured",
                "mark_vm": "marked",
                "upgrade_vm": "upgraded",
                "rename_vm": "renamed",
                "move_vm_to_folder": "moved to its folder",
                "relocate_vm": "moved",
                "set_cordon": "cordon set",
                "set_reservation": "reservation set",
                "set_cluster_option": "option set",
                "set_vcenter_option": "option set",
                "change_network": "network changed",
                "restart_service": "service restarted",
                "await_customization": "customised",
                "stage_guest": "staged",
                "manual_step": "done by hand",
            }.get(change.kind, "")
