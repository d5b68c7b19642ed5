"""How a command comes by what guests are given: the plan's keys and secrets, and what stages them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from vgpu_cfg.errors import LoginFailed
from vgpu_cfg.model.desired import DesiredPlan
from vgpu_cfg.model.guests.base import PLAN_KEYS
from vgpu_cfg.model.guests.guest import GUEST_MARK_KEY, parse_mark
from vgpu_cfg.model.observed.inventory import Inventory
from vgpu_cfg.settings.connection import LAB_PASSWORD
from vgpu_cfg.settings.folders import state_folder
from vgpu_cfg.settings.plan_keys import (
    PlanSeed,
    fingerprint,
    new_seed,
    read_seed,
    seed_file,
    seed_of_secret,
)
from vgpu_cfg.settings.secrets import resolve_reference

if TYPE_CHECKING:
    from vgpu_cfg.cli.compose import Estate
    from vgpu_cfg.execution import GuestTools
    from vgpu_cfg.planning.findings.options import PlanOptions
    from vgpu_cfg.ports import GuestShells
    from vgpu_cfg.settings.connection import Connection


_KEYED = frozenset({"users", "ssh-mesh"})
"""The modules that bring the plan's keys into a guest."""


@dataclass(frozen=True, slots=True)
class GuestSecrets:
    """What a plan's guests are given that nobody else may see, and how it is told apart."""

    seed: PlanSeed
    values: Mapping[str, str] = field(repr=False)

    @property
    def fingerprints(self) -> dict[str, str]:
        """What each secret is now, without telling it, by its name."""
        reported = {name: fingerprint(self.seed, name, value) for name, value in self.values.items()}
        return {PLAN_KEYS: fingerprint(self.seed, PLAN_KEYS, ""), **reported}

    def in_options(self, options: PlanOptions) -> PlanOptions:
        """Let planning see which secrets have changed."""
        return replace(options, fingerprints=self.fingerprints)

    def tools(self, estate: Estate) -> GuestTools:
        """Gather what sets guests up during a run."""
        from vgpu_cfg.execution import GuestTools
        from vgpu_cfg.shells.keys import PlanKeyRing
        from vgpu_cfg.staging.stager import Stager

        keys = PlanKeyRing(self.seed.value)
        stager = Stager(self.seed.value, self.values, self.fingerprints)
        return GuestTools(stager=stager, shells=estate.guest_logins(keys, self.values))


def has_guests(desired: DesiredPlan) -> bool:
    """Whether a plan sets up any guest."""
    return any(vm.guest is not None for vm in desired.vms)


def secret_names(desired: DesiredPlan) -> tuple[str, ...]:
    """Name the secrets that the plan's guests are given or logged in to with; not the one of its keys."""
    names: list[str | None] = []
    for guest in (vm.guest for vm in desired.vms if vm.guest is not None):
        names += [guest.login.password, guest.login.key, guest.licence.token if guest.licence else None]
    training = desired.training
    if training is not None:
        names.append(training.registry.password if training.registry else None)
        names.append(training.monitoring.grafana_password if training.monitoring else None)
    return tuple(dict.fromkeys(name for name in names if name))


def with_fingerprints(
    desired: DesiredPlan, observed: Inventory, options: PlanOptions, connection: Connection
) -> PlanOptions:
    """Let planning see which secrets have changed, as far as they can be fetched; nothing is made or refused.

    Nothing is fetched for a recording.
    """
    if not has_guests(desired) or connection.recording is not None:
        return options
    try:
        seed = _known_seed(desired, observed, is_lab=connection.is_lab)
    except LoginFailed:
        return options
    if seed is None:
        return options
    found: dict[str, str] = {}
    for name in secret_names(desired):
        try:
            value = _fetch(desired, name, is_lab=connection.is_lab)
        except LoginFailed:
            continue
        if value is not None:
            found[name] = value
    return GuestSecrets(seed, found).in_options(options)


