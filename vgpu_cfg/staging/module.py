"""What a module of a guest becomes: files, and the two halves of its script.

A file of `staging.modules` has one function `stage(module, context) -> Staged`. Its script is put
together from `check` and `apply`; both are bodies of POSIX sh functions in which `why TEXT` says one
line to the user and the exit status says how it went (see docs/reference/guest-bundle.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from vgpu_cfg.errors import GuestError
from vgpu_cfg.model.guests.base import ModuleBase
from vgpu_cfg.model.guests.guest import UNKNOWN, GuestFile, GuestSpec
from vgpu_cfg.shells.keys import PlanKeyRing

SECRETS_FOLDER = "/var/lib/vgpu-cfg/secrets"
"""Where files with secrets lie until the module that they are for has put them in their place."""

REBOOT, HAND = 10, 20
"""Exit statuses of `apply`: the guest restarts and goes on; the rest is a manual step."""


@dataclass(frozen=True, slots=True)
class StagingContext:
    """What modules are staged with: the guest's whole spec, the values of secrets, the plan's keys.

    `host_keys` says of VMs by which host key their guests are known (see `model.guests.host_keys`).
    """

    spec: GuestSpec
    keys: PlanKeyRing
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    host_keys: Mapping[str, str] = field(default_factory=dict)

    def of(self, module: ModuleBase) -> StagingContext:
        """Return what one module may use: of the secrets those that it states, which are fetched for it."""
        own = {name: self.secrets[name] for name in module.secrets if name in self.secrets}
        return replace(self, secrets=own)

    def secret(self, name: str, what: str) -> str:
        """Return the value of a secret. Raises GuestError where it has none."""
        value = self.secrets.get(name, "").strip("\r\n")
        if not value.strip():
            remedy = "give it a value, where the plan file's secrets say that it is"
            raise GuestError(f"{what} has no value", subject=f"{self.spec.vm}: secret {name}", remedy=remedy)
        return value

    def host_key(self, vm: str) -> str:
        """Return the public host key of a VM's guest, "" where nobody knows it yet."""
        return self.keys.public_host_key(vm, self.host_keys.get(vm, UNKNOWN))


@dataclass(frozen=True, slots=True)
class Staged:
    """What one module is in a guest. `files` are there before its script runs."""

    check: str
    apply: str
    files: tuple[GuestFile, ...] = field(default=(), repr=False)
