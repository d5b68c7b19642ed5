"""What is staged in a guest, subject by subject: the parameters that decide what each module writes.

A module checks whether the guest has what it is about, and brings it if not. Its parameters say
everything that decides what it writes, so that a digest over them tells what must be staged anew.
Secrets stand here by their names; keys of the plan are derived where they are written.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from vgpu_cfg.model.frozen import Frozen

PLAN_KEYS = "plan-keys"
"""The name under which the fingerprint of a plan's own keys stands among those of secrets."""


class ModuleBase(Frozen):
    """What every module has. `VERSION` rises when what a module writes from the same parameters changes."""

    VERSION: ClassVar[int] = 1
    MAY_REBOOT: ClassVar[bool] = False
    """Whether bringing it may restart the guest."""

    @property
    def secrets(self) -> tuple[str, ...]:
        """The names of the secrets that it writes; `PLAN_KEYS` for keys derived for the plan."""
        return ()

    @property
    def digest(self) -> str:
        """Ten hex digits over the parameters."""
        content = [self.VERSION, self.model_dump(mode="json")]
        text = json.dumps(content, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:10]


class GuestUser(Frozen):
    """An account: `keys` are lines of authorized_keys, `groups` those it joins besides its own."""

    name: str
    keys: tuple[str, ...] = ()
    sudo: bool = True
    shell: str = "/bin/bash"


class HostNameModule(ModuleBase):
    """The host name, and the domain that makes it a full one."""

    kind: Literal["host-name"] = "host-name"
    host_name: str
    domain: str = ""


class UsersModule(ModuleBase):
    """Accounts, among them the one by which this tool logs in: its key is derived from the plan's.

    `machine_user` is that account, "" where the plan file names a login of its own.
    """

    kind: Literal["users"] = "users"
    users: tuple[GuestUser, ...] = ()
    machine_user: str = "vgpu-cfg"

    @property
    def secrets(self) -> tuple[str, ...]:
        """The plan's keys, where an account is made for this tool."""
        return (PLAN_KEYS,) if self.machine_user else ()


class HostEntry(Frozen):
    """A line of /etc/hosts: an address (no prefix length) and its names, the first one canonical."""

    address: str
    names: tuple[str, ...]


class HostsModule(ModuleBase):
    """The plan's block in /etc/hosts; what else stands there stays."""

    kind: Literal["hosts"] = "hosts"
    entries: tuple[HostEntry, ...] = ()


class GuestNic(Frozen):
    """A NIC as netplan and the RDMA tools need it.

    It is found by `mac` (lower case) or, where that is not known beforehand, by its `driver`
    ("vmxnet3", "mlx5_core"), which then matches this NIC alone. `name` is the interface name that
    netplan gives it, "" keeps the kernel's. `addresses` are CIDR; with none and `dhcp` false the NIC is
    brought up without an address.
    """

    mac: str = ""
    driver: str = ""
    name: str = ""
    addresses: tuple[str, ...] = ()
    dhcp: bool = False
    gateway: str = ""
    dns: tuple[str, ...] = ()
    mtu: int | None = None
    optional: bool = False
    """Whether boot goes on without it."""


class NetworkModule(ModuleBase):
    """Netplan for every NIC that the plan file gives an address; other interfaces are left alone."""

    kind: Literal["network"] = "network"
    nics: tuple[GuestNic, ...] = ()


class NouveauModule(ModuleBase):
    """The nouveau driver kept from loading, in the running system and in its initramfs."""

    kind: Literal["nouveau"] = "nouveau"
    MAY_REBOOT: ClassVar[bool] = True


class DriverModule(ModuleBase):
    """NVIDIA's guest driver. `package` is a URL or a path in the guest, "" where the template has it.

    `branches` are the driver branches that the host's driver takes ("580", "570"), the newest first; empty
    where the host's is not known. `sha256` is the package's, "" unchecked.
    """

    kind: Literal["driver"] = "driver"
    package: str = ""
    sha256: str = ""
    branches: tuple[str, ...] = ()
    MAY_REBOOT: ClassVar[bool] = True


class LicenceModule(ModuleBase):
    """gridd.conf and the client configuration token; `feature_type` in gridd.conf's numbers, 4: compute."""

    kind: Literal["licence"] = "licence"
    token: str
    feature_type: int = 4

    @property
    def secrets(self) -> tuple[str, ...]:
        """The token."""
        return (self.token,)


