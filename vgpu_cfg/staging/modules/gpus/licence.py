"""How a guest's GPUs get their licence: gridd.conf, the client configuration token, and nvidia-gridd."""

from __future__ import annotations

from vgpu_cfg.errors import GuestError
from vgpu_cfg.model.guests.modules import LicenceModule
from vgpu_cfg.staging.module import Staged, StagingContext
from vgpu_cfg.staging.scripts import halves, secret_file

_FEATURE_TYPES = (0, 1, 2, 4)


def stage(module: LicenceModule, context: StagingContext) -> Staged:
    """Write both and wait, within bounds, until every GPU says that it is licensed."""
    token = context.secrets.get(module.token)
    if not token or not token.strip():
        raise GuestError(
            "the client configuration token has no value",
            subject=f"{context.spec.vm}: secret {module.token}",
            remedy="look where the plan file's secrets say that it is; download it again if it is empty",
        )
    if module.feature_type not in _FEATURE_TYPES:
        raise GuestError(
            f"gridd.conf knows no FeatureType {module.feature_type}",
            subject=context.spec.vm,
            remedy="4 is compute, 2 a virtual workstation, 1 NVIDIA vGPU, 0 none",
        )
    return halves(
        "licence.sh.j2", secret_file("licence-token", token.strip()), feature_type=module.feature_type
    )
