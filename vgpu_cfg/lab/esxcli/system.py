"""esxcli for a host's settings: the kernel's, modules' parameters, the clock, whether the firewall is on.

The texts of refusals are the lab's own.

The options of esxcli's commands, and their letters.
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
    is_set,
    needed,
)
from vgpu_cfg.lab.simulation.clock import as_datetime
from vgpu_cfg.lab.simulation.simulation import Simulation
from vgpu_cfg.lab.state.host import Host, KernelModule, KernelSetting

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
