"""The module that stage-training writes here."""

from __future__ import annotations

from vgpu_cfg.model.training_modules import ImageModule
from vgpu_cfg.staging.module import Staged, StagingContext


def stage(module: ImageModule, context: StagingContext) -> Staged:
    """Not here yet."""
    raise NotImplementedError(module.kind, context.spec.vm)
