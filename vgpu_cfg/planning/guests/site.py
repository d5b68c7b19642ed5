"""What a plan's `site` comes to: the module of each guest, its hosts, and what staging fetches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import assert_never

from vgpu_cfg.model.desired import DesiredGuest, DesiredSite
from vgpu_cfg.model.guests.guest import GuestSpec
from vgpu_cfg.model.guests.modules import (
    AptMirror,
    CudaModule,
    DriverModule,
    GuestModule,
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
from vgpu_cfg.model.plan_file import registry_of
from vgpu_cfg.model.plan_file.guest_values import DEFAULT_REGISTRY
from vgpu_cfg.model.plan_file.site_values import host_of


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
    """Return the hosts of a site, in order; one that begins with a dot stands for every name below it.

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


@dataclass(frozen=True, slots=True)
class Fetched:
    """What staging fetches: the key of the plan file that brings it, and the host that it leads to.

    `registry` is the registry of an image, which its runtime may ask a mirror for; "" for what is no image.
    """

    key: str
    host: str
    registry: str = ""


def fetched(spec: GuestSpec) -> Iterator[Fetched]:
    """Yield what staging a guest fetches; what lies in the guest already is left out."""
    for module in spec.modules:
        yield from _fetched_by(module)


def _fetched_by(module: GuestModule) -> Iterator[Fetched]:
    match module:
        case DriverModule() | PeermemModule():
            yield from _file("guest.driver", module.package)
        case OfedModule():
            yield from _file("guest.ofed.package", module.package)
        case CudaModule():
            yield from _file("guest.cuda", module.package or module.repository)
        case TimeModule():
            for server in module.servers:
                yield Fetched("guest.time", server)
        case ToolkitModule() if module.runtime != "apptainer":
            yield from _file("guest.toolkit_repository", module.repository)
        case ImageModule() if module.archive:
            yield from _file("training.archive", module.archive)
        case ImageModule():
            yield _image("training.image", module.image)
        case RegistryModule():
            # A login is asked of the registry itself, whatever mirrors it has.
            yield Fetched("training.registry.server", host_of(f"https://{module.server}"))
        case MonitoringModule():
            for name, image in module.used_images.items():
                yield _image(f"training.monitoring.images.{name}", image)
        case (
            HostNameModule()
            | UsersModule()
            | HostsModule()
            | NetworkModule()
            | SiteModule()
            | NouveauModule()
            | RoceModule()
            | NcclModule()
            | LimitsModule()
            | TrafficModule()
            | SharedFolderModule()
            | ContainersModule()
            | ToolkitModule()
            | LicenceModule()
            | SshMeshModule()
            | WorkerModule()
            | LauncherModule()
            | RankModule()
            | NicFirmwareModule()
        ):
            return
        case _:
            assert_never(module)


def _file(key: str, address: str) -> Iterator[Fetched]:
    host = host_of(address)
    if host:
        yield Fetched(key, host)


def _image(key: str, image: str) -> Fetched:
    registry = registry_of(image)
    return Fetched(key, host_of(f"https://{registry}"), registry)
