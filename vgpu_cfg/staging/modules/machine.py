"""A guest as a machine on its network: its name, /etc/hosts, accounts, clock, and limits.

Sources for the clock: chrony.conf(5) and chronyc(1) (`server`, `iburst`, `makestep`, `rtcsync`, `waitsync`);
timesyncd.conf(5) (`NTP=`, an empty `FallbackNTP=` takes the compiled-in servers away).

Belief: fstab-sizes-dev-shm.
"""

from __future__ import annotations

import re

from vgpu_cfg.errors import GuestError
from vgpu_cfg.model.guests.modules import HostNameModule, HostsModule, LimitsModule, TimeModule, UsersModule
from vgpu_cfg.model.plan_file import UserEntry
from vgpu_cfg.model.plan_file.guest_values import check_shell, check_time_server
from vgpu_cfg.staging import values
from vgpu_cfg.staging.rendering import Staged, StagingContext, halves, source_file


def stage_host_name(module: HostNameModule, context: StagingContext) -> Staged:
    """Write the name; where no address of the plan goes by it, the loopback does."""
    name = values.host_name(module.host_name)
    full = values.domain_name(f"{name}.{module.domain}") if module.domain else ""
    hosts = context.spec.get(HostsModule)
    listed = hosts is not None and any(name in entry.names for entry in hosts.entries)
    line = "" if listed else " ".join(filter(None, ("127.0.1.1", full, name))) + "\n"
    return halves("host-name.sh.j2", source_file("own-name", line), name=name)


def stage_hosts(module: HostsModule) -> Staged:
    """Write the block; the file is rewritten in place, since containers have it mounted."""
    lines = [
        " ".join([values.address(entry.address), *(values.domain_name(name) for name in entry.names)])
        for entry in module.entries
    ]
    return halves("hosts.sh.j2", source_file("hosts", "".join(f"{line}\n" for line in lines)))


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
    found = [_checked_account(one) for one in module.users]
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


def _checked_account(user: UserEntry) -> UserEntry:
    shell = values.asserted(check_shell, "a login shell", user.shell)
    keys = tuple(values.key_line(line) for line in user.keys)
    return UserEntry(name=values.user_name(user.name), keys=keys, sudo=user.sudo, shell=shell)


_TIME_HEAD = "# Written by vgpu-cfg, from `guest.time` of the plan file.\n"


def stage_time(module: TimeModule) -> Staged:
    """Configure chronyd, else systemd-timesyncd, else install chronyd; wait until the clock is in sync."""
    servers = [values.asserted(check_time_server, "an NTP server", one) for one in module.servers]
    # The clock is stepped at the start however far it is off; where it drifts later, it is slewed.
    chrony = "".join(f"server {one} iburst\n" for one in servers)
    chrony += "driftfile /var/lib/chrony/drift\nmakestep 1.0 3\nrtcsync\n"
    timesyncd = f"[Time]\nNTP={' '.join(servers)}\nFallbackNTP=\n"
    return halves(
        "time.sh.j2",
        source_file("chrony.conf", _TIME_HEAD + chrony),
        source_file("timesyncd.conf", _TIME_HEAD + timesyncd),
        servers=", ".join(servers),
    )


_SIZE = re.compile(r"([0-9]{1,10}) ?([KMGT])(i?B)?", re.IGNORECASE)
_KIB = {"K": 1, "M": 1024, "G": 1024**2, "T": 1024**3}
_LIMITS = "".join(f"{who} {kind} memlock unlimited\n" for who in ("*", "root") for kind in ("soft", "hard"))


def stage_limits(module: LimitsModule) -> Staged:
    """Write the limits of logins and of services, and /dev/shm's size now and in /etc/fstab."""
    kib = kib_of(module.shared_memory) if module.shared_memory else 0
    return halves(
        "limits.sh.j2",
        source_file("limits.conf", _LIMITS),
        source_file("systemd.conf", "[Manager]\nDefaultLimitMEMLOCK=infinity\n"),
        source_file("fstab", f"tmpfs /dev/shm tmpfs rw,nosuid,nodev,size={kib}k 0 0\n" if kib else ""),
        shm_kib=kib,
    )


def kib_of(text: str) -> int:
    """Return a size such as 64GiB, 64G or 512m in KiB; the units are powers of 1024."""
    found = _SIZE.fullmatch(text.strip())
    if found is None or int(found[1]) == 0:
        raise values.refuse("the size of /dev/shm", text, "specify a number and a unit, such as 64GiB")
    return int(found[1]) * _KIB[found[2].upper()]
