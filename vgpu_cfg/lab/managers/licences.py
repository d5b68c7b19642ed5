"""The licence assignment manager: which host has which key. No count is enforced."""

from __future__ import annotations

import re
from typing import Any

from pyVmomi import vim

from vgpu_cfg.lab.renderers.licences import licence_info
from vgpu_cfg.lab.rules import refusals
from vgpu_cfg.lab.simulation.context import Context
from vgpu_cfg.lab.simulation.methods import answers
from vgpu_cfg.lab.state.inventory import Host, Managed

_KEY = re.compile(r"[0-9A-Z]{5}(-[0-9A-Z]{5}){4}")


@answers("LicenseAssignmentManager", "QueryAssignedLicenses")
def query_assigned_licenses(context: Context, thing: Managed, *, entityId: str | None) -> list[Any]:
    """Tell the licence of a host, or of all hosts. Raises LicenseEntityNotFound."""
    hosts = context.state.all(Host) if entityId is None else [_host(context, entityId)]
    return [
        vim.LicenseAssignmentManager.LicenseAssignment(
            entityId=host.moid,
            scope=context.state.instance_uuid,
            entityDisplayName=host.name,
            assignedLicense=licence_info(context, host.licence),
        )
        for host in hosts
        if host.licence
    ]


@answers("LicenseAssignmentManager", "UpdateAssignedLicense")
def update_assigned_license(
    context: Context, thing: Managed, *, entity: str, licenseKey: str, entityDisplayName: str | None
) -> Any:
    """Give a host a licence; a key that is new to vCenter is added. Raises InvalidArgument for no key."""
    host = _host(context, entity)
    if not _KEY.fullmatch(licenseKey):
        raise refusals.bad_argument("licenseKey")
    host.licence = licenseKey
    context.state.touch(host)
    return licence_info(context, licenseKey)


def _host(context: Context, moid: str) -> Host:
    host = context.state.find(moid, Host)
    if host is None:
        raise vim.fault.LicenseEntityNotFound(
            entityId=moid, msg=f"The license entity '{moid}' could not be found."
        )
    return host
