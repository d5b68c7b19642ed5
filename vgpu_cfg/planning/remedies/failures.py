"""What is said of VMs that got no place: why, and what would help; like VMs have the same reason."""

from __future__ import annotations

from collections.abc import Sequence

from vgpu_cfg.planning.findings.checks import Code
from vgpu_cfg.planning.findings.collection import Findings
from vgpu_cfg.planning.placement.demand import Shape
from vgpu_cfg.planning.placement.place import Placed, Verdict
from vgpu_cfg.planning.remedies.mend import FindMovables, Mend, smallest_mend
from vgpu_cfg.planning.remedies.refusals import Refusal, explain_refusal
from vgpu_cfg.planning.vms.lookup.case import Case
from vgpu_cfg.planning.vms.lookup.stage import Stage


def report_failures(
    placed: Placed,
    cases: Sequence[Case],
    stage: Stage,
    findings: Findings,
    movables: FindMovables,
) -> None:
    """Say of every case without a place why it has none, and what would help; like VMs have the same reason.

    `movables` finds the VMs that could be named as one to move.
    """
    refusals: dict[Shape, Refusal] = {}
    mend = smallest_mend(placed, movables)
    for case in cases:
        failure = placed.failed.get(case.name)
        if failure is None:
            continue
        demand, verdict = failure
        if demand.shape not in refusals:
            refusals[demand.shape] = _refusal(demand.shape, placed, stage)
        _report(case, refusals[demand.shape], verdict, mend, findings)


def _refusal(shape: Shape, placed: Placed, stage: Stage) -> Refusal:
    """Tell what holds the VM's place: others' VMs where it fits nowhere anyway, else also the plan's."""
    is_alone = not any(placed.initial[index].fit(shape) for index, _ in shape.hosts)
    return explain_refusal(placed.initial if is_alone else placed.hosts, shape, stage.claims)


def _report(case: Case, refusal: Refusal, verdict: Verdict, mend: Mend | None, findings: Findings) -> None:
    helps = f"{mend.words}, and all fit; or " if mend is not None else ""
    if verdict is Verdict.UNDECIDED:
        message = (
            "no placement was found within the search's limit, and none was proven impossible; "
            f"{refusal.message}"
        )
        remedy = "split the plan, name hosts with `place.hosts`, or free room"
        findings.refuse_vm(Code.UNDECIDED, case.desired, message, helps + remedy)
        return
    findings.refuse_vm(refusal.code, case.desired, refusal.message, helps + refusal.remedy)
