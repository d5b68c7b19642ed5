"""The wanted state of each guest of a plan: the spec of every VM whose plan file entry has a `guest`.

It follows from the plan file, from the assigned addresses, from the drivers that hosts accept and from their
wiring; never from a VM's present state, so that two plannings of one plan file have the same result.

Modules follow from the VM's own `guest`, from the training, and from the site. Their downloads have pins: the
plan file's own checksums come first, then the site's pins, then those of vgpu-cfg.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from vgpu_cfg.model.desired import DesiredGuest, DesiredPlan, DesiredSite, DesiredTraining, DesiredVm
from vgpu_cfg.model.guests.base import Fetched, GuestNic
from vgpu_cfg.model.guests.downloads import PINS, TOOLKIT, TOOLKIT_KEY, Download
from vgpu_cfg.model.guests.guest import GuestSpec
from vgpu_cfg.model.guests.modules import (
    MODULE_ORDER,
    AptMirror,
    CudaModule,
    DriverModule,
    GuestModule,
    HostEntry,
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
    SiteProxy,
    TimeModule,
    TrafficModule,
    UsersModule,
)
from vgpu_cfg.model.guests.training_modules import (
    OVER_SSH,
    ContainersModule,
    ImageModule,
    LauncherModule,
    MeshPeer,
    MonitoringModule,
    RankModule,
    RegistryModule,
    ScrapeTarget,
    SshMeshModule,
    ToolkitModule,
    TrainWorker,
    WorkerModule,
)
from vgpu_cfg.model.plan_file import TrainingRoceEntry
from vgpu_cfg.model.plan_file.guest_values import DEFAULT_REGISTRY, package_kind, parse_elastic
from vgpu_cfg.model.plan_file.site_values import host_of
from vgpu_cfg.planning.guests.drivers import GuestDrivers
from vgpu_cfg.planning.guests.peers import Addresses, Peer, PlannedNic, Team, make_team, planned_nics
from vgpu_cfg.planning.guests.wiring import NO_WIRING, Wiring

ATS_FIRMWARE = {"ATS_ENABLED": "True"}
"""The firmware parameters of a NIC for ATS, in mlxconfig's own words."""

MACHINE_USER = "vgpu-cfg"
"""The account by which this tool logs in where the plan file names none."""
ECN_CAPABLE = 2
"""The two low bits of a type-of-service byte that say "ECN capable"."""


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


def guest_specs(
    desired: DesiredPlan,
    addresses: Addresses,
    takes: Mapping[str, GuestDrivers] | None = None,
    team: Team | None = None,
    wirings: Mapping[str, Wiring] | None = None,
) -> dict[str, GuestSpec]:
    """Return the spec of each VM whose guest is staged, by the VM's name.

    `takes` are, by VM, the guest drivers that its host accepts. `team` is the result of `make_team` for the
    same plan and addresses, if made already. `wirings` are the places of VMs' devices in their hosts.
    """
    team = team or make_team(desired, addresses)
    return {
        vm.name: _spec(
            desired,
            OwnGuest(
                vm,
                _guest(desired, vm.guest),
                planned_nics(vm, addresses),
                (takes or {}).get(vm.name, GuestDrivers()),
                _training(team, vm),
            ),
            team,
            (wirings or {}).get(vm.name, NO_WIRING),
        )
        for vm in desired.vms
        if vm.guest is not None and vm.guest.is_staged
    }


def _training(team: Team | None, vm: DesiredVm) -> DesiredTraining | None:
    return team.training if team is not None and team.peer(vm.name) is not None else None


def _guest(desired: DesiredPlan, guest: DesiredGuest) -> DesiredGuest:
    """Return a guest with the site's values for all of them, if it has none itself."""
    site = desired.site
    if site is None or not site.toolkit_repository or guest.toolkit_repository is not None:
        return guest
    return guest.model_copy(update={"toolkit_repository": site.toolkit_repository})


