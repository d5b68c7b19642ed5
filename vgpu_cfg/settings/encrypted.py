"""How a secret is read from an encrypted file: one of age's by a library, one of sops' by its program."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import platformdirs

from vgpu_cfg.documents import MOST_FILE_BYTES, OpenToOthersError, read_bytes
from vgpu_cfg.errors import LoginFailed
from vgpu_cfg.model.wording import shown
from vgpu_cfg.settings.environment import others_environment

if TYPE_CHECKING:
    from pyrage import ssh, x25519

    Identity = ssh.Identity | x25519.Identity

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
                "have it encrypted for your key as well, or set VGPU_CFG_AGE_IDENTITY to your identity file"
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


def _identities(file: Path) -> list[Identity]:
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
