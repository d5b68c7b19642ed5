"""Virtual functions of NICs at a power-on: each SR-IOV card of a running VM holds one.

That a host out of them refuses in these words is the lab's own: no source tells what a real one says.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from pyVmomi import vim

from vgpu_cfg.lab.rules import refusals
from vgpu_cfg.lab.state.inventory import Host, LabState, VirtualMachine

_AUTOMATIC = "Automatic"
"""How the id of a physical function begins that the host shall choose."""


def check_virtual_functions(state: LabState, vm: VirtualMachine, host: Host) -> None:
    """Raise the host's refusal where it has no virtual function left for every card of a VM."""
    wanted = _functions_of(vm)
    if not wanted:
        return
    total = {nic.pci.pci_id: nic.num_vfs for nic in host.nics}
    running = (state.get(moid, VirtualMachine) for moid in host.vms)
    taken = Counter(pci_id for one in running if one.is_on and one is not vm for pci_id in _functions_of(one))
    for pci_id in dict.fromkeys(wanted):
        if pci_id is not None and wanted.count(pci_id) > total.get(pci_id, 0) - taken[pci_id]:
            vm.log.append(f"The physical function {pci_id} has no free virtual function.")
            raise refusals.device_power_on_failed()
    if len(wanted) > sum(total.values()) - taken.total():
        vm.log.append("No physical function has a free virtual function.")
        raise refusals.device_power_on_failed()


def _functions_of(vm: VirtualMachine) -> list[str | None]:
    """Return the physical function that each SR-IOV card names, None where the host shall choose."""
    return list(_named(vm.devices.values()))


def _named(devices: Iterable[object]) -> Iterable[str | None]:
    for device in devices:
        if isinstance(device, vim.vm.device.VirtualSriovEthernetCard):
            backing = device.sriovBacking
            physical = None if backing is None else backing.physicalFunctionBacking
            pci_id = "" if physical is None else physical.id or ""
            yield pci_id if pci_id and not pci_id.startswith(_AUTOMATIC) else None
