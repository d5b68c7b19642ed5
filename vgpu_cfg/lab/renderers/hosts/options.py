"""How options show: a host's advanced options, those of the VMkernel's boot among them, and vCenter's own."""

from __future__ import annotations

from typing import Any

from pyVmomi import VmomiSupport, vim

from vgpu_cfg.lab.api.references import Service
from vgpu_cfg.lab.renderers.hosts.graphics import host_of
from vgpu_cfg.lab.simulation.context import Context
from vgpu_cfg.lab.state.host_parts import AdvancedOption, OptionKind
from vgpu_cfg.lab.state.inventory import Host, Managed

CONSOLIDATION = "Config.Defaults.vGPU.consolidation"
"""The assignment policy as an option."""

BOOT = "VMkernel.Boot."
LONG: Any = VmomiSupport.vmodlTypes["long"]
LARGEST = 2**63 - 1


def option_table(host: Host) -> dict[str, AdvancedOption]:
    """Return every advanced option of a host by key: its own, and what stands elsewhere in its state.

    A boot setting shows what is configured, not what is in force.
    """
    found = dict(host.advanced)
    is_consolidating = host.configured_assignment_policy == "consolidation"
    found[CONSOLIDATION] = AdvancedOption("bool", is_consolidating, default=False)
    for name, setting in host.kernel.items():
        if setting.is_option:
            kind: OptionKind = "bool" if setting.kind == "Bool" else "string"
            found[BOOT + name] = AdvancedOption(
                kind,
                _typed(kind, setting.configured),
                _typed(kind, setting.default),
                setting.description,
            )
    return found


def _typed(kind: OptionKind, text: str) -> bool | str:
    return text.upper() == "TRUE" if kind == "bool" else text


def host_options(host: Host) -> list[Any]:
    """Render the advanced options of a host, by key."""
    return [
        vim.option.OptionValue(key=key, value=_wire(option.kind, option.value))
        for key, option in sorted(option_table(host).items())
    ]


def options(context: Context, thing: Managed) -> list[Any]:
    """Render what an option manager holds: a host's options, or vCenter's own."""
    if isinstance(thing, Service) and thing.owner is None:
        return [
            vim.option.OptionValue(key=key, value=value)
            for key, value in sorted(context.state.settings.items())
        ]
    return host_options(host_of(thing))


def option_definitions(_context: Context, thing: Managed) -> list[Any]:
    """Render the types of a host's options; vCenter defines none of its own that the lab knows."""
    if isinstance(thing, Service) and thing.owner is None:
        return []
    return [
        vim.option.OptionDef(
            key=key, label=option.label or key, summary=option.label or key, optionType=_option_type(option)
        )
        for key, option in sorted(option_table(host_of(thing)).items())
    ]


def _wire(kind: OptionKind, value: Any) -> Any:
    return LONG(value) if kind == "long" else value


def _option_type(option: AdvancedOption) -> Any:
    match option.kind:
        case "bool":
            return vim.option.BoolOption(supported=True, defaultValue=option.default)
        case "long":
            return vim.option.LongOption(min=0, max=LARGEST, defaultValue=option.default)
        case "int":
            return vim.option.IntOption(min=0, max=2**31 - 1, defaultValue=option.default)
        case "string":
            return vim.option.StringOption(defaultValue=option.default)
