"""The licenses of hosts, by their names; keys are secrets and are not kept.

vCenter's own: those of NVIDIA are known to guests alone. `QueryAssignedLicenses` without an entity returns
all (vSphere API, LicenseAssignmentManager).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from pyVmomi import vim, vmodl

from vgpu_cfg.vsphere.wire.collector import Paths, Start, collect_from
from vgpu_cfg.vsphere.wire.faults import is_not_offered, to_error
from vgpu_cfg.vsphere.wire.session import Session

_MANAGER = "vim.LicenseManager"
_PATHS = (Paths(_MANAGER, ("licenseAssignmentManager",)),)


def read_licences(session: Session) -> Mapping[str, tuple[str, ...]] | None:
    """Return the names of licences by the moid of their host, in two round trips.

    None if vCenter does not report them, or not to this account. Raises VCenterError.
    """
    manager = session.service_content.licenseManager
    if manager is None:
        return None
    found = collect_from(session, _PATHS, [Start(_MANAGER, str(manager._moId))])
    assignments = found[0].get("licenseAssignmentManager") if found else None
    if assignments is None:
        return None
    try:
        assigned = assignments.QueryAssignedLicenses()
    except vmodl.MethodFault as fault:
        if isinstance(fault, vim.fault.NoPermission) or is_not_offered(fault):
            return None
        raise to_error(fault, "reading licenses", session.address) from fault
    names: dict[str, dict[str, None]] = defaultdict(dict)
    for entry in assigned or ():
        names[str(entry.entityId)][str(entry.assignedLicense.name)] = None
    return {moid: tuple(found) for moid, found in names.items()}
