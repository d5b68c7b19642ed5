"""esxcli on a simulated host: commands of the system, its devices and its software, answered in rows.

Field names are those of esxcli's text. The field names of packages and of an installation's result are
recorded (govmomi's CommandInfo of a host, and field notes of an installation). Values of a function that the
lab does not keep are left out, as esxcli leaves out unset ones. The texts of refusals are the lab's own;
those about packages are recalled.

The device list shows the host's own GPUs; one that is passed through is not among them (as in the API's
graphicsInfo). Of dcb's status only what recorded runs show is here; that its PFC lines follow the `pfctx`
that nmlx5_core was loaded with is derived.

For an installation NVIDIA's guide asks for maintenance mode; whether esxcli itself insists on it is unproven.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from vgpu_cfg.lab.rules.gpu_load import drives
from vgpu_cfg.lab.rules.refusals import text_of
from vgpu_cfg.lab.simulation.bends import refusal_of
from vgpu_cfg.lab.simulation.clock import VIRTUAL_START, as_datetime
from vgpu_cfg.lab.simulation.simulation import Simulation
from vgpu_cfg.lab.state.host import (
    Gpu,
    GraphicsType,
    Host,
    KernelModule,
    KernelSetting,
    PciDevice,
    Vib,
    is_endpoint,
)
from vgpu_cfg.lab.state.switch_members import visible_nics

Row = Mapping[str, str | tuple[str, ...]]
"""Field → value, by the names that esxcli's text shows ("VMkernel Name"); a tuple is a list."""

Arguments = Mapping[str, tuple[str, ...]]
"""Long options without dashes → values."""


@dataclass(frozen=True, slots=True)
class Rows:
    """A list of structures. `kind` is the structure's name in the command's own name space."""

    kind: str
    rows: tuple[Row, ...]


@dataclass(frozen=True, slots=True)
class Record:
    """One structure."""

    kind: str
    fields: Row


@dataclass(frozen=True, slots=True)
class PlainValue:
    """A plain result. `kind` is the name of its XML Schema type: `boolean`, `string`, `long`."""

    kind: str
    text: str


Answer = Rows | Record | PlainValue


class CommandError(Exception):
    """A command that fails, with the lines that it says."""

    def __init__(self, *lines: str) -> None:
        super().__init__(" ".join(lines))
        self.lines = lines


class UnknownCommandError(Exception):
    """The host has no such command."""


Command = Callable[["Simulation", Host, Arguments], Answer]

COMMANDS: dict[str, Command] = {}
"""`system.settings.kernel.list` → what carries it out."""


def command(name: str) -> Callable[[Command], Command]:
    """Register a command."""

    def register(function: Command) -> Command:
        COMMANDS[name] = function
        return function

    return register


def run(
    lab: Simulation, host: Host, name: str, arguments: Arguments, way: Literal["vcenter", "shell"]
) -> Answer:
    """Carry a command out; case does not matter in its name. Raises UnknownCommandError, CommandError."""
    found, refusal = COMMANDS.get(name.lower()), refusal_of(lab.state, way, name.lower(), arguments)
    if refusal:
        raise CommandError(*refusal)
    if found is None or refusal is not None:
        raise UnknownCommandError(name)
    return found(lab, host, arguments)


def needed(arguments: Arguments, name: str) -> str:
    """Return the value of an option that must be there."""
    values = arguments.get(name, ())
    if not values:
        raise CommandError(f"Missing required parameter {name}")
    return values[0]


def is_set(arguments: Arguments, name: str) -> bool:
    """Whether a flag is given."""
    return arguments.get(name, ("false",))[0].lower() in ("true", "1")


DONE = PlainValue("boolean", "true")

PARAMETERS = {
    "nvidia": (("NVreg_RegistryDwords", "string"), ("NVreg_RegistryDwordsPerDevice", "string")),
    "nmlx5_core": (
        ("DRSS", "uint"),
        ("RSS", "uint"),
        ("dcbx", "int"),
        ("max_vfs", "array of uint"),
        ("pfcrx", "uint"),
        ("pfctx", "uint"),
        ("trust_state", "int"),
    ),
    "nmlx5_rdma": (("dscp_force", "int"), ("pcp_force", "int")),
}
"""Parameters of each module, with their types. The types are recalled, but for the names."""

