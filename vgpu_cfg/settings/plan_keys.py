"""The place of the seeds of a plan's keys, and fingerprints of secrets by a seed.

All keys of a plan follow from its seed. It is a secret that the plan file names, or a file of this machine,
in the state folder, which the first apply makes. Both are words: the seed that holds, then those before it,
which stay until every guest has taken the first.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from vgpu_cfg.documents import (
    PRIVATE,
    Limit,
    OpenToOthersError,
    make_private_folder,
    put_whole,
    read_bytes,
    take_name,
)
from vgpu_cfg.errors import LoginFailed

SEED_BYTES = 32
FINGERPRINT_DIGITS = 16
_FOLDER, _SUFFIX = "keys", ".seed"
_HEX = "hex:"
"""The prefix of a seed in hexadecimal; without it the text itself is the seed."""
_LONGEST = Limit("", 4096)


@dataclass(frozen=True, slots=True)
class PlanSeeds:
    """The seeds of a plan's keys: `value` holds, `former` are those before it, the last one first.

    `path` is the file that keeps them, None for a secret; `is_kept` says whether it has them as they are.
    """

    value: bytes = field(repr=False)
    former: tuple[bytes, ...] = field(default=(), repr=False)
    path: Path | None = None
    is_kept: bool = True

    def renewed(self) -> PlanSeeds:
        """Put a new seed before those of a file; one that is put there already is gone on with."""
        if self.former or not self.is_kept:
            return self
        return PlanSeeds(secrets.token_bytes(SEED_BYTES), (self.value,), self.path, is_kept=False)

    def keep(self) -> None:
        """Write the seeds down for those who come after, unless that was done.

        Raises LoginFailed where the file cannot be written, or holds others by now.
        """
        if self.path is None or self.is_kept:
            return
        if self.former and _seeds_in(self.path) != self.former:
            raise _meanwhile(self.path)
        _write(self.path, (self.value, *self.former), is_first=not self.former)
        if _seeds_in(self.path) != (self.value, *self.former):
            raise _meanwhile(self.path)

    def settle(self) -> None:
        """Forget the seeds before the one that holds, now that every guest has taken it."""
        if self.path is not None and self.former:
            _write(self.path, (self.value,), is_first=False)


def seed_file(folder: Path, plan: str, vcenter_uuid: str) -> Path:
    """Return the file of the state folder that keeps the seeds of a plan for one vCenter.

    If a name has characters that are not allowed in a file's name, its digest distinguishes it from similar
    ones.
    """
    whole = f"{plan}-{vcenter_uuid}"
    name = re.sub(r"[^A-Za-z0-9._-]", "_", whole)
    if name != whole:
        name += f"-{hashlib.sha256(whole.encode()).hexdigest()[:8]}"
    return folder / _FOLDER / f"{name}{_SUFFIX}"


def seeds_of_secret(name: str, value: str) -> PlanSeeds:
    """Take a secret's value for the seeds. Raises LoginFailed where it is too short to be one.

    Words are seeds of their own where each is long enough; else all of the text is one.
    """
    found = [_seed(word) for word in value.split()]
    if any(len(one) < SEED_BYTES for one in found) or not found:
        found = [_seed(value)]
    first, *former = dict.fromkeys(found)
    if len(first) < SEED_BYTES:
        raise LoginFailed(
            f"the secret {name!r} is too short to derive keys: {len(first)} of {SEED_BYTES} bytes",
            subject="training.keys",
            remedy="store the output of `openssl rand -hex 32`",
        )
    return PlanSeeds(first, tuple(former))


def read_seeds(path: Path) -> PlanSeeds | None:
    """Read the seeds that an earlier apply has kept, None where there are none.

    Raises LoginFailed for a file that others may read, or that holds none.
    """
    found = _seeds_in(path)
    return PlanSeeds(found[0], found[1:], path) if found else None


def new_seeds(path: Path) -> PlanSeeds:
    """Make a new, random seed; nothing is written until it is to be kept."""
    return PlanSeeds(secrets.token_bytes(SEED_BYTES), path=path, is_kept=False)


def fingerprint(seed: bytes, name: str, value: str) -> str:
    """Return a secret's fingerprint, which is comparable only with the seed."""
    reported = f"{name}\0{value}".encode()
    return hmac.new(seed, reported, hashlib.sha256).hexdigest()[:FINGERPRINT_DIGITS]


def _seed(word: str) -> bytes:
    if word.startswith(_HEX):
        with suppress(ValueError):
            return bytes.fromhex(word.removeprefix(_HEX))
    return word.encode()


def _seeds_in(path: Path) -> tuple[bytes, ...]:
    """Read a file of seeds; one of an earlier release has a single one, in hexadecimal without saying so."""
    try:
        content = read_bytes(path, _LONGEST, private=True)
    except (FileNotFoundError, NotADirectoryError):
        return ()
    except OpenToOthersError as error:
        raise LoginFailed(
            f"the plan's keys are accessible to other users: {error.strerror}",
            subject=str(path),
            remedy=(
                "run `chmod 600` on the file; if another user may have read it, run `vgpu-cfg apply "
                "--rotate keys` afterwards"
            ),
        ) from error
    except OSError as error:
        raise LoginFailed(
            f"the plan's keys cannot be read: {error.strerror}",
            subject=str(path),
            remedy="make the file readable only by you",
        ) from error
    try:
        words = content.decode("ascii").split()
        found = tuple(bytes.fromhex(word.removeprefix(_HEX)) for word in words)
    except ValueError:
        found = ()
    if not found or any(len(one) < SEED_BYTES for one in found):
        raise LoginFailed(
            "the file does not contain a valid key seed",
            subject=str(path),
            remedy="restore the file from a backup or copy it from another machine; "
            "otherwise, delete it and create new keys with `vgpu-cfg apply --rotate keys`",
        )
    return found


def _write(path: Path, seeds: Sequence[bytes], *, is_first: bool) -> None:
    """Write a file of seeds, whole and for its user alone; the first one only where there is none."""
    text = "".join(f"{_HEX}{seed.hex()}\n" for seed in seeds)
    try:
        make_private_folder(path.parent)
        path.parent.chmod(0o700)
        with suppress(FileExistsError):
            put_whole(path, text, lambda draft: _name(draft, path, is_first=is_first), mode=PRIVATE)
    except OSError as error:
        raise LoginFailed(
            f"cannot save the plan's keys: {error.strerror}",
            subject=str(path),
            remedy="make the state folder writable, or set `training.keys` to a secret",
        ) from error


def _name(draft: Path, path: Path, *, is_first: bool) -> None:
    if is_first:
        take_name(draft, path)
    else:
        draft.replace(path)


def _meanwhile(path: Path) -> LoginFailed:
    return LoginFailed(
        "another run has changed the plan's keys since this run read them",
        subject=str(path),
        remedy="rerun the command",
    )
