"""How a secret is fetched from where a reference says it is; it is never printed or kept."""

from __future__ import annotations

import getpass
import os
import shlex
import subprocess
import sys
from pathlib import Path

from vgpu_cfg.errors import LoginFailed
from vgpu_cfg.settings.folders import APP_NAME

COMMAND_TIMEOUT_SECONDS = 60


def resolve_reference(reference: str) -> str | None:
    """Fetch the secret behind `env:NAME`, `file:PATH`, `keyring:NAME` or `command:WORDS`.

    Returns None for a variable that is unset and a keyring that has no such entry.
    Raises LoginFailed where the source itself fails; the message never holds the secret.
    """
    kind, _, rest = reference.partition(":")
    match kind:
        case "env":
            return os.environ.get(rest) or None
        case "file":
            return _from_file(rest)
        case "keyring":
            return read_keyring(rest, None)
        case "command":
            return _from_command(rest)
        case _:
            raise AssertionError(kind)


def _from_file(path: str) -> str:
    try:
        text = sys.stdin.read() if path == "-" else Path(path).expanduser().read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        message = f"the secret's file cannot be read: {reason}"
        raise LoginFailed(message, subject=path, remedy="check the path and its permissions") from error
    return text.rstrip("\r\n")


def read_keyring(service: str, user: str | None) -> str | None:
    """Return a keyring entry: one named by the user, or the account of a server; None without one."""
    try:
        import keyring
        import keyring.errors
    except ImportError:
        return None
    try:
        if user is None:
            return keyring.get_password(APP_NAME, service)
        return keyring.get_password(f"{APP_NAME}:{service}", user)
    except keyring.errors.KeyringError:
        return None


def _from_command(words: str) -> str:
    """Run a command the user named, without a shell, and return the first line it prints."""
    try:
        done = subprocess.run(  # noqa: S603 - the user's own words, split and never given to a shell
            shlex.split(words), capture_output=True, text=True, timeout=COMMAND_TIMEOUT_SECONDS, check=True
        )
    except (OSError, ValueError, IndexError, subprocess.SubprocessError) as error:
        program = words.strip().partition(" ")[0]
        message = f"the secret's command {program!r} failed"
        raise LoginFailed(message, subject=program, remedy="run it by hand to see why") from error
    return done.stdout.split("\n", 1)[0].rstrip("\r")


def ask_password(user: str, server: str) -> str:
    """Ask at the terminal. Raises LoginFailed where nobody answers."""
    try:
        return getpass.getpass(f"Password for {user} on {server}: ")
    except EOFError as error:
        message = f"no password was given for {user}"
        raise LoginFailed(
            message, subject=server, remedy="set VGPU_CFG_PASSWORD or --password-file"
        ) from error
