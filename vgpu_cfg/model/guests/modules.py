"""The modules that are staged in a guest: for each, the parameters that determine its files.

A module checks whether the guest already has its software or settings, and installs them if not. A digest
of its parameters shows when it must be staged again. Secrets are named, not contained; keys of the plan are
derived at the time of writing.

Also the libraries and settings with which NCCL and CUDA find the devices.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal, get_args

from pydantic import Field

from vgpu_cfg.model.frozen import Frozen
from vgpu_cfg.model.guests.base import (
    HIDDEN,
    NOTHING,
    PLAN_KEYS,
    Description,
    Ends,
    Fetched,
    GuestNic,
    ModuleBase,
    fetched_file,
    without_checksum,
)
from vgpu_cfg.model.guests.downloads import CUDA_REPOSITORY
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
from vgpu_cfg.model.plan_file.site_values import host_of
from vgpu_cfg.model.wording import counted


class Wire(Frozen):
    """How a device of a VM hangs in its host: the NUMA node, and the PCIe switches above it, top first.

    Nodes and switches have numbers of the VM's own, in the order in which its devices meet them: where two
    hosts are wired alike, a VM that moves from one to the other has the same wires. `rate` (GT/s of a lane:
    "16.0") and `lanes` are the link of a vGPU's board, which its guest cannot see.
    """

    node: int
    switches: tuple[int, ...] = ()
    rate: str = Field(default="", exclude_if=lambda text: not text)
    lanes: int = Field(default=0, exclude_if=lambda number: not number)


class CudaModule(ModuleBase):
    """The CUDA Toolkit of a release ("12.8"), with its PATH for logins and for `train`; never a driver.

    `package` is a local repository's package or a .run file, by URL or path, "" where `repository` has it.
    `keyring_sha256` is the checksum of the repository's cuda-keyring, "" for the one that NVIDIA's has.
    """

    kind: Literal["cuda"] = "cuda"
    ENDS: ClassVar[frozenset[Ends]] = NOTHING
    version: str
    package: str = ""
    sha256: str = ""
    keyring_sha256: str = Field(default="", exclude_if=lambda text: not text)
    repository: str = CUDA_REPOSITORY

    @property
    def unpinned(self) -> str:
        """Its package, by address without a checksum."""
        return without_checksum(self.package, self.sha256)

    def describe(self) -> Description:
        source = self.package or f"the package cuda-toolkit-{self.version.replace('.', '-')}"
        where = "" if self.package else f" from {self.repository}"
        return Description(
            words=f"CUDA Toolkit {self.version}",
            by_hand=f"install {source}{where} and add it to PATH; do not install `cuda`, which includes a "
            "driver",
            fetched=fetched_file("guest.cuda", self.package, self.sha256) or self._fetched(),
        )

    def _fetched(self) -> tuple[Fetched, ...]:
        if self.package:
            return ()
        package = f"cuda-toolkit-{self.version.replace('.', '-')}"
        found = fetched_file("guest.cuda", self.repository)
        return tuple(one._replace(package=package, version=self.version, is_signed=True) for one in found)


class NcclModule(ModuleBase):
    """NCCL's settings for one guest: its file, and a program that detects the devices at every boot.

    `nics` are those that training goes over, `address` is the guest's own there, "" where the plan does not
    know it. `traffic_class` marks RDMA packets, None where no NIC carries RDMA. `is_direct` lets NICs reach
    GPU memory. `gpu_wires` (in the order of the GPUs) and `nic_wires` (in that of `nics`) say how the host is
    wired; both are empty where that is not known before the VM starts.
    """

    kind: Literal["nccl"] = "nccl"
    ENDS: ClassVar[frozenset[Ends]] = NOTHING
    nics: tuple[GuestNic, ...] = ()
    address: str = ""
    traffic_class: int | None = None
    is_direct: bool = False
    gpu_wires: tuple[Wire, ...] = ()
    nic_wires: tuple[Wire, ...] = ()

    def describe(self) -> Description:
        nics = ", ".join(nic.mac or nic.driver for nic in self.nics) or "the training network"
        wired = (
            "; NCCL_TOPO_FILE describes the host's GPU and NIC topology"
            if self.gpu_wires
            else "; the host's GPU and NIC topology is not known in advance"
        )
        return Description(
            words="NCCL settings with the host's topology" if self.gpu_wires else "NCCL settings",
            by_hand=f"write the NCCL variables for {nics} to /opt/vgpu-cfg/nccl.env, with a systemd unit "
            f"that runs at every boot{wired}",
            is_default=True,
        )


class HostNameModule(ModuleBase):
    """The host name, and the domain that makes it a full one."""

    kind: Literal["host-name"] = "host-name"
    ENDS: ClassVar[frozenset[Ends]] = NOTHING
    host_name: str
    domain: str = ""

    def describe(self) -> Description:
        name = f"{self.host_name}.{self.domain}" if self.domain else self.host_name
        return Description(words=f"host name {name}", by_hand=f"set the host name to {name} (hostnamectl)")


class UsersModule(ModuleBase):
    """Accounts, among them the one by which this tool logs in: its key is derived from the plan's.

    `machine_user` is that account, "" where the plan file names a login of its own.
    """

    kind: Literal["users"] = "users"
    ENDS: ClassVar[frozenset[Ends]] = NOTHING
    users: tuple[UserEntry, ...] = ()
    machine_user: str = "vgpu-cfg"

    @property
    def secrets(self) -> tuple[str, ...]:
        """The plan's keys, if an account is created for this tool."""
        return (PLAN_KEYS,) if self.machine_user else ()

    @property
    def is_private(self) -> bool:
        """Nothing of it: accounts have public keys alone."""
        return False

    def describe(self) -> Description:
        names = [user.name for user in self.users]
        names += [self.machine_user] if self.machine_user else []
        users = [_user_text(user) for user in self.users]
        users += (
            [f"{self.machine_user}, the account that vgpu-cfg uses to log in"] if self.machine_user else []
        )
        return Description(
            words=f"users {', '.join(names)}" if names else "no users",
            by_hand=f"create the accounts {'; '.join(users)}" if users else "no accounts are created",
            is_default=True,
        )


