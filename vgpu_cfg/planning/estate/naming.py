"""By which name a plan knows its VMs, whatever vCenter calls them: the one in their owner marks.

A mark with the plan's id and the VM's own instance UUID proves whose VM it is; what somebody called it since
then proves nothing. A name of `moved` in a mark stands for the one that the plan file has now.
"""

from __future__ import annotations

from vgpu_cfg.model.desired import DesiredPlan
from vgpu_cfg.model.observed.inventory import Inventory
from vgpu_cfg.model.observed.vm import Vm


def as_named(desired: DesiredPlan, observed: Inventory) -> Inventory:
    """Return the inventory with the plan's own VMs under their names in the plan file.

    `called` of such a VM is its name in vCenter. Where another VM of the plan has name and mark, that is the
    one. A mark without an id proves nothing against a name: both must be the plan's.
    """
    names = {vm.name for vm in desired.vms}
    own = [vm for vm in observed.vms if vm.is_of(desired.identity)]
    taken = {vm.name for vm in own if vm.mark is not None and vm.mark.vm == vm.name}
    changed: dict[str, Vm] = {}
    for vm in own:
        name = _name_of(vm, desired)
        if name in names and name not in taken and name != vm.name:
            changed[vm.moid] = vm.model_copy(update={"name": name, "called": vm.name})
    if not changed:
        return observed
    vms = tuple(changed.get(vm.moid, vm) for vm in observed.vms)
    return observed.model_copy(update={"vms": vms})


def _name_of(vm: Vm, desired: DesiredPlan) -> str:
    mark = vm.mark
    if mark is None or not (mark.id or mark.vm == vm.name):
        return vm.name
    return desired.moved.get(mark.vm, mark.vm)
