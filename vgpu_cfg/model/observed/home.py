"""Where a VM was before its host was drained: the text that vCenter keeps of it on the VM."""

from __future__ import annotations

from vgpu_cfg.model.frozen import Frozen
from vgpu_cfg.model.observed.vm import Vm

HOME_ATTRIBUTE = "vgpu_cfg.home"


class Home(Frozen):
    """The host that a running VM was taken from, by moid, and the one that it was moved to.

    `to` is empty for a VM that was only switched off. `is_cold` tells that it was off while it moved,
    `is_moving` that it was switched off for a move that is not over. `vm` is the VM's own moid: a clone
    inherits the text, and nobody took the clone from anywhere.
    """

    vm: str = ""
    host: str
    to: str = ""
    is_cold: bool = False
    is_moving: bool = False

    @property
    def text(self) -> str:
        """What the attribute holds: JSON, without what is empty."""
        return self.model_dump_json(exclude_defaults=True)

    def is_there(self, vm: Vm) -> bool:
        """Whether a VM is still where it was put."""
        return vm.host_moid == (self.to or self.host) and vm.is_on is bool(self.to)


def home_of(vm: Vm) -> Home | None:
    """Return where a VM was taken from, None where nobody took it, or the text is another's or edited."""
    text = vm.detail.attributes.get(HOME_ATTRIBUTE, "") if vm.detail is not None else ""
    try:
        home = Home.model_validate_json(text) if text else None
    except ValueError:
        return None
    return home if home is not None and home.vm == vm.moid else None
