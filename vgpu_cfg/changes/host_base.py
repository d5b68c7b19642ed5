"""What every change to one host has."""

from __future__ import annotations

from vgpu_cfg.changes.base import ChangeBase
from vgpu_cfg.changes.values import HostRef


class HostChangeBase(ChangeBase):
    """A change to one host. `wave` names the group of hosts that share a limit on how many are down."""

    host: HostRef
    wave: str = ""
