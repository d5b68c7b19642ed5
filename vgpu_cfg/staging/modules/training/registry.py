"""Log in to a container registry from a guest: the password goes from its file into standard input."""

from __future__ import annotations

from vgpu_cfg.model.guests.training_modules import RegistryModule
from vgpu_cfg.model.plan_file.guest_values import check_registry_user
from vgpu_cfg.staging import values
from vgpu_cfg.staging.container_unit import checked_registry
from vgpu_cfg.staging.rendering import Staged, StagingContext, render, secret_file
from vgpu_cfg.staging.runtimes import COMMANDS

SECRET = "registry-password"  # noqa: S105 - the name of a file


def stage_registry(module: RegistryModule, context: StagingContext) -> Staged:
    """Log in; done again whenever a password is brought. Raises `GuestError` where it is not known."""
    password = context.secret(module.password, f"the password for {module.server}")
    words = {
        "runtime": module.runtime,
        "command": COMMANDS[module.runtime],
        "server": checked_registry(module.server, "training.registry.server"),
        "user": values.asserted(check_registry_user, "a registry's user", module.user),
        "secret": SECRET,
    }
    return Staged(
        check=render("registry.check.sh.j2", **words),
        apply=render("registry.apply.sh.j2", **words),
        files=(secret_file(SECRET, password),),
    )
