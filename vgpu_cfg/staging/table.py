"""Which file of `staging.modules` turns which module of a guest into files and a script."""

from __future__ import annotations

from typing import assert_never

from vgpu_cfg.model.guests import modules as gpu
from vgpu_cfg.model.guests import modules as kinds
from vgpu_cfg.model.guests import training_modules as training
from vgpu_cfg.staging.module import Staged, StagingContext
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
