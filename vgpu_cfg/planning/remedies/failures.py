"""Findings on VMs that got no place: the reason, and where to look; similar VMs have the same reason."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.findings.collection import Findings
from vgpu_cfg.planning.placement.demand import Shape
from vgpu_cfg.planning.placement.patterns import ShapeFits, SharedFits
from vgpu_cfg.planning.placement.place import NoPlace, Placed
from vgpu_cfg.planning.vms.lookup.baseline import Baseline
from vgpu_cfg.planning.vms.lookup.resolved_vm import ResolvedVm

if TYPE_CHECKING:
    from vgpu_cfg.planning.remedies.refusals import Refusal


def report_failures(
    placed: Placed, resolved_vms: Sequence[ResolvedVm], baseline: Baseline, findings: Findings
) -> None:
    """Say of every VM without a place why it has none; like VMs have the same reason."""
    refusals: dict[Shape, Refusal] = {}
    initial = SharedFits(placed.initial)
    for resolved in resolved_vms:
        failure = placed.failed.get(resolved.name)
        if failure is None:
            continue
        demand, verdict = failure
        if demand.shape not in refusals:
            refusals[demand.shape] = _refusal(initial.of(demand.shape), placed, baseline)
        _report(resolved, refusals[demand.shape], verdict, findings)


def _refusal(initial: ShapeFits, placed: Placed, baseline: Baseline) -> Refusal:
    """Return the holders of the VM's place: other VMs if it fits nowhere anyway, else also the plan's.

    If provably more VMs could be placed than are, that is reported first.
    """
    from vgpu_cfg.planning.remedies.refusals import explain_refusal

    if not initial.is_anywhere:
        return explain_refusal(placed.initial, initial.shape, baseline.claims)
    found = explain_refusal(placed.hosts, initial.shape, baseline.claims)
    is_open = len(placed.fits) < placed.most_placed
    return replace(found, message=f"{_reached(placed)}; {found.message}") if is_open else found


def _reached(placed: Placed) -> str:
    """Say how far the search came: how many VMs are placed, and how many could be as far as is proven."""
    total = len(placed.fits) + len(placed.failed)
    return f"{len(placed.fits):,} of {total:,} VMs are placed; at most {placed.most_placed:,} can be placed"


def _report(resolved: ResolvedVm, refusal: Refusal, verdict: NoPlace, findings: Findings) -> None:
    if verdict is NoPlace.UNDECIDED:
        message = (
            f"no placement was found within the search limit, but one may still exist; {refusal.message}"
        )
        remedy = "split the plan, specify hosts with `place.hosts`, or free up capacity"
        findings.refuse_vm(Code.UNDECIDED, resolved.desired, message, remedy, refusal.hindrances)
        return
    findings.refuse_vm(refusal.code, resolved.desired, refusal.message, refusal.remedy, refusal.hindrances)
