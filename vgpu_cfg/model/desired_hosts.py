"""What a plan file asks of hosts once nothing in it needs to be written out."""

from __future__ import annotations

from vgpu_cfg.model.plan_file import HostEntry


class DesiredHosts(HostEntry):
    """One entry of `hosts`, as it holds: `names` have no ranges, and `prepare` is decided.

    `origin` is the place of the entry in its file.
    """

    origin: str = ""
