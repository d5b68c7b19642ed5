"""What is brought into a guest: the manifest, each module's script and files, the runner and its unit."""

from __future__ import annotations

import json
from collections.abc import Sequence

from vgpu_cfg.errors import GuestError
from vgpu_cfg.model.guests.guest import REPORT_KEY, GuestFile, GuestSpec
from vgpu_cfg.model.guests.modules import MODULE_ORDER, GuestModule
from vgpu_cfg.staging.module import StagingContext
from vgpu_cfg.staging.rendering import render
from vgpu_cfg.staging.scripts import STATE_FOLDER, compose, script_path
from vgpu_cfg.staging.table import stage_module

RUNNER = "/usr/local/sbin/vgpu-cfg-stage"
SERVICE = "/etc/systemd/system/vgpu-cfg-stage.service"
MANIFEST = f"{STATE_FOLDER}/manifest.json"
MODULES_LIST = f"{STATE_FOLDER}/modules.list"
"""What the runner reads: the manifest's names, digests and scripts, one per line, since sh reads no JSON."""


def bundle_files(context: StagingContext, kinds: Sequence[str]) -> tuple[GuestFile, ...]:
    """Return the files that stage these modules; manifest and runner know all modules of the spec.

    Secrets of other modules are not in them. Raises `GuestError`.
    """
    spec = context.spec
    modules = ordered(spec)
    unknown = [kind for kind in kinds if spec.module(kind) is None]
    if unknown:
        raise GuestError(
            f"this guest has no module {', '.join(unknown)}",
            subject=spec.vm,
            remedy="plan again: what it shall have has changed",
        )
    files = [
        GuestFile(path=MANIFEST, content=manifest(spec)),
        GuestFile(path=MODULES_LIST, content=modules_list(spec)),
        GuestFile(
            path=RUNNER,
            content=render("vgpu-cfg-stage.sh.j2", state=STATE_FOLDER, report_key=REPORT_KEY),
            mode=0o755,
        ),
        GuestFile(
            path=SERVICE, content=render("vgpu-cfg-stage.service.j2", state=STATE_FOLDER, runner=RUNNER)
        ),
    ]
    for module in modules:
        if module.kind in kinds:
            staged = stage_module(module, context.of(module))
            files += staged.files
            files.append(GuestFile(path=script_path(module.kind), content=compose(module.kind, staged)))
    return tuple(files)


def ordered(spec: GuestSpec) -> list[GuestModule]:
    """Return a guest's modules in the order of staging."""
    return sorted(spec.modules, key=lambda module: MODULE_ORDER.index(module.kind))


def manifest(spec: GuestSpec) -> str:
    """Say what the guest shall have, as JSON; no secret is in it."""
    content = {
        "v": 1,
        "plan": spec.plan,
        "vm": spec.vm,
        "spec": spec.digest,
        "modules": [
            {
                "name": module.kind,
                "digest": module.digest,
                "script": script_path(module.kind),
                "parameters": module.model_dump(mode="json"),
            }
            for module in ordered(spec)
        ],
    }
    return json.dumps(content, ensure_ascii=False, separators=(",", ":")) + "\n"


def modules_list(spec: GuestSpec) -> str:
    """Say the same in the runner's words."""
    lines = [f"module {one.kind} {one.digest} {script_path(one.kind)}" for one in ordered(spec)]
    return "\n".join([f"spec {spec.digest}", *lines, ""])
