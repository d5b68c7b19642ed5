"""Making views, changing list views, and dropping either."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from vgpu_cfg.lab.rules.refusals import object_gone
from vgpu_cfg.lab.simulation import directory
from vgpu_cfg.lab.simulation.context import Context
from vgpu_cfg.lab.simulation.methods import answers
from vgpu_cfg.lab.simulation.views import ContainerView, ListView
from vgpu_cfg.lab.state.inventory import Managed


@answers("ViewManager", "CreateContainerView")
def create_container_view(
    context: Context,
    thing: Managed,
    *,
    container: Any,
    type: list[Any],  # noqa: A002 - named by the WSDL
    recursive: bool,
) -> Any:
    """Make a view of what lies below a folder, datacenter, compute resource, host or pool."""
    if directory.find(context, container._moId) is None:
        raise object_gone(container)
    view = ContainerView(
        moid=_moid(context), name="", container=container._moId, types=tuple(type), recursive=recursive
    )
    return _keep(context, view)


@answers("ViewManager", "CreateListView")
def create_list_view(context: Context, thing: Managed, *, obj: list[Any]) -> Any:
    """Make a view of given objects."""
    view = ListView(moid=_moid(context), name="", moids=dict.fromkeys(item._moId for item in obj))
    return _keep(context, view)


@answers("ListView", "ModifyListView")
def modify_list_view(context: Context, thing: ListView, *, add: list[Any], remove: list[Any]) -> list[Any]:
    """Put objects in and take others out; return those that do not exist."""
    _note_change(context)
    for item in remove:
        thing.moids.pop(item._moId, None)
    return _put(context, thing, add)


@answers("ListView", "ResetListView")
def reset_list_view(context: Context, thing: ListView, *, obj: list[Any]) -> list[Any]:
    """Replace what is in it."""
    _note_change(context)
    thing.moids.clear()
    return _put(context, thing, obj)


@answers("View", "DestroyView")
def destroy_view(context: Context, thing: Managed) -> None:
    """Drop a view."""
    if context.session is not None:
        context.session.objects.pop(thing.moid, None)
        _note_change(context)


def _note_change(context: Context) -> None:
    if context.session is not None:
        context.session.view_changes += 1
        context.lab.changed.notify_all()


def _put(context: Context, view: ListView, items: Iterable[Any]) -> list[Any]:
    unresolved = []
    for item in items:
        if directory.find(context, item._moId) is None:
            unresolved.append(item)
        else:
            view.moids[item._moId] = None
    return unresolved


def _moid(context: Context) -> str:
    return context.session.new_moid() if context.session is not None else ""


def _keep(context: Context, view: Managed) -> Any:
    if context.session is not None:
        context.session.objects[view.moid] = view
    return view
