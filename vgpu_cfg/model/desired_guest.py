"""What a plan file asks of guests and of training over several of them; None means "not asked for"."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import Field

from vgpu_cfg.model.frozen import Frozen
from vgpu_cfg.model.guest import GuestLogin
from vgpu_cfg.model.guest_base import GuestUser


class DesiredLicence(Frozen):
    """The client configuration token (a secret's name), and the feature type in gridd.conf's numbers."""

    token: str
    feature_type: int = 4


class DesiredPackage(Frozen):
    """A package by URL or path in the guest; "" where the template has what it would bring."""

    package: str = ""
    sha256: str = ""


class DesiredOfed(DesiredPackage):
    """The RDMA stack; "inbox" is the distribution's."""

    stack: Literal["mlnx", "doca", "inbox"] = "inbox"


class DesiredGuest(Frozen):
    """How one VM's guest is set up.

    `user_data` is the text of the user's own #cloud-config. `domain` is "" without one. `driver`, `ofed`
    and `runtime` are None where this tool shall not see to them.
    """

    by: Literal["cloud-init", "guest-operations", "ssh"] = "cloud-init"
    host_name: str
    domain: str = ""
    login: GuestLogin = GuestLogin()
    users: tuple[GuestUser, ...] = ()
    user_data: str = ""
    licence: DesiredLicence | None = None
    driver: DesiredPackage | None = None
    ofed: DesiredOfed | None = None
    runtime: Literal["docker", "containerd", "apptainer"] | None = None
    toolkit_repository: str | None = None
    shared_memory: str = ""
    wait_seconds: int = 1800


class DesiredRegistry(Frozen):
    """A login at the registry of the training's image; `password` names a secret."""

    server: str
    user: str = "$oauthtoken"
    password: str


class DesiredSharedFolder(Frozen):
    """A folder that the head exports over NFS to the workers."""

    path: str = "/srv/training"


class DesiredMonitoring(Frozen):
    """GPU metrics of the workers, read by Prometheus and drawn by Grafana on the head; images are pinned."""

    exporter: Literal["dcgm", "nvidia-smi"] = "dcgm"
    images: Mapping[str, str] = Field(default_factory=dict)
    grafana_password: str = ""


class DesiredTraffic(Frozen):
    """Bandwidth of the management NIC: all of the link, and what the control plane is sure of."""

    link_mbps: int
    control_mbps: int


class DesiredTraining(Frozen):
    """Which VMs train together, and with what.

    `workers` are names of VMs in the order of the plan, all of them; `head` is the VM from which training
    starts where it is none of them. `slots` is the number of processes per worker, None for one per GPU.
    `rdma_network` names the network that carries the training, None for the management network. `port`
    is that of the sshd in the containers. `keys` names a secret from which all keys of the plan follow;
    without it this machine keeps one. `environment` is added to what training starts with.
    """

    framework: Literal["horovod", "none"] = "horovod"
    image: str = ""
    archive: str = ""
    workers: tuple[str, ...]
    head: str | None = None
    slots: int | None = None
    rdma_network: str | None = None
    registry: DesiredRegistry | None = None
    port: int = 2222
    keys: str | None = None
    mounts: tuple[str, ...] = ()
    environment: Mapping[str, str] = Field(default_factory=dict)
    shared_folder: DesiredSharedFolder | None = None
    monitoring: DesiredMonitoring | None = None
    traffic: DesiredTraffic | None = None
    roce_dscp: int = 26
    roce_priority: int = 3
    origin: str = ""
