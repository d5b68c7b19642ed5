"""What a module of the bundle is played with: the guest, parameters as the manifest has them, secrets.

A module has a check, an application, and a duration; it says what became of it in a word.
"""

from __future__ import annotations

import hashlib
import json
import posixpath
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vgpu_cfg.lab.guest.system.creation import guest_of
from vgpu_cfg.lab.guest.system.nics import SeenNic, find_nic, nics_of_guest
from vgpu_cfg.lab.simulation.simulation import Simulation
from vgpu_cfg.lab.state.guest import File, Guest
from vgpu_cfg.lab.state.inventory import VirtualMachine

FOLDER = "/var/lib/vgpu-cfg"
SECRETS, FILES = f"{FOLDER}/secrets", f"{FOLDER}/files"
DROPS = "drop_secret"
NOT_FOR_OTHERS = 0o077


class ModuleFailedError(Exception):
    """A module did not come true; the text says why, as its script would."""


@dataclass(frozen=True, slots=True)
class WorkResult:
    """What became of an application: `done`, `warned`, `reboot` or `hand`."""

    word: str = "done"
    why: str = ""


DONE = WorkResult()


@dataclass(frozen=True, slots=True)
class Work:
    """One module to be played in one guest. `script` is the text of its script."""

    lab: Simulation
    vm: VirtualMachine
    kind: str
    parameters: Mapping[str, Any]
    script: str

    @property
    def guest(self) -> Guest:
        """The guest that it is played in."""
        return guest_of(self.vm)

    def text(self, name: str) -> str:
        """Return a parameter as text. Raises ModuleFailedError where the manifest lacks it."""
        return str(self.value(name) or "")

    def value(self, name: str) -> Any:
        """Return a parameter. Raises ModuleFailedError where the manifest lacks it."""
        if name not in self.parameters:
            raise ModuleFailedError(f"the manifest does not say {name} of {self.kind}")
        return self.parameters[name]

    def texts(self, name: str) -> tuple[str, ...]:
        """Return a parameter that is a list of texts."""
        found = self.value(name)
        return tuple(str(each) for each in found) if isinstance(found, list) else ()

    def parts(self, name: str) -> list[Mapping[str, Any]]:
        """Return a parameter that is a list of mappings."""
        found = self.value(name)
        return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []

    def seen_nics(self) -> list[SeenNic]:
        """Return the guest's NICs as they are now."""
        return nics_of_guest(self.lab.state, self.vm)

    def nic(self, part: Mapping[str, Any]) -> SeenNic:
        """Return the NIC that a parameter means. Raises ModuleFailedError where the guest has none such."""
        mac, driver = str(part.get("mac") or ""), str(part.get("driver") or "")
        found = find_nic(self.seen_nics(), mac=mac, driver=driver)
        if found is None:
            what = f"the MAC {mac}" if mac else f"the driver {driver}"
            raise ModuleFailedError(f"no network interface has {what}")
        return found

    def secret_files(self) -> dict[str, File]:
        """Return the secrets that lie ready for this module: those that its script names."""
        return {
            path: file
            for path, file in self.guest.files.items()
            if path.startswith(f"{SECRETS}/") and posixpath.basename(path) in self.script
        }

    def bundle_file(self, name: str) -> str:
        """Return the text of a file without secrets that the bundle brought, "" where there is none."""
        found = self.guest.files.get(f"{FILES}/{name}")
        return found.content if found is not None else ""

    def secret(self, name: str) -> str | None:
        """Return the text of the secret that lies ready, None where none does.

        Raises ModuleFailedError for one that others may read.
        """
        found = self.secret_files()
        for path, file in found.items():
            if file.mode & NOT_FOR_OTHERS:
                raise ModuleFailedError(f"{path} may be read by others")
        named = [file for path, file in found.items() if posixpath.basename(path) == name]
        chosen = named or list(found.values())
        return chosen[0].content.strip() if chosen else None

    def drop_secrets(self) -> None:
        """Remove the secrets that the script drops when it is done."""
        if DROPS in self.script:
            for path in self.secret_files():
                del self.guest.files[path]

    @property
    def digest(self) -> str:
        """What this module writes, in short: its parameters, its script, and the secrets that lie ready."""
        content = [
            self.parameters,
            self.script,
            sorted(file.content for file in self.secret_files().values()),
        ]
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]

    def is_written(self) -> bool:
        """Whether the guest has exactly what this module writes, and no secret lies ready for it anew."""
        before = self.guest.blocks.get(self.kind, "")
        if self.secret_files():
            return before.partition(" ")[0] == self.digest
        return before.partition(" ")[2] == self.digest_without_secrets

    @property
    def digest_without_secrets(self) -> str:
        """The digest without secrets."""
        return hashlib.sha256(
            json.dumps([self.parameters, self.script], sort_keys=True).encode()
        ).hexdigest()[:16]

    def mark_written(self) -> None:
        """Note what was written, and drop its secrets."""
        self.guest.blocks[self.kind] = f"{self.digest} {self.digest_without_secrets}"
        self.drop_secrets()


Check = Callable[[Work], bool]
Apply = Callable[[Work], WorkResult]
Seconds = Callable[[Work], float]
Warns = Callable[[Work], str]


@dataclass(frozen=True, slots=True)
class Module:
    """How a module is played."""

    check: Check
    apply: Apply
    seconds: Seconds
    warning: Warns
    """What it warns of where it is there, "" for nothing."""


MODULES: dict[str, Module] = {}
"""By kind; filled by the modules below `guest`."""


def _nothing(_work: Work) -> str:
    return ""


def applies(
    kind: str, check: Check, *, seconds: float | Seconds = 1.0, warning: Warns = _nothing
) -> Callable[[Apply], Apply]:
    """Register what a module's application does."""

    def register(apply: Apply) -> Apply:
        lasts: Seconds = seconds if callable(seconds) else (lambda _work: float(seconds))
        MODULES[kind] = Module(check, apply, lasts, warning)
        return apply

    return register


def is_written(work: Work) -> bool:
    """Check a module that is nothing but files."""
    return work.is_written()


def names(parts: Sequence[str]) -> str:
    """Return words as a text tells them."""
    return ", ".join(parts)
