"""How the modules of a guest are told in a few words: one edit each, as `plan` shows them."""

from __future__ import annotations

from typing import assert_never

from vgpu_cfg.changes.values import Edit
from vgpu_cfg.model.guests.base import GuestNic
from vgpu_cfg.model.guests.modules import (
    CudaModule,
    DriverModule,
    GuestModule,
    HostNameModule,
    HostsModule,
    LicenceModule,
    LimitsModule,
    NcclModule,
    NetworkModule,
    NicFirmwareModule,
    NouveauModule,
    OfedModule,
    PeermemModule,
    RoceModule,
    SharedFolderModule,
    SiteModule,
    TimeModule,
    TrafficModule,
    UsersModule,
)
from vgpu_cfg.model.guests.training_modules import (
    ContainersModule,
    ImageModule,
    LauncherModule,
    MonitoringModule,
    RankModule,
    RegistryModule,
    SshMeshModule,
    ToolkitModule,
    WorkerModule,
)
from vgpu_cfg.model.plan_file.site_values import host_of
from vgpu_cfg.model.wording import counted
from vgpu_cfg.planning.guests.drivers import branch_of_package

HIDDEN = "****"
"""What stands for a secret, wherever one is told of."""

_ALWAYS_DEFAULT = frozenset(
    {"users", "nouveau", "limits", "nccl", "peermem", "toolkit", "ssh-mesh", "hosts", "rank"}
)
"""Modules that follow from others: no key of the plan file asks for them."""


def module_edit(module: GuestModule, note: str = "") -> Edit:
    """Return what a reader sees of a module that is brought; `note` says why it is brought again."""
    words = module_text(module)
    return Edit(key=module.kind, after=words, is_default=_is_default(module), note=note)


def module_text(module: GuestModule) -> str:
    """Say what a module brings, in few words and without a secret."""
    match module:
        case HostNameModule():
            return f"host name {module.host_name}" + (f".{module.domain}" if module.domain else "")
        case UsersModule():
            names = [user.name for user in module.users]
            names += [module.machine_user] if module.machine_user else []
            return f"users {', '.join(names)}" if names else "no users"
        case HostsModule():
            return f"{counted(len(module.entries), 'host')} in /etc/hosts"
        case NetworkModule():
            return "; ".join(_nic_text(nic) for nic in module.nics)
        case SiteModule():
            return _site_text(module)
        case TimeModule():
            return f"time from {', '.join(module.servers)}"
        case NouveauModule():
            return "nouveau off"
        case DriverModule():
            branch = branch_of_package(module.package) or " or ".join(module.branches)
            return f"driver {branch}".rstrip() if branch else "driver"
        case CudaModule():
            return f"CUDA Toolkit {module.version}"
        case LicenceModule():
            return f"licence {HIDDEN}"
        case OfedModule():
            return {"mlnx": "MLNX_OFED", "doca": "DOCA-OFED", "inbox": "inbox RDMA"}[module.stack]
        case PeermemModule():
            return "GPU memory for RDMA"
        case NicFirmwareModule():
            return ", ".join(f"{name}={value}" for name, value in module.parameters.items())
        case RoceModule():
            return f"PFC {module.priority}, DSCP {module.dscp}" if module.owns_port else f"DSCP {module.dscp}"
        case NcclModule():
            return "NCCL's settings, with the host's wiring" if module.gpu_wires else "NCCL's settings"
        case LimitsModule():
            return f"memlock, /dev/shm {module.shared_memory}" if module.shared_memory else "memlock"
        case SharedFolderModule():
            where = "exported" if module.role == "server" else f"from {module.server}"
            return f"{module.path} {where}"
        case TrafficModule():
            return f"{module.control_mbps} of {module.link_mbps} Mbit/s kept for control"
        case _:
            return _training_text(module)


def _training_text(
    module: ContainersModule
    | ToolkitModule
    | RegistryModule
    | ImageModule
    | SshMeshModule
    | WorkerModule
    | RankModule
    | LauncherModule
    | MonitoringModule,
) -> str:
    match module:
        case ContainersModule():
            return module.runtime
        case ToolkitModule():
            return "container toolkit"
        case RegistryModule():
            return f"{module.server} {HIDDEN}"
        case ImageModule():
            return module.image.rpartition("/")[2]
        case SshMeshModule():
            return f"ssh mesh of {len(module.peers)}"
        case WorkerModule():
            return "worker container"
        case RankModule():
            given = len(module.environment)
            return f"ranks with {counted(given, 'variable')}" if given else "ranks"
        case LauncherModule():
            slots = sum(worker.slots for worker in module.workers)
            return f"`train` over {counted(len(module.workers), 'worker')}, {counted(slots, 'slot')}"
        case MonitoringModule():
            return "Prometheus and Grafana" if module.role == "server" else f"{module.exporter} exporter"
        case _:
            assert_never(module)


def _site_text(module: SiteModule) -> str:
    """Say where the guest is sent, by hosts."""
    words = []
    if module.proxy is not None:
        login = f" as {module.proxy.user} {HIDDEN}" if module.proxy.password else ""
        words.append(f"proxy {host_of(module.proxy.http or module.proxy.https)}{login}")
    if module.apt is not None:
        words.append(f"apt from {host_of(module.apt.url)}")
    if module.dnf:
        words.append(f"dnf from {host_of(module.dnf[0])}")
    words += [f"{registry} from {host_of(url)}" for registry, url in sorted(module.registry_mirrors.items())]
    if module.certificates:
        words.append(counted(len(module.certificates), "certificate"))
    if module.closed:
        words.append("closed")
    return ", ".join(words) or "as the template"


def _nic_text(nic: GuestNic) -> str:
    where = ", ".join(nic.addresses) or ("DHCP" if nic.dhcp else "no address")
    return f"{where}, MTU {nic.mtu}" if nic.mtu is not None else where


def _is_default(module: GuestModule) -> bool:
    if isinstance(module, RoceModule):
        blank = RoceModule(nics=())
        return (module.dscp, module.priority) == (blank.dscp, blank.priority)
    if isinstance(module, OfedModule):
        return module.stack == "inbox"
    return module.kind in _ALWAYS_DEFAULT
