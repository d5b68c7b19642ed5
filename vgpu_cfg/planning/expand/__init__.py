"""From a plan file's `vms`, `hosts` and `networks` to what is desired. Pure: data in, data and faults out."""

from __future__ import annotations

from vgpu_cfg.planning.expand.hosts import HostExpansion, expand_hosts
from vgpu_cfg.planning.expand.lines import Expansion, expand_vms
from vgpu_cfg.planning.expand.merging import merge
from vgpu_cfg.planning.expand.networks import NetworkExpansion, expand_networks
from vgpu_cfg.planning.expand.ranges import Member, read_members

__all__ = [
    "Expansion",
    "HostExpansion",
    "Member",
    "NetworkExpansion",
    "expand_hosts",
    "expand_networks",
    "expand_vms",
    "merge",
    "read_members",
]
