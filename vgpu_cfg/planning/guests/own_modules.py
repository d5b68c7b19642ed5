"""The modules that a VM's own `guest` asks for, training or not: accounts, driver, RDMA, containers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from vgpu_cfg.model.desired import DesiredGuest, DesiredTraining, DesiredVm
from vgpu_cfg.model.guests.modules import (
    CudaModule,
    DriverModule,
    GuestModule,
    HostNameModule,
    LicenceModule,
    LimitsModule,
    NetworkModule,
    NicFirmwareModule,
    NouveauModule,
    OfedModule,
    PeermemModule,
    RoceModule,
    TimeModule,
    UsersModule,
)
from vgpu_cfg.model.guests.training_modules import ContainersModule, ToolkitModule
from vgpu_cfg.model.plan_file import TrainingRoceEntry
from vgpu_cfg.model.plan_file.guest_values import package_kind
from vgpu_cfg.planning.guests.drivers import GuestDrivers
from vgpu_cfg.planning.guests.peers import PlannedNic

ATS_FIRMWARE = {"ATS_ENABLED": "True"}
"""The firmware parameters of a NIC for ATS, in mlxconfig's own words."""

MACHINE_USER = "vgpu-cfg"
"""The account by which this tool logs in where the plan file names none."""


@dataclass(frozen=True, slots=True)
class OwnGuest:
    """One VM's guest, and what its modules follow from. `takes` are the drivers that its host takes."""

    vm: DesiredVm
    guest: DesiredGuest
    nics: tuple[PlannedNic, ...]
    takes: GuestDrivers = field(default_factory=GuestDrivers)
    training: DesiredTraining | None = None
    """The plan's training, if this VM takes part in it."""

    @property
    def rdma_nics(self) -> tuple[PlannedNic, ...]:
        """The NICs that carry RDMA."""
        return tuple(nic for nic in self.nics if nic.is_rdma)

    @property
    def has_gpus(self) -> bool:
        """Whether the VM has GPUs."""
        return bool(self.vm.gpus)


def own_modules(own: OwnGuest) -> Iterator[GuestModule]:
    """Yield the modules, in no order."""
    guest = own.guest
    if not guest.spec:
        yield HostNameModule(host_name=guest.host_name, domain=guest.domain)
    yield UsersModule(users=guest.users, machine_user="" if guest.login.user else MACHINE_USER)
    # What vCenter's customisation gives an adapter, nobody sets a second time.
    reported = tuple(nic.guest for nic in own.nics if nic.is_stated and (nic.is_whole or not guest.spec))
    if reported:
        yield NetworkModule(nics=reported)
    if guest.time:
        yield TimeModule(servers=guest.time)
    if own.has_gpus:
        yield from _gpu_modules(own)
    yield from _rdma_modules(own, own.rdma_nics)
    if own.training is not None or own.rdma_nics or guest.shared_memory:
        yield LimitsModule(shared_memory=guest.shared_memory)
    if guest.runtime is not None:
        yield ContainersModule(runtime=guest.runtime)


def _gpu_modules(own: OwnGuest) -> Iterator[GuestModule]:
    guest = own.guest
    if guest.driver is not None:
        yield NouveauModule()
        driver = guest.driver
        # A GPU that is handed through whole takes any driver: the host's serves vGPUs only.
        takes = own.takes if any(gpu.kind == "vgpu" for gpu in own.vm.gpus) else GuestDrivers()
        yield DriverModule(
            package=driver.package or "",
            sha256=driver.sha256 or "",
            branches=takes.branches,
            refused=takes.refused,
        )
    if guest.cuda is not None:
        yield CudaModule.model_validate(guest.cuda.model_dump(exclude_none=True))
    if guest.licence is not None:
        yield LicenceModule(token=guest.licence.token, feature_type=guest.licence.feature_type)
    if guest.runtime is not None:
        toolkit = ToolkitModule(runtime=guest.runtime)
        if guest.toolkit_repository is not None:
            toolkit = toolkit.model_copy(update={"repository": guest.toolkit_repository})
        yield toolkit


def _rdma_modules(own: OwnGuest, nics: Sequence[PlannedNic]) -> Iterator[GuestModule]:
    """Yield what one word on a NIC asks of the guest: stack, firmware of a whole NIC, RoCE settings."""
    guest = own.guest
    is_direct = any(nic.desired.rdma == "gpudirect" for nic in nics)
    if guest.ofed is not None:
        ofed = guest.ofed
        yield OfedModule(
            stack=ofed.stack,
            package=ofed.package or "",
            sha256=ofed.sha256 or "",
        )
        if is_direct and own.has_gpus:
            yield _peermem_module(guest)
    if not nics:
        return
    direct = tuple(nic.guest for nic in nics if nic.is_whole and nic.desired.rdma == "gpudirect")
    if direct:
        yield NicFirmwareModule(nics=direct, parameters=ATS_FIRMWARE)
    shape = own.training.roce if own.training is not None else TrainingRoceEntry()
    yield RoceModule(
        nics=tuple(nic.guest for nic in nics),
        dscp=shape.dscp,
        priority=shape.priority,
        owns_port=all(nic.is_whole for nic in nics),
    )


def _peermem_module(guest: DesiredGuest) -> PeermemModule:
    """Name the driver's package where its own installer can build modules anew."""
    driver = guest.driver
    package = driver.package or "" if driver is not None else ""
    is_installer = package_kind(package) == ".run"
    return PeermemModule(
        stack=guest.ofed.stack if guest.ofed is not None else "inbox",
        package=package if is_installer else "",
        sha256=driver.sha256 or "" if driver is not None and is_installer else "",
    )
