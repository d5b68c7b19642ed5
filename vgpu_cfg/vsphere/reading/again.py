"""The VMs whose configurations need no second reading, and the parts that are always read.

vCenter gives each version of a VM's configuration a name of its own: "each change to the configuration
updates this value" (VirtualMachineConfigInfo.changeVersion, vSphere API reference). It says nothing of what
lies outside of the configuration.

Belief: edits-move-change-version, guest-values-move-change-version.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from vgpu_cfg.model.observed.vm import Vm, VmDetail
from vgpu_cfg.vsphere.reading.vms import moving
from vgpu_cfg.vsphere.wire.collector import Item

_GUEST_KEYS = "guestinfo."
"""The prefixes of keys that a guest writes by itself; whether the version moves then is undocumented."""


def unchanged(items: Iterable[Item], before: Mapping[str, Vm]) -> dict[str, VmDetail]:
    """Return the details of those VMs whose configuration is as it was read before, by their moids.

    A VM that was switched, or moved to another host, is read again regardless of its version: devices show
    the assigned hardware.
    """
    found = {}
    for item in items:
        vm = before.get(item.moid)
        if vm is None or vm.detail is None or not _is_as_it_was(item, vm, vm.detail):
            continue
        fields = moving(item)
        is_still = all(getattr(vm.detail, name) == value for name, value in fields.items())
        found[item.moid] = vm.detail if is_still else vm.detail.model_copy(update=fields)
    return found


def _is_as_it_was(item: Item, vm: Vm, detail: VmDetail) -> bool:
    version = item.get("config.changeVersion", "")
    return (
        bool(version)
        and version == detail.change_version
        and item.get("config.instanceUuid", "") == vm.instance_uuid
        and item.moid_of("runtime.host") == vm.host_moid
        and str(item.get("runtime.powerState", "")) == vm.power_state.value
        and not any(key.startswith(_GUEST_KEYS) for key in detail.extra_config)
    )
