"""How host profiles show: their name, and which hosts they are attached to. What is in them the lab lacks."""

from __future__ import annotations

from typing import Any

from pyVmomi import vim

from vgpu_cfg.lab.api.references import Service
from vgpu_cfg.lab.renderers.entity import attribute, constant
from vgpu_cfg.lab.renderers.table import Render
from vgpu_cfg.lab.simulation.clock import VIRTUAL_START, as_datetime
from vgpu_cfg.lab.simulation.context import Context
from vgpu_cfg.lab.simulation.host_profiles import profiles_of


def profiles(context: Context, _thing: Service) -> list[Any]:
    """Render the references of all host profiles."""
    return [vim.profile.host.HostProfile(profile.moid) for profile in profiles_of(context.state)]


HOST_PROFILE: dict[str, Render] = {
    "name": attribute(lambda thing: thing.name),
    "createdTime": constant(as_datetime(VIRTUAL_START)),
    "modifiedTime": constant(as_datetime(VIRTUAL_START)),
    "entity": attribute(lambda thing: [vim.HostSystem(moid) for moid in thing.hosts]),
    "complianceStatus": constant("unknown"),
}
