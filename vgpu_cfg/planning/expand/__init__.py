"""From the lines of a plan file to one desired VM each. Pure: data in, data and faults out."""

from __future__ import annotations

from vgpu_cfg.planning.expand.lines import Expansion, expand_vms
from vgpu_cfg.planning.expand.merging import merge
from vgpu_cfg.planning.expand.ranges import Member, read_members

__all__ = ["Expansion", "Member", "expand_vms", "merge", "read_members"]
