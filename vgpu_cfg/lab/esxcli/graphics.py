"""esxcli graphics device list and host set, and network nic dcb status get.

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
from vgpu_cfg.lab.simulation.simulation import Simulation
from vgpu_cfg.lab.state.host import Gpu, GraphicsType, Host

TYPE_WORDS = {"basic": "Basic", "shared": "Shared", "sharedDirect": "Shared Passthru", "direct": "Direct"}
DEFAULT_TYPES: dict[str, GraphicsType] = {"shared": "shared", "sharedpassthru": "sharedDirect"}
PRIORITIES = 8


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
    """Tell a NIC's priority flow control."""
    name = needed(arguments, "nicname")
    nic = next((nic for nic in host.nics if nic.device == name), None)
    if nic is None or host.is_passed_through(nic.pci.pci_id):
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
