"""The module that stage-training writes here."""

from __future__ import annotations

from vgpu_cfg.model.guest_modules import TrafficModule
from vgpu_cfg.staging.module import Staged, StagingContext


def stage(module: TrafficModule, context: StagingContext) -> Staged:
    """Not here yet."""
    raise NotImplementedError(module.kind, context.spec.vm)
