"""How an object of vCenter is known."""

from __future__ import annotations

from vgpu_cfg.model.frozen import Frozen


class ManagedObject(Frozen):
    """An object of vCenter: `inventory_path` is what an admin types, `moid` what the API takes."""

    moid: str
    name: str
    inventory_path: str = ""
