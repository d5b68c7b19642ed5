"""The bundle of a guest: the manifest, each module's script and files, the runner and its unit."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import assert_never

from vgpu_cfg.errors import GuestError
from vgpu_cfg.model.guests import modules as kinds
from vgpu_cfg.model.guests import training_modules as training
from vgpu_cfg.model.guests.guest import DRIVER_KEY, REPORT_KEY, GuestFile, GuestSpec
from vgpu_cfg.model.guests.modules import MODULE_ORDER, GuestModule
from vgpu_cfg.staging.modules.containers import stage_containers, stage_image, stage_registry, stage_worker
from vgpu_cfg.staging.modules.gpus import (
    stage_cuda,
    stage_driver,
    stage_licence,
    stage_nouveau,
    stage_toolkit,
)
from vgpu_cfg.staging.modules.launcher import stage_launcher, stage_rank
from vgpu_cfg.staging.modules.machine import (
    stage_host_name,
    stage_hosts,
    stage_limits,
    stage_time,
    stage_users,
)
from vgpu_cfg.staging.modules.monitoring import stage_monitoring
from vgpu_cfg.staging.modules.nccl import stage_nccl
from vgpu_cfg.staging.modules.network import stage_network, stage_traffic
from vgpu_cfg.staging.modules.rdma import stage_nic_firmware, stage_ofed, stage_peermem, stage_roce
from vgpu_cfg.staging.modules.shared_folder import stage_shared_folder
from vgpu_cfg.staging.modules.site import stage_site
from vgpu_cfg.staging.modules.ssh_mesh import stage_ssh_mesh
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
            content=render(
                "vgpu-cfg-stage.sh.j2", state=STATE_FOLDER, report_key=REPORT_KEY, driver_key=DRIVER_KEY
            ),
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


def stage_module(module: GuestModule, context: StagingContext) -> Staged:
    """Turn one module into files and the halves of its script. Raises `GuestError`."""
    match module:
        case kinds.HostNameModule():
            return stage_host_name(module, context)
        case kinds.UsersModule():
            return stage_users(module, context)
        case kinds.HostsModule():
            return stage_hosts(module)
        case kinds.NetworkModule():
            return stage_network(module)
        case kinds.SiteModule():
            return stage_site(module, context)
        case kinds.TimeModule():
            return stage_time(module)
        case training.SshMeshModule():
            return stage_ssh_mesh(module, context)
        case kinds.NouveauModule():
            return stage_nouveau()
        case kinds.DriverModule():
            return stage_driver(module)
        case kinds.LicenceModule():
            return stage_licence(module, context)
        case kinds.OfedModule():
            return stage_ofed(module, context)
        case kinds.PeermemModule():
            return stage_peermem(module)
        case kinds.NicFirmwareModule():
            return stage_nic_firmware(module)
        case kinds.RoceModule():
            return stage_roce(module, context)
        case kinds.CudaModule():
            return stage_cuda(module)
        case kinds.NcclModule():
            return stage_nccl(module)
        case kinds.LimitsModule():
            return stage_limits(module)
        case kinds.TrafficModule():
            return stage_traffic(module, context)
        case kinds.SharedFolderModule():
            return stage_shared_folder(module, context)
        case training.ContainersModule():
            return stage_containers(module)
        case training.ToolkitModule():
            return stage_toolkit(module)
        case training.RegistryModule():
            return stage_registry(module, context)
        case training.ImageModule():
            return stage_image(module, context)
        case training.WorkerModule():
            return stage_worker(module, context)
        case training.RankModule():
            return stage_rank(module, context)
        case training.LauncherModule():
            return stage_launcher(module, context)
        case training.MonitoringModule():
            return stage_monitoring(module, context)
        case _:
            assert_never(module)