def _spec(desired: DesiredPlan, own: OwnGuest, team: Team | None, wiring: Wiring) -> GuestSpec:
    guest = own.guest
    peer = team.peer(own.vm.name) if team is not None else None
    modules: list[GuestModule] = [*own_modules(own), *nccl_modules(own, team, wiring)]
    if desired.site is not None:
        modules.append(site_module(desired.site, guest))
    if team is not None and peer is not None:
        modules += training_modules(team, peer)
    return GuestSpec(
        plan=desired.name,
        vm=own.vm.name,
        by=guest.by,
        login=guest.login,
        modules=tuple(
            pinned(module, desired.downloads)
            for module in sorted(modules, key=lambda module: MODULE_ORDER.index(module.kind))
        ),
        user_data=guest.user_data,
        addresses=_reached_at(own.nics),
        customized=tuple(_customized(own)),
        wait_seconds=guest.wait_seconds,
        is_exposed=guest.is_exposed,
    )


def _customized(own: OwnGuest) -> Iterator[GuestNic]:
    """Yield the NICs that a customization gives addresses; it sets no names and no MTU."""
    for nic in own.nics:
        if own.guest.spec and nic.is_stated and not nic.is_whole:
            yield nic.guest.model_copy(update={"name": "", "mtu": None})


def _reached_at(nics: tuple[PlannedNic, ...]) -> tuple[str, ...]:
    """Return a guest's addresses as the plan knows them, those without RDMA first."""
    in_order = sorted(nics, key=lambda nic: nic.is_rdma)
    return tuple(dict.fromkeys(nic.address for nic in in_order if nic.address))


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


def training_modules(team: Team, peer: Peer) -> Iterator[GuestModule]:
    """Yield the modules of one VM of a training, in no order."""
    training, guest = team.training, peer.guest
    entries = tuple(HostEntry(address=one.address, names=one.names) for one in team.everyone if one.address)
    if entries:
        yield HostsModule(entries=entries)
    yield SshMeshModule(
        vm=peer.vm.name,
        port=training.port,
        peers=tuple(_mesh_peer(one) for one in team.everyone),
    )
    yield from _shared_folder(team, peer)
    control = peer.other_nics
    if training.traffic is not None and control:
        yield TrafficModule(
            nic=control[0].guest,
            link_mbps=training.traffic.link,
            control_mbps=training.traffic.control,
            control_ports=(22, training.port),
        )
    if guest.runtime is not None and training.image:
        yield from _container(team, peer, guest.runtime)
    yield RankModule(environment=dict(sorted(team.training.environment.items())))
    if team.launcher is peer:
        yield _launcher(team, peer)
    yield from _monitoring(team, peer)


def _mesh_peer(peer: Peer) -> MeshPeer:
    return MeshPeer(vm=peer.vm.name, names=peer.names, addresses=(peer.address,) if peer.address else ())


def _shared_folder(team: Team, peer: Peer) -> Iterator[GuestModule]:
    folder, head = team.training.shared_folder, team.head
    if folder is None or head is None or not head.address:
        return
    if peer is head:
        yield SharedFolderModule(role="server", path=folder.path, clients=_clients(team))
    else:
        yield SharedFolderModule(role="client", path=folder.path, server=head.address)


def _clients(team: Team) -> tuple[str, ...]:
    """Return who may mount the head's folder: the networks of the workers, which stay when one is added."""
    networks = {one.subnet for one in team.workers if one.subnet}
    return tuple(sorted(networks, key=lambda text: str(ipaddress.ip_network(text).network_address)))


def _container(team: Team, peer: Peer, runtime: str) -> Iterator[GuestModule]:
    training = team.training
    common = {"runtime": runtime}
    registry = training.registry
    if registry is not None and not training.archive:
        yield RegistryModule.model_validate(
            common | registry.model_dump(include={"server", "user", "password"}, exclude_none=True)
        )
    yield ImageModule.model_validate(
        common
        | {
            "image": training.image,
            "archive": training.archive or "",
            "sha256": training.archive_sha256 or "",
            "framework": training.framework,
            "server": registry.server if registry is not None and not training.archive else "",
        }
    )
    folder = training.shared_folder
    shared = (f"{folder.path}:{folder.path}",) if folder is not None and team.head is not None else ()
    yield WorkerModule.model_validate(
        common
        | {
            "image": training.image,
            "port": training.port,
            "sshd": training.framework in OVER_SSH,
            "mounts": tuple(dict.fromkeys((*training.mounts, *shared))),
            "shared_memory": peer.guest.shared_memory,
            "gpus": bool(peer.vm.gpus),
            "rdma": bool(peer.rdma_nics),
        }
    )


