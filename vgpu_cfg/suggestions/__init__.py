"""What lets a plan be carried out, and what a plan file says of what was found: tried by planning again."""

from __future__ import annotations

from vgpu_cfg.suggestions.as_found import write_found
from vgpu_cfg.suggestions.candidate import PlanSource
from vgpu_cfg.suggestions.search import suggest

__all__ = ["PlanSource", "suggest", "write_found"]
