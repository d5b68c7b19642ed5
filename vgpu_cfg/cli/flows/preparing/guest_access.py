"""A command's supplies for guests: the plan's keys and secrets, and the tools that stage them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from vgpu_cfg.cli.output import show
from vgpu_cfg.errors import LoginFailed
from vgpu_cfg.model.desired import DesiredPlan
from vgpu_cfg.model.guests.base import PLAN_KEYS
from vgpu_cfg.model.observed.inventory import Inventory
from vgpu_cfg.model.ranges import fold_names
from vgpu_cfg.planning.guests.guest_checks import remedy_absent, remedy_foreign
from vgpu_cfg.planning.guests.plan_keys import KEYS, Held, KeysOfGuests, keys_in, marks_of
from vgpu_cfg.settings.connection import LAB_PASSWORD
from vgpu_cfg.settings.environment import state_folder
from vgpu_cfg.settings.plan_keys import (
    PlanSeeds,
    fingerprint,
    new_seeds,
    read_seeds,
    seed_file,
    seeds_of_secret,
)
from vgpu_cfg.settings.secrets import expiry_of

if TYPE_CHECKING:
    from vgpu_cfg.changes.plan import Plan
    from vgpu_cfg.cli.compose import Estate
    from vgpu_cfg.execution import GuestTools
    from vgpu_cfg.planning.findings.options import PlanOptions
    from vgpu_cfg.ports import GuestShells
    from vgpu_cfg.settings.connection import Connection
    from vgpu_cfg.settings.secrets import SecretStore
    from vgpu_cfg.shells.keys import PlanKeyRing


@dataclass(frozen=True, slots=True)
class GuestSecrets:
    """The secrets of a plan's guests, and how versions of them are distinguished."""

    seeds: PlanSeeds
    values: Mapping[str, str] = field(repr=False)

    @property
    def fingerprints(self) -> dict[str, str]:
        """Return a fingerprint of each secret, by its name."""
        seed = self.seeds.value
        reported = {name: fingerprint(seed, name, value) for name, value in self.values.items()}
        return {PLAN_KEYS: fingerprint(seed, PLAN_KEYS, ""), **reported}

    @property
    def former(self) -> tuple[str, ...]:
        """The fingerprints of the seeds before the current one."""
        return tuple(fingerprint(seed, PLAN_KEYS, "") for seed in self.seeds.former)

    def in_options(self, options: PlanOptions) -> PlanOptions:
        """Let planning see which secrets have changed.

        A file has seeds after the first only if replacing them was approved and interrupted.
        """
        is_under_way = bool(self.seeds.former) and self.seeds.path is not None
        rotate = tuple(dict.fromkeys((*options.rotate, KEYS))) if is_under_way else options.rotate
        options = _with_expiries(options, self.values)
        return replace(options, fingerprints=self.fingerprints, former_keys=self.former, rotate=rotate)

    def tools(self, estate: Estate) -> GuestTools:
        """Gather what sets guests up during a run."""
        from vgpu_cfg.execution import GuestTools
        from vgpu_cfg.staging.stager import Stager

        former = dict(zip(self.former, self.seeds.former, strict=True))
        stager = Stager(self.seeds.value, self.values, self.fingerprints, former)
        return GuestTools(stager=stager, shells=estate.guest_logins(_key_ring(self.seeds), self.values))

    def settle(self, desired: DesiredPlan, observed: Inventory, left: Plan) -> None:
        """Forget former keys if they are kept here and no guest needs them."""
        if self.seeds.path is None or not self.seeds.former:
            return
        from vgpu_cfg.planning.findings.options import PlanOptions

        keys = KeysOfGuests.of(self.in_options(PlanOptions()), desired.identity, observed)
        is_staging = any(change.staged for change in left.changes)
        if not is_staging and keys.is_over(marks_of(desired.identity, observed).values()):
            self.seeds.settle()
            show.say(f"{self.seeds.path}: all guests have the new keys; the old keys were discarded")


def has_guests(desired: DesiredPlan) -> bool:
    """Whether a plan sets up any guest."""
    return any(vm.guest is not None and vm.guest.is_staged for vm in desired.vms)


def secret_names(desired: DesiredPlan, observed: Inventory) -> tuple[str, ...]:
    """Name the secrets of the plan's guests or their logins, without that of its keys.

    Each module of a guest states its own, so that secrets are fetched before anything begins.
    """
    from vgpu_cfg.planning.addresses import AddressBook
    from vgpu_cfg.planning.guests.specs import guest_specs

    specs = guest_specs(desired, AddressBook(desired, observed).nics_of_all())
    names = dict.fromkeys(name for spec in specs.values() for name in spec.secrets)
    return tuple(name for name in names if name != PLAN_KEYS)


def with_fingerprints(
    desired: DesiredPlan,
    observed: Inventory,
    options: PlanOptions,
    connection: Connection,
    secrets: SecretStore,
) -> PlanOptions:
    """Let planning see which secrets have changed, as far as they can be fetched; nothing is made or refused.

    Nothing is fetched for a recording.
    """
    if not has_guests(desired) or connection.recording is not None:
        return options
    try:
        seeds = _seeds_of(desired, observed, secrets, options, is_lab=connection.is_lab)
    except LoginFailed:
        return options
    found: dict[str, str] = {}
    for name in secret_names(desired, observed):
        try:
            value = _find(secrets, name, is_lab=connection.is_lab)
        except LoginFailed:
            continue
        if value is not None:
            found[name] = value
    options = _with_expiries(options, found)
    return options if seeds is None else GuestSecrets(seeds, found).in_options(options)