def _user_text(user: UserEntry) -> str:
    keys = "1 SSH key" if len(user.keys) == 1 else f"{len(user.keys)} SSH keys"
    return f"{user.name} with {keys}{' and sudo without a password' if user.sudo else ''}"


class HostEntry(Frozen):
    """A line of /etc/hosts: an address (no prefix length) and its names, the first one canonical."""

    address: str
    names: tuple[str, ...]


class HostsModule(ModuleBase):
    """The plan's block in /etc/hosts; other lines are kept."""

    kind: Literal["hosts"] = "hosts"
    ENDS: ClassVar[frozenset[Ends]] = NOTHING
    entries: tuple[HostEntry, ...] = ()

    def describe(self) -> Description:
        lines = (f"{entry.address} {' '.join(entry.names)}" for entry in self.entries)
        return Description(
            words=f"{counted(len(self.entries), 'host')} in /etc/hosts",
            by_hand=f"add to /etc/hosts: {'; '.join(lines)}",
            is_default=True,
        )


class NetworkModule(ModuleBase):
    """Netplan for every NIC that the plan file gives an address; other interfaces are left alone."""

    kind: Literal["network"] = "network"
    ENDS: ClassVar[frozenset[Ends]] = frozenset({Ends.NETWORK})
    nics: tuple[GuestNic, ...] = ()

    def describe(self) -> Description:
        nics = "; ".join(nic.named_setting for nic in self.nics)
        return Description(
            words="; ".join(nic.setting for nic in self.nics),
            by_hand=f"write a file in /etc/netplan for {nics}; then run netplan apply",
        )


class SiteProxy(Frozen):
    """A proxy; `password` is a secret's name, "" without a login."""

    http: str = ""
    https: str = ""
    no_proxy: tuple[str, ...] = ()
    user: str = ""
    password: str = ""


