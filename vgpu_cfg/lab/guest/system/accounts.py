"""Logins to a guest, by password or key, and the creation of accounts."""

from __future__ import annotations

from vgpu_cfg.lab.guest.system.cloud_config import CloudUser
from vgpu_cfg.lab.state.guest import Account, Guest

ROOT = "root"


def add_account(guest: Guest, user: CloudUser) -> None:
    """Make an account, or change one."""
    home = user.home or ("/root" if user.name == ROOT else f"/home/{user.name}")
    guest.accounts[user.name] = Account(user.password, user.keys, user.sudo, user.shell, user.groups, home)
    guest.folders.setdefault(home, 0o755)


def takes_password(guest: Guest, user: str, password: str) -> bool:
    """Whether a password is an account's; an account without one is locked."""
    account = guest.accounts.get(user)
    return account is not None and bool(account.password) and account.password == password


def takes_key(guest: Guest, user: str, key: str) -> bool:
    """Whether a public key (`ssh-ed25519 AAAA…`, with or without a comment) opens an account."""
    account = guest.accounts.get(user)
    return account is not None and plain_key(key) in {plain_key(each) for each in account.keys}


def plain_key(line: str) -> str:
    """Return a public key without its comment."""
    return " ".join(line.split()[:2])


def may_all(guest: Guest, user: str) -> bool:
    """Whether an account has root's rights without being asked for a password."""
    account = guest.accounts.get(user)
    return user == ROOT or (account is not None and account.sudo)
