"""Install a container runtime in a guest: the distribution's own, unless the template has one."""

from __future__ import annotations

from vgpu_cfg.model.guests.training_modules import ContainersModule
from vgpu_cfg.staging.rendering import Staged, render
from vgpu_cfg.staging.runtimes import COMMANDS, SERVICES, STORES


def stage_containers(module: ContainersModule) -> Staged:
    """Install the runtime and start it; an installed one is used, whatever its source."""
    words = {
        "runtime": module.runtime,
        "command": COMMANDS[module.runtime],
        "service": SERVICES[module.runtime],
        "store": STORES[module.runtime],
        "minimum": module.minimum_free_gib,
    }
    return Staged(
        check=render("containers.check.sh.j2", **words), apply=render("containers.apply.sh.j2", **words)
    )