FLAGS = frozenset(
    {"append", "force", "rebooting-image", "dry-run", "maintenance-mode", "no-live-install", "no-sig-check"}
)
"""Long options without a value."""

OPTIONS: dict[str, dict[str, str]] = {
    "graphics.host.get": {},
    "graphics.host.set": {"": "default-type shared-passthru-assignment-policy"},
    "graphics.device.list": {},
    "hardware.clock.get": {},
    "hardware.pci.list": {},
    "network.firewall.get": {},
    "system.module.parameters.list": {"m": "module"},
    "system.module.parameters.set": {"m": "module", "p": "parameter-string", "a": "append", "f": "force"},
    "system.settings.kernel.list": {"o": "option"},
    "system.settings.kernel.set": {"s": "setting", "v": "value"},
    "software.vib.list": {"": "rebooting-image"},
    "software.sources.vib.list": {"d": "depot"},
    "software.vib.install": {
        "d": "depot",
        "f": "force",
        "": "dry-run maintenance-mode no-live-install no-sig-check",
    },
    "network.nic.dcb.status.get": {"n": "nic-name"},
}
"""Command → short option → long one; those without a short one are under the empty name."""


@command("hardware.clock.get")
def get_clock(lab: Simulation, host: Host, arguments: Arguments) -> Answer:
    """Show the time, in the form of a field report."""
    return PlainValue("string", f"{as_datetime(lab.clock.now()):%Y-%m-%dT%H:%M:%SZ}")


@command("network.firewall.get")
def get_firewall(lab: Simulation, host: Host, arguments: Arguments) -> Answer:
    """Show that the firewall is on: rulesets define its traffic."""
    return Record("Firewall", {"Default Action": "DROP", "Enabled": "true", "Loaded": "true"})


@command("system.settings.kernel.list")
def list_kernel_settings(lab: Simulation, host: Host, arguments: Arguments) -> Answer:
    """List boot settings, all or one: configured, in force, default."""
    wanted = arguments.get("option")
    names = host.kernel if wanted is None else wanted[:1]
    return Rows("SettingsKernel", tuple(_kernel_row(name, _setting(host, name)) for name in names))


@command("system.settings.kernel.set")
def set_kernel_setting(lab: Simulation, host: Host, arguments: Arguments) -> Answer:
    """Configure a boot setting; it holds from the next boot on."""
    setting, value = _setting(host, needed(arguments, "setting")), needed(arguments, "value")
    if setting.kind == "Bool":
        if value.upper() not in ("TRUE", "FALSE"):
            raise CommandError(f"Invalid value '{value}' for a setting of type Bool")
        value = value.upper()
    setting.configured = value
    lab.state.touch(host)
    return DONE


@command("system.module.parameters.list")
def list_module_parameters(lab: Simulation, host: Host, arguments: Arguments) -> Answer:
    """List a module's parameters with the values that are configured."""
    module = _module(host, arguments)
    values = option_values(module.configured)
    return Rows(
        "ModuleParameter",
        tuple(
            {"Name": name, "Type": kind, "Value": values.get(name, ""), "Description": ""}
            for name, kind in PARAMETERS.get(module.name, ())
        ),
    )


@command("system.module.parameters.set")
def set_module_parameters(lab: Simulation, host: Host, arguments: Arguments) -> Answer:
    """Configure a module's option string: replaced whole, or with `append` only the named options."""
    module, text = _module(host, arguments), needed(arguments, "parameterstring")
    if is_set(arguments, "append"):
        merged = option_values(module.configured) | option_values(text)
        text = " ".join(f"{name}={value}" for name, value in merged.items())
    module.configured = text
    lab.state.touch(host)
    return DONE


def option_values(text: str) -> dict[str, str]:
    """Split an option string: `pfctx=0x08 pfcrx=0x08`; a value may hold an equals sign."""
    return {name: value for name, _, value in (part.partition("=") for part in text.split())}


def _kernel_row(name: str, setting: KernelSetting) -> dict[str, str]:
    return {
        "Name": name,
        "Type": setting.kind,
        "Configured": setting.configured,
        "Runtime": setting.runtime,
        "Default": setting.default,
        "Description": setting.description,
    }