class OfedModule(ModuleBase):
    """The RDMA stack: "mlnx" (MLNX_OFED), "doca" (DOCA-OFED) or "inbox" (the distribution's).

    `package` is a URL or path (mlnx: the .tgz, doca: the repository's .deb or .rpm), "" where the template
    has it. `peermem` loads nvidia-peermem at boot.
    """

    kind: Literal["ofed"] = "ofed"
    stack: Literal["mlnx", "doca", "inbox"] = "inbox"
    package: str = ""
    sha256: str = ""
    peermem: bool = True
    MAY_REBOOT: ClassVar[bool] = True


class NicFirmwareModule(ModuleBase):
    """Firmware parameters of passed-through NICs, set in the guest; in force after the *host's* restart.

    `nics` are those meant, by MAC or driver.
    """

    kind: Literal["nic-firmware"] = "nic-firmware"
    nics: tuple[GuestNic, ...]
    parameters: Mapping[str, str] = Field(default_factory=dict)


class RoceModule(ModuleBase):
    """RoCE settings of the guest's NICs, set again at every boot by a systemd unit.

    With `owns_port` (a NIC passed through whole) trust, PFC and ECN are set too; else only what an
    application's packets are marked with.
    """

    kind: Literal["roce"] = "roce"
    nics: tuple[GuestNic, ...]
    trust: Literal["dscp", "pcp"] = "dscp"
    dscp: int = 26
    priority: int = 3
    owns_port: bool = True

    @property
    def traffic_class(self) -> int:
        """The type-of-service byte: DSCP and the bits that say "ECN capable" (106 for DSCP 26)."""
        return self.dscp << 2 | 2


class LimitsModule(ModuleBase):
    """Locked memory without limit for containers and logins, and the size of /dev/shm ("" leaves it)."""

    kind: Literal["limits"] = "limits"
    shared_memory: str = ""


class ContainersModule(ModuleBase):
    """A container runtime, from the distribution unless the template has it."""

    kind: Literal["containers"] = "containers"
    runtime: Literal["docker", "containerd", "apptainer"] = "docker"
    minimum_free_gib: int = 0


class ToolkitModule(ModuleBase):
    """NVIDIA Container Toolkit, and the runtime configured for it. `repository` is its package source."""

    kind: Literal["toolkit"] = "toolkit"
    runtime: Literal["docker", "containerd", "apptainer"] = "docker"
    repository: str = "https://nvidia.github.io/libnvidia-container"


class RegistryModule(ModuleBase):
    """A login at a container registry; NGC's user is literally `$oauthtoken`."""

    kind: Literal["registry"] = "registry"
    runtime: Literal["docker", "containerd", "apptainer"] = "docker"
    server: str
    user: str = "$oauthtoken"
    password: str

    @property
    def secrets(self) -> tuple[str, ...]:
        """The password."""
        return (self.password,)


class ImageModule(ModuleBase):
    """A container image: pulled, or loaded from `archive` (a URL or a path in the guest).

    With `framework` "horovod" the image is proven to hold Horovod before anything relies on it.
    """

    kind: Literal["image"] = "image"
    runtime: Literal["docker", "containerd", "apptainer"] = "docker"
    image: str
    archive: str = ""
    framework: Literal["horovod", "none"] = "horovod"
    minimum_free_gib: int = 40
    server: str = ""
    """The registry that the login of another module is for; "" needs none."""


class MeshPeer(Frozen):
    """A host of the ssh mesh: its VM, from whose name its keys follow, and how it is reached."""

    vm: str
    names: tuple[str, ...]
    addresses: tuple[str, ...] = ()


class SshMeshModule(ModuleBase):
    """Every worker reaches every other by ssh, with keys made for the plan.

    The host keys are made beforehand, so known_hosts is right from the first second. `port` is that of the
    sshd in the containers, `host_port` the guest's own.
    """

    kind: Literal["ssh-mesh"] = "ssh-mesh"
    vm: str
    user: str = "root"
    port: int = 2222
    host_port: int = 22
    peers: tuple[MeshPeer, ...]

    @property
    def secrets(self) -> tuple[str, ...]:
        """The plan's keys."""
        return (PLAN_KEYS,)


