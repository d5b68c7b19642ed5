"""A guest's desired state, the mark with its staged modules, its reports, its host key, and its user data.

A guest's trusted SSH host key is the one that it generated and reported, or one generated in advance. A guest
makes its host key at its first boot and reports the public half; the run keeps that on the VM. Guests that
were given a derived key, by an earlier release or because their secrets are exposed, keep it.

A user's own #cloud-config is allowed next to vgpu-cfg's: lists that both have are joined, any other key that
both set must be set alike, and no account and no file may come from both: the later one would win without a
word.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from pydantic import Field, ValidationError, field_validator

from vgpu_cfg.model.frozen import Frozen
from vgpu_cfg.model.guests.base import GuestNic, ModuleBase
from vgpu_cfg.model.guests.modules import GuestModule
from vgpu_cfg.model.plan_file import LoginEntry

GUEST_MARK_KEY = "vgpu_cfg.guest"
"""The extraConfig key of a guest's staged modules: words `name:digest` or `name:digest:fingerprint`.

The fingerprint of what writes host keys has theirs behind a dash.
"""
TRAINING_KEY = "vgpu_cfg.training"
"""The extraConfig key of a VM whose training a run has paused: `PAUSED` until a run has resumed it."""
PAUSED = "paused"
TRAINING_REPORT_KEY = "guestinfo.vgpu_cfg.training"
"""The guestinfo key in which a guest reports the training that runs on it; see `parse_training`."""

BEGUN = "begun"
"""The word of a mark whose guest was made for a plan, and has never been staged whole.

Until the first module is staged, a word `keys=` also identifies the keys for logging in to the clone.
"""

REPORT_KEY = "guestinfo.vgpu_cfg.report"
"""The guestinfo key in which the guest reports what became of its modules."""

DRIVER_KEY = "guestinfo.vgpu_cfg.driver"
"""The guestinfo key in which a guest reports the version of its NVIDIA driver, staged or not."""

USERDATA_KEY = "guestinfo.userdata"
"""The guestinfo key that carries a guest's #cloud-config until the guest has read it.

Secrets are in it only where the plan file says that they may be exposed.
"""

REDACTED = "---"
"""The text that replaces a value that cloud-init redacts."""

LONGEST_WHY = 200
"""The signs of a module's reason that are kept."""

WITHHELD = "withheld"
"""The placeholder that a reading stores for user data that still exists."""


M = TypeVar("M", bound=ModuleBase)

# Belief: guests-write-guestinfo-only, guest-programs-write-guestinfo.
HOST_KEY_KEY = "vgpu_cfg.guest.host_key"
"""The extraConfig key of the public host key that a guest reported; no guest can write it."""

AWAITED = "awaited"
"""Its value from the clone's creation until the guest reports its key."""

DERIVED = "derived"
"""A placeholder for the key derived from the plan's seed and the VM's name."""

UNKNOWN = ""
"""A placeholder for a key that is not yet known."""

TO_COME = "to come"
"""A placeholder for a key that the guest reports in the planned run."""

_PUBLIC_KEY = re.compile(
    r"(ssh-ed25519|ssh-rsa|ecdsa-sha2-nistp(256|384|521)) [A-Za-z0-9+/]{40,1400}={0,2}", re.ASCII
)

HEADER = "#cloud-config"
JOINED = ("users", "write_files", "runcmd")
OWN_VALUES: Mapping[str, object] = {"preserve_hostname": False, "ssh_deletekeys": True}
"""Keys with the value that this tool gives each in every guest."""
_PRIVATE = "ssh_keys"
"""User data is readable with the VM's configuration, so it must not contain private keys."""
_NAMED_BY = {"users": "name", "write_files": "path"}
OWN_FILES = ("/var/lib/vgpu-cfg/", "/etc/vgpu-cfg/", "/opt/vgpu-cfg/", "/usr/local/sbin/vgpu-cfg-stage")
"""Files and folders that this tool writes in guests."""


class GuestSpec(Frozen):
    """One VM's desired guest, and how it is delivered.

    `by` is the first way; the others are tried after it where the login allows. `user_data` is the user's
    own #cloud-config, merged under this tool's. `addresses` are those by which ssh may reach the guest,
    if the plan sets them. `wait_seconds` is the maximum duration of its first boot. If `is_exposed`, the
    clone carries secrets too, and a host key that is made beforehand: nothing reaches the guest afterwards.
    `customized` are the NICs whose addresses vCenter's customization sets: they are only verified.
    """

    plan: str
    vm: str
    by: Literal["cloud-init", "guest-operations", "ssh"] = "cloud-init"
    login: LoginEntry = LoginEntry()
    modules: tuple[GuestModule, ...] = ()
    user_data: str = ""
    addresses: tuple[str, ...] = ()
    customized: tuple[GuestNic, ...] = ()
    wait_seconds: int = 1800
    is_exposed: bool = False

    @property
    def public(self) -> tuple[str, ...]:
        """The kinds of its modules that precede the first one with secrets."""
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
    """A module's entry in the mark: its digest, and the fingerprints of the secrets written with it.

    `fingerprint` is that of secrets, `host_keys` that of other guests' host keys.
    """

    digest: str
    fingerprint: str = ""
    host_keys: str = ""


def print_mark(staged: Mapping[str, StagedModule]) -> str:
    """Format the staged modules as a mark; `parse_mark` parses it."""
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
    """The result of one module in the guest.

    `state` is "waiting", "present" (it was there already), "done", "warned" (it is there, but for what `why`
    says), "reboot" (the guest restarts for it), "hand" (a manual step remains) or "failed". Of name and
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
    """A guest's staging report: `spec` is the digest of its specification.

    `host_key` is its sshd's public key; "" if it reported no valid one. `run` is the
    word set when staging was started, which distinguishes new reports from old ones.
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
    """Parse a guest's report; None if it is not one, since the guest can write any text."""
    try:
        return GuestReport.model_validate_json(text) if text else None
    except ValidationError:
        return None


_DRIVER = re.compile(r"\d{3}(\.\d{1,4}){1,3}", re.ASCII)


def parse_driver(text: str) -> str:
    """Return the version of the NVIDIA driver that a guest reports; "" if it is none."""
    return text if _DRIVER.fullmatch(text) else ""


_TRAINING = re.compile(r"since \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC, [a-z]{1,20}, \d{1,7} ranks", re.ASCII)


def parse_training(text: str) -> str:
    """Return a guest's words on the training that runs on it; "" if they are no such report."""
    return text if _TRAINING.fullmatch(text) else ""


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
    """Files to copy to a guest, and the command that stages them."""

    spec: str
    files: tuple[GuestFile, ...] = Field(repr=False)
    command: Sequence[str] = ()


def is_host_key(text: str) -> bool:
    """Whether a text is a public host key: one line of exactly two words."""
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
    """A conflict that prevents merging, its position in the user's file, and the remedy."""

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