class AptMirror(Frozen):
    """A mirror of the distribution's apt archive; the guest's release determines empty fields."""

    url: str
    security: str = ""
    suites: tuple[str, ...] = ()
    components: tuple[str, ...] = ()


class SiteModule(ModuleBase):
    """How the guest reaches packages and images: the proxy, mirrors, and the site's CA.

    `certificates` are PEM. `runtime` is the container runtime configured for them; "" for none. With
    `closed` package sources that lead elsewhere than to `hosts` are set aside (".example.com" is every name
    below it).
    """

    kind: Literal["site"] = "site"
    ENDS: ClassVar[frozenset[Ends]] = frozenset({Ends.CONTAINERS})
    proxy: SiteProxy | None = None
    apt: AptMirror | None = None
    dnf: tuple[str, ...] = ()
    registry_mirrors: Mapping[str, str] = Field(default_factory=dict)
    certificates: tuple[str, ...] = ()
    runtime: Literal["", "docker", "containerd", "apptainer"] = ""
    closed: bool = False
    hosts: tuple[str, ...] = ()

    @property
    def ends(self) -> frozenset[Ends]:
        """Containers of docker, whose daemon restarts; those of containerd survive its restart."""
        return super().ends if self.runtime == "docker" else NOTHING

    @property
    def secrets(self) -> tuple[str, ...]:
        """The proxy's password."""
        return (self.proxy.password,) if self.proxy is not None and self.proxy.password else ()

    def describe(self) -> Description:
        return Description(words=self._words(), by_hand=self._by_hand())

    def _words(self) -> str:
        words = []
        if self.proxy is not None:
            login = f" as {self.proxy.user} {HIDDEN}" if self.proxy.password else ""
            words.append(f"proxy {host_of(self.proxy.http or self.proxy.https)}{login}")
        if self.apt is not None:
            words.append(f"apt from {host_of(self.apt.url)}")
        if self.dnf:
            words.append(f"dnf from {host_of(self.dnf[0])}")
        words += [
            f"{registry} from {host_of(url)}" for registry, url in sorted(self.registry_mirrors.items())
        ]
        if self.certificates:
            words.append(counted(len(self.certificates), "certificate"))
        if self.closed:
            words.append("closed")
        return ", ".join(words) or "unchanged"

    def _by_hand(self) -> str:
        proxy, words = self.proxy, []
        if proxy is not None:
            login = f", as {proxy.user} with {proxy.password}" if proxy.password else ""
            direct = f", except for {', '.join(proxy.no_proxy)}" if proxy.no_proxy else ""
            words.append(
                f"write the proxy {proxy.http or proxy.https}{login}{direct} to /etc/vgpu-cfg/proxy.env "
                "and apt's settings"
            )
        if self.apt is not None:
            words.append(f"configure apt to use only {self.apt.url}")
        if self.dnf:
            words.append(f"configure dnf to use only {', '.join(self.dnf)}")
        words += [
            f"configure {self.runtime} to use {url} for images from {name}"
            for name, url in self.registry_mirrors.items()
        ]
        if self.certificates:
            words.append("add the site's CA to the trusted certificates")
        if self.closed:
            hosts = ", ".join(self.hosts) or "nowhere"
            words.append(f"disable all package sources except {hosts}")
        return "; ".join(words) or "nothing"


class TimeModule(ModuleBase):
    """The NTP servers that keep the clock right, by chronyd or systemd-timesyncd."""

    kind: Literal["time"] = "time"
    ENDS: ClassVar[frozenset[Ends]] = NOTHING
    servers: tuple[str, ...]

    def describe(self) -> Description:
        servers = ", ".join(self.servers)
        return Description(
            words=f"time from {servers}",
            by_hand=f"configure chronyd (or systemd-timesyncd if installed) with {servers} as the only "
            "servers",
            fetched=tuple(Fetched("guest.time", server) for server in self.servers),
        )


