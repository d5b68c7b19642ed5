"""Install NVIDIA's guest driver, and compare its branch with the host's."""

from __future__ import annotations

import re

from vgpu_cfg.model.guests.modules import DriverModule
from vgpu_cfg.model.plan_file.guest_values import DRIVER_PACKAGES, package_kind
from vgpu_cfg.staging import values
from vgpu_cfg.staging.rendering import Staged, halves

_BRANCH = re.compile(r"[0-9]{3,4}")


def stage_driver(module: DriverModule) -> Staged:
    """Install the package where no driver of a branch that the host takes is there."""
    for branch in (*module.branches, *module.refused):
        if not _BRANCH.fullmatch(branch):
            raise values.refuse("a driver branch", branch, "specify its number, such as 580")
    package = values.package_of(module.package, DRIVER_PACKAGES, "the driver package")
    return halves(
        "driver.sh.j2",
        package=package,
        file=f"driver{package_kind(package)}",
        sha256=values.sha256(module.sha256),
        branches=module.branches,
        refused=module.refused,
    )
