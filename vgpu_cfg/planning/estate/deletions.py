"""How many VMs a run may delete before its user has to say that number.

A name too many is soon typed, and a plan file soon the wrong one. So beyond a number, or more than half of
the VMs that the plan has, the command must name how many it deletes.
"""

from __future__ import annotations

from vgpu_cfg.changes.values import Subject
from vgpu_cfg.model.desired import DesiredPlan
from vgpu_cfg.model.wording import counted
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.findings.collection import Findings
from vgpu_cfg.planning.findings.options import PlanOptions

MOST = 10
"""So many are deleted without leave, unless a context of the vCenter says another number."""
FEW = 2
"""So many are never too large a share of a plan."""


def refuse_many_deletions(
    desired: DesiredPlan, count: int, options: PlanOptions, findings: Findings, *, of: int | None = None
) -> None:
    """Refuse to delete more VMs than `--allow-destroy` names, or than go without it.

    `of` is how many VMs the plan has, if more than half of them count as many, too.
    """
    if count <= options.allow_destroy:
        return
    subject = Subject(kind="plan", name=desired.name)
    what = counted(count, "VM")
    remedy = f"to delete all of them, add --allow-destroy {count}"
    if options.allow_destroy:
        message = f"{what} would be deleted; --allow-destroy permits {options.allow_destroy}"
        findings.add(Code.MANY_DELETIONS, subject, message, remedy)
        return
    most, source = _most(desired)
    if count > most:
        message = f"{what} would be deleted; the limit is {most}{source}"
        findings.add(Code.MANY_DELETIONS, subject, message, remedy)
    elif of is not None and count > FEW and count * 2 > of:
        message = f"{count} of the plan's {of} VMs would be deleted; the limit is half of them"
        findings.add(Code.MANY_DELETIONS, subject, message, remedy)


def _most(desired: DesiredPlan) -> tuple[int, str]:
    """Return how many go without leave, and who says so: the least of what contexts say."""
    stated = [(one.most_deletions, one) for one in desired.contexts if one.most_deletions is not None]
    if not stated:
        return MOST, ""
    most, context = min(stated, key=lambda pair: pair[0])
    return most, f" (the context {context.name} in {context.file})"
