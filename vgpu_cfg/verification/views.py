"""Hosts, guests and pairs as checks know them beforehand: the plan's settings, and vCenter's readings.

A pair is two VMs of a plan, as checks see them that ask one about the other. The hosts and guests of a plan
to verify, with their settings, come from vCenter's readings.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from vgpu_cfg.model.desired import DesiredNic, DesiredPlan, DesiredPower, DesiredVm
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
from vgpu_cfg.model.observed.inventory import Connection, Host, Inventory
from vgpu_cfg.model.observed.own_items import HostAlarm
from vgpu_cfg.model.observed.vm import VgpuDevice, Vm
from vgpu_cfg.model.plan_file import GpuEntry
from vgpu_cfg.model.plan_file.training_entries import Framework
from vgpu_cfg.model.verification import CheckResult, Thresholds
from vgpu_cfg.model.vgpu import Sharing, VgpuProfile
from vgpu_cfg.planning.estate.devices import as_detail, recorded_others
from vgpu_cfg.planning.estate.ownership import own_vms
from vgpu_cfg.planning.vms.lookup.wanted import own_gpus
from vgpu_cfg.verification.learned import Learned, RdmaNic

HOST_OWNED = ("sriov", "pvrdma")


@dataclass(frozen=True, slots=True)
class WantedVm:
    """The planned content of a host: its current vGPUs, by the GPU's address, and its RDMA."""

    name: str
    gpus: Mapping[str, tuple[VgpuProfile, ...]]
    rdma: tuple[str, ...] = ()
    """Of each RDMA NIC how it comes to the VM: passthrough, sriov, pvrdma."""
    gpudirect: bool = False
    nic_functions: tuple[str, ...] = ()
    """PCI addresses of the host's NICs for them, as far as they are known."""


@dataclass(frozen=True, slots=True)
class HostView:
    """A host that runs VMs of the plan. `has_shell` is whether its shell may be used."""

    host: Host
    facts: HostFacts
    vms: tuple[WantedVm, ...] = ()
    has_shell: bool = False
    roce: tuple[int, int] | None = None
    """DSCP and priority of RDMA traffic, if the host's own driver carries it."""
    tenants: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Names of running VMs that are none of the plan's, by the address of a GPU that they share with it."""
    licence_of_all: bool = False
    """Whether vGPUs of VMs that are none of the plan's are checked too."""
    thresholds: Thresholds = field(default_factory=Thresholds)
    checked: tuple[str, ...] = ()
    """Addresses of GPUs for vGPUs that are checked even if no VM of the plan uses them."""
    unheld: tuple[str, ...] = ()
    """Addresses of GPUs in passthrough to check that no running VM of the plan has."""
    alarms: tuple[HostAlarm, ...] | None = None
    """Its triggered alarms, None if they were not or could not be read."""
    since: datetime | None = None
    """The host's restart, or the later start of its cordon; older lines of its log do not count."""

    @property
    def name(self) -> str:
        """The host's name."""
        return self.host.name

    @property
    def vgpus(self) -> Mapping[str, tuple[VgpuProfile, ...]]:
        """The profiles that the plan's VMs hold, by the GPU's address; none if it is only checked."""
        held: dict[str, tuple[VgpuProfile, ...]] = dict.fromkeys(self.checked, ())
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

    `host_gpus` are the addresses of its GPUs on the host. `gpus` is how many it was given, of which `vgpus`
    are vGPUs. `wanted` holds for each GPU the names that the plan file accepts: profiles of a vGPU, a part of
    the name of a whole one, none if any will do. `framebuffers_mib` maps profiles to their size. `peers`
    counts those that NVLink joins. `gpudirect` asks for RDMA from GPU memory. `powered_on` is vCenter's
    state, `shall_run` the plan's; `host_state` is the fault of its host, in words after the host's name,
    empty if there is none. `rates_gbps` maps a PCI device id to what such a NIC can. `now` is when the run
    began.
    """

    name: str
    spec: GuestSpec
    host: str = ""
    host_gpus: tuple[str, ...] = ()
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
        """Return the same guest, with the observations."""
        return replace(self, learned=learned)

    @property
    def runs(self) -> bool:
        """Whether vCenter shows that the VM runs, or last knew so where its host does not respond."""
        return self.is_there and self.powered_on

    @property
    def driver(self) -> DriverModule | None:
        """NVIDIA's driver, if the plan manages it."""
        return self.spec.get(DriverModule)

    @property
    def licence(self) -> LicenceModule | None:
        """The license, if the plan manages it."""
        return self.spec.get(LicenceModule)

    @property
    def nics(self) -> tuple[GuestNic, ...]:
        """The NICs that netplan is written for, or that vCenter's customization sets."""
        found = self.spec.get(NetworkModule)
        return (*(found.nics if found is not None else ()), *self.spec.customized)

    @property
    def roce(self) -> RoceModule | None:
        """RoCE settings, if a NIC carries RDMA."""
        return self.spec.get(RoceModule)

    @property
    def rdma_nics(self) -> tuple[GuestNic, ...]:
        """The NICs that carry RDMA, with their settings of the network module."""
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
        """The source of its clock, if the plan manages it."""
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
        """The launcher of its training processes; None if it does not train, or the launcher is not set."""
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
        """The launcher of training, on one VM of all."""
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


