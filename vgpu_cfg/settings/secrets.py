"""How a secret is fetched from where a reference says it is; it is never printed or kept."""

from __future__ import annotations

import base64
import getpass
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock

from vgpu_cfg.documents import MOST_FILE_BYTES, read_bytes, read_within
from vgpu_cfg.errors import LoginFailed
from vgpu_cfg.model.plan_values import SecretReference
from vgpu_cfg.settings.encrypted import read_age, read_sops
from vgpu_cfg.settings.environment import keep_from_others, others_environment
from vgpu_cfg.settings.folders import APP_NAME

COMMAND_TIMEOUT_SECONDS = 60


class SecretStore:
    """The secrets that a plan file names; each is fetched when it is first asked for, and only once.

    `references` are those of the plan file, and paths of encrypted files count from its `folder`. A plan file
    comes from others: the commands that it names are run only after `allow_commands`. Several
    threads may ask: one source is asked at a time, since it may prompt the user.
    """

    def __init__(self, references: Mapping[str, SecretReference], folder: Path) -> None:
        self._references = dict(references)
        keep_from_others(map(str, references.values()))
        self._folder = folder
        self._fetched: dict[str, str | None] = {}
        self._may_run = False
        self._lock = Lock()

    @property
    def commands(self) -> tuple[str, ...]:
        """The commands that print secrets, as the plan file has them, each once."""
        of_commands = (one.value for one in self._references.values() if one.kind == "command")
        return tuple(dict.fromkeys(of_commands))

    def allow_commands(self) -> None:
        """Let commands be run from now on if their secrets are requested."""
        self._may_run = True

    def is_held_back(self, name: str) -> bool:
        """Whether a secret is printed by a command that may not be run yet."""
        found = self._references.get(name)
        return found is not None and found.kind == "command" and not self._may_run

    def find(self, name: str) -> str | None:
        """Return a secret's value, None where it is not there, or a command's that may not be run yet.

        Raises LoginFailed where its source fails.
        """
        if self.is_held_back(name):
            return None
        found = self._references.get(name)
        with self._lock:
            if name not in self._fetched:
                self._fetched[name] = (
                    None if found is None else resolve_reference(str(found), self._folder, of_others=True)
                )
            return self._fetched[name]

    def get(self, name: str) -> str:
        """Return a secret's value. Raises LoginFailed where it is not there, or empty."""
        value = self.find(name)
        if self.is_held_back(name):
            raise LoginFailed(
                (
                    f"the secret {name!r} comes from a command, but this vgpu-cfg command does not run "
                    "commands from a plan file"
                ),
                subject=self.place(name),
                remedy="`apply` runs it after you confirm; `verify` and --open-shell run it to log in",
            )
        if value == "":
            raise LoginFailed(
                f"the secret {name!r} is empty",
                subject=self.place(name),
                remedy="store its value there; for a command, the first line of output is used",
            )
        if value is None:
            raise LoginFailed(
                f"secret {name!r} not found",
                subject=self.place(name),
                remedy="set the variable or create the keyring entry that `secrets` refers to",
            )
        return value

    def place(self, name: str) -> str:
        """Say where a secret is kept, as the plan file does."""
        return str(self._references.get(name, name))


def expiry_of(text: str) -> datetime | None:
    """Return when a JSON Web Token expires by its claim `exp` (RFC 7519), None for any other text.

    NVIDIA's client configuration tokens are such (public programs that issue them); a registry's may be.
    """
    parts = text.strip().split(".")
    if len(parts) != 3:
        return None
    try:
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
        return datetime.fromtimestamp(claims["exp"], UTC)
    except (ValueError, KeyError, TypeError, OverflowError, OSError, RecursionError):
        return None


def resolve_reference(reference: str, folder: Path, *, of_others: bool = False) -> str | None:
    """Fetch the secret behind a reference, as `SecretReference` lists them; encrypted files are in `folder`.

    In a file from others, as in a plan file, a pipe or a device is not read: it might never end. Returns None
    for a variable that is unset and a keyring that has no such entry. Raises LoginFailed if the source itself
    fails; the message never holds the secret.
    """
    kind, _, rest = reference.partition(":")
    match kind:
        case "env":
            return os.environ.get(rest) or None
        case "file":
            return _from_file(rest, of_others=of_others)
        case "keyring":
            return read_keyring(rest, None)
        case "command":
            return _from_command(rest)
        case "age":
            return read_age(folder / Path(rest).expanduser())
        case "sops":
            path, _, key = rest.partition("#")
            return read_sops(folder / Path(path).expanduser(), key)
        case _:
            raise AssertionError(kind)


def _from_file(path: str, *, of_others: bool) -> str:
    try:
        if path == "-":
            return sys.stdin.read().rstrip("\r\n")
        file = Path(path).expanduser()
        if not of_others and file.is_fifo():  # <(…) of a shell
            with file.open("rb") as pipe:
                raw = read_within(pipe, MOST_FILE_BYTES, path)
        else:
            raw = read_bytes(file, MOST_FILE_BYTES)
        text = raw.decode("utf-8").replace("\r\n", "\n")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        message = f"cannot read the secret file: {reason}"
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
            shlex.split(words),
            capture_output=True,
            text=True,
            timeout=COMMAND_TIMEOUT_SECONDS,
            check=True,
            env=others_environment(),
        )
    except (OSError, ValueError, IndexError, subprocess.SubprocessError) as error:
        program = words.strip().partition(" ")[0]
        message = f"the command {program!r} for the secret failed"
        raise LoginFailed(message, subject=program, remedy="run it manually to see why") from error
    return done.stdout.split("\n", 1)[0].rstrip("\r")


def ask_password(user: str, server: str) -> str:
    """Ask at the terminal. Raises LoginFailed if there is no answer."""
    try:
        return getpass.getpass(f"Password for {user} on {server}: ")
    except EOFError as error:
        message = f"no password entered for {user}"
        raise LoginFailed(
            message, subject=server, remedy="set VGPU_CFG_PASSWORD or use --password-file"
        ) from error
