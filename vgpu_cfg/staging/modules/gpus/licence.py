"""License a guest's GPUs: gridd.conf, the client configuration token, and nvidia-gridd.

Belief: gridd-token-files.
"""

from __future__ import annotations

from vgpu_cfg.errors import GuestError
from vgpu_cfg.model.guests.modules import LicenceModule
from vgpu_cfg.staging.rendering import Staged, StagingContext, halves, secret_file

_FEATURE_TYPES = (0, 1, 2, 4)


def stage_licence(module: LicenceModule, context: StagingContext) -> Staged:
    """Write both and wait, within bounds, until every GPU says that it is licensed."""
    token = context.secret(module.token, "the client configuration token").strip()
    if module.feature_type not in _FEATURE_TYPES:
        raise GuestError(
            f"gridd.conf does not support FeatureType {module.feature_type}",
            subject=context.spec.vm,
            remedy="use 4 for compute, 2 for a virtual workstation, 1 for NVIDIA vGPU, 0 for none",
        )
    return halves("licence.sh.j2", secret_file("licence-token", token), feature_type=module.feature_type)