def _launcher(team: Team, peer: Peer) -> LauncherModule:
    """Return the launcher: NICs are those of a worker, since a head takes no part in the work."""
    training, first = team.training, team.workers[0] if team.workers else peer
    return LauncherModule.model_validate(
        {
            "framework": training.framework,
            "max_restarts": training.max_restarts,
            "elastic": parse_elastic(training.elastic) if training.elastic else None,
            "image": (training.image or "") if peer.guest.runtime is not None else "",
            "runtime": peer.guest.runtime or "docker",
            "port": training.port,
            "workers": tuple(
                TrainWorker(name=one.guest.host_name, address=one.training_address, slots=one.slots)
                for one in team.workers
            ),
            "nics": tuple(nic.guest for nic in first.rdma_nics),
            "control_nics": tuple(nic.guest for nic in first.other_nics if nic.is_stated),
            "runs_work": team.is_worker(peer.vm.name),
        }
    )


def _monitoring(team: Team, peer: Peer) -> Iterator[GuestModule]:
    wanted, runtime = team.training.monitoring, peer.guest.runtime
    if wanted is None or runtime not in ("docker", "containerd"):
        return
    port = DCGM_PORT if wanted.exporter == "dcgm" else NODE_PORT
    common = {"runtime": runtime, "exporter": wanted.exporter, "images": dict(wanted.images)}
    if peer is team.head:
        targets = tuple(
            ScrapeTarget(vm=one.guest.host_name, address=one.address, port=port)
            for one in team.workers
            if one.address
        )
        yield MonitoringModule.model_validate(
            common | {"role": "server", "targets": targets, "grafana_password": wanted.grafana_password or ""}
        )
    elif peer.vm.gpus:
        yield MonitoringModule.model_validate(common | {"role": "exporter"})


def nccl_modules(own: OwnGuest, team: Team | None, wiring: Wiring = NO_WIRING) -> Iterator[GuestModule]:
    """Yield the module of one VM, if it has any.

    A head that does no work has none. Without RDMA the NIC on the workers' own network carries the training.
    """
    peer = team.peer(own.vm.name) if team is not None else None
    is_worker = team is not None and team.is_worker(own.vm.name)
    if not is_worker and not (own.has_gpus and own.rdma_nics):
        return
    nics = own.rdma_nics or tuple(nic for nic in own.nics if peer and peer.training_address == nic.address)
    if not nics:
        nics = tuple(nic for nic in own.nics if nic.is_stated)[:1]
    address = peer.training_address if peer is not None else ""
    if address not in [nic.address for nic in nics]:
        address = next((nic.address for nic in nics if nic.address), "")
    roce = own.training.roce if own.training is not None else None
    dscp = roce.dscp if roce is not None else RoceModule(nics=()).dscp
    is_rdma = bool(own.rdma_nics)
    yield NcclModule(
        nics=tuple(nic.guest for nic in nics),
        address=address,
        traffic_class=dscp << 2 | ECN_CAPABLE if is_rdma else None,
        is_direct=is_rdma
        and own.has_gpus
        and all(nic.desired.rdma == "gpudirect" and not nic.desired.is_pvrdma for nic in nics),
        gpu_wires=wiring.gpus if is_rdma else (),
        nic_wires=wiring.nics if is_rdma else (),
    )


def site_module(site: DesiredSite, guest: DesiredGuest) -> SiteModule:
    """Make the module of one guest."""
    proxy, apt = site.proxy, site.apt
    return SiteModule(
        proxy=None
        if proxy is None
        else SiteProxy(
            http=proxy.http or "",
            https=proxy.https or proxy.http or "",
            no_proxy=proxy.no_proxy,
            user=proxy.user or "",
            password=proxy.password or "",
        ),
        apt=None
        if apt is None
        else AptMirror(
            url=apt.url or "", security=apt.security or "", suites=apt.suites, components=apt.components
        ),
        dnf=site.dnf,
        registry_mirrors=dict(sorted(site.registry_mirrors.items())) if guest.runtime is not None else {},
        certificates=site.certificates,
        runtime=guest.runtime or "",
        closed=site.closed,
        hosts=site_hosts(site) if site.closed else (),
    )


