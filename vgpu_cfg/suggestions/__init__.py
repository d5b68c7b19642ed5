"""What would let a plan with errors be carried out? Found by planning again with every idea there is."""

from __future__ import annotations

from vgpu_cfg.suggestions.as_found import write_found
from vgpu_cfg.suggestions.search import suggest
from vgpu_cfg.suggestions.trial import PlanSource

__all__ = ["PlanSource", "suggest", "write_found"]
