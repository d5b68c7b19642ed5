"""What a guest shall have, the mark that says what was staged in it, and what it reports of itself.

Which ssh host key a guest is known by: the one that it made and told, or one that was made beforehand.

A guest makes its host key at its first boot and reports the public half; the run keeps that on the VM. Guests
that were given a derived key, by an earlier release or because their secrets are exposed, keep it.

What a user's own #cloud-config may say beside what this tool sends with a clone.

Lists that both have are joined, any other key that both set must be set alike, and no account and no file
may come from both: the later one would win without a word.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from pydantic import Field, ValidationError, field_validator

from vgpu_cfg.model.frozen import Frozen
from vgpu_cfg.model.guests.base import ModuleBase
from vgpu_cfg.model.guests.modules import GuestModule
from vgpu_cfg.model.plan_file import LoginEntry

GUEST_MARK_KEY = "vgpu_cfg.guest"
"""The extraConfig key of what was staged in a guest: words `name:digest` or `name:digest:fingerprint`.

The fingerprint of what writes host keys has theirs behind a dash.
"""

BEGUN = "begun"
"""The word of a mark whose guest was made for a plan, and has never been staged whole.

Until anything of it was staged a word `keys=` tells beside it by whose keys its clone can be logged in to.
"""

REPORT_KEY = "guestinfo.vgpu_cfg.report"
"""The guestinfo key in which the guest reports what became of its modules."""

USERDATA_KEY = "guestinfo.userdata"
"""The guestinfo key that carries a guest's #cloud-config until the guest has read it.

Secrets are in it only where the plan file says that they may be exposed.
"""

REDACTED = "---"
"""What cloud-init leaves of a value that it was told to redact."""

LONGEST_WHY = 200
"""The signs of a module's reason that are kept."""

WITHHELD = "withheld"
"""What a reading keeps of user data that is still there: that it is."""


M = TypeVar("M", bound=ModuleBase)

# Belief: guests-write-guestinfo-only, guest-programs-write-guestinfo.
HOST_KEY_KEY = "vgpu_cfg.guest.host_key"
"""The extraConfig key of the public host key that a guest has told; no guest can write it."""

AWAITED = "awaited"
"""What stands there from the clone on, until the guest has told its key."""

DERIVED = "derived"
"""Stands for the key that follows from the plan's seed and the VM's name."""

UNKNOWN = ""
"""Stands for a key that nobody knows yet."""

TO_COME = "to come"
"""Stands for a key that the guest tells in the run that is being planned."""

_PUBLIC_KEY = re.compile(
    r"(ssh-ed25519|ssh-rsa|ecdsa-sha2-nistp(256|384|521)) [A-Za-z0-9+/]{40,1400}={0,2}", re.ASCII
)

HEADER = "#cloud-config"
JOINED = ("users", "write_files", "runcmd")
OWN_VALUES: Mapping[str, object] = {"preserve_hostname": False, "ssh_deletekeys": True}
"""Keys with the value that this tool gives each in every guest."""
_PRIVATE = "ssh_keys"
"""Who may read a VM's configuration may read user data, so nobody's private keys stand in it."""
_NAMED_BY = {"users": "name", "write_files": "path"}
OWN_FILES = ("/var/lib/vgpu-cfg/", "/etc/vgpu-cfg/", "/opt/vgpu-cfg/", "/usr/local/sbin/vgpu-cfg-stage")
"""Files and folders that this tool writes in guests."""


