"""The host profile manager, as far as to tell which profile owns a host's settings."""

from __future__ import annotations

from typing import Any

from pyVmomi import vim

from vgpu_cfg.lab.simulation.context import Context
from vgpu_cfg.lab.simulation.host_profiles import profiles_of
from vgpu_cfg.lab.simulation.methods import answers
from vgpu_cfg.lab.state.inventory import Managed


@answers("ProfileManager", "FindAssociatedProfile")
def find_associated_profile(context: Context, thing: Managed, *, entity: Any) -> list[Any]:
    """List the profiles that are attached to an entity itself."""
    moid = entity._GetMoId()
    return [
        vim.profile.host.HostProfile(profile.moid)
        for profile in profiles_of(context.state)
        if moid in profile.hosts
    ]
