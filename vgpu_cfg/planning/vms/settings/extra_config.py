"""What a VM's extraConfig holds at a key."""

from __future__ import annotations

from vgpu_cfg.model.observed.vm import VmDetail


def current(key: str, detail: VmDetail) -> str | None:
    """Return an extraConfig value; names in a VMX file are the same whatever their case (recalled)."""
    exact = detail.extra_config.get(key)
    if exact is not None:
        return exact
    folded = key.casefold()
    return next((value for name, value in detail.extra_config.items() if name.casefold() == folded), None)