class NouveauModule(ModuleBase):
    """The nouveau driver kept from loading, in the running system and in its initramfs."""

    kind: Literal["nouveau"] = "nouveau"
    ENDS: ClassVar[frozenset[Ends]] = NOTHING
    MAY_REBOOT: ClassVar[bool] = True

    def describe(self) -> Description:
        return Description(
            words="nouveau disabled",
            by_hand="write `blacklist nouveau` and `options nouveau modeset=0` to a file in "
            "/etc/modprobe.d, rebuild the initramfs, and restart if nouveau is loaded",
            is_default=True,
        )


_VERSION = re.compile(r"(?<![\d.])(\d{3})\.\d+(?:\.\d+)?")
_NAMED = re.compile(r"(?:grid|driver)[-_](\d{3})(?!\d)", re.IGNORECASE)


def branch_of_package(package: str) -> str:
    """Return the branch by the name of a guest driver's package, "" if it has none."""
    name = package.rstrip("/").rpartition("/")[2]
    found = _VERSION.search(name.replace("_", "-")) or _NAMED.search(name)
    return found.group(1) if found else ""


_KINDS: Mapping[str, re.Pattern[str]] = {
    "guest": re.compile(r"grid", re.IGNORECASE),
    "host": re.compile(r"vgpu[-_](?:kvm|ubuntu|rhel|sle)", re.IGNORECASE),
    "data center": re.compile(
        r"^(?:NVIDIA-Linux-[a-z0-9_]+-[\d.]+(?:-no-compat32)?\.run$|cuda-drivers|nvidia-(?:driver|open|dkms)-)",
        re.IGNORECASE,
    ),
}
"""NVIDIA's packages by their file names: `-grid` for vGPU guests, the vGPU manager for KVM hosts, all others.

Sources: gpu-operator issue 1371, the Virtual GPU Software User Guide's chapters on installing drivers.
"""


def kind_of_package(package: str) -> str:
    """Return the kind of driver by a package's name: guest, host, data center, or ""."""
    name = package.rstrip("/").rpartition("/")[2]
    return next((kind for kind, named in _KINDS.items() if named.search(name)), "")


class DriverModule(ModuleBase):
    """NVIDIA's guest driver. `package` is a URL or a path in the guest, "" where the template has it.

    `branches` are the driver branches that the host's driver takes ("580", "570"), the newest first; empty
    where the host's is not known, or where it hands the GPU through whole. `refused` are those that NVIDIA's
    rule excludes, empty if the plan file relaxes that: a driver of neither is reported, and may run. Both
    are only checked, since a host's new driver brings the guest no other. `sha256` is the package's, ""
    unchecked.
    """

    kind: Literal["driver"] = "driver"
    ENDS: ClassVar[frozenset[Ends]] = frozenset({Ends.DRIVER})
    ONLY_CHECKED: ClassVar[frozenset[str]] = frozenset({"branches", "refused"})
    package: str = ""
    sha256: str = ""
    branches: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    MAY_REBOOT: ClassVar[bool] = True

    @property
    def unpinned(self) -> str:
        """Its package, by address without a checksum."""
        return without_checksum(self.package, self.sha256)

    def describe(self) -> Description:
        branches = " or ".join(self.branches)
        branch = branch_of_package(self.package) or branches
        fits = f", branch {branches}" if branches else ""
        where = f"install {self.package}" if self.package else "check that the driver is installed"
        return Description(
            words=f"driver {branch}".rstrip(),
            by_hand=f"{where}{fits}; verify that nvidia-smi lists the GPUs",
            fetched=fetched_file("guest.driver", self.package, self.sha256),
        )


class LicenceModule(ModuleBase):
    """gridd.conf and the client configuration token; `feature_type` in gridd.conf's numbers, 4: compute."""

    kind: Literal["licence"] = "licence"
    ENDS: ClassVar[frozenset[Ends]] = NOTHING
    token: str
    feature_type: int = 4

    @property
    def secrets(self) -> tuple[str, ...]:
        """The token."""
        return (self.token,)

    def describe(self) -> Description:
        return Description(
            words=f"license {HIDDEN}",
            by_hand=f"write FeatureType={self.feature_type} to /etc/nvidia/gridd.conf, store the token "
            f"({self.token}) in /etc/nvidia/ClientConfigToken with mode 0744, and restart "
            "nvidia-gridd",
        )


