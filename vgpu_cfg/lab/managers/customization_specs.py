"""The customisation specifications that vCenter keeps: found by name, made, replaced, copied, renamed.

Faults are those that the types name for each method; that a change version is a count is assumed.
"""

from __future__ import annotations

from typing import Any

from pyVmomi import vim

from vgpu_cfg.lab.rules import refusals
from vgpu_cfg.lab.simulation.clock import as_datetime
from vgpu_cfg.lab.simulation.operations import Context, answers
from vgpu_cfg.lab.state.devices import copy_with
from vgpu_cfg.lab.state.inventory import Managed

_MANAGER = "CustomizationSpecManager"


@answers(_MANAGER, "DoesCustomizationSpecExist")
def exists(context: Context, thing: Managed, *, name: str) -> bool:
    """Show whether there is one of this name."""
    return name in context.state.customization_specs


@answers(_MANAGER, "GetCustomizationSpec")
def get(context: Context, thing: Managed, *, name: str) -> Any:
    """Return one by its name. Raises NotFound."""
    return _found(context, name)


@answers(_MANAGER, "CreateCustomizationSpec")
def create(context: Context, thing: Managed, *, item: Any) -> None:
    """Keep a new one. Raises AlreadyExists."""
    _check_free(context, item.info.name)
    _keep(context, item, "1")


@answers(_MANAGER, "OverwriteCustomizationSpec")
def overwrite(context: Context, thing: Managed, *, item: Any) -> None:
    """Replace one. Raises NotFound, and ConcurrentAccess where it is another one by now."""
    before = _found(context, item.info.name).info.changeVersion
    if item.info.changeVersion not in (None, "", before):
        raise vim.fault.ConcurrentAccess(msg="The specification was changed in the meantime.")
    _keep(context, item, str(int(before) + 1))


@answers(_MANAGER, "DeleteCustomizationSpec")
def delete(context: Context, thing: Managed, *, name: str) -> None:
    """Forget one. Raises NotFound."""
    _found(context, name)
    del context.state.customization_specs[name]
    context.state.touch()


@answers(_MANAGER, "DuplicateCustomizationSpec")
def duplicate(context: Context, thing: Managed, *, name: str, newName: str) -> None:
    """Keep a copy under another name. Raises NotFound and AlreadyExists."""
    item = _found(context, name)
    _check_free(context, newName)
    _keep(context, copy_with(item, info=copy_with(item.info, name=newName)), "1")


@answers(_MANAGER, "RenameCustomizationSpec")
def rename(context: Context, thing: Managed, *, name: str, newName: str) -> None:
    """Give one another name. Raises NotFound and AlreadyExists."""
    duplicate(context, thing, name=name, newName=newName)
    delete(context, thing, name=name)


def _found(context: Context, name: str) -> Any:
    item = context.state.customization_specs.get(name)
    if item is None:
        raise refusals.not_found()
    return item


def _check_free(context: Context, name: str) -> None:
    if name in context.state.customization_specs:
        raise vim.fault.AlreadyExists(name=name, msg=f"The name '{name}' already exists.")
    if not name:
        raise refusals.bad_argument("item.info.name")


def _keep(context: Context, item: Any, version: str) -> None:
    now = as_datetime(context.lab.clock.now())
    info = copy_with(item.info, changeVersion=version, lastUpdateTime=now)
    context.state.customization_specs[info.name] = copy_with(item, info=info)
    context.state.touch()
