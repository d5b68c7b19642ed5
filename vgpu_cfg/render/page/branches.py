"""The stacks of VMs next to a driver branch, as a page of the common frame."""

from __future__ import annotations

from collections import Counter
from typing import Any

from vgpu_cfg.model.guest_looks import BranchPlan, FitsBranch
from vgpu_cfg.render.page.frame import Tile, Tone, render_frame

_WORDS: dict[FitsBranch, tuple[str, Tone]] = {
    FitsBranch.YES: ("compatible", "good"),
    FitsBranch.NO: ("excluded by a vendor document", "bad"),
    FitsBranch.UNKNOWN: ("unknown", "warn"),
}


def render_branch_page(found: BranchPlan, told: dict[str, Any]) -> str:
    """Write the page of the stacks and of their JSON; any name or output in it stays text."""
    counts = Counter(part.target.fits for stack in found.stacks for part in stack.parts)
    tiles = (
        Tile(f"{len(found.stacks)}", "VMs with GPUs" if len(found.stacks) != 1 else "VM with GPUs"),
        *(
            Tile(f"{counts[fits]}", f"parts {words}", f"with R{found.branch}", tone if counts[fits] else "")
            for fits, (words, tone) in _WORDS.items()
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
