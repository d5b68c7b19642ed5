"""The content of the ways into a guest: cloud-init's seed, the bundle of files, and the mark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from vgpu_cfg.model.guests.base import PLAN_KEYS
from vgpu_cfg.model.guests.guest import (
    DERIVED,
    GUEST_MARK_KEY,
    GuestBundle,
    GuestSpec,
    StagedModule,
    fingerprint_of,
    host_keys_fingerprint,
    parse_mark,
    print_mark,
)
from vgpu_cfg.planning.guests.plan_keys import keys_in, mark_of_clone, word_of_keys
from vgpu_cfg.shells.keys import PlanKeyRing
from vgpu_cfg.staging import cloud_init
from vgpu_cfg.staging.bundle import RUNNER, bundle_files
from vgpu_cfg.staging.rendering import StagingContext


class Stager:
    """Implements `ports.GuestStager`.

    `seed` is that of the plan's keys, `secrets` the values of secrets by name, `fingerprints` those of the
    same and of the seed (as PLAN_KEYS). `former` are the seeds before it, by the fingerprint of each.
    """

    def __init__(
        self,
        seed: bytes,
        secrets: Mapping[str, str],
        fingerprints: Mapping[str, str],
        former: Mapping[str, bytes] | None = None,
    ) -> None:
        self._keys = PlanKeyRing(seed)
        self._former = {word_of_keys(told): PlanKeyRing(one) for told, one in (former or {}).items()}
        self._secrets = dict(secrets)
        self._fingerprints = dict(fingerprints)

    def seed(self, spec: GuestSpec) -> Mapping[str, str]:
        """Return the extraConfig of a clone whose cloud-init stages the parts that the spec permits.

        Secrets are in it only where the spec says that they may be exposed. The mark in it says which keys
        the guest comes to know.
        """
        host_keys = dict.fromkeys(_host_keys_of(spec), DERIVED) if spec.is_exposed else {}
        context = self._context(spec, host_keys)
        files = bundle_files(context, spec.carried)
        pairs = cloud_init.guest_info(context, files)
        told = self._fingerprints.get(PLAN_KEYS)
        is_keyed = any(PLAN_KEYS in one.secrets for one in spec.modules if one.kind in spec.carried)
        if told is None or not is_keyed:
            return pairs
        # Whoever goes on after a run that broke off must have these keys: the guest lets no others in.
        return {**pairs, GUEST_MARK_KEY: mark_of_clone(told)}

    def bundle(
        self, spec: GuestSpec, modules: Sequence[str], run: str, host_keys: Mapping[str, str]
    ) -> GuestBundle:
        """Return what stages the named modules of a guest that runs; `run` names the attempt.

        `host_keys` says by which host key each VM's guest is known.
        """
        files = bundle_files(self._context(spec, host_keys), modules)
        return GuestBundle(spec=spec.digest, files=files, command=(RUNNER, "--run", run, *modules))

    def mark(self, spec: GuestSpec, modules: Sequence[str], before: str, host_keys: Mapping[str, str]) -> str:
        """Return the mark after these modules were staged, `before` being the one until now.

        Modules removed from the spec are left out: if one returns, its check detects the current state.
        """
        staged: dict[str, StagedModule] = {}
        until_now = parse_mark(before)
        for module in spec.modules:
            if module.kind in modules:
                fingerprint = fingerprint_of(module, self._fingerprints) or ""
                staged[module.kind] = StagedModule(
                    digest=module.digest,
                    fingerprint=fingerprint,
                    host_keys=host_keys_fingerprint(module, host_keys),
                )
            elif module.kind in until_now:
                staged[module.kind] = until_now[module.kind]
        return print_mark(staged)

    def former_host_key(self, vm: str, mark: str) -> str:
        """Return the public host key that was derived for a VM from keys before those of now.

        The mark identifies them: "" where its guest has no such keys.
        """
        found = [self._former[word] for word in keys_in(mark) if word in self._former]
        return found[0].public_host_key(vm, DERIVED) if found else ""

    def _context(self, spec: GuestSpec, host_keys: Mapping[str, str]) -> StagingContext:
        return StagingContext(spec, self._keys, self._secrets, host_keys)


def _host_keys_of(spec: GuestSpec) -> tuple[str, ...]:
    return (spec.vm, *(name for module in spec.modules for name in module.host_keys_of))
