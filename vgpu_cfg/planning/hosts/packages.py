"""The packages that hosts get: by one edit of their cluster's image, or from depots that they can read.

All of it is checked before a host is taken down.

Belief: depot-list-in-a-shell, depot-list-through-vcenter.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from vgpu_cfg.catalog import Catalog
from vgpu_cfg.changes.change import SetImage
from vgpu_cfg.changes.severity import Severity
from vgpu_cfg.changes.values import Edit, Subject
from vgpu_cfg.model.desired import DesiredPlan
from vgpu_cfg.model.observed.host_facts import DepotLook, FactGroup
from vgpu_cfg.model.observed.inventory import Inventory
from vgpu_cfg.model.wording import listed
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.findings.collection import Findings
from vgpu_cfg.planning.findings.options import PlanOptions
from vgpu_cfg.planning.host_settings.entry import DesiredSetting, HostSetting, HostView
from vgpu_cfg.planning.host_settings.esxi import components_for, held_for
from vgpu_cfg.planning.host_settings.resolved_host import Drift, ResolvedHost, resolve_hosts
from vgpu_cfg.planning.hosts.compare import desired_settings_of


def check_image(resolved: ResolvedHost, findings: Findings) -> None:
    """Refuse what cannot be done through an image: there is none, another product owns it, or it lacks it."""
    wanted = [] if resolved.is_checked_only else list(_by_image(resolved))
    if not wanted:
        return
    cluster, facts = resolved.view.cluster, resolved.view.cluster_facts
    image = facts.image
    if cluster is None or cluster.is_standalone or not facts.image_managed:
        message = (
            "the host's software must be installed with a cluster image, but its cluster does "
            "not use an image"
        )
        remedy = "set up an image on the cluster's Updates tab, or set `driver: {by: esxcli, depot: …}`"
        _refuse(resolved, Code.NO_IMAGE, message, remedy, findings)
    elif image is None or image.unread:
        reason = image.unread if image is not None else "it was not read"
        message = f"the image of cluster {cluster.name} is unknown: {reason}"
        remedy = "grant the account the Lifecycle Manager privileges in docs/reference/permissions.md"
        _refuse(resolved, Code.NO_IMAGE, message, remedy, findings)
    elif image.manager:
        message = f"{image.manager} manages this vCenter and the image of cluster {cluster.name}"
        remedy = (
            "edit the image and remediate in that product; in the plan file, set `driver: {by: lifecycle}`"
        )
        _refuse(resolved, Code.IMAGE_MANAGED, message, remedy, findings)
    else:
        for desired in wanted:
            if not components_for(image, desired):
                message = f"neither the image of {cluster.name} nor the depot contains {_package(desired)}"
                held = f"; the depot contains {listed(there)}" if (there := held_for(image, desired)) else ""
                remedy = f"import it in Lifecycle Manager, or correct the version in the plan file{held}"
                _refuse(resolved, Code.COMPONENT_LACKS, message, remedy, findings)


def plan_images(
    resolved_hosts: Sequence[ResolvedHost], observed: Inventory, desired: DesiredPlan, findings: Findings
) -> Mapping[str, SetImage]:
    """Return the edits of images by cluster; one image holds one version for all its hosts."""
    hosts: dict[str, list[ResolvedHost]] = {}
    for one in resolved_hosts:
        if not one.is_blocked and list(_by_image(one)):
            hosts.setdefault(one.view.host.owner_moid, []).append(one)
    found: dict[str, SetImage] = {}
    for moid, group in hosts.items():
        image = group[0].view.cluster_facts.image
        if image is None:
            continue
        components: dict[str, str] = {}
        for resolved in group:
            for wanted in _by_image(resolved):
                asked = components_for(image, wanted)
                if any(components.setdefault(name, version) != version for name, version in asked.items()):
                    message = (
                        "the cluster's image can contain only one version, but two are required: "
                        f"{_package(wanted)}"
                    )
                    remedy = "set the same version for all hosts of the cluster"
                    _refuse(resolved, Code.COMPONENT_LACKS, message, remedy, findings)
        edits = tuple(
            Edit(key=name, before=image.components.get(name), after=version)
            for name, version in components.items()
            if image.components.get(name) != version
        )
        if edits:
            cluster = observed.cluster_by_moid[moid]
            moids = tuple(resolved.view.host.moid for resolved in group)
            left = (
                host.name for host in observed.hosts if host.owner_moid == moid and host.moid not in moids
            )
            found[moid] = SetImage(
                id=f"set image of {cluster.name}",
                subject=Subject(kind="cluster", name=cluster.name, moid=moid),
                edits=edits,
                cluster_moid=moid,
                components={edit.key: edit.after or "" for edit in edits},
                hosts=moids,
                message=f"vgpu-cfg: plan {desired.name}",
                leaves=tuple(left),
            )
    return found


def needed_image(resolved: ResolvedHost, images: Mapping[str, SetImage]) -> tuple[str, ...]:
    """Return the id of the edit of its image that a host waits for."""
    edit = images.get(resolved.view.host.owner_moid)
    return (edit.id,) if edit is not None and resolved.view.host.moid in edit.hosts else ()


def _by_image(resolved: ResolvedHost) -> Iterator[DesiredSetting]:
    return (one.desired for one in resolved.drifts if one.setting.by_image(one.desired))


def _package(desired: DesiredSetting) -> str:
    if desired.setting == "esxi":
        return f"ESXi build {desired.value}"
    kind, version, *_ = desired.value.split()
    return f"{'NVD-AIE' if kind == 'nvd-aie' else 'NVD-VGPU'} {version}"


def _refuse(resolved: ResolvedHost, code: Code, message: str, remedy: str, findings: Findings) -> None:
    findings.add(code, resolved.subject, message, remedy)
    resolved.is_blocked = True


def wanted_depots(
    desired: DesiredPlan, observed: Inventory, catalog: Catalog, options: PlanOptions
) -> Mapping[str, Sequence[str]]:
    """Return, by host moid, the depots that a host would be given packages from that it lacks."""
    found: dict[str, list[str]] = {}
    for resolved in resolve_hosts(desired, observed, catalog, options, Findings()):
        view = resolved.view
        for setting, wanted in () if resolved.is_checked_only else desired_settings_of(resolved.entry, view):
            if FactGroup.SOFTWARE in setting.facts and not _holds(setting, wanted, view):
                found.setdefault(view.host.moid, []).extend(_depots(setting, wanted, view))
    return {moid: tuple(dict.fromkeys(depots)) for moid, depots in found.items() if depots}


def check_depots(resolved: ResolvedHost, findings: Findings) -> None:
    """Refuse to take a host down for packages that its depots do not hold, or that it cannot fetch."""
    for drift in resolved.drifts if not resolved.is_checked_only else ():
        depots = _depots(drift.setting, drift.desired, resolved.view)
        looks = {one: look for one in depots if (look := resolved.view.facts.depots.get(one)) is not None}
        for depot, look in looks.items():
            if look.unsigned:
                message = (
                    f"{depot} contains {listed(look.unsigned)} with the acceptance level CommunitySupported"
                )
                remedy = (
                    "use NVIDIA's signed bundle for this ESXi release; if the host accepts the level, "
                    f"set checks: {{{Code.PACKAGE_UNSIGNED}: warning}}"
                )
                findings.add(Code.PACKAGE_UNSIGNED, resolved.subject, message, remedy)
                resolved.is_blocked |= findings.severity_of(Code.PACKAGE_UNSIGNED) is Severity.ERROR
            if look.refused:
                _refuse_depot(resolved, f"the host cannot read {depot}: {look.refused}", findings)
            elif look.unread:
                message = f"cannot determine whether the host can read {depot}: {look.unread}"
                remedy = (
                    f"test this on the host: `esxcli software sources vib list --depot={shlex.quote(depot)}`"
                )
                findings.add(Code.DEPOT_LACKS, resolved.subject, message, remedy, Severity.WARNING)
        if looks and len(looks) == len(depots) and all(look.packages for look in looks.values()):
            _check_contents(resolved, drift, looks, findings)


def _check_contents(
    resolved: ResolvedHost, drift: Drift, looks: Mapping[str, DepotLook], findings: Findings
) -> None:
    """Read the setting of a host that had just the content of the depots."""
    packages = tuple(package for look in looks.values() for package in look.packages)
    update = {"software": packages, "groups": frozenset({FactGroup.SOFTWARE}), "mark": None, "shell": None}
    then = replace(resolved.view, facts=resolved.view.facts.model_copy(update=update))
    if not _holds(drift.setting, drift.desired, then):
        held = drift.setting.read(then, drift.desired.device).configured
        message = f"{' and '.join(looks)} contains {held}, but {drift.desired.value} is required"
        _refuse_depot(resolved, message, findings)


def _refuse_depot(resolved: ResolvedHost, message: str, findings: Findings) -> None:
    remedy = "copy the offline bundle to a location that this host can read, or correct `depot`"
    _refuse(resolved, Code.DEPOT_LACKS, message, remedy, findings)


def _holds(setting: HostSetting, wanted: DesiredSetting, view: HostView) -> bool:
    found = setting.read(view, wanted.device).configured
    return found is not None and setting.same(wanted.value, found)


def _depots(setting: HostSetting, wanted: DesiredSetting, view: HostView) -> tuple[str, ...]:
    return tuple(depot for write in setting.write(view, [wanted]) for depot in write.depots)
