"""The stacks of VMs beside a driver branch as one page to keep: no script, no address of elsewhere."""

from __future__ import annotations

from vgpu_cfg.model.compatibility import BranchPlan
from vgpu_cfg.render.page.frame import page_environment


def render_branch_page(found: BranchPlan) -> str:
    """Write the page; whatever stands in names and outputs is text in it."""
    return page_environment().get_template("branches.html.j2").render(found=found)
