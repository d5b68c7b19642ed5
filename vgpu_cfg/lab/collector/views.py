"""Views: lists of inventory objects that a traversal can start from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from vgpu_cfg.lab.api.references import Service, reference, vim_class, wire_type
from vgpu_cfg.lab.collector.select import object_gone
from vgpu_cfg.lab.managers import directory
from vgpu_cfg.lab.managers.methods import answers
from vgpu_cfg.lab.simulation.context import Context
from vgpu_cfg.lab.state import Cluster, Datacenter, Folder, Host, Managed, ResourcePool


@dataclass(slots=True, kw_only=True)
class ContainerView(Service):
    """Everything of some types below a container, found anew whenever it is read."""

    kind: str = "ContainerView"
    container: str
    types: tuple[Any, ...] = ()
    recursive: bool = True


@dataclass(slots=True, kw_only=True)
class ListView(Service):
    """What the client put into it."""

    kind: str = "ListView"
    moids: dict[str, None] = field(default_factory=dict)


def content(context: Context, view: ContainerView | ListView) -> list[Any]:
    """Return the references in a view."""
    if isinstance(view, ListView):
        found = (directory.find(context, moid) for moid in view.moids)
        return [reference(thing) for thing in found if thing is not None]
    container = context.state.objects.get(view.container)
    if container is None:
        return []
    return [
        reference(thing)
        for thing in _below(context, container, recursive=view.recursive)
        if not view.types or issubclass(vim_class(wire_type(thing)), view.types)
    ]


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


def _below(context: Context, container: Managed, *, recursive: bool) -> Iterator[Managed]:
    """Yield what lies in a container, depth first, each object once."""
    seen: set[str] = {container.moid}
    stack = list(reversed(children_of(container)))
    while stack:
        moid = stack.pop()
        thing = context.state.objects.get(moid)
        if thing is None or moid in seen:
            continue
        seen.add(moid)
        yield thing
        if recursive:
            stack.extend(reversed(children_of(thing)))


def children_of(thing: Managed) -> list[str]:
    """Return the moids of what an object contains, as the inventory tree has it."""
    match thing:
        case Folder():
            return list(thing.children)
        case Datacenter():
            return [thing.vm_folder, thing.host_folder, thing.datastore_folder, thing.network_folder]
        case Cluster():
            return [*thing.hosts, thing.resource_pool]
        case ResourcePool():
            return [*thing.pools, *thing.vms]
        case Host():
            return list(thing.vms)
        case _:
            return []
