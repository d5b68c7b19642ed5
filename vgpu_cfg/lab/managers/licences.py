"""vCenter's own lists: its licences with the hosts that have them, and the extensions registered by products.

No count of licences is enforced.
"""

from __future__ import annotations

import re
from typing import Any

from pyVmomi import vim

from vgpu_cfg.lab.renderers.services import licence_info
from vgpu_cfg.lab.rules import refusals
from vgpu_cfg.lab.simulation.clock import as_datetime
from vgpu_cfg.lab.simulation.operations import Context, answers
from vgpu_cfg.lab.state.inventory import Host, Managed

_KEY = re.compile(r"[0-9A-Z]{5}(-[0-9A-Z]{5}){4}")


@answers("LicenseManager", "AddLicense")
def add_license(context: Context, thing: Managed, *, licenseKey: str, labels: list[Any]) -> Any:
    """Let vCenter know a key. Raises InvalidArgument for no key."""
    found = decode_license(context, thing, licenseKey=licenseKey)
    context.state.licences = tuple(dict.fromkeys((*context.state.licences, licenseKey)))
    context.state.touch()
    return found


@answers("LicenseManager", "RemoveLicense")
def remove_license(context: Context, thing: Managed, *, licenseKey: str) -> None:
    """Forget a key. Raises InvalidArgument for one that a host has, or that is not known: assumed."""
    in_use = any(host.licence == licenseKey for host in context.state.all(Host))
    if in_use or licenseKey not in context.state.licences:
        raise refusals.bad_argument("licenseKey")
    context.state.licences = tuple(key for key in context.state.licences if key != licenseKey)
    context.state.touch()


@answers("LicenseManager", "DecodeLicense")
def decode_license(context: Context, thing: Managed, *, licenseKey: str) -> Any:
    """Show the product of a key. Raises InvalidArgument for other text."""
    if not _KEY.fullmatch(licenseKey):
        raise refusals.bad_argument("licenseKey")
    return licence_info(context, licenseKey)


@answers("LicenseAssignmentManager", "QueryAssignedLicenses")
def query_assigned_licenses(context: Context, thing: Managed, *, entityId: str | None) -> list[Any]:
    """Show the license of a host, or of all hosts. Raises LicenseEntityNotFound."""
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


@answers("ExtensionManager", "FindExtension")
def find_extension(context: Context, thing: Managed, *, extensionKey: str) -> Any:
    """Return an extension by its key, None where none is registered."""
    if extensionKey not in context.state.extensions:
        return None
    words = vim.Description(label=extensionKey, summary=extensionKey)
    now = as_datetime(context.lab.clock.now())
    return vim.Extension(key=extensionKey, description=words, version="1.0", lastHeartbeatTime=now)