@dataclass(frozen=True, slots=True)
class PairView:
    """Two VMs, in one direction. `number` distinguishes pairs that are measured at the same time.

    `earlier` holds results that this pair may explain itself by: (check, subject) to the result.
    """

    source: GuestView
    target: GuestView
    thresholds: Thresholds = field(default_factory=Thresholds)
    number: int = 0
    earlier: Mapping[tuple[str, str], CheckResult] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """How the pair is called."""
        return f"{self.source.name} -> {self.target.name}"

    @property
    def rails(self) -> tuple[tuple[RdmaNic, RdmaNic], ...]:
        """The RDMA NICs that face each other: the first with the first, and so on."""
        return tuple(zip(self.source.learned.rdma, self.target.learned.rdma, strict=False))


def make_guest_views(
    desired: DesiredPlan,
    observed: Inventory,
    specs: Mapping[str, GuestSpec],
    *,
    now: datetime,
    rates_gbps: Mapping[int, int] | None = None,
    framebuffers_mib: Mapping[str, int] | None = None,
) -> tuple[GuestView, ...]:
    """Return the plan's VMs that have a spec, and of the others those that do not run, in its order."""
    found = own_vms(desired, observed)
    views = (
        replace(
            _guest_view(vm, specs.get(vm.name), found.get(vm.name), observed),
            shall_run=vm.power is DesiredPower.ON and not vm.is_expired(now.date()),
            now=now,
            rates_gbps=rates_gbps or {},
            framebuffers_mib=framebuffers_mib or {},
        )
        for vm in desired.vms
    )
    return tuple(view for view in views if view.name in specs or (view.shall_run and not view.runs))


def make_host_views(
    desired: DesiredPlan,
    observed: Inventory,
    *,
    open_shells: frozenset[str] = frozenset(),
    licence_of_all: bool = False,
    checked: Mapping[str, frozenset[str]] | None = None,
) -> tuple[HostView, ...]:
    """Return the hosts on which VMs of the plan run, in the order of their names.

    `open_shells` names (by moid) the hosts whose shell may be asked. With `checked`, return the hosts with
    these moids instead; of each, the GPUs at these addresses are checked.
    """
    by_name = {vm.name: vm for vm in desired.vms}
    wanted: dict[str, list[WantedVm]] = {}
    own = own_vms(desired, observed)
    for vm in own.values():
        if vm.is_on and vm.host_moid is not None:
            wanted.setdefault(vm.host_moid, []).append(_wanted_vm(by_name[vm.name], vm, observed))
    training = desired.training
    hosts = (host for host in observed.hosts if host.moid in (wanted if checked is None else checked))
    views = (
        HostView(
            host=host,
            facts=observed.facts.hosts.get(host.moid, HostFacts()),
            vms=tuple(wanted.get(host.moid, ())),
            has_shell=host.moid in open_shells,
            roce=(training.roce.dscp, training.roce.priority) if training is not None else None,
            tenants=_tenants(host, observed, {vm.moid for vm in own.values()}) if training else {},
            licence_of_all=licence_of_all,
            since=observed.facts.hosts.get(host.moid, HostFacts()).boot_time,
        )
        for host in sorted(hosts, key=lambda host: host.name)
    )
    if checked is None:
        return tuple(views)
    running = [vm for vm in own.values() if vm.is_on]
    return tuple(_to_check(view, checked[view.host.moid], running) for view in views)


def _to_check(view: HostView, addresses: frozenset[str], running: Sequence[Vm]) -> HostView:
    """Return the view with only the GPUs to check, and the time from which on its log counts."""
    host = view.host
    held = {one for vm in running if vm.host_moid == host.moid for one in _host_gpus(vm, host)}
    gpus = [gpu for gpu in host.gpus if gpu.pci_id in addresses]
    begun = [one.since for one in host.cordons if one.since and one.pci_id in ("", *addresses)]
    since = max([*begun, *filter(None, [view.since])], default=None)
    return replace(
        view,
        vms=(),
        checked=tuple(gpu.pci_id for gpu in gpus if not gpu.is_passthrough),
        unheld=tuple(gpu.pci_id for gpu in gpus if gpu.is_passthrough and gpu.pci_id not in held),
        since=since,
    )


