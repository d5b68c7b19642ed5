"""The option managers: a host's advanced options, typed and known by name, and vCenter's own settings.

An option is set to a value of its type, or refused: a LongOption takes an xsd:long only. Whether a
real vCenter takes an unknown setting of its own is unproven; the lab refuses it.
"""

from __future__ import annotations

from typing import Any

from pyVmomi import VmomiSupport, vim

from vgpu_cfg.lab.api.references import Service, reference
from vgpu_cfg.lab.renderers.hosts.graphics import host_of
from vgpu_cfg.lab.renderers.hosts.options import BOOT, CONSOLIDATION, option_table, options
from vgpu_cfg.lab.rules import refusals
from vgpu_cfg.lab.simulation.context import Context
from vgpu_cfg.lab.simulation.methods import answers
from vgpu_cfg.lab.state.host_parts import AdvancedOption
from vgpu_cfg.lab.state.inventory import Host, Managed

ON_HOST = "Host.Config.AdvancedConfig"
ON_VCENTER = "Global.Settings"
"""Privileges that pyvmomi does not tell; the second is recalled."""

_LONG: Any = VmomiSupport.vmodlTypes["long"]


@answers("OptionManager", "QueryOptions")
def query_options(context: Context, thing: Managed, *, name: str | None) -> list[Any]:
    """Return the option of a name, or all below a name that ends in a dot. Raises InvalidName."""
    found = options(context, thing)
    if name is None:
        return found
    is_below = name.endswith(".")
    chosen = [each for each in found if each.key == name or (is_below and each.key.startswith(name))]
    if not chosen:
        raise _unknown(name)
    return chosen


@answers("OptionManager", "UpdateOptions")
def update_options(context: Context, thing: Managed, *, changedValue: list[Any]) -> None:
    """Set options, all or none. Raises InvalidName, InvalidArgument for a value of another type."""
    if isinstance(thing, Service) and thing.owner is None:
        _update_vcenter(context, thing, changedValue)
        return
    host = host_of(thing)
    context.lab.check_privileges(reference(host), [ON_HOST])
    table = option_table(host)
    for change in changedValue:
        if change.key not in table:
            raise _unknown(change.key)
        if not _suits(table[change.key], change.value):
            raise refusals.bad_argument("changedValue.value")
    for change in changedValue:
        _set(host, change.key, change.value)
    context.state.touch(host)


def _update_vcenter(context: Context, thing: Managed, changes: list[Any]) -> None:
    context.lab.check_privileges(reference(thing), [ON_VCENTER])
    settings = context.state.settings
    for change in changes:
        if change.key not in settings:
            raise _unknown(change.key)
        if isinstance(settings[change.key], bool) != isinstance(change.value, bool):
            raise refusals.bad_argument("changedValue.value")
    for change in changes:
        if settings[change.key] != _plain(change.value):
            context.lab.note(context.state.objects[context.state.root], "vcenter settings", change.key)
    settings |= {change.key: _plain(change.value) for change in changes}
    context.state.touch()


def _suits(option: AdvancedOption, value: Any) -> bool:
    match option.kind:
        case "bool":
            return isinstance(value, bool)
        case "string":
            return isinstance(value, str)
        case "long":
            return isinstance(value, _LONG)
        case "int":
            return isinstance(value, int) and not isinstance(value, (bool, _LONG))


def _set(host: Host, key: str, value: Any) -> None:
    if key == CONSOLIDATION:
        host.configured_assignment_policy = "consolidation" if value else "performance"
    elif key.startswith(BOOT):
        text = ("TRUE" if value else "FALSE") if isinstance(value, bool) else str(value)
        host.kernel[key.removeprefix(BOOT)].configured = text
    else:
        host.advanced[key].value = _plain(value)


def _plain(value: Any) -> bool | int | str:
    if isinstance(value, bool):
        return value
    return int(value) if isinstance(value, int) else str(value)


def _unknown(name: str) -> Exception:
    return vim.fault.InvalidName(name=name, msg=f"The name '{name}' is invalid.")