class GuestSpec(Frozen):
    """What one VM's guest shall have, and how it comes there.

    `by` is the first way; the others are tried after it where the login allows. `user_data` is the user's
    own #cloud-config, merged under this tool's. `addresses` are those by which ssh may reach the guest,
    as far as the plan says them. `wait_seconds` is how long its first boot may take. Where `is_exposed` the
    clone carries secrets too, and a host key that is made beforehand: nothing reaches the guest afterwards.
    """

    plan: str
    vm: str
    by: Literal["cloud-init", "guest-operations", "ssh"] = "cloud-init"
    login: LoginEntry = LoginEntry()
    modules: tuple[GuestModule, ...] = ()
    user_data: str = ""
    addresses: tuple[str, ...] = ()
    wait_seconds: int = 1800
    is_exposed: bool = False

    @property
    def public(self) -> tuple[str, ...]:
        """The kinds of its modules that come before the first one that is nobody else's business."""
        names: list[str] = []
        for one in self.modules:
            if one.is_private:
                break
            names.append(one.kind)
        return tuple(names)

    @property
    def carried(self) -> tuple[str, ...]:
        """The kinds of its modules that a clone carries to its first boot."""
        return tuple(one.kind for one in self.modules) if self.is_exposed else self.public

    @property
    def digest(self) -> str:
        """Ten hex digits over all modules."""
        return hashlib.sha256(" ".join(one.digest for one in self.modules).encode()).hexdigest()[:10]

    @property
    def secrets(self) -> tuple[str, ...]:
        """The names of all secrets that its modules write or its login takes, each once."""
        login = [name for name in (self.login.password, self.login.key) if name]
        return tuple(dict.fromkeys([*(name for one in self.modules for name in one.secrets), *login]))

    def get(self, kind: type[M]) -> M | None:
        """Return its module of a class, None where the guest has none."""
        return next((one for one in self.modules if isinstance(one, kind)), None)

    def module(self, kind: str) -> GuestModule | None:
        """Return its module of a kind, by the kind's name; None where the guest has none."""
        return next((one for one in self.modules if one.kind == kind), None)


class StagedModule(Frozen):
    """What the mark says of one module: its digest, and fingerprints of what was written with it.

    `fingerprint` is that of secrets, `host_keys` that of other guests' host keys.
    """

    digest: str
    fingerprint: str = ""
    host_keys: str = ""


def print_mark(staged: Mapping[str, StagedModule]) -> str:
    """Say in the mark's words what was staged; `parse_mark` reads it again."""
    return " ".join(
        ":".join(filter(None, (name, one.digest, "-".join(filter(None, (one.fingerprint, one.host_keys))))))
        for name, one in sorted(staged.items())
    )


def parse_mark(text: str) -> dict[str, StagedModule]:
    """Read a mark; words that are none are left out, since the key is open to everybody."""
    found: dict[str, StagedModule] = {}
    for word in text.split():
        parts = word.split(":")
        if len(parts) in (2, 3) and all(parts):
            fingerprint, _, host_keys = (parts[2] if len(parts) == 3 else "").partition("-")
            found[parts[0]] = StagedModule(digest=parts[1], fingerprint=fingerprint, host_keys=host_keys)
    return found


def fingerprint_of(module: GuestModule, fingerprints: Mapping[str, str]) -> str | None:
    """Join the fingerprints of a module's secrets; "" where it has none, None where one is not known."""
    if not module.secrets:
        return ""
    known = [fingerprints.get(name) for name in module.secrets]
    if any(one is None for one in known):
        return None
    return hashlib.sha256(" ".join(filter(None, known)).encode()).hexdigest()[:8]


def outdated(
    modules: Iterable[GuestModule],
    mark: Mapping[str, StagedModule],
    fingerprints: Mapping[str, str],
    host_keys: Mapping[str, str] | None = None,
) -> tuple[str, ...]:
    """Name the modules that the guest lacks or has with other parameters, secrets or host keys, in order.

    A secret whose fingerprint is not known is taken to be the one that was written. `host_keys` says by which
    host key each VM's guest is known (see `host_keys`); without it none is compared.
    """
    found: list[str] = []
    for module in modules:
        staged = mark.get(module.kind)
        fingerprint = fingerprint_of(module, fingerprints)
        if (
            staged is None
            or staged.digest != module.digest
            or fingerprint not in (None, staged.fingerprint)
            or (host_keys is not None and staged.host_keys != host_keys_fingerprint(module, host_keys))
        ):
            found.append(module.kind)
    return tuple(found)


class ModuleState(Frozen):
    """What became of one module in the guest.

    `state` is "waiting", "present" (it was there already), "done", "warned" (it is there, but for what `why`
    says), "reboot" (the guest restarts for it), "hand" (somebody must do the rest) or "failed". Of name and
    reason, which the guest can write as it likes, one short line is kept.
    """

    name: str
    state: Literal["waiting", "present", "done", "warned", "reboot", "hand", "failed"]
    digest: str = ""
    why: str = ""

    @field_validator("name", "why")
    @classmethod
    def _one_line(cls, text: str) -> str:
        return " ".join(text[: 2 * LONGEST_WHY].split())[:LONGEST_WHY]


