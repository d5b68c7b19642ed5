"""What checks know of a host or a guest before they ask: what the plan wants, and what was read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from vgpu_cfg.model.guests.base import GuestNic
from vgpu_cfg.model.guests.guest import GuestSpec
from vgpu_cfg.model.guests.modules import (
    DriverModule,
    LicenceModule,
    LimitsModule,
    NetworkModule,
    OfedModule,
    RoceModule,
    SharedFolderModule,
    TimeModule,
)
from vgpu_cfg.model.guests.training_modules import (
    ContainersModule,
    ImageModule,
    LauncherModule,
    MonitoringModule,
    SshMeshModule,
    WorkerModule,
)
from vgpu_cfg.model.observed.host_facts import HostFacts
from vgpu_cfg.model.observed.inventory import Host
from vgpu_cfg.model.plan_file.training_entries import Framework
from vgpu_cfg.model.verification import Thresholds
from vgpu_cfg.model.vgpu import VgpuProfile
from vgpu_cfg.verification.learned import Learned

HOST_OWNED = ("sriov", "pvrdma")


@dataclass(frozen=True, slots=True)
class WantedVm:
    """What runs on a host by the plan: the vGPUs it holds now, by the GPU's address, and its RDMA."""

    name: str
    gpus: Mapping[str, tuple[VgpuProfile, ...]]
    rdma: tuple[str, ...] = ()
    """Of each RDMA NIC how it comes to the VM: passthrough, sriov, pvrdma."""
    gpudirect: bool = False
    nic_functions: tuple[str, ...] = ()
    """PCI addresses of the host's NICs behind them, as far as they are known."""


@dataclass(frozen=True, slots=True)
class HostView:
    """A host that runs VMs of the plan. `has_shell` tells whether its shell may be asked."""

    host: Host
    facts: HostFacts
    vms: tuple[WantedVm, ...] = ()
    has_shell: bool = False
    roce: tuple[int, int] | None = None
    """DSCP and priority of RDMA traffic, where the host's own driver carries it."""
    tenants: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Names of running VMs that are none of the plan's, by the address of a GPU that they share with it."""
    licence_of_all: bool = False
    """Whether vGPUs of VMs that are none of the plan's are checked too."""
    thresholds: Thresholds = field(default_factory=Thresholds)

    @property
    def name(self) -> str:
        """The host's name."""
        return self.host.name

    @property
    def vgpus(self) -> Mapping[str, tuple[VgpuProfile, ...]]:
        """The profiles that the plan's VMs hold, by the GPU's address."""
        held: dict[str, tuple[VgpuProfile, ...]] = {}
        for vm in self.vms:
            for pci_id, profiles in vm.gpus.items():
                held[pci_id] = (*held.get(pci_id, ()), *profiles)
        return held

    @property
    def wants_ats(self) -> bool:
        """Whether a VM asks for GPUDirect."""
        return any(vm.gpudirect for vm in self.vms)

    @property
    def carries_rdma(self) -> bool:
        """Whether the host's own driver carries RDMA of a VM."""
        return any(way in HOST_OWNED for vm in self.vms for way in vm.rdma)


@dataclass(frozen=True, slots=True)
class GuestView:
    """A VM whose guest is asked.

    `gpus` is how many it was given, of which `vgpus` are vGPUs. `wanted` holds of each GPU the names that
    the plan file takes: profiles of a vGPU, a part of the name of a whole one, none where any will do.
    `framebuffers_mib` maps profiles to their size. `peers` counts those that NVLink joins.
    `gpudirect` asks for RDMA from GPU memory. `powered_on` is what vCenter says, `shall_run` what the
    plan does; `host_state` is what is wrong with its host, in words after the host's name, empty where
    nothing is. `rates_gbps` maps a PCI device id to what such a NIC can. `now` is when the run began.
    """

    name: str
    spec: GuestSpec
    host: str = ""
    is_there: bool = True
    powered_on: bool = True
    shall_run: bool = True
    host_state: str = ""
    gpus: int = 0
    vgpus: int = 0
    wanted: tuple[tuple[str, ...], ...] = ()
    framebuffers_mib: Mapping[str, int] = field(default_factory=dict)
    peers: int = 0
    gpudirect: bool = False
    profiles: tuple[str, ...] = ()
    rates_gbps: Mapping[int, int] = field(default_factory=dict)
    now: datetime = datetime(1970, 1, 1, tzinfo=UTC)
    thresholds: Thresholds = field(default_factory=Thresholds)
    learned: Learned = field(default_factory=Learned)

    def knowing(self, learned: Learned) -> GuestView:
        """Return the same guest, with what was found out."""
        return replace(self, learned=learned)

    @property
    def runs(self) -> bool:
        """Whether vCenter shows that the VM runs, or last knew so where its host does not respond."""
        return self.is_there and self.powered_on

    @property
    def driver(self) -> DriverModule | None:
        """NVIDIA's driver, where the plan sees to it."""
        return self.spec.get(DriverModule)

    @property
    def licence(self) -> LicenceModule | None:
        """The licence, where the plan sees to it."""
        return self.spec.get(LicenceModule)

    @property
    def nics(self) -> tuple[GuestNic, ...]:
        """The NICs that netplan is written for."""
        found = self.spec.get(NetworkModule)
        return found.nics if found is not None else ()

    @property
    def roce(self) -> RoceModule | None:
        """RoCE settings, where a NIC carries RDMA."""
        return self.spec.get(RoceModule)

    @property
    def rdma_nics(self) -> tuple[GuestNic, ...]:
        """The NICs that carry RDMA, with what the network module says of them."""
        roce = self.roce
        if roce is None:
            return ()
        return tuple(next((nic for nic in self.nics if _is_same(nic, one)), one) for one in roce.nics)

    @property
    def ofed(self) -> OfedModule | None:
        """The RDMA stack."""
        return self.spec.get(OfedModule)

    @property
    def time(self) -> TimeModule | None:
        """Where its clock comes from, where the plan sees to it."""
        return self.spec.get(TimeModule)

    @property
    def limits(self) -> LimitsModule | None:
        """Locked and shared memory."""
        return self.spec.get(LimitsModule)

    @property
    def shared_folder(self) -> SharedFolderModule | None:
        """The folder that is shared over NFS."""
        return self.spec.get(SharedFolderModule)

    @property
    def monitoring(self) -> MonitoringModule | None:
        """Exporters, or what reads them."""
        return self.spec.get(MonitoringModule)

    @property
    def containers(self) -> ContainersModule | None:
        """The container runtime."""
        return self.spec.get(ContainersModule)

    @property
    def image(self) -> ImageModule | None:
        """The image to train with."""
        return self.spec.get(ImageModule)

    @property
    def framework(self) -> Framework | None:
        """What starts the processes of its training; None where it takes no part, or nobody says."""
        by = self.image or self.launcher
        return by.framework if by is not None else None

    @property
    def worker(self) -> WorkerModule | None:
        """The worker container."""
        return self.spec.get(WorkerModule)

    @property
    def mesh(self) -> SshMeshModule | None:
        """The ssh mesh."""
        return self.spec.get(SshMeshModule)

    @property
    def launcher(self) -> LauncherModule | None:
        """What starts training, on one VM of all."""
        return self.spec.get(LauncherModule)

    @property
    def is_worker(self) -> bool:
        """Whether it takes part in training with work of its own."""
        return self.worker is not None or (self.mesh is not None and self.gpus > 0)


def _is_same(nic: GuestNic, other: GuestNic) -> bool:
    for key in ("mac", "name", "driver"):
        if getattr(other, key):
            return bool(getattr(nic, key) == getattr(other, key))
    return False
