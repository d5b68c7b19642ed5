"""The module that stage-system writes here."""

from __future__ import annotations

from vgpu_cfg.model.guest_modules import HostNameModule
from vgpu_cfg.staging.module import Staged, StagingContext


def stage(module: HostNameModule, context: StagingContext) -> Staged:
    """Not here yet."""
    raise NotImplementedError(module.kind, context.spec.vm)