class GuestReport(Frozen):
    """What a guest reports of its staging: `spec` is the digest of what it was given.

    `host_key` is the public key that its sshd shows, "" where it told none that is one. `run` is the
    word that whoever started the staging gave it: an old report is not taken for a new one.
    """

    spec: str = ""
    run: str = ""
    state: Literal["running", "reboot", "done", "hand", "failed"]
    modules: tuple[ModuleState, ...] = ()
    host_key: str = ""

    @field_validator("host_key")
    @classmethod
    def _public_key(cls, text: str) -> str:
        return text if is_host_key(text) else ""

    def first_in(self, state: str) -> ModuleState | None:
        """Return the first module in a state, None where there is none."""
        return next((one for one in self.modules if one.state == state), None)


def parse_report(text: str) -> GuestReport | None:
    """Read a guest's report; None for what is none, since the guest can write what it likes."""
    try:
        return GuestReport.model_validate_json(text) if text else None
    except ValidationError:
        return None


_IS_THERE = frozenset({"present", "done", "warned"})
_UNFINISHED = frozenset({"waiting", "reboot", "failed"})


def is_expected(module: GuestModule, report: GuestReport | None, marked: Collection[str]) -> bool:
    """Whether a guest has a module by its own report, or was being given it for the first time.

    `marked` are the kinds of modules in the VM's mark.
    """
    kind = module.kind
    reported = next((one for one in report.modules if one.name == kind), None) if report else None
    if reported is None:
        return False
    is_there = reported.state in _IS_THERE and reported.digest == module.digest
    return is_there or (reported.state in _UNFINISHED and kind not in marked)


class GuestFile(Frozen):
    """A file for a guest: an absolute path, text, permissions. It may hold secrets: it is never printed."""

    path: str
    content: str = Field(repr=False)
    mode: int = 0o644


class GuestBundle(Frozen):
    """What is brought into a guest: files, and the command that stages them."""

    spec: str
    files: tuple[GuestFile, ...] = Field(repr=False)
    command: Sequence[str] = ()


def is_host_key(text: str) -> bool:
    """Whether a text is a public host key, as one line of two words, and nothing besides."""
    return _PUBLIC_KEY.fullmatch(text) is not None


def kept_host_key(settings: Mapping[str, str], *, is_staged: bool, is_exposed: bool) -> str:
    """Return by which host key a VM's guest is known: a public key, DERIVED or UNKNOWN.

    `settings` is the VM's extraConfig, `is_staged` whether it has a mark: it was made
    for a plan, or staged.
    """
    kept = settings.get(HOST_KEY_KEY, "")
    if is_host_key(kept):
        return kept
    return DERIVED if is_exposed or (is_staged and not kept) else UNKNOWN


def host_keys_fingerprint(module: ModuleBase, host_keys: Mapping[str, str]) -> str:
    """Return eight hex digits over the host keys that a module writes; "" where none is but derived ones."""
    words = [
        f"{name}={key}" for name in module.host_keys_of if (key := host_keys.get(name, UNKNOWN)) != DERIVED
    ]
    return hashlib.sha256("\n".join(words).encode()).hexdigest()[:8] if words else ""


@dataclass(frozen=True, slots=True)
class Clash:
    """What cannot be merged, where in the user's file, and what to do."""

    loc: tuple[str | int, ...]
    message: str
    remedy: str


def clashes(theirs: Mapping[str, Any], ours: Mapping[str, Any]) -> Iterator[Clash]:
    """Yield what keeps a user's #cloud-config from being merged under ours."""
    for key in JOINED:
        if key in theirs and not isinstance(theirs[key], list):
            yield Clash((key,), f"its {key} is not a list", f"write {key} as a list")
        elif key in _NAMED_BY:
            yield from _doubles(key, theirs.get(key, ()), ours.get(key, ()))
    if _PRIVATE in theirs:
        message = f"it sets {_PRIVATE}, but private keys must not be in user data"
        yield Clash((_PRIVATE,), message, f"remove {_PRIVATE}")
    for key in theirs.keys() & ours.keys() - {*JOINED, _PRIVATE}:
        if theirs[key] != ours[key]:
            message = f"it sets {key}, which vgpu-cfg also sets"
            yield Clash((key,), message, f"remove {key}")


def _doubles(key: str, theirs: list[Any], ours: list[Any]) -> Iterator[Clash]:
    by = _NAMED_BY[key]
    mine = {one[by] for one in ours if isinstance(one, dict)}
    for index, one in enumerate(theirs):
        name = one.get(by) if isinstance(one, dict) else one
        if isinstance(name, str) and (name in mine or name.startswith(OWN_FILES)):
            message = f"its {key} contain {name}, which vgpu-cfg also creates"
            yield Clash((key, index), message, "remove it from the user data or from the plan file")
