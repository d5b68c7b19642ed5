"""Remedies for a plan, and a plan file's edits for findings: tried by planning again."""

from __future__ import annotations

from vgpu_cfg.suggestions.as_found import write_found
from vgpu_cfg.suggestions.candidate import PlanSource
from vgpu_cfg.suggestions.search import suggest

__all__ = ["PlanSource", "suggest", "write_found"]
