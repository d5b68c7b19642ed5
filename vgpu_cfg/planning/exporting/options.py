"""Which extraConfig pairs of a VM no plan file asks for, by their names and never their values."""

from __future__ import annotations

import re
from collections.abc import Iterator

from vgpu_cfg.model.observed.vm import OWN_PREFIX, Vm
from vgpu_cfg.planning.vms.settings.table import VM_SETTINGS

_GUESTINFO = "guestinfo."
_OF_DEVICES = re.compile(r"pcipassthru[0-9]+\.")
"""What vSphere, and `uvm`, write for each device that is passed through: it comes with the device."""
_OF_ROWS = frozenset(setting.path.casefold() for setting in VM_SETTINGS if setting.path)


def options_without_key(vm: Vm) -> Iterator[str]:
    """Yield the names; all of guestinfo, which may hold secrets, is one."""
    if vm.detail is None:
        return
    names = {*vm.detail.extra_config, *vm.detail.option_names}
    for name in sorted(names, key=str.casefold):
        folded = name.casefold()
        is_known = folded in _OF_ROWS or folded.startswith(OWN_PREFIX) or _OF_DEVICES.match(folded)
        if not is_known and not folded.startswith(_GUESTINFO):
            yield name
    if any(name.casefold().startswith(_GUESTINFO) for name in names):
        yield f"{_GUESTINFO}*"