def _with_expiries(options: PlanOptions, values: Mapping[str, str]) -> PlanOptions:
    ends = {name: expiry_of(value) for name, value in values.items()}
    return replace(options, expiries={name: end for name, end in ends.items() if end is not None})


def guest_secrets(
    desired: DesiredPlan, observed: Inventory, options: PlanOptions, secrets: SecretStore, *, is_lab: bool
) -> GuestSecrets | None:
    """Fetch the secrets to set up the plan's guests, None for a plan without guests.

    On the lab any value will do. A plan without a seed gets one, which must be kept before it is used. Raises
    LoginFailed for missing secrets, and for keys that are not those of its guests; no value is ever printed.
    """
    if not has_guests(desired):
        return None
    seeds = _seeds_of(desired, observed, secrets, options, is_lab=is_lab)
    if seeds is None:
        _refuse_absent(desired, observed)
        seeds = new_seeds(_file(desired, observed))
    names = secret_names(desired, observed)
    found = {name: _find(secrets, name, is_lab=is_lab) or secrets.get(name) for name in names}
    fetched = GuestSecrets(seeds, found)
    _refuse_foreign(desired, observed, fetched.in_options(options))
    return fetched


def login_shells(
    desired: DesiredPlan, observed: Inventory, estate: Estate, secrets: SecretStore
) -> GuestShells:
    """Gather what logs in to the plan's guests, and no other secret of theirs; no seed is made.

    Raises LoginFailed for a secret of a login that is not there, and where the plan has no keys here.
    """
    seeds = _known_seeds(desired, observed, secrets, is_lab=estate.is_lab)
    if seeds is None:
        raise LoginFailed(
            "the plan's keys are not on this machine, so vgpu-cfg cannot log in to its guests",
            subject=str(_file(desired, observed)),
            remedy=remedy_absent(desired),
        )
    logins = [vm.guest.login for vm in desired.vms if vm.guest is not None]
    names = dict.fromkeys(name for one in logins for name in (one.password, one.key) if name)
    found = {name: _find(secrets, name, is_lab=estate.is_lab) or secrets.get(name) for name in names}
    return estate.guest_logins(_key_ring(seeds), found)


def _key_ring(seeds: PlanSeeds) -> PlanKeyRing:
    from vgpu_cfg.shells.keys import PlanKeyRing

    return PlanKeyRing(seeds.value, seeds.former)


def _seeds_of(
    desired: DesiredPlan, observed: Inventory, secrets: SecretStore, options: PlanOptions, *, is_lab: bool
) -> PlanSeeds | None:
    """Return the seeds for a command; None if one has yet to be made.

    Those of a file are renewed when keys are replaced. Those of a secret are renewed by its owner.
    """
    known = _known_seeds(desired, observed, secrets, is_lab=is_lab)
    if KEYS not in options.rotate or (known is not None and known.path is None):
        return known
    return new_seeds(_file(desired, observed)) if known is None else known.renewed()


def _known_seeds(
    desired: DesiredPlan, observed: Inventory, secrets: SecretStore, *, is_lab: bool
) -> PlanSeeds | None:
    """Return the seeds of the plan's keys as they are kept, None where one has yet to be made."""
    name = desired.training.keys if desired.training is not None else None
    if name is not None:
        value = secrets.find(name) if is_lab and not secrets.is_held_back(name) else secrets.get(name)
        if value is not None:
            return seeds_of_secret(name, value)
    return read_seeds(_file(desired, observed))


def _refuse_absent(desired: DesiredPlan, observed: Inventory) -> None:
    """Raise LoginFailed where guests of the plan have keys already, and these are elsewhere."""
    marks = marks_of(desired.identity, observed)
    staged = [name for name, mark in marks.items() if keys_in(mark)]
    if staged:
        raise LoginFailed(
            f"the plan's keys are not on this machine; guests that use them: {fold_names(staged)}",
            subject=str(_file(desired, observed)),
            remedy=f"{remedy_absent(desired)}; if the keys are lost, set `guest.login` and run with "
            "`--rotate keys` to create new ones",
        )


def _refuse_foreign(desired: DesiredPlan, observed: Inventory, options: PlanOptions) -> None:
    """Raise LoginFailed if running guests have other keys, and replacing them was not approved."""
    keys = KeysOfGuests.of(options, desired.identity, observed)
    marks = marks_of(desired.identity, observed)
    known = {vm.name: vm for vm in observed.vms if vm.name in marks}
    foreign = {
        vm.name: marks[vm.name]
        for vm in desired.vms
        if vm.guest is not None and "guest" not in vm.ignore and vm.name in marks
        if keys.held_by(marks[vm.name], is_on=known[vm.name].is_on) is Held.FOREIGN
    }
    if foreign:
        raise LoginFailed(
            f"the keys in {fold_names(foreign)} differ from the plan's keys on this machine",
            subject=desired.name,
            remedy=remedy_foreign(desired, is_former=all(keys.reaches(mark) for mark in foreign.values())),
        )


def _file(desired: DesiredPlan, observed: Inventory) -> Path:
    return seed_file(state_folder(), desired.name, observed.vcenter.instance_uuid)


def _find(secrets: SecretStore, name: str, *, is_lab: bool) -> str | None:
    value = secrets.find(name)
    return LAB_PASSWORD if value is None and is_lab and not secrets.is_held_back(name) else value
