"""Install the RDMA stack in a guest.

Belief: ofed-installers.
"""

from __future__ import annotations

import re

from vgpu_cfg.errors import GuestError
from vgpu_cfg.model.guests.modules import OfedModule
from vgpu_cfg.model.plan_file.guest_values import OFED_PACKAGES, package_kind
from vgpu_cfg.staging import values
from vgpu_cfg.staging.rendering import Staged, StagingContext, halves

_NAMES = {"mlnx": "MLNX_OFED", "doca": "DOCA-OFED", "inbox": "the distribution's RDMA tools"}
_MLNX_VERSION = re.compile(r"MLNX_OFED_LINUX-([0-9][0-9.]*-[0-9][0-9.]*)-")
"""MLNX_OFED_LINUX-5.8-6.0.4.2-ubuntu22.04-x86_64.tgz; `ofed_info -s` begins alike."""


def stage_ofed(module: OfedModule, context: StagingContext) -> Staged:
    """Install the stack where it is missing."""
    package = values.package(module.package) if module.package else ""
    suffix = package_kind(package)
    if package and suffix not in OFED_PACKAGES[module.stack]:
        raise GuestError(
            f"{package!r} is not a package for the stack {module.stack}",
            subject=context.spec.vm,
            remedy="use a .tgz for mlnx, the repository's .deb or .rpm for doca, none for inbox",
        )
    found = _MLNX_VERSION.search(package)
    return halves(
        "ofed.sh.j2",
        stack=module.stack,
        names=_NAMES,
        version=found[1] if found else "",
        package=package,
        file=f"doca-host{suffix}",
        sha256=values.sha256(module.sha256),
    )
