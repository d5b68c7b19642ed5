"""Guest modules for training on several VMs: containers, images, SSH mesh, launcher, metrics.

Belief: docker-restart-ends-containers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

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
    fetched_image,
    without_checksum,
)
from vgpu_cfg.model.guests.downloads import MONITORING_IMAGES, TOOLKIT, TOOLKIT_REPOSITORY
from vgpu_cfg.model.plan_file.site_values import host_of
from vgpu_cfg.model.plan_file.training_entries import Framework
from vgpu_cfg.model.wording import counted

OVER_SSH: frozenset[Framework] = frozenset({"horovod", "mpi"})
"""Those that log in from one worker to the others by themselves: a container needs ssh and sshd for them."""

_PROOFS: Mapping[Framework, str] = {
    "torchrun": "; verify that python3 in the image can import torch",
    "horovod": "; verify that horovodrun --check-build in the image lists Horovod",
    "mpi": "; verify that mpirun --version works in the image",
    "none": "",
}
_LAUNCHERS: Mapping[Framework, str] = {
    "torchrun": "torchrun",
    "horovod": "horovodrun",
    "mpi": "mpirun",
    "none": "run the command once on each worker",
}


class ContainersModule(ModuleBase):
    """A container runtime, from the distribution unless the template has it."""

    kind: Literal["containers"] = "containers"
    ENDS: ClassVar[frozenset[Ends]] = NOTHING
    runtime: Literal["docker", "containerd", "apptainer"] = "docker"
    minimum_free_gib: int = 0

    def describe(self) -> Description:
        return Description(
            words=self.runtime, by_hand=f"install {self.runtime} from the distribution, and enable it at boot"
        )


class ToolkitModule(ModuleBase):
    """NVIDIA Container Toolkit, and the runtime configured for it. `repository` is its package source.

    `version` and `key_sha256` (of the repository's key) are required of the installed package; "" is any.
    """

    kind: Literal["toolkit"] = "toolkit"
    ENDS: ClassVar[frozenset[Ends]] = frozenset({Ends.CONTAINERS})
    ONLY_CHECKED: ClassVar[frozenset[str]] = frozenset({"version", "key_sha256"})
    runtime: Literal["docker", "containerd", "apptainer"] = "docker"
    repository: str = TOOLKIT_REPOSITORY
    version: str = ""
    key_sha256: str = ""

    @property
    def key_address(self) -> str:
        """The address of the key that signs the repository."""
        return f"{self.repository.rstrip('/')}/gpgkey"

    @property
    def ends(self) -> frozenset[Ends]:
        """Containers of docker, whose daemon restarts; those of containerd survive its restart."""
        return super().ends if self.runtime == "docker" else NOTHING

    def describe(self) -> Description:
        is_needed = self.runtime != "apptainer"
        return Description(
            words="container toolkit",
            by_hand=f"install the NVIDIA Container Toolkit from {self.repository}, then run nvidia-ctk "
            f"runtime configure --runtime={self.runtime}",
            fetched=self._fetched() if is_needed else (),
            is_default=True,
        )

    def _fetched(self) -> tuple[Fetched, ...]:
        key = "guest.toolkit_repository"
        packages = fetched_file(key, self.repository)
        return (
            *fetched_file(key, self.key_address, self.key_sha256),
            *(
                one._replace(package=TOOLKIT, version=self.version, is_signed=bool(self.key_sha256))
                for one in packages
            ),
        )


class RegistryModule(ModuleBase):
    """A login at a container registry; NGC's user is literally `$oauthtoken`."""

    kind: Literal["registry"] = "registry"
    ENDS: ClassVar[frozenset[Ends]] = NOTHING
    runtime: Literal["docker", "containerd", "apptainer"] = "docker"
    server: str
    user: str = "$oauthtoken"
    password: str

    @property
    def secrets(self) -> tuple[str, ...]:
        """The password."""
        return (self.password,)

    def describe(self) -> Description:
        return Description(
            words=f"{self.server} {HIDDEN}",
            by_hand=f"log in to {self.server} from {self.runtime} as {self.user}, with {self.password}",
            # A login is asked of the registry itself, whatever mirrors it has.
            fetched=(Fetched("training.registry.server", host_of(f"https://{self.server}")),),
        )


class ImageModule(ModuleBase):
    """A container image: pulled, or loaded from `archive` (a URL or a path in the guest).

    The image is proven to hold its `framework` before anything relies on it.
    """

    kind: Literal["image"] = "image"
    ENDS: ClassVar[frozenset[Ends]] = NOTHING
    runtime: Literal["docker", "containerd", "apptainer"] = "docker"
    image: str
    archive: str = ""
    sha256: str = Field(default="", exclude_if=lambda text: not text)
    digest_pin: str = Field(default="", exclude_if=lambda text: not text)
    """The digest that a pulled image must have, `sha256:…`; "" accepts any."""
    framework: Framework = "horovod"
    minimum_free_gib: int = 40
    server: str = ""
    """The registry that the login of another module is for; "" needs none."""

    @property
    def unpinned(self) -> str:
        """Its archive, by address without a checksum."""
        return without_checksum(self.archive, self.sha256)

    def describe(self) -> Description:
        source = f"load {self.archive}" if self.archive else f"pull {self.image}"
        return Description(
            words=self.image.rpartition("/")[2],
            by_hand=f"{source}, which requires {self.minimum_free_gib} GiB of free "
            f"space{_PROOFS[self.framework]}",
            fetched=fetched_file("training.archive", self.archive, self.sha256)
            if self.archive
            else (fetched_image("training.image", self.image, self.digest_pin),),
        )


class MeshPeer(Frozen):
    """A host in the SSH mesh: its VM, which reports its host key, and its addresses."""

    vm: str
    names: tuple[str, ...]
    addresses: tuple[str, ...] = ()


class SshMeshModule(ModuleBase):
    """Every worker reaches every other by ssh, with keys made for the plan.

    known_hosts contains the host key that each guest reported, so no key is trusted on first use.
    `port` is that of the sshd in the containers, which shows the guest's host key too, `host_port` that of
    the guest's own.
    """

    kind: Literal["ssh-mesh"] = "ssh-mesh"
    ENDS: ClassVar[frozenset[Ends]] = NOTHING
    """Its sshd reloads. If it moves out of the worker's container, the worker changes, too."""
    vm: str
    user: str = "root"
    port: int = 2222
    host_port: int = 22
    peers: tuple[MeshPeer, ...]

    @property
    def secrets(self) -> tuple[str, ...]:
        """The plan's keys."""
        return (PLAN_KEYS,)

    @property
    def host_keys_of(self) -> tuple[str, ...]:
        """Everybody's, its own too."""
        return tuple(peer.vm for peer in self.peers)

    def describe(self) -> Description:
        peers = ", ".join(peer.vm for peer in self.peers)
        return Description(
            words=f"SSH mesh of {len(self.peers)}",
            by_hand=f"create a key for {self.user} that {peers} accept, on port {self.port} for training, "
            f"and add all host keys to known_hosts",
            is_default=True,
        )


class WorkerModule(ModuleBase):
    """One container per VM that waits for work, run by systemd.

    With `sshd` the mesh's sshd listens in it; without, the mesh ends at the guest's, and work goes in by the
    runtime's own exec.
    """

    kind: Literal["worker"] = "worker"
    ENDS: ClassVar[frozenset[Ends]] = frozenset({Ends.WORKER})
    runtime: Literal["docker", "containerd", "apptainer"] = "docker"
    image: str
    port: int = 2222
    sshd: bool = True
    mounts: tuple[str, ...] = ()
    """`source:target` pairs in addition to those of the mesh."""
    shared_memory: str = ""
    gpus: bool = True
    rdma: bool = False

    def describe(self) -> Description:
        sshd = f", and run sshd in the container on port {self.port}" if self.sshd else ""
        return Description(
            words="worker container",
            by_hand=f"run {self.image} as a service at boot, with the host's network and GPUs{sshd}",
        )


class RankModule(ModuleBase):
    """How every process of a training starts on its worker: /opt/vgpu-cfg/rank, and what ends it there.

    `environment` is the plan file's own, the same on all VMs of the training; what NCCL needs to know of a
    guest is in that guest (see `NcclModule`).
    """

    kind: Literal["rank"] = "rank"
    ENDS: ClassVar[frozenset[Ends]] = NOTHING
    environment: Mapping[str, str] = Field(default_factory=dict)

    def describe(self) -> Description:
        given = len(self.environment)
        values = " ".join(f"{key}={value}" for key, value in sorted(self.environment.items()))
        return Description(
            words=f"ranks with {counted(given, 'variable')}" if given else "ranks",
            by_hand="start every training process through /opt/vgpu-cfg/rank, with "
            f"{values or 'no variables'}",
            is_default=True,
        )


class TrainWorker(Frozen):
    """A worker as a launcher counts it: its name, its address on the training network or "", its GPUs."""

    name: str
    address: str = ""
    slots: int = 1


class LauncherModule(ModuleBase):
    """The host file and the command `train`, on the VM from which training starts.

    Values known only in the guests (interface, HCA, GID index) are computed by `train` there, for
    the interfaces in `nics`. `elastic` is how few and how many workers it goes on with, None for all of them.
    """

    kind: Literal["launcher"] = "launcher"
    ENDS: ClassVar[frozenset[Ends]] = NOTHING
    framework: Framework = "horovod"
    max_restarts: int = 0
    elastic: tuple[int, int] | None = None
    image: str = ""
    runtime: Literal["docker", "containerd", "apptainer"] = "docker"
    port: int = 2222
    workers: tuple[TrainWorker, ...]
    nics: tuple[GuestNic, ...] = ()
    control_nics: tuple[GuestNic, ...] = ()
    runs_work: bool = True
    """False on a head without a GPU: `train` starts nothing in its own container."""

    def describe(self) -> Description:
        slots = sum(worker.slots for worker in self.workers)
        workers = ", ".join(f"{one.name} slots={one.slots}" for one in self.workers)
        return Description(
            words=f"`train` over {counted(len(self.workers), 'worker')}, {counted(slots, 'slot')}",
            by_hand=f"write a host file ({workers}), and start training with {_LAUNCHERS[self.framework]}",
        )


class ScrapeTarget(Frozen):
    """The address of a VM's metrics."""

    vm: str
    address: str
    port: int


def _tag(image: str) -> str:
    return image.partition("@")[0].rpartition("/")[2].partition(":")[2]


class MonitoringModule(ModuleBase):
    """GPU metrics: an exporter on workers; Prometheus and Grafana with a dashboard on the head.

    `exporter` is "dcgm" (DCGM exporter) or "nvidia-smi" (nvidia-smi's csv, by a textfile collector).
    """

    kind: Literal["monitoring"] = "monitoring"
    ENDS: ClassVar[frozenset[Ends]] = NOTHING
    role: Literal["exporter", "server"]
    runtime: Literal["docker", "containerd"] = "docker"
    exporter: Literal["dcgm", "nvidia-smi"] = "dcgm"
    images: Mapping[str, str] = Field(default_factory=dict)
    """Pinned images by role: "dcgm-exporter", "node-exporter", "prometheus", "grafana"."""
    targets: tuple[ScrapeTarget, ...] = ()
    grafana_password: str = ""
    """The name of the secret with Grafana's admin password; "" lets Grafana be read without login only."""

    @property
    def used_images(self) -> Mapping[str, str]:
        """The images that run on this guest, by role."""
        if self.role == "server":
            names = ["prometheus", "grafana"]
        else:
            names = ["node-exporter", *(["dcgm-exporter"] if self.exporter == "dcgm" else [])]
        return {name: self.images.get(name, MONITORING_IMAGES[name]) for name in names}

    @property
    def secrets(self) -> tuple[str, ...]:
        """Grafana's password."""
        return (self.grafana_password,) if self.grafana_password else ()

    def describe(self) -> Description:
        targets = ", ".join(f"{one.address}:{one.port}" for one in self.targets)
        used = self.used_images.items()
        gpus = ["nvidia-smi exporter"] if (self.role, self.exporter) == ("exporter", "nvidia-smi") else []
        return Description(
            words=" and ".join([*gpus, *(f"{name} {_tag(image)}".rstrip() for name, image in used)]),
            by_hand=f"run Grafana, and Prometheus with the targets {targets}"
            if self.role == "server"
            else f"run the {self.exporter} exporter as a service",
            fetched=tuple(fetched_image(f"training.monitoring.images.{name}", image) for name, image in used),
        )
