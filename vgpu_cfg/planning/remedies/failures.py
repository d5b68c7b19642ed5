"""What is said of VMs that got no place: why, and what to look at; like VMs have the same reason."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from vgpu_cfg.planning.findings.checks import Code
from vgpu_cfg.planning.findings.collection import Findings
from vgpu_cfg.planning.placement.demand import Shape
from vgpu_cfg.planning.placement.place import NoPlace, Placed
from vgpu_cfg.planning.vms.lookup.baseline import Baseline
from vgpu_cfg.planning.vms.lookup.resolved_vm import ResolvedVm

if TYPE_CHECKING:
    from vgpu_cfg.planning.remedies.refusals import Refusal


def report_failures(
    placed: Placed,
    resolved_vms: Sequence[ResolvedVm],
    baseline: Baseline,
    findings: Findings,
) -> None:
    """Say of every VM without a place why it has none; like VMs have the same reason."""
    refusals: dict[Shape, Refusal] = {}
    reached = _reached(placed)
    for resolved in resolved_vms:
        failure = placed.failed.get(resolved.name)
        if failure is None:
            continue
        demand, verdict = failure
        if demand.shape not in refusals:
            refusals[demand.shape] = _refusal(demand.shape, placed, baseline)
        _report(resolved, refusals[demand.shape], verdict, reached, findings)


def _refusal(shape: Shape, placed: Placed, baseline: Baseline) -> Refusal:
    """Tell what holds the VM's place: others' VMs where it fits nowhere anyway, else also the plan's."""
    from vgpu_cfg.planning.remedies.refusals import explain_refusal

    is_alone = not any(placed.initial[index].fit(shape) for index, _ in shape.hosts)
    return explain_refusal(placed.initial if is_alone else placed.hosts, shape, baseline.claims)


def _reached(placed: Placed) -> str:
    """Say how far the search came: how many VMs are left, and how many at least are by the proof."""
    left = sum(verdict is NoPlace.UNDECIDED for _, verdict in placed.failed.values())
    total = len(placed.fits) + len(placed.failed)
    return f"{left:,} of {total:,} VMs are left, at least {placed.least_left:,} are by what is proven"


def _report(
    resolved: ResolvedVm, refusal: Refusal, verdict: NoPlace, reached: str, findings: Findings
) -> None:
    if verdict is NoPlace.UNDECIDED:
        message = (
            "no placement was found within the search's limit, and none was proven impossible; "
            f"{reached}; {refusal.message}"
        )
        remedy = "split the plan, name hosts with `place.hosts`, or free room"
        findings.refuse_vm(Code.UNDECIDED, resolved.desired, message, remedy, refusal.hindrances)
        return
    findings.refuse_vm(refusal.code, resolved.desired, refusal.message, refusal.remedy, refusal.hindrances)
