"""What stands against a site: what staging would fetch from beyond it, and mirrors that nobody asks."""

from __future__ import annotations

from vgpu_cfg.model.desired import DesiredPlan, DesiredSite
from vgpu_cfg.model.guests.modules import SiteModule
from vgpu_cfg.model.guests.training_modules import ContainersModule
from vgpu_cfg.model.plan_file.guest_values import DEFAULT_REGISTRY
from vgpu_cfg.model.wording import listed
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.findings.collection import Findings
from vgpu_cfg.planning.guests.site import Fetched, fetched, is_of_site, site_hosts, takes_mirror
from vgpu_cfg.planning.guests.stage import GuestUpdate
from vgpu_cfg.planning.vms.lookup.resolved_vm import ResolvedVm


def check_site(resolved: ResolvedVm, update: GuestUpdate, desired: DesiredPlan, findings: Findings) -> None:
    """Check what is to be staged in one guest against the plan's site."""
    site = desired.site
    module = update.spec.get(SiteModule)
    if site is None or module is None:
        return
    runtime = module.runtime
    used = [one for one in fetched(update.spec) if one.registry]
    unasked = sorted(
        {one.registry for one in used if one.registry in site.registry_mirrors} - _asked(site, runtime)
    )
    if unasked:
        message = (
            f"docker asks mirrors for images of {DEFAULT_REGISTRY} alone, not for those of {listed(unasked)}"
        )
        remedy = "write the mirror's host into the image's name; or write guest: {containers: containerd}"
        findings.add_vm(Code.SITE_MIRROR_UNASKED, resolved.desired, message, remedy)
    if not site.closed:
        return
    hosts = site_hosts(site)
    for one in fetched(update.spec):
        if not _is_within(one, site, hosts, runtime):
            where = one.registry or one.host
            message = f"the site is closed, and `{one.key}` leads to {where}, which is none of its hosts"
            remedy = f"{_remedy(one, runtime)}; or add {one.host} to site.hosts"
            findings.add_vm(Code.SITE_LEFT, resolved.desired, message, remedy)
    if site.apt is None and not site.dnf and update.spec.get(ContainersModule) is not None:
        message = "the site is closed and has no package mirror: what the template lacks cannot be installed"
        remedy = "write site: {apt: …} or {dnf: …}; or see that the template has all that is staged"
        findings.add_vm(Code.SITE_WITHOUT_PACKAGES, resolved.desired, message, remedy)


def _asked(site: DesiredSite, runtime: str) -> set[str]:
    return {registry for registry in site.registry_mirrors if takes_mirror(runtime, registry)}


def _is_within(one: Fetched, site: DesiredSite, hosts: tuple[str, ...], runtime: str) -> bool:
    return is_of_site(one.host, hosts) or (bool(one.registry) and one.registry in _asked(site, runtime))


def _remedy(one: Fetched, runtime: str) -> str:
    if one.registry:
        mirror = f", or write site.registry_mirrors: {{{one.registry}: …}}"
        return (
            f"name an image of the site's own registry{mirror if takes_mirror(runtime, one.registry) else ''}"
        )
    if one.key == "guest.toolkit_repository":
        return "write site.toolkit_repository"
    return f"let `{one.key}` name a place of the site"