class OfedModule(ModuleBase):
    """The RDMA stack: "mlnx" (MLNX_OFED), "doca" (DOCA-OFED) or "inbox" (the distribution's).

    `package` is a URL or path (mlnx: the .tgz, doca: the repository's .deb or .rpm), "" where the template
    has it. It comes before NVIDIA's driver, whose nvidia-peermem is built only where the stack is there.
    """

    kind: Literal["ofed"] = "ofed"
    ENDS: ClassVar[frozenset[Ends]] = frozenset({Ends.NETWORK})
    stack: Literal["mlnx", "doca", "inbox"] = "inbox"
    package: str = ""
    sha256: str = ""
    MAY_REBOOT: ClassVar[bool] = True

    @property
    def unpinned(self) -> str:
        """Its package, by address without a checksum."""
        return without_checksum(self.package, self.sha256)

    def describe(self) -> Description:
        words, named = {
            "mlnx": ("MLNX_OFED", "MLNX_OFED"),
            "doca": ("DOCA-OFED", "DOCA-OFED"),
            "inbox": ("inbox RDMA", "the distribution's RDMA packages"),
        }[self.stack]
        source = f" from {self.package}" if self.package else ""
        return Description(
            words=words,
            by_hand=f"install {named}{source}",
            is_default=self.stack == "inbox",
            fetched=fetched_file("guest.ofed.package", self.package, self.sha256),
        )


class PeermemModule(ModuleBase):
    """The way from the NIC into GPU memory: the kernel's dma-buf where all have it, else nvidia-peermem.

    `stack` is the RDMA stack's. `package` is the driver's where that is a .run: its installer builds the
    modules anew that were built before the stack came, as DKMS does for packages.
    """

    kind: Literal["peermem"] = "peermem"
    ENDS: ClassVar[frozenset[Ends]] = frozenset({Ends.DRIVER})
    stack: Literal["mlnx", "doca", "inbox"] = "inbox"
    package: str = ""
    sha256: str = ""

    @property
    def ends(self) -> frozenset[Ends]:
        """Processes on the GPU, if NVIDIA's installer runs again."""
        return super().ends if self.package else NOTHING

    def describe(self) -> Description:
        return Description(
            words="GPU memory for RDMA",
            by_hand="load nvidia-peermem now and at boot, unless the open kernel modules on Linux 5.12 or "
            "later make it unnecessary; if the driver was installed before the RDMA stack, rebuild "
            "the driver's modules",
            fetched=fetched_file("guest.driver", self.package, self.sha256),
            is_default=True,
        )


class NicFirmwareModule(ModuleBase):
    """Firmware parameters of passed-through NICs, set in the guest; in force after the *host's* restart.

    `nics` are those meant, by MAC or driver.
    """

    kind: Literal["nic-firmware"] = "nic-firmware"
    ENDS: ClassVar[frozenset[Ends]] = NOTHING
    nics: tuple[GuestNic, ...]
    parameters: Mapping[str, str] = Field(default_factory=dict)

    def describe(self) -> Description:
        values = [f"{key}={value}" for key, value in self.parameters.items()]
        return Description(
            words=", ".join(values),
            by_hand=f"mlxconfig -y set {' '.join(values)} on the NIC; takes effect after the host restarts",
        )


