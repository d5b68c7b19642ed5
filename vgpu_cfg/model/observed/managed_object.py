"""How an object of vCenter is known."""

from __future__ import annotations

from vgpu_cfg.model.frozen import Frozen


class ManagedObject(Frozen):
    """An object of vCenter: `inventory_path` is for users, `moid` for the API."""

    moid: str
    name: str
    inventory_path: str = ""
