"""esxcli hardware pci list and graphics host get.

Field names are those of esxcli's text. What of a function nobody keeps in the lab is left out, as
esxcli leaves out what is unset.
"""

from __future__ import annotations

from vgpu_cfg.lab.esxcli.answers import Answer, Arguments, Record, Rows, command
from vgpu_cfg.lab.simulation.simulation import Simulation
from vgpu_cfg.lab.state.host import Host, PciDevice, is_endpoint

GRAPHICS_WORDS = {"shared": "Shared", "sharedDirect": "SharedPassthru"}
CLASSES = {0x02: "Network controller", 0x03: "Display controller", 0x06: "Bridge"}
"""PCI base class → its name in the PCI id repository."""


@command("graphics.host.get")
def get_graphics_host(lab: Simulation, host: Host, arguments: Arguments) -> Answer:
    """Tell the host's default type and policy as configured (that it is not those in force is unproven)."""
    return Record(
        "GraphicsHost",
        {
            "Default Graphics Type": GRAPHICS_WORDS[host.configured_default_graphics_type],
            "Shared Passthru Assignment Policy": host.configured_assignment_policy.capitalize(),
        },
    )


@command("hardware.pci.list")
def list_pci(lab: Simulation, host: Host, arguments: Arguments) -> Answer:
    """List every PCI function, with its owner and NUMA node."""
    names = _vmkernel_names(host)
    return Rows("Device", tuple(_pci_row(host, device, names) for device in host.pci_devices()))


def _vmkernel_names(host: Host) -> dict[str, str]:
    """Return what the VMkernel calls the functions that it has."""
    names = {nic.pci.pci_id: nic.device for nic in host.nics}
    names |= {gpu.pci_id: f"vmgfx{index}" for index, gpu in enumerate(host.gpus)}
    return {pci_id: name for pci_id, name in names.items() if not host.is_passed_through(pci_id)}


def _module_name(host: Host, device: PciDevice) -> str:
    if host.is_passed_through(device.pci_id):
        return "pciPassthru"
    nic = next((nic for nic in host.nics if nic.pci is device), None)
    if nic is not None:
        return nic.driver
    is_gpu = host.gpu(device.pci_id) is not None
    return "nvidia" if is_gpu and host.driver is not None else "None"


def _owner(*, is_passthrough: bool, device: PciDevice) -> str:
    if is_passthrough:
        return "VM Passthru"
    return "VMkernel" if is_endpoint(device) else "Unknown"


def _pci_row(host: Host, device: PciDevice, names: dict[str, str]) -> dict[str, str]:
    state = host.passthrough_of(device.pci_id)
    row = {
        "Address": device.pci_id,
        "Segment": f"0x{int(device.pci_id.split(':')[0], 16):04x}",
        "Bus": f"0x{device.bus:02x}",
        "Slot": f"0x{device.slot:02x}",
        "Function": f"0x{device.function:x}",
        "VMkernel Name": names.get(device.pci_id, ""),
        "Vendor Name": device.vendor_name,
        "Device Name": device.device_name,
        "Configured Owner": _owner(is_passthrough=state.enabled, device=device),
        "Current Owner": _owner(is_passthrough=state.active, device=device),
        "Vendor ID": f"0x{device.vendor_id:04x}",
        "Device ID": f"0x{device.device_id:04x}",
        "SubVendor ID": f"0x{device.subvendor_id:04x}",
        "SubDevice ID": f"0x{device.subdevice_id:04x}",
        "Device Class": f"0x{device.class_id:04x}",
        "Device Class Name": CLASSES.get(device.class_id >> 8, ""),
        "Module Name": _module_name(host, device),
        "Passthru Capable": str(state.capable and is_endpoint(device)).lower(),
        "Dependent Device": f"PCI {device.pci_id}",
    }
    if device.parent_bridge is not None:
        row["Parent Device"] = f"PCI {device.parent_bridge}"
    if device.numa_node is not None:
        row["NUMA Node"] = str(device.numa_node)
    return row