class RoceModule(ModuleBase):
    """RoCE settings of the guest's NICs, set again at every boot by a systemd unit.

    With `owns_port` (a NIC passed through whole) trust, PFC and ECN are set too; else only what an
    application's packets are marked with.
    """

    kind: Literal["roce"] = "roce"
    ENDS: ClassVar[frozenset[Ends]] = NOTHING
    nics: tuple[GuestNic, ...]
    trust: Literal["dscp", "pcp"] = "dscp"
    dscp: int = 26
    priority: int = 3
    owns_port: bool = True

    @property
    def traffic_class(self) -> int:
        """The type-of-service byte: DSCP and the bits that say "ECN capable" (106 for DSCP 26)."""
        return self.dscp << 2 | 2

    def describe(self) -> Description:
        blank = RoceModule(nics=())
        marks = f"mark RoCE packets with DSCP {self.dscp} (traffic class {self.traffic_class})"
        pfc = f"enable PFC and ECN only for priority {self.priority}"
        return Description(
            words=f"PFC {self.priority}, DSCP {self.dscp}" if self.owns_port else f"DSCP {self.dscp}",
            by_hand=f"trust {self.trust}, {pfc}; {marks}; use a systemd unit, because the settings are lost "
            "at restart"
            if self.owns_port
            else f"{marks}, with a systemd unit that runs at every boot; the port's own settings are "
            "configured on the host",
            is_default=(self.dscp, self.priority) == (blank.dscp, blank.priority),
        )


class LimitsModule(ModuleBase):
    """Locked memory without limit for containers and logins, and the size of /dev/shm ("" leaves it)."""

    kind: Literal["limits"] = "limits"
    ENDS: ClassVar[frozenset[Ends]] = NOTHING
    shared_memory: str = ""

    def describe(self) -> Description:
        shared = f", and /dev/shm of {self.shared_memory}" if self.shared_memory else ""
        return Description(
            words=f"memlock, /dev/shm {self.shared_memory}" if self.shared_memory else "memlock",
            by_hand=f"allow containers and logins to lock unlimited memory{shared}",
            is_default=True,
        )


class SharedFolderModule(ModuleBase):
    """A folder shared over NFS: exported by the head, mounted by the workers."""

    kind: Literal["shared-folder"] = "shared-folder"
    ENDS: ClassVar[frozenset[Ends]] = NOTHING
    role: Literal["server", "client"]
    path: str = "/srv/training"
    server: str = ""
    clients: tuple[str, ...] = ()
    """Addresses or networks (CIDR) that may mount it."""

    def describe(self) -> Description:
        if self.role == "server":
            return Description(
                words=f"{self.path} exported",
                by_hand=f"export {self.path} over NFS to {', '.join(self.clients)}",
            )
        return Description(
            words=f"{self.path} from {self.server}",
            by_hand=f"mount {self.server}:{self.path} at {self.path}, now and at boot",
        )


class TrafficModule(ModuleBase):
    """Traffic classes on the management NIC: data loading may borrow, and never starves the control plane."""

    kind: Literal["traffic"] = "traffic"
    ENDS: ClassVar[frozenset[Ends]] = NOTHING
    nic: GuestNic
    link_mbps: int
    control_mbps: int
    control_ports: tuple[int, ...] = (22, 2222)

    def describe(self) -> Description:
        return Description(
            words=f"{self.control_mbps} of {self.link_mbps} Mbit/s reserved for control",
            by_hand=f"with tc, reserve {self.control_mbps} of {self.link_mbps} Mbit/s for control traffic on "
            f"{self.nic.named_setting}",
        )


GuestModule = Annotated[
    HostNameModule
    | UsersModule
    | HostsModule
    | NetworkModule
    | SiteModule
    | TimeModule
    | NouveauModule
    | OfedModule
    | DriverModule
    | CudaModule
    | PeermemModule
    | RoceModule
    | NcclModule
    | LimitsModule
    | TrafficModule
    | SharedFolderModule
    | ContainersModule
    | ToolkitModule
    | LicenceModule
    | SshMeshModule
    | RegistryModule
    | ImageModule
    | WorkerModule
    | RankModule
    | LauncherModule
    | MonitoringModule
    | NicFirmwareModule,
    Field(discriminator="kind"),
]
"""Every module in the order of staging: each comes after those that it needs.

Modules that fit into a VM's configuration are first, then those that write secrets and those that depend on
them. The last one waits for a manual step.
"""

MODULE_ORDER: tuple[str, ...] = tuple(
    module.model_fields["kind"].default for module in get_args(get_args(GuestModule)[0])
)
"""The kinds in this order."""
