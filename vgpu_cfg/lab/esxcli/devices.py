"""esxcli hardware pci list and graphics host get.

Field names are those of esxcli's text. Values of a function that the lab does not keep are left out, as
esxcli leaves out unset ones.

esxcli graphics device list and host set, and network nic dcb status get.

The device list shows the host's own GPUs; one that is passed through is not among them (as in the
API's graphicsInfo). Of dcb's status only what recorded runs show is here; that its PFC lines follow
the `pfctx` that nmlx5_core was loaded with is derived.
"""

from __future__ import annotations

from vgpu_cfg.lab.esxcli.answers import (
    Answer,
    Arguments,
    CommandError,
    PlainValue,
    Record,
    Rows,
    command,
    needed,
)
from vgpu_cfg.lab.esxcli.system import option_values
from vgpu_cfg.lab.rules.profiles import drives
from vgpu_cfg.lab.simulation.simulation import Simulation
from vgpu_cfg.lab.state.host import Gpu, GraphicsType, Host, PciDevice, is_endpoint
from vgpu_cfg.lab.state.switch_members import visible_nics

GRAPHICS_WORDS = {"shared": "Shared", "sharedDirect": "SharedPassthru"}
CLASSES = {0x02: "Network controller", 0x03: "Display controller", 0x06: "Bridge"}
"""PCI base class → its name in the PCI id repository."""

TYPE_WORDS = {"basic": "Basic", "shared": "Shared", "sharedDirect": "Shared Passthru", "direct": "Direct"}
DEFAULT_TYPES: dict[str, GraphicsType] = {"shared": "shared", "sharedpassthru": "sharedDirect"}
PRIORITIES = 8


@command("graphics.host.get")
def get_graphics_host(lab: Simulation, host: Host, arguments: Arguments) -> Answer:
    """Show the host's default type and policy as configured (that it is not those in effect is unproven)."""
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
    """Return the VMkernel's names of its functions."""
    names = {nic.pci.pci_id: nic.device for nic in visible_nics(host)}
    names |= {gpu.pci_id: f"vmgfx{index}" for index, gpu in enumerate(host.gpus)}
    return {pci_id: name for pci_id, name in names.items() if not host.is_passed_through(pci_id)}


def _module_name(host: Host, device: PciDevice) -> str:
    if host.is_passed_through(device.pci_id):
        return "pciPassthru"
    nic = next((nic for nic in host.nics if nic.pci is device), None)
    if nic is not None:
        return nic.driver
    gpu = host.gpu(device.pci_id)
    return "nvidia" if gpu is not None and drives(host, gpu) else "None"


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


@command("graphics.device.list")
def list_graphics_devices(lab: Simulation, host: Host, arguments: Arguments) -> Answer:
    """List the GPUs that the host has for itself."""
    return Rows(
        "GraphicsDevice",
        tuple(_device_row(host, gpu) for gpu in host.gpus if not host.is_passed_through(gpu.pci_id)),
    )


@command("graphics.host.set")
def set_graphics_host(lab: Simulation, host: Host, arguments: Arguments) -> Answer:
    """Configure the default type and the policy; both wait for a restart of Xorg or of the host."""
    kind = arguments.get("defaulttype", ("",))[0]
    policy = arguments.get("sharedpassthruassignmentpolicy", ("",))[0]
    if kind and kind.lower() not in DEFAULT_TYPES:
        raise CommandError(f"Invalid value '{kind}' for the default graphics type")
    if policy and policy.lower() not in ("performance", "consolidation"):
        raise CommandError(f"Invalid value '{policy}' for the assignment policy")
    if kind:
        host.configured_default_graphics_type = DEFAULT_TYPES[kind.lower()]
    if policy:
        host.configured_assignment_policy = (
            "performance" if policy.lower() == "performance" else "consolidation"
        )
    lab.state.touch(host)
    return PlainValue("boolean", "true")


@command("network.nic.dcb.status.get")
def get_dcb_status(lab: Simulation, host: Host, arguments: Arguments) -> Answer:
    """Show a NIC's priority flow control."""
    name = needed(arguments, "nicname")
    nic = next((nic for nic in visible_nics(host) if nic.device == name), None)
    if nic is None:
        raise CommandError(f"Unable to find nic {name}")
    module = host.modules.get(nic.driver)
    mask = int(option_values(module.at_boot if module is not None else "").get("pfctx", "0"), 0)
    return Record(
        "DCBStatus",
        {
            "Nic Name": name,
            "Mode": "3 - IEEE Mode",
            "Enabled": "true",
            "PFC Enabled": "true" if mask else "false",
            "PFC Configuration": " ".join(str(mask >> priority & 1) for priority in range(PRIORITIES)),
        },
    )


def _device_row(host: Host, gpu: Gpu) -> dict[str, str]:
    has_driver = host.driver is not None
    return {
        "Address": gpu.pci_id,
        "Vendor Name": gpu.pci.vendor_name,
        "Device Name": gpu.pci.device_name,
        "Module Name": "nvidia" if has_driver else "None",
        "Graphics Type": TYPE_WORDS[gpu.graphics_type if has_driver else "basic"],
        "Memory Size in KB": str(gpu.memory_mib * 1024 if has_driver else 0),
        "Number of VMs": str(len({use.vm for use in gpu.uses})),
    }