def _setting(host: Host, name: str) -> KernelSetting:
    if name not in host.kernel:
        raise CommandError(f"Unable to find kernel setting '{name}'")
    return host.kernel[name]


def _module(host: Host, arguments: Arguments) -> KernelModule:
    name = needed(arguments, "module")
    if name not in host.modules:
        raise CommandError(f"Unknown module '{name}'")
    return host.modules[name]


def long_options(name: str) -> list[str]:
    """Return the long options of a command."""
    return [long for longs in OPTIONS[name].values() for long in longs.split()]


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


INSTALLED = as_datetime(VIRTUAL_START).date().isoformat()
NEEDS_REBOOT = (
    "The update completed successfully, but the system needs to be rebooted for the changes to be effective."
)
NOTHING = "Host is not changed."
LEVELS = ("VMwareCertified", "VMwareAccepted", "PartnerSupported", "CommunitySupported")
"""Acceptance levels, the strictest first."""
_LEVEL = re.compile("^VMware|Supported$")


@command("software.vib.list")
def list_vibs(lab: Simulation, host: Host, arguments: Arguments) -> Answer:
    """List the packages in force, or with `rebootingimage` those of the next boot, if they differ."""
    vibs = host.software
    if is_set(arguments, "rebootingimage"):
        vibs = {**host.software, **host.staged} if host.staged else {}
    return Rows(
        "VIBSummaryExt",
        tuple(
            {
                "Name": vib.name,
                "Version": vib.version,
                "Vendor": vib.vendor,
                "Acceptance Level": vib.level,
                "Install Date": INSTALLED,
                "Platforms": "host",
            }
            for vib in vibs.values()
        ),
    )


@command("software.sources.vib.list")
def list_depots(lab: Simulation, host: Host, arguments: Arguments) -> Answer:
    """List the packages of depots; the host need not be in maintenance mode."""
    needed(arguments, "depot")
    vibs = [vib for path in arguments["depot"] for vib in _bundle(host, path)]
    rows = (
        {"Name": vib.name, "Version": vib.version, "Vendor": vib.vendor, "Acceptance Level": vib.level}
        for vib in vibs
    )
    return Rows("VIBSummary", tuple(rows))


@command("software.vib.install")
def install_vibs(lab: Simulation, host: Host, arguments: Arguments) -> Answer:
    """Take in the packages of offline bundles; the host must be in maintenance mode."""
    needed(arguments, "depot")
    given = [vib for path in arguments["depot"] for vib in _bundle(host, path)]
    now = host.software
    new = [vib for vib in given if {**now, **host.staged}.get(vib.name) != vib]
    same = [vib for vib in given if vib not in new]
    for vib in new:
        if LEVELS.index(vib.level) > LEVELS.index(host.acceptance):
            words = [_LEVEL.sub("", level).lower() for level in (vib.level, host.acceptance)]
            why = text_of("unsigned-vib", vib=vib_id(vib), level=words[0], of_host=words[1])
            raise CommandError("[AcceptanceConfigError]", why)
    if new and not host.in_maintenance:
        raise CommandError("[MaintenanceModeError]", "MaintenanceMode is required to install the VIBs.")
    if not is_set(arguments, "dryrun"):
        host.staged |= {vib.name: vib for vib in new}
        lab.state.touch(host)
    waits = bool(new or host.staged)
    return Record(
        "InstallationResult",
        {
            "Message": NEEDS_REBOOT if waits else NOTHING,
            "VIBs Installed": tuple(vib_id(vib) for vib in new),
            "VIBs Removed": tuple(vib_id(now[vib.name]) for vib in new if vib.name in now),
            "VIBs Skipped": tuple(vib_id(vib) for vib in same),
            "Reboot Required": str(waits).lower(),
        },
    )


def _bundle(host: Host, path: str) -> tuple[Vib, ...]:
    if path not in host.bundles:
        lines = ("[MetadataDownloadError]", f"Could not download from depot at zip:{path}, skipping")
        raise CommandError(*lines)
    return host.bundles[path]


def vib_id(vib: Vib) -> str:
    """Return a package's id, as `VMware_bootbank_esx-ui_2.12.0-21482143`."""
    return f"{vib.vendor}_bootbank_{vib.name}_{vib.version}"
