"""How a guest is set up by hand, module by module, for a colleague who is logged in to it as root.

Secrets are told of by their names in the plan file, never by their values.
"""

from __future__ import annotations

from typing import assert_never

from vgpu_cfg.model.guests.base import GuestNic
from vgpu_cfg.model.guests.gpu_modules import CudaModule, NcclModule
from vgpu_cfg.model.guests.modules import (
    DriverModule,
    GuestModule,
    HostNameModule,
    HostsModule,
    LicenceModule,
    LimitsModule,
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
from vgpu_cfg.model.plan_file import UserEntry

_PROOFS = {
    "torchrun": "; python3 in it imports torch",
    "horovod": "; horovodrun --check-build in it lists Horovod",
    "mpi": "; mpirun --version in it answers",
    "none": "",
}
_LAUNCHERS = {
    "torchrun": "torchrun",
    "horovod": "horovodrun",
    "mpi": "mpirun",
    "none": "the command itself, once on each worker",
}


def by_hand_text(module: GuestModule) -> str:
    """Say what is done in the guest for one module."""
    match module:
        case HostNameModule():
            full = f"{module.host_name}.{module.domain}" if module.domain else module.host_name
            return f"set the host name to {full} (hostnamectl)"
        case UsersModule():
            users = [_user_text(user) for user in module.users]
            users += [f"{module.machine_user}, by which vgpu-cfg logs in"] if module.machine_user else []
            return f"make the accounts {'; '.join(users)}" if users else "no account is made"
        case HostsModule():
            lines = (f"{entry.address} {' '.join(entry.names)}" for entry in module.entries)
            return f"write into /etc/hosts: {'; '.join(lines)}"
        case NetworkModule():
            nics = "; ".join(_nic_text(nic) for nic in module.nics)
            return f"write a file in /etc/netplan for {nics}; then netplan apply"
        case SiteModule():
            return _site_text(module)
        case TimeModule():
            servers = ", ".join(module.servers)
            return f"let chronyd, or systemd-timesyncd where that is there, follow {servers} and nobody else"
        case NouveauModule():
            return (
                "write `blacklist nouveau` and `options nouveau modeset=0` into a file in /etc/modprobe.d, "
                "rebuild the initramfs, and restart if nouveau is loaded"
            )
        case DriverModule():
            branches = " or ".join(module.branches)
            fits = f", of branch {branches}" if branches else ""
            where = f"install {module.package}" if module.package else "see that the driver is installed"
            return f"{where}{fits}; nvidia-smi lists the GPUs"
        case CudaModule():
            source = module.package or f"the package cuda-toolkit-{module.version.replace('.', '-')}"
            where = "" if module.package else f" of {module.repository}"
            return f"install {source}{where}, never `cuda`, which brings a driver; put it on the PATH"
        case LicenceModule():
            return (
                f"write FeatureType={module.feature_type} into /etc/nvidia/gridd.conf, put the token "
                f"({module.token}) into /etc/nvidia/ClientConfigToken with mode 0744, restart nvidia-gridd"
            )
        case OfedModule():
            stack = {"mlnx": "MLNX_OFED", "doca": "DOCA-OFED", "inbox": "the distribution's RDMA packages"}
            source = f" from {module.package}" if module.package else ""
            return f"install {stack[module.stack]}{source}"
        case PeermemModule():
            return (
                "load nvidia-peermem now and at boot, unless the open kernel modules and Linux 5.12 or later "
                "make it needless; where the driver was there before the RDMA stack, build its modules anew"
            )
        case NicFirmwareModule():
            values = " ".join(f"{key}={value}" for key, value in module.parameters.items())
            return f"mlxconfig -y set {values} on the NIC; in force once the host has restarted"
        case RoceModule():
            return _roce_text(module)
        case NcclModule():
            return _nccl_text(module)
        case LimitsModule():
            shared = f", and /dev/shm of {module.shared_memory}" if module.shared_memory else ""
            return f"let containers and logins lock memory without limit{shared}"
        case SharedFolderModule():
            if module.role == "server":
                return f"export {module.path} over NFS to {', '.join(module.clients)}"
            return f"mount {module.server}:{module.path} at {module.path}, at boot too"
        case TrafficModule():
            return (
                f"by tc, keep {module.control_mbps} of {module.link_mbps} Mbit/s for the control plane on "
                f"{_nic_text(module.nic)}"
            )
        case _:
            return _training_text(module)


def _site_text(module: SiteModule) -> str:
    """Say what is written for the site; no password is repeated."""
    proxy, words = module.proxy, []
    if proxy is not None:
        login = f", as {proxy.user} with {proxy.password}" if proxy.password else ""
        direct = f", but for {', '.join(proxy.no_proxy)}" if proxy.no_proxy else ""
        words.append(
            f"write the proxy {proxy.http or proxy.https}{login}{direct} into /etc/vgpu-cfg/proxy.env and "
            "apt's settings"
        )
    if module.apt is not None:
        words.append(f"have apt take packages from {module.apt.url} alone")
    if module.dnf:
        words.append(f"have dnf take packages from {', '.join(module.dnf)} alone")
    words += [
        f"have {module.runtime} ask {url} for images of {name}"
        for name, url in module.registry_mirrors.items()
    ]
    if module.certificates:
        words.append("have the system trust the site's CA")
    if module.closed:
        hosts = ", ".join(module.hosts) or "nowhere"
        words.append(f"set package sources aside that lead elsewhere than to {hosts}")
    return "; ".join(words) or "nothing"


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
            return f"install {module.runtime} from the distribution, and start it at boot"
        case ToolkitModule():
            return (
                f"install the NVIDIA Container Toolkit from {module.repository}, then "
                f"nvidia-ctk runtime configure --runtime={module.runtime}"
            )
        case RegistryModule():
            return f"log {module.runtime} in to {module.server} as {module.user}, with {module.password}"
        case ImageModule():
            source = f"load {module.archive}" if module.archive else f"pull {module.image}"
            proof = _PROOFS[module.framework]
            return f"{source}; it needs {module.minimum_free_gib} GiB{proof}"
        case SshMeshModule():
            peers = ", ".join(peer.vm for peer in module.peers)
            return (
                f"give {module.user} a key that {peers} all take, on port {module.port} where training runs, "
                "and the host keys of all in known_hosts"
            )
        case WorkerModule():
            return (
                f"run {module.image} as a service at boot, with the host's network and GPUs"
                f"{f', and in it an sshd on port {module.port}' if module.sshd else ''}"
            )
        case RankModule():
            values = " ".join(f"{key}={value}" for key, value in sorted(module.environment.items()))
            return f"start every process of a training by /opt/vgpu-cfg/rank, with {values or 'no variables'}"
        case LauncherModule():
            workers = ", ".join(f"{one.name} slots={one.slots}" for one in module.workers)
            return f"write a host file ({workers}), and start training with {_LAUNCHERS[module.framework]}"
        case MonitoringModule():
            if module.role == "exporter":
                return f"run the {module.exporter} exporter as a service"
            targets = ", ".join(f"{one.address}:{one.port}" for one in module.targets)
            return f"run Prometheus, reading {targets}, and Grafana beside it"
        case _:
            assert_never(module)


def _user_text(user: UserEntry) -> str:
    keys = "1 ssh key" if len(user.keys) == 1 else f"{len(user.keys)} ssh keys"
    return f"{user.name} with {keys}{' and sudo without a password' if user.sudo else ''}"


def _roce_text(module: RoceModule) -> str:
    marks = f"mark RoCE packets with DSCP {module.dscp} (traffic class {module.traffic_class})"
    if not module.owns_port:
        return f"{marks}, by a unit at every boot; the port's own settings are the host's"
    return (
        f"trust {module.trust}, turn PFC on for priority {module.priority} alone and ECN with it; {marks}; "
        "all of it by a unit, since no restart keeps it"
    )


def _nccl_text(module: NcclModule) -> str:
    nics = ", ".join(nic.mac or nic.driver for nic in module.nics) or "the training network"
    wired = (
        "; NCCL_TOPO_FILE tells how the host wires GPUs and NICs"
        if module.gpu_wires
        else "; how the host wires GPUs and NICs is not known beforehand"
    )
    return f"write NCCL's variables for {nics} into /opt/vgpu-cfg/nccl.env, by a unit at every boot{wired}"


def _nic_text(nic: GuestNic) -> str:
    which = f"the NIC {nic.mac}" if nic.mac else f"the {nic.driver} NIC"
    address = ", ".join(nic.addresses) or ("DHCP" if nic.dhcp else "no address")
    return f"{which}: {address}{f', MTU {nic.mtu}' if nic.mtu is not None else ''}"
