"""The list of a plan's hosts for other tools: how each is called, reached and counted."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import Field

from vgpu_cfg.model.frozen import Frozen


class ListedHostGpu(Frozen):
    """A host's GPU: a vGPU's profile, or the model of a whole GPU; unknown values are empty or None."""

    profile: str = ""
    board: str = ""
    memory_mib: int | None = None

    @property
    def kind(self) -> str:
        """The kind of a GPU: its profile, or its board without one."""
        return self.profile or self.board


class ListedHost(Frozen):
    """One host. `slots` is how many processes run on it, 0 on a head that only launches.

    `address` is that by which it is reached from outside of the training network, `training_address` that
    by which the others reach it; "" where it is not known. `key_file` is the path of the private key on the
    machine where this tool runs, "" where no file holds it. `exists` is False of a VM that is not made yet:
    its address does not respond yet. `esxi_host` and `cluster` are names; "" if not yet known.
    `cores_per_socket` is known of a VM that exists. `driver_in_guest` is False of one whose guest the plan
    sets up and leaves NVIDIA's driver and its licence out.
    """

    vm: str
    host_name: str
    domain: str = ""
    address: str = ""
    training_address: str = ""
    slots: int = 0
    gpus: tuple[ListedHostGpu, ...] = ()
    cpus: int | None = None
    cores_per_socket: int | None = None
    memory_mib: int | None = None
    exists: bool = True
    esxi_host: str = ""
    cluster: str = ""
    has_rdma: bool = False
    driver_in_guest: bool = True
    user: str = ""
    port: int = 22
    key_file: str = ""

    @property
    def full_name(self) -> str:
        """The host name with its domain."""
        return f"{self.host_name}.{self.domain}" if self.domain else self.host_name

    @property
    def peer_address(self) -> str:
        """Its name for the other hosts: its address in training, otherwise its host name."""
        return self.training_address or self.host_name

    @property
    def gpu_kinds(self) -> dict[str, int]:
        """How many GPUs of each kind it has."""
        counts: dict[str, int] = {}
        for gpu in self.gpus:
            counts[gpu.kind] = counts.get(gpu.kind, 0) + 1
        return counts


class HostList(Frozen):
    """The workers in the plan's order, the first one launching where there is no `head`.

    `mesh_port` is that of the ssh servers in the workers' containers, None where the plan asks for none.
    `absent` are the VMs that do not exist yet and are known only from the plan file. `lost` ones are on
    hosts that do not respond. `framework`, `image`, `mounts` (source:target pairs) and `environment` are
    those of the training, empty without one. `network` is the one that carries it.
    """

    plan: str
    workers: tuple[ListedHost, ...]
    head: ListedHost | None = None
    mesh_port: int | None = None
    framework: str = ""
    image: str = ""
    mounts: tuple[str, ...] = ()
    environment: Mapping[str, str] = Field(default_factory=dict)
    network: str = ""
    absent: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()

    @property
    def everyone(self) -> tuple[ListedHost, ...]:
        """The head, then the workers."""
        return (self.head, *self.workers) if self.head is not None else self.workers

    @property
    def processes(self) -> int:
        """How many processes run on all workers together."""
        return sum(host.slots for host in self.workers)
