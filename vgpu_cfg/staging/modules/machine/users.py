"""Create accounts: with their keys in a block of their own, and sudo by a file that visudo has checked."""

from __future__ import annotations

from vgpu_cfg.errors import GuestError
from vgpu_cfg.model.guests.modules import UsersModule
from vgpu_cfg.model.plan_file import UserEntry
from vgpu_cfg.model.plan_file.guest_values import check_shell
from vgpu_cfg.staging import values
from vgpu_cfg.staging.rendering import Staged, StagingContext, halves, source_file


def stage_users(module: UsersModule, context: StagingContext) -> Staged:
    """Make the accounts; an account's other keys stay, and no account is removed."""
    users = accounts(module, context)
    sudoers = "".join(
        f"{one.name} ALL=(ALL) NOPASSWD:ALL\n" for one in users if one.sudo and one.name != "root"
    )
    files = [source_file("sudoers", f"# Written by vgpu-cfg.\n{sudoers}")]
    files += [source_file(f"keys.{one.name}", "".join(f"{key}\n" for key in one.keys)) for one in users]
    return halves("users.sh.j2", *files, users=users)


def accounts(module: UsersModule, context: StagingContext) -> tuple[UserEntry, ...]:
    """Return the accounts, that of this tool among them. Raises `GuestError` for what no guest can carry."""
    found = [_checked(one) for one in module.users]
    if module.machine_user:
        key = context.keys.login_key().public
        found.append(UserEntry(name=values.user_name(module.machine_user), keys=(key,), sudo=True))
    names = [one.name for one in found]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise GuestError(
            f"the account {twice} is specified twice",
            subject=context.spec.vm,
            remedy="keep one of them; vgpu-cfg itself may create an account with this name",
        )
    return tuple(found)


def _checked(user: UserEntry) -> UserEntry:
    shell = values.asserted(check_shell, "a login shell", user.shell)
    keys = tuple(values.key_line(line) for line in user.keys)
    return UserEntry(name=values.user_name(user.name), keys=keys, sudo=user.sudo, shell=shell)
