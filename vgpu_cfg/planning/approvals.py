"""Refuse what a plan disturbs without the approval that this needs."""

from __future__ import annotations

from collections.abc import Iterable

from vgpu_cfg.changes.reach import Disturbed
from vgpu_cfg.changes.reckoning import how_to_approve, lacking
from vgpu_cfg.changes.values import Subject
from vgpu_cfg.model.approvals import Approval
from vgpu_cfg.model.desired import DesiredPlan
from vgpu_cfg.model.wording import listed
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.findings.collection import Findings
from vgpu_cfg.planning.findings.options import PlanOptions

_SHOWN = 6


def check_approvals(
    disturbed: Iterable[Disturbed], desired: DesiredPlan, options: PlanOptions, findings: Findings
) -> None:
    """Report one error for each cause and approval that is missing: it names everything disturbed."""
    missing: dict[tuple[str, Approval, str], list[Disturbed]] = {}
    for one in lacking(disturbed, {*desired.allow, *options.allow}):
        if one.needs is not None:
            missing.setdefault((one.through, one.needs, one.experience.value), []).append(one)
    for (through, approval, what), found in missing.items():
        names = listed(dict.fromkeys(one.subject.name for one in found), shown=_SHOWN)
        subject = Subject(kind="network", name=through) if through else found[0].subject
        notes = "; ".join(dict.fromkeys(one.note for one in found if one.note))
        why = f" ({notes})" if approval is Approval.IRREVERSIBLE and notes else ""
        message = f"{what} for {names}{why}: not approved"
        remedy = f"to approve it, {how_to_approve(approval)}"
        findings.add(Code.DISRUPTION_NOT_ALLOWED, subject, message, remedy)