def site_hosts(site: DesiredSite) -> tuple[str, ...]:
    """Return the hosts of a site, in order; one that begins with a dot means every name below it.

    The proxy is none of them: it is the way out.
    """
    addresses = [
        *([site.apt.url, site.apt.security] if site.apt is not None else []),
        *site.dnf,
        *site.registry_mirrors.values(),
        site.toolkit_repository,
        site.driver.package if site.driver is not None else None,
    ]
    found = {host_of(address) for address in addresses if address} | set(site.hosts)
    return tuple(sorted(found - {""}))


def is_of_site(host: str, hosts: tuple[str, ...]) -> bool:
    """Whether a host is one of these."""
    return any(host == one or (one.startswith(".") and host.endswith(one)) for one in hosts)


def takes_mirror(runtime: str, registry: str) -> bool:
    """Whether a runtime asks a mirror for the images of a registry.

    docker has mirrors of Docker Hub alone (docs.docker.com, dockerd's `registry-mirrors`; moby issue 18818).
    """
    return runtime != "docker" or registry == DEFAULT_REGISTRY


def pinned(module: GuestModule, pins: Mapping[str, str]) -> GuestModule:
    """Return a module with the pins of its downloads; `pins` are the site's."""
    match module:
        case DriverModule() | OfedModule() | PeermemModule() | CudaModule():
            known = "" if module.sha256 else pins.get(module.package, "")
            return module.model_copy(update={"sha256": known}) if known else module
        case ImageModule():
            if module.archive:
                known = module.sha256 or pins.get(module.archive, "")
                return module.model_copy(update={"sha256": known})
            return module.model_copy(update={"digest_pin": _digest_of(module.image, pins)})
        case MonitoringModule():
            images = {name: _with_digest(image, pins) for name, image in module.used_images.items()}
            return module.model_copy(update={"images": images})
        case ToolkitModule():
            # A mirror has the same key, unless the site pins another.
            key = pins.get(module.key_address) or PINS[TOOLKIT_KEY]
            version = pins.get(TOOLKIT) or PINS[TOOLKIT]
            return module.model_copy(update={"key_sha256": key, "version": version})
        case _:
            return module


def _digest_of(image: str, pins: Mapping[str, str]) -> str:
    return "" if "@" in image else pins.get(image) or PINS.get(image, "")


def _with_digest(image: str, pins: Mapping[str, str]) -> str:
    digest = _digest_of(image, pins)
    return f"{image}@{digest}" if digest else image


def list_downloads(specs: Mapping[str, GuestSpec], desired: DesiredPlan) -> tuple[Download, ...]:
    """List the downloads of guests, each once with its VMs, in the order of staging."""
    found: dict[Download, list[str]] = {}
    for name, spec in specs.items():
        for one in _downloads(spec, desired.site):
            vms = found.setdefault(one, [])
            if name not in vms:
                vms.append(name)
    return tuple(one.model_copy(update={"vms": tuple(vms)}) for one, vms in found.items())


def _downloads(spec: GuestSpec, site: DesiredSite | None) -> Iterator[Download]:
    containers = spec.get(ContainersModule)
    runtime = containers.runtime if containers is not None else ""
    for module in spec.modules:
        for one in module.describe().fetched:
            if one.address:
                yield Download(
                    key=one.key,
                    address=one.address,
                    via=_mirror(one, site, runtime),
                    pin=one.pin,
                    package=one.package,
                    version=one.version,
                    is_signed=one.is_signed,
                )


def _mirror(one: Fetched, site: DesiredSite | None, runtime: str) -> str:
    if site is None or not one.registry or not takes_mirror(runtime, one.registry):
        return ""
    return site.registry_mirrors.get(one.registry, "")


DCGM_PORT, NODE_PORT = 9400, 9100
"""The default ports of DCGM exporter and node exporter."""
