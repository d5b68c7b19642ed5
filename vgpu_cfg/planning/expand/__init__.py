"""From a plan file's sections to what is desired. Pure: data in, data and faults out.

The one file that is read meanwhile, a guest's user data, is read by what the caller passes in.
"""

from __future__ import annotations

from vgpu_cfg.planning.expand.addresses import check_host_names
from vgpu_cfg.planning.expand.context import VmContext
from vgpu_cfg.planning.expand.hosts import HostExpansion, expand_hosts
from vgpu_cfg.planning.expand.lines import Expansion, expand_vms
from vgpu_cfg.planning.expand.merging import merge
from vgpu_cfg.planning.expand.moved import MovedExpansion, expand_moved
from vgpu_cfg.planning.expand.networks import NetworkExpansion, expand_networks
from vgpu_cfg.planning.expand.ranges import Member, read_members
from vgpu_cfg.planning.expand.site import SiteExpansion, expand_site
from vgpu_cfg.planning.expand.training import TrainingExpansion, expand_training

__all__ = [
    "Expansion",
    "HostExpansion",
    "Member",
    "MovedExpansion",
    "NetworkExpansion",
    "SiteExpansion",
    "TrainingExpansion",
    "VmContext",
    "check_host_names",
    "expand_hosts",
    "expand_moved",
    "expand_networks",
    "expand_site",
    "expand_training",
    "expand_vms",
    "merge",
    "read_members",
]
