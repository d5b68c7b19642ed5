"""What the hosts of a plan are to keep of what their shells told: asked after the shells were read."""

from __future__ import annotations

from collections.abc import Mapping

from vgpu_cfg.catalog import Catalog
from vgpu_cfg.model.desired import DesiredPlan
from vgpu_cfg.model.observed.inventory import Inventory
from vgpu_cfg.planning.findings.collection import Findings
from vgpu_cfg.planning.findings.options import PlanOptions
from vgpu_cfg.planning.host_settings.remembering import to_remember
from vgpu_cfg.planning.host_settings.select import resolve_hosts
from vgpu_cfg.planning.hosts.compare import desired_settings_of
from vgpu_cfg.planning.hosts.derive import derived_entry


def to_keep(
    desired: DesiredPlan, observed: Inventory, catalog: Catalog, options: PlanOptions
) -> Mapping[str, Mapping[str, str]]:
    """Return, by host moid, the custom attributes that are to change, and their texts.

    A host whose shell was not read, or that is only checked, keeps what it has.
    """
    found: dict[str, Mapping[str, str]] = {}
    today = observed.read_at.date()
    for resolved in resolve_hosts(desired, observed, catalog, options, Findings()):
        if resolved.view.facts.shell is None or resolved.is_checked_only:
            continue
        entry = resolved.entry
        if entry.prepare == "from_vms":
            entry = derived_entry(resolved, desired, observed, catalog, Findings())
        texts = to_remember(desired_settings_of(entry, resolved.view), resolved.view, today)
        if texts:
            found[resolved.view.host.moid] = texts
    return found