def _tenants(host: Host, observed: Inventory, own: set[str]) -> dict[str, tuple[str, ...]]:
    """Return running VMs outside the plan, by GPU; if MIG divides one they do not share its time."""
    names = {vm.moid: vm.name for vm in observed.vms if vm.is_on and vm.moid not in own}
    return {
        gpu.pci_id: tuple(names[moid] for moid in gpu.vm_moids if moid in names)
        for gpu in host.gpus
        if gpu.sharing is not Sharing.MIG and own & set(gpu.vm_moids) and set(names) & set(gpu.vm_moids)
    }


def _guest_view(vm: DesiredVm, spec: GuestSpec | None, seen: Vm | None, observed: Inventory) -> GuestView:
    host = observed.host_by_moid.get(seen.host_moid or "") if seen is not None else None
    vgpus = [gpu for gpu in vm.gpus if gpu.kind == "vgpu"]
    held = seen.detail.vgpus if seen is not None and seen.detail is not None else ()
    others = own_gpus(as_detail(recorded_others(seen))) if seen is not None else ()
    return GuestView(
        name=vm.name,
        spec=spec if spec is not None else GuestSpec(plan="", vm=vm.name),
        host=host.name if host is not None else "",
        host_gpus=_host_gpus(seen, host) if seen is not None and host is not None else (),
        host_state="" if host is None or host.connection is Connection.CONNECTED else host.connection.words,
        is_there=seen is not None,
        powered_on=seen is not None and seen.is_on,
        gpus=len(vm.gpus),
        vgpus=len(vgpus),
        wanted=tuple(_names_of(gpu, host, held) for gpu in (*vm.gpus, *others)),
        peers=sum(gpu.nvlink is not None for gpu in vgpus),
        gpudirect=any(nic.rdma == "gpudirect" for nic in vm.nics),
        profiles=tuple(device.profile for device in held),
    )


def _host_gpus(seen: Vm, host: Host) -> tuple[str, ...]:
    whole = seen.detail.passthrough_gpus if seen.detail is not None else ()
    held = [gpu.pci_id for gpu in host.gpus if seen.moid in gpu.vm_moids]
    passed = (device.pci_id or device.assigned_id for device in whole)
    return tuple(dict.fromkeys([*held, *filter(None, passed)]))


def _names_of(gpu: GpuEntry, host: Host | None, held: Sequence[VgpuDevice]) -> tuple[str, ...]:
    """Return the accepted names of a GPU: its profiles in the file, or the board's name of a whole one.

    Of one requested by its memory, they are the profiles the VM has that are large enough.
    """
    if gpu.memory is not None:
        return tuple(dict.fromkeys(one.profile for one in held if gpu.is_served_by_name(one.profile)))
    if gpu.profile:
        return tuple(str(profile) for profile in gpu.profile)
    if gpu.pin:
        seen = next((one for one in (host.gpus if host is not None else ()) if one.pci_id == gpu.pin), None)
        return (seen.name,) if seen is not None else ()
    return (gpu.device.model,) if gpu.device.model else ()


def _wanted_vm(vm: DesiredVm, seen: Vm, observed: Inventory) -> WantedVm:
    host = observed.host_by_moid.get(seen.host_moid or "")
    held = seen.detail.vgpus if seen.detail is not None else ()
    profiles = tuple(VgpuProfile.parse(device.profile) for device in held)
    holding = [gpu.pci_id for gpu in (host.gpus if host is not None else ()) if seen.moid in gpu.vm_moids]
    # Which of several GPUs has which of several vGPUs is not told; one board has one mode for all its types.
    gpus = dict.fromkeys(holding, profiles) if profiles else {}
    ways = tuple(_way(nic) for nic in vm.nics if nic.rdma is not None)
    functions = () if seen.detail is None else tuple(_functions(seen))
    return WantedVm(vm.name, gpus, ways, any(nic.rdma == "gpudirect" for nic in vm.nics), functions)


def _way(nic: DesiredNic) -> str:
    return nic.function.kind if nic.function is not None else "pvrdma"


def _functions(seen: Vm) -> list[str]:
    detail = seen.detail
    if detail is None:
        return []
    whole = [device.pci_id or device.assigned_id for device in detail.passthrough_nics]
    return [address for address in [*whole, *(nic.function for nic in detail.nics)] if address]
