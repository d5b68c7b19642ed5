"""Whether a host finds its packages: its depots are checked before the host is taken down.

Belief: depot-list-in-a-shell, depot-list-through-vcenter.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace

from vgpu_cfg.catalog import Catalog
from vgpu_cfg.changes.severity import Severity
from vgpu_cfg.model.desired import DesiredPlan
from vgpu_cfg.model.observed.host_facts import DepotLook, FactGroup
from vgpu_cfg.model.observed.inventory import Inventory
from vgpu_cfg.model.wording import listed
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.findings.collection import Findings
from vgpu_cfg.planning.findings.options import PlanOptions
from vgpu_cfg.planning.host_settings.entry import DesiredSetting, HostSetting, HostView
from vgpu_cfg.planning.host_settings.resolved_host import Drift, ResolvedHost
from vgpu_cfg.planning.host_settings.select import resolve_hosts
from vgpu_cfg.planning.hosts.compare import desired_settings_of


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
                _refuse(resolved, f"it cannot read {depot}: {look.refused}", findings)
            elif look.unread:
                message = f"it is unknown whether it can read {depot}: {look.unread}"
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
        _refuse(resolved, message, findings)


def _refuse(resolved: ResolvedHost, message: str, findings: Findings) -> None:
    remedy = "copy the offline bundle to a location that this host can read, or correct `depot`"
    findings.add(Code.DEPOT_LACKS, resolved.subject, message, remedy)
    resolved.is_blocked = True


def _holds(setting: HostSetting, wanted: DesiredSetting, view: HostView) -> bool:
    found = setting.read(view, wanted.device).configured
    return found is not None and setting.same(wanted.value, found)


def _depots(setting: HostSetting, wanted: DesiredSetting, view: HostView) -> tuple[str, ...]:
    return tuple(depot for write in setting.write(view, [wanted]) for depot in write.depots)
