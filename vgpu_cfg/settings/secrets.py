"""Secrets fetched from the source that a reference names; a secret is never printed or kept.

An encrypted file of age's is read by a library, one of sops' by its program.
"""

from __future__ import annotations

import base64
import getpass
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

import platformdirs

from vgpu_cfg.documents import MOST_FILE_BYTES, OpenToOthersError, read_bytes, read_within
from vgpu_cfg.errors import LoginFailed
from vgpu_cfg.model.plan_values import SecretReference
from vgpu_cfg.model.wording import shown
from vgpu_cfg.settings.environment import APP_NAME, keep_from_others, others_environment

if TYPE_CHECKING:
    from pyrage import ssh, x25519


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
        reason = error.strerror if isinstance(error, OSError) else "the content is not UTF-8 text"
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


SOPS_SECONDS = 60


_AGE_KEY = "AGE-SECRET-KEY-1"


_SSH_KEYS = ("id_ed25519", "id_rsa")
"""The keys of an account that age and sops accept in addition to their own (age(1), "SSH keys")."""


def read_age(path: Path) -> str:
    """Decrypt a file of age's, armored or not, with the identities of this account; return its text.

    Raises LoginFailed; no message holds the content of the file or of an identity.
    """
    try:
        import pyrage
    except ImportError as error:
        raise LoginFailed(
            "this installation cannot read age files",
            subject=str(path),
            remedy='install the required library: pip install "pyrage>=1.3"',
        ) from error
    content = _content(path, "the encrypted file", "the path (relative to the plan file) and its permissions")
    files = list(_identity_files())
    identities = [one for file in files for one in _identities(file)]
    try:
        return pyrage.decrypt(content, identities).decode("utf-8").rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise LoginFailed(
            "the decrypted content is not UTF-8 text", subject=str(path), remedy="encrypt a line of text"
        ) from error
    except pyrage.DecryptError as error:
        tried = ", ".join(str(file) for file in files) or "no identity"
        raise LoginFailed(
            f"the file cannot be decrypted with {tried}: {str(error).lower()}",
            subject=str(path),
            remedy=(
                "have it also encrypted for your key, or set VGPU_CFG_AGE_IDENTITY to your identity file"
            ),
        ) from error


def _content(path: Path, what: str, check: str) -> bytes:
    try:
        return read_bytes(path, MOST_FILE_BYTES)
    except OSError as error:
        raise LoginFailed(
            f"{what} cannot be read: {error.strerror}", subject=str(path), remedy=f"check {check}"
        ) from error


def _identity_files() -> Iterator[Path]:
    """Yield the files that hold this account's identities: the one that is named, else those that are there.

    age itself knows no place; sops' own is taken (its documentation, "Encrypting using age").
    """
    named = os.environ.get("VGPU_CFG_AGE_IDENTITY") or os.environ.get("SOPS_AGE_KEY_FILE")
    if named:
        yield Path(named).expanduser()
        return
    config = os.environ.get("XDG_CONFIG_HOME") or platformdirs.user_config_path(roaming=True)
    usual = [Path(config) / "sops" / "age" / "keys.txt"]
    usual += [Path.home() / ".ssh" / name for name in _SSH_KEYS]
    yield from (file for file in usual if file.is_file())


def _identities(file: Path) -> list[ssh.Identity | x25519.Identity]:
    """Read what age takes for identities: lines of its own, or one private key of ssh."""
    import pyrage

    content = _content(file, "your age identity", "the file in VGPU_CFG_AGE_IDENTITY or SOPS_AGE_KEY_FILE")
    _warn_of_others(file)
    lines = [line.strip() for line in content.decode("utf-8", errors="replace").splitlines()]
    own = [line for line in lines if line.startswith(_AGE_KEY)]
    try:
        if own:
            return [pyrage.x25519.Identity.from_str(line) for line in own]
        return [pyrage.ssh.Identity.from_buffer(content)]
    except pyrage.IdentityError as error:
        if file.parent == Path.home() / ".ssh":
            return []  # nobody said that it is for this; one with a passphrase is not asked for it
        raise LoginFailed(
            f"this identity cannot be used: {error}",
            subject=str(file),
            remedy="use a file created by age-keygen, or an SSH key without a passphrase; otherwise, use "
            "command:age --decrypt …",
        ) from error


@cache
def _warn_of_others(file: Path) -> None:
    """Say once on standard error that other users may read an identity; age itself does not look."""
    try:
        read_bytes(file, MOST_FILE_BYTES, private=True)
    except OpenToOthersError as error:
        sys.stderr.write(
            f"WARNING  {shown(str(file))}: your age identity: {error.strerror}; run chmod 600 on it\n"
        )


def read_sops(path: Path, key: str) -> str:
    """Have sops decrypt one value of a file; `key` may lead down by slashes.

    Raises LoginFailed; the output of sops is never shown.
    """
    expression = "".join(f"[{json.dumps(part)}]" for part in key.split("/"))
    words = ("sops", "--decrypt", "--extract", expression, str(path))
    try:
        done = subprocess.run(  # noqa: S603 - given to no shell; the path is one word
            words,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SOPS_SECONDS,
            check=True,
            env=others_environment(),
        )
    except FileNotFoundError as error:
        raise LoginFailed(
            "sops, which is required to decrypt the file, is not installed",
            subject=str(path),
            remedy="install sops, or add it to the PATH",
        ) from error
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        raise LoginFailed(
            f"sops could not decrypt {key!r} in this file",
            subject=str(path),
            remedy=f"to see why, run: {shlex.join(words)}",
        ) from error
    return done.stdout.rstrip("\r\n")
