"""How the ways into a guest get what they carry: cloud-init's seed, the bundle of files, and the mark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from vgpu_cfg.model.guests.guest import (
    GuestBundle,
    GuestSpec,
    StagedModule,
    fingerprint_of,
    parse_mark,
    print_mark,
)
from vgpu_cfg.shells.keys import PlanKeyRing
from vgpu_cfg.staging import cloud_init
from vgpu_cfg.staging.bundle import RUNNER, bundle_files
from vgpu_cfg.staging.module import StagingContext


class Stager:
    """Implements `ports.GuestStager`.

    `seed` is that of the plan's keys, `secrets` the values of secrets by name, `fingerprints` those of the
    same and of the seed (as PLAN_KEYS).
    """

    def __init__(self, seed: bytes, secrets: Mapping[str, str], fingerprints: Mapping[str, str]) -> None:
        self._keys = PlanKeyRing(seed)
        self._secrets = dict(secrets)
        self._fingerprints = dict(fingerprints)

    def seed(self, spec: GuestSpec) -> Mapping[str, str]:
        """Return the extraConfig of a clone whose cloud-init is to stage everything; secrets are in it."""
        context = self._context(spec)
        files = bundle_files(context, [module.kind for module in spec.modules])
        return cloud_init.guest_info(context, files)

    def bundle(self, spec: GuestSpec, modules: Sequence[str], run: str) -> GuestBundle:
        """Return what stages the named modules of a guest that runs; `run` names the attempt."""
        files = bundle_files(self._context(spec), modules)
        return GuestBundle(spec=spec.digest, files=files, command=(RUNNER, "--run", run, *modules))

    def mark(self, spec: GuestSpec, modules: Sequence[str], before: str) -> str:
        """Return the mark after these modules were staged, `before` being the one until now.

        What the spec has no more is left out: should it come back, its check tells what is there.
        """
        staged: dict[str, StagedModule] = {}
        until_now = parse_mark(before)
        for module in spec.modules:
            if module.kind in modules:
                fingerprint = fingerprint_of(module, self._fingerprints) or ""
                staged[module.kind] = StagedModule(digest=module.digest, fingerprint=fingerprint)
            elif module.kind in until_now:
                staged[module.kind] = until_now[module.kind]
        return print_mark(staged)

    def _context(self, spec: GuestSpec) -> StagingContext:
        return StagingContext(spec, self._keys, self._secrets)
