"""Pages of a verification and of VMs' stacks next to a driver branch."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from typing import Any

from vgpu_cfg.model.guest_looks import BranchPlan, FitsBranch
from vgpu_cfg.model.verification import Verification
from vgpu_cfg.model.wording import duration
from vgpu_cfg.render.page.frame import Tile, Tone, render_frame
from vgpu_cfg.render.views.verification import STATE_WORDS, ReportView

_FIT_WORDS: dict[FitsBranch, tuple[str, Tone]] = {
    FitsBranch.YES: ("compatible", "good"),
    FitsBranch.NO: ("ruled out by a vendor document", "bad"),
    FitsBranch.UNKNOWN: ("unknown", "warn"),
}


def render_verification_page(found: Verification, data: dict[str, Any], view: ReportView) -> str:
    """Write the page; any name or output in it stays text. `data` is the JSON of the run."""
    sums = view.sums
    tone: Tone = "bad" if found.failed else "warn" if view.exit_code else "good"
    tiles = (
        Tile(str(view.exit_code), "exit code", view.verdict, tone),
        Tile(f"{sums.passed:,}", "passed", tone="good" if sums.passed else ""),
        Tile(f"{sums.failed:,}", "failed", tone="bad" if sums.failed else ""),
        Tile(f"{sums.unproven:,}", "not proven", "requested, but inconclusive", _warn(sums.unproven)),
        Tile(f"{sums.left_out:,}", "no result", "skipped or not run", _warn(sums.left_out)),
        Tile(f"{sums.not_asked:,}", "skipped", "not requested by the plan"),
    )
    quick = ", without bandwidth measurements" if found.is_quick else ""
    took = duration(found.seconds)
    shares = found.thresholds
    runs = [
        {"begun": f"{run.begun:%Y-%m-%d %H:%M}", "passes": run.passes, "failed": len(run.failed)}
        for run in view.runs
    ]
    return render_frame(
        "verification",
        title=f"{found.plan}: {view.verdict}",
        about=f"{found.server}, verified {found.begun:%Y-%m-%d %H:%M %Z}{quick}; took {took}",
        tiles=tiles,
        body="verify.html.j2",
        data={
            "kind": "verify-page",
            "format": 1,
            "verify": data,
            "view": {**asdict(view), "runs": runs},
            "words": {state.value: word for state, word in STATE_WORDS.items()},
            "needed": f"Bandwidth must reach {shares.host_memory:.0%} of the line rate from host memory, "
            f"{shares.gpu_memory:.0%} from GPU memory, {shares.busbw:.0%} as allreduce bus "
            "bandwidth.",
        },
    )


def _warn(count: int) -> Tone:
    return "warn" if count else ""


def render_branch_page(found: BranchPlan, told: dict[str, Any]) -> str:
    """Write the page of the stacks and of their JSON; any name or output in it stays text."""
    counts = Counter(part.target.fits for stack in found.stacks for part in stack.parts)
    tiles = (
        Tile(f"{len(found.stacks)}", "VMs with GPUs" if len(found.stacks) != 1 else "VM with GPUs"),
        *(
            Tile(f"{counts[fits]}", f"parts {words}", f"with R{found.branch}", tone if counts[fits] else "")
            for fits, (words, tone) in _FIT_WORDS.items()
        ),
    )
    return render_frame(
        "branches",
        title=f"{found.plan}: driver R{found.branch}",
        about=f"{found.server}, {found.begun:%Y-%m-%d %H:%M %Z}",
        tiles=tiles,
        body="branches.html.j2",
        shared=("changes",),
        data=told,
        more={"found": found},
    )
