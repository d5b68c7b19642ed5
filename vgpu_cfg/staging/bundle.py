"""The bundle of a guest: the manifest, each module's script and files, the runner and its unit.

The file of `staging.modules` that turns each module of a guest into files and a script.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import assert_never

from vgpu_cfg.errors import GuestError
from vgpu_cfg.model.guests import modules as gpu
from vgpu_cfg.model.guests import modules as kinds
from vgpu_cfg.model.guests import training_modules as training
from vgpu_cfg.model.guests.guest import REPORT_KEY, GuestFile, GuestSpec
from vgpu_cfg.model.guests.modules import MODULE_ORDER, GuestModule
from vgpu_cfg.staging.modules.gpus import cuda, driver, licence, nccl, nouveau, toolkit
from vgpu_cfg.staging.modules.machine import host_name, hosts, limits, network, site, time, traffic, users
from vgpu_cfg.staging.modules.rdma import nic_firmware, ofed, peermem, roce
from vgpu_cfg.staging.modules.training import (
    containers,
    image,
    launcher,
    monitoring,
    rank,
    registry,
    shared_folder,
    ssh_mesh,
    worker,
)
from vgpu_cfg.staging.rendering import STATE_FOLDER, Staged, StagingContext, compose, render, script_path

RUNNER = "/usr/local/sbin/vgpu-cfg-stage"
SERVICE = "/etc/systemd/system/vgpu-cfg-stage.service"
MANIFEST = f"{STATE_FOLDER}/manifest.json"
MODULES_LIST = f"{STATE_FOLDER}/modules.list"
"""The runner's input: the manifest's names, digests and scripts, one per line, since sh reads no JSON."""


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
            remedy="plan again: the modules for this guest have changed",
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
    """Return the guest's intended content as JSON; no secret is in it."""
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


def stage_module(module: kinds.GuestModule, context: StagingContext) -> Staged:
    """Turn one module into files and the halves of its script. Raises `GuestError`."""
    match module:
        case kinds.HostNameModule():
            return host_name.stage(module, context)
        case kinds.UsersModule():
            return users.stage(module, context)
        case kinds.HostsModule():
            return hosts.stage(module, context)
        case kinds.NetworkModule():
            return network.stage(module, context)
        case kinds.SiteModule():
            return site.stage(module, context)
        case kinds.TimeModule():
            return time.stage(module, context)
        case training.SshMeshModule():
            return ssh_mesh.stage(module, context)
        case kinds.NouveauModule():
            return nouveau.stage(module, context)
        case kinds.DriverModule():
            return driver.stage(module, context)
        case kinds.LicenceModule():
            return licence.stage(module, context)
        case kinds.OfedModule():
            return ofed.stage(module, context)
        case kinds.PeermemModule():
            return peermem.stage(module, context)
        case kinds.NicFirmwareModule():
            return nic_firmware.stage(module, context)
        case kinds.RoceModule():
            return roce.stage(module, context)
        case gpu.CudaModule():
            return cuda.stage(module, context)
        case gpu.NcclModule():
            return nccl.stage(module, context)
        case kinds.LimitsModule():
            return limits.stage(module, context)
        case kinds.TrafficModule():
            return traffic.stage(module, context)
        case kinds.SharedFolderModule():
            return shared_folder.stage(module, context)
        case training.ContainersModule():
            return containers.stage(module, context)
        case training.ToolkitModule():
            return toolkit.stage(module, context)
        case training.RegistryModule():
            return registry.stage(module, context)
        case training.ImageModule():
            return image.stage(module, context)
        case training.WorkerModule():
            return worker.stage(module, context)
        case training.RankModule():
            return rank.stage(module, context)
        case training.LauncherModule():
            return launcher.stage(module, context)
        case training.MonitoringModule():
            return monitoring.stage(module, context)
        case _:
            assert_never(module)
