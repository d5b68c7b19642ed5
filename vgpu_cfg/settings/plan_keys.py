"""Where the seed of a plan's keys is kept, and how secrets are told apart by it without being told.

All keys of a plan follow from its seed. It is a secret that the plan file names, or a file of this machine,
in the state folder, which the first apply makes.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import secrets
import stat
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from vgpu_cfg.errors import LoginFailed

SEED_BYTES = 32
FINGERPRINT_DIGITS = 16
_FOLDER, _SUFFIX = "keys", ".seed"
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


@dataclass(frozen=True, slots=True)
class PlanSeed:
    """The seed of a plan's keys; `path` is the file that has yet to keep it, None where none has."""

    value: bytes = field(repr=False)
    path: Path | None = None

    def keep(self) -> None:
        """Write the seed down for those who come after, unless that was done.

        Raises LoginFailed where the file cannot be written, or holds another one by now.
        """
        if self.path is None:
            return
        kept = _write_once(self.path, self.value)
        if kept != self.value:
            raise LoginFailed(
                "another run has made the plan's keys meanwhile",
                subject=str(self.path),
                remedy="run the same command again",
            )


def seed_file(folder: Path, plan: str, vcenter_uuid: str) -> Path:
    """Return the file of the state folder that keeps the seed of a plan for one vCenter.

    Where a name has signs that a file's name shall not have, its digest keeps it apart from likes of it.
    """
    whole = f"{plan}-{vcenter_uuid}"
    name = re.sub(r"[^A-Za-z0-9._-]", "_", whole)
    if name != whole:
        name += f"-{hashlib.sha256(whole.encode()).hexdigest()[:8]}"
    return folder / _FOLDER / f"{name}{_SUFFIX}"


def seed_of_secret(name: str, value: str) -> PlanSeed:
    """Take a secret's value for the seed. Raises LoginFailed where it is too short to be one."""
    found = value.encode()
    if len(found) < SEED_BYTES:
        raise LoginFailed(
            f"the secret {name!r} is too short for keys: {len(found)} of at least {SEED_BYTES} bytes",
            subject="training.keys",
            remedy="keep there what `openssl rand -hex 32` prints",
        )
    return PlanSeed(found)


def read_seed(path: Path) -> PlanSeed | None:
    """Read the seed that an earlier apply has kept, None where there is none.

    Raises LoginFailed for a file that others may read, or that holds none.
    """
    try:
        with path.open("rb") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            content = file.read(4096)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise LoginFailed(
            f"the plan's keys cannot be read: {error.strerror}",
            subject=str(path),
            remedy="make the file readable for you, and for nobody else",
        ) from error
    if os.name == "posix" and mode & _OTHERS:
        raise LoginFailed(
            f"the plan's keys may be read by others (mode {mode:04o})",
            subject=str(path),
            remedy="`chmod 600` it; if somebody may have read it, remove it: the next apply makes new keys",
        )
    try:
        found = bytes.fromhex(content.decode("ascii").strip())
    except ValueError:
        found = b""
    if len(found) < SEED_BYTES:
        raise LoginFailed(
            "this is no seed of a plan's keys",
            subject=str(path),
            remedy="put the file back from where you keep copies; without one, remove it, and the next apply "
            "makes new keys",
        )
    return PlanSeed(found)


def new_seed(path: Path) -> PlanSeed:
    """Make a seed that nobody has had yet; nothing is written until it is to be kept."""
    return PlanSeed(secrets.token_bytes(SEED_BYTES), path)


def fingerprint(seed: PlanSeed, name: str, value: str) -> str:
    """Tell a secret's value from others, to whoever has the seed and to nobody else."""
    reported = f"{name}\0{value}".encode()
    return hmac.new(seed.value, reported, hashlib.sha256).hexdigest()[:FINGERPRINT_DIGITS]


def _write_once(path: Path, value: bytes) -> bytes:
    """Write a seed where none is, whole and for its user alone; return what is there then."""
    half = path.with_name(f".{path.name}.{secrets.token_hex(6)}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(half, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(f"{value.hex()}\n")
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileExistsError):
            os.link(half, path)
    except OSError as error:
        raise LoginFailed(
            f"the plan's keys cannot be kept: {error.strerror}",
            subject=str(path),
            remedy="make the state folder writable, or name a secret under `training.keys`",
        ) from error
    finally:
        with suppress(OSError):
            half.unlink()
    kept = read_seed(path)
    return b"" if kept is None else kept.value
