"""The results of a plan's `site`: the module of each guest, and its hosts."""

from __future__ import annotations

from vgpu_cfg.model.desired import DesiredGuest, DesiredSite
from vgpu_cfg.model.guests.modules import AptMirror, SiteModule, SiteProxy
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