class WorkerModule(ModuleBase):
    """One container per VM that waits for work, run by systemd; the mesh's sshd listens in it."""

    kind: Literal["worker"] = "worker"
    runtime: Literal["docker", "containerd", "apptainer"] = "docker"
    image: str
    port: int = 2222
    mounts: tuple[str, ...] = ()
    """`source:target` pairs beside those that the mesh needs."""
    shared_memory: str = ""
    gpus: bool = True
    rdma: bool = False


class TrainWorker(Frozen):
    """A worker as a launcher counts it: its name, its address in the training network, its GPUs."""

    name: str
    address: str = ""
    slots: int = 1


class LauncherModule(ModuleBase):
    """The host file, the environment and the command `train`, on the VM from which training starts.

    `environment` holds what is known beforehand (NCCL_* and the rest); what only the guest can tell
    (interface, HCA, GID index) is computed by `train` from what is there, for the interfaces in `nics`.
    """

    kind: Literal["launcher"] = "launcher"
    framework: Literal["horovod", "none"] = "horovod"
    image: str = ""
    runtime: Literal["docker", "containerd", "apptainer"] = "docker"
    port: int = 2222
    workers: tuple[TrainWorker, ...]
    nics: tuple[GuestNic, ...] = ()
    control_nics: tuple[GuestNic, ...] = ()
    environment: Mapping[str, str] = Field(default_factory=dict)
    runs_work: bool = True
    """False on a head without a GPU: `train` starts nothing in its own container."""


class SharedFolderModule(ModuleBase):
    """A folder shared over NFS: exported by the head, mounted by the workers."""

    kind: Literal["shared-folder"] = "shared-folder"
    role: Literal["server", "client"]
    path: str = "/srv/training"
    server: str = ""
    clients: tuple[str, ...] = ()
    """Addresses or networks (CIDR) that may mount it."""


class ScrapeTarget(Frozen):
    """Where metrics of a VM are read."""

    vm: str
    address: str
    port: int


class MonitoringModule(ModuleBase):
    """GPU metrics: an exporter on workers; Prometheus and Grafana with a dashboard on the head.

    `exporter` is "dcgm" (DCGM exporter) or "nvidia-smi" (nvidia-smi's csv, by a textfile collector).
    """

    kind: Literal["monitoring"] = "monitoring"
    role: Literal["exporter", "server"]
    runtime: Literal["docker", "containerd"] = "docker"
    exporter: Literal["dcgm", "nvidia-smi"] = "dcgm"
    images: Mapping[str, str] = Field(default_factory=dict)
    """Pinned images by what they are: "dcgm-exporter", "node-exporter", "prometheus", "grafana"."""
    targets: tuple[ScrapeTarget, ...] = ()
    grafana_password: str = ""
    """The name of the secret with Grafana's admin password; "" lets Grafana be read without login only."""

    @property
    def secrets(self) -> tuple[str, ...]:
        """Grafana's password."""
        return (self.grafana_password,) if self.grafana_password else ()


class TrafficModule(ModuleBase):
    """Traffic classes on the management NIC: data loading may borrow, and never starves the control plane."""

    kind: Literal["traffic"] = "traffic"
    nic: GuestNic
    link_mbps: int
    control_mbps: int
    control_ports: tuple[int, ...] = (22, 2222)


GuestModule = Annotated[
    HostNameModule
    | UsersModule
    | HostsModule
    | NetworkModule
    | NouveauModule
    | DriverModule
    | LicenceModule
    | OfedModule
    | NicFirmwareModule
    | RoceModule
    | LimitsModule
    | ContainersModule
    | ToolkitModule
    | RegistryModule
    | ImageModule
    | SshMeshModule
    | WorkerModule
    | LauncherModule
    | SharedFolderModule
    | MonitoringModule
    | TrafficModule,
    Field(discriminator="kind"),
]

MODULE_ORDER: tuple[str, ...] = (
    "host-name",
    "users",
    "hosts",
    "network",
    "ssh-mesh",
    "nouveau",
    "driver",
    "licence",
    "ofed",
    "nic-firmware",
    "roce",
    "limits",
    "traffic",
    "shared-folder",
    "containers",
    "toolkit",
    "registry",
    "image",
    "worker",
    "launcher",
    "monitoring",
)
"""The order in which modules are staged: what a later one needs comes before it."""
