"""Which file of `staging.modules` turns which module of a guest into files and a script."""

from __future__ import annotations

from typing import assert_never

from vgpu_cfg.model import guest_modules as kinds
from vgpu_cfg.model import training_modules as training
from vgpu_cfg.staging.module import Staged, StagingContext


def stage_module(module: kinds.GuestModule, context: StagingContext) -> Staged:
    """Turn one module into files and the halves of its script. Raises `GuestError`."""
    match module:
        case kinds.HostNameModule():
            from vgpu_cfg.staging.modules import host_name

            return host_name.stage(module, context)
        case kinds.UsersModule():
            from vgpu_cfg.staging.modules import users

            return users.stage(module, context)
        case kinds.HostsModule():
            from vgpu_cfg.staging.modules import hosts

            return hosts.stage(module, context)
        case kinds.NetworkModule():
            from vgpu_cfg.staging.modules import network

            return network.stage(module, context)
        case training.SshMeshModule():
            from vgpu_cfg.staging.modules import ssh_mesh

            return ssh_mesh.stage(module, context)
        case kinds.NouveauModule():
            from vgpu_cfg.staging.modules import nouveau

            return nouveau.stage(module, context)
        case kinds.DriverModule():
            from vgpu_cfg.staging.modules import driver

            return driver.stage(module, context)
        case kinds.LicenceModule():
            from vgpu_cfg.staging.modules import licence

            return licence.stage(module, context)
        case kinds.OfedModule():
            from vgpu_cfg.staging.modules import ofed

            return ofed.stage(module, context)
        case kinds.NicFirmwareModule():
            from vgpu_cfg.staging.modules import nic_firmware

            return nic_firmware.stage(module, context)
        case kinds.RoceModule():
            from vgpu_cfg.staging.modules import roce

            return roce.stage(module, context)
        case kinds.LimitsModule():
            from vgpu_cfg.staging.modules import limits

            return limits.stage(module, context)
        case kinds.TrafficModule():
            from vgpu_cfg.staging.modules import traffic

            return traffic.stage(module, context)
        case kinds.SharedFolderModule():
            from vgpu_cfg.staging.modules import shared_folder

            return shared_folder.stage(module, context)
        case training.ContainersModule():
            from vgpu_cfg.staging.modules import containers

            return containers.stage(module, context)
        case training.ToolkitModule():
            from vgpu_cfg.staging.modules import toolkit

            return toolkit.stage(module, context)
        case training.RegistryModule():
            from vgpu_cfg.staging.modules import registry

            return registry.stage(module, context)
        case training.ImageModule():
            from vgpu_cfg.staging.modules import image

            return image.stage(module, context)
        case training.WorkerModule():
            from vgpu_cfg.staging.modules import worker

            return worker.stage(module, context)
        case training.LauncherModule():
            from vgpu_cfg.staging.modules import launcher

            return launcher.stage(module, context)
        case training.MonitoringModule():
            from vgpu_cfg.staging.modules import monitoring

            return monitoring.stage(module, context)
        case _:
            assert_never(module)