def guest_secrets(desired: DesiredPlan, observed: Inventory, *, is_lab: bool) -> GuestSecrets | None:
    """Fetch what setting up the plan's guests takes, None for a plan without guests.

    On the lab any value will do. A plan that has no seed yet gets one, which is to be kept before it is
    used. Raises LoginFailed for what is not there; no value is ever printed.
    """
    if not has_guests(desired):
        return None
    seed = _known_seed(desired, observed, is_lab=is_lab) or _first_seed(desired, observed)
    found: dict[str, str] = {}
    for name in secret_names(desired):
        value = _fetch(desired, name, is_lab=is_lab)
        if value is None:
            raise _absent(desired, name)
        found[name] = value
    return GuestSecrets(seed, found)


def login_shells(desired: DesiredPlan, observed: Inventory, estate: Estate) -> GuestShells:
    """Gather what logs in to the plan's guests, and no other secret of theirs; no seed is made.

    Raises LoginFailed for a secret of a login that is not there, and where the plan has no keys here.
    """
    from vgpu_cfg.shells.keys import PlanKeyRing

    seed = _known_seed(desired, observed, is_lab=estate.is_lab)
    if seed is None:
        raise LoginFailed(
            "the plan's keys are not on this machine, so that its guests cannot be logged in to",
            subject=str(_file(desired, observed)),
            remedy="copy the file from the machine that applied the plan, or apply it here",
        )
    logins = [vm.guest.login for vm in desired.vms if vm.guest is not None]
    names = dict.fromkeys(name for one in logins for name in (one.password, one.key) if name)
    found: dict[str, str] = {}
    for name in names:
        value = _fetch(desired, name, is_lab=estate.is_lab)
        if value is None:
            raise _absent(desired, name)
        found[name] = value
    return estate.guest_logins(PlanKeyRing(seed.value), found)


def _known_seed(desired: DesiredPlan, observed: Inventory, *, is_lab: bool) -> PlanSeed | None:
    """Return the seed of the plan's keys, None where it has yet to be made."""
    name = desired.training.keys if desired.training is not None else None
    if name is not None:
        reference = desired.secrets.get(name)
        value = resolve_reference(str(reference)) if reference is not None else None
        if value is not None:
            return seed_of_secret(name, value)
        if not is_lab:
            raise _absent(desired, name)
    return read_seed(_file(desired, observed))


def _first_seed(desired: DesiredPlan, observed: Inventory) -> PlanSeed:
    """Make the plan's seed, unless its guests show that there was one, and it is elsewhere."""
    path = _file(desired, observed)
    staged = [
        vm.name
        for vm in observed.vms
        if vm.is_of(desired.identity) and vm.detail is not None
        if _KEYED & parse_mark(vm.detail.extra_config.get(GUEST_MARK_KEY, "")).keys()
    ]
    if staged:
        raise LoginFailed(
            f"the plan's keys are not on this machine, and {staged[0]} was set up with them",
            subject=str(path),
            remedy="copy the file from the machine that applied the plan first, or keep one seed for all "
            "machines under `training.keys`; for new keys put `openssl rand -hex 32` there, with mode 600",
        )
    return new_seed(path)


def _file(desired: DesiredPlan, observed: Inventory) -> Path:
    return seed_file(state_folder(), desired.name, observed.vcenter.instance_uuid)


def _fetch(desired: DesiredPlan, name: str, *, is_lab: bool) -> str | None:
    reference = desired.secrets.get(name)
    value = resolve_reference(str(reference)) if reference is not None else None
    return LAB_PASSWORD if value is None and is_lab else value


def _absent(desired: DesiredPlan, name: str) -> LoginFailed:
    reference = desired.secrets.get(name)
    return LoginFailed(
        f"the secret {name!r} is not there",
        subject=str(reference) if reference is not None else name,
        remedy="set the variable, or write the keyring's entry, that `secrets` refers to",
    )
