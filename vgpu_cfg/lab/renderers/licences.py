"""How licences show: the keys that vCenter knows, and which host has which."""

from __future__ import annotations

from typing import Any

from pyVmomi import vim

from vgpu_cfg.lab.api.references import Service
from vgpu_cfg.lab.renderers.entity import constant
from vgpu_cfg.lab.renderers.table import Render
from vgpu_cfg.lab.simulation.context import Context
from vgpu_cfg.lab.state.host_defaults import EVALUATION
from vgpu_cfg.lab.state.inventory import Host


def known_licences(context: Context) -> tuple[str, ...]:
    """Return the keys that vCenter knows: the evaluation first."""
    in_use = (host.licence for host in context.state.all(Host) if host.licence)
    return tuple(dict.fromkeys((EVALUATION, *context.state.licences, *in_use)))


def licence_info(context: Context, key: str) -> Any:
    """Render a licence. Edition and counts are the lab's own."""
    is_evaluation = key == EVALUATION
    hosts = [host for host in context.state.all(Host) if host.licence == key]
    return vim.LicenseManager.LicenseInfo(
        licenseKey=key,
        editionKey="eval" if is_evaluation else "esx.enterprisePlus.cpuPackageCoreLimited",
        name="Evaluation Mode" if is_evaluation else "VMware vSphere 8 Enterprise Plus",
        total=0 if is_evaluation else 1024,
        used=sum(host.sockets for host in hosts),
        costUnit="cpuPackage",
    )


def _licences(context: Context, _thing: Service) -> list[Any]:
    return [licence_info(context, key) for key in known_licences(context)]


LICENSE_MANAGER: dict[str, Render] = {
    "licenses": _licences,
    "licensedEdition": constant("vc"),
    "sourceAvailable": constant(value=True),
    "licenseAssignmentManager": constant(vim.LicenseAssignmentManager("LicenseAssignmentManager")),
}
