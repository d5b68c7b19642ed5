"""From a plan file on disk to the desired plan: includes, variables, refusals, header, VMs.

`load_plan` reports every fault of every file involved in one DocumentError.
Secrets stay references; nothing is looked up in a vCenter.
"""

from __future__ import annotations

from vgpu_cfg.plan_loading.loading import LoadedPlan, load_plan

__all__ = ["LoadedPlan", "load_plan"]
