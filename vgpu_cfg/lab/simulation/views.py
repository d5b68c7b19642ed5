"""Views: lists of inventory objects from which a traversal can start, and their content."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from vgpu_cfg.lab.api.references import Service, reference, vim_class, wire_type
from vgpu_cfg.lab.simulation import directory
from vgpu_cfg.lab.simulation.context import Context
from vgpu_cfg.lab.state.inventory import below


@dataclass(slots=True, kw_only=True)
class ContainerView(Service):
    """Everything of some types below a container, found anew whenever it is read."""

    kind: str = "ContainerView"
    container: str
    types: tuple[Any, ...] = ()
    recursive: bool = True


@dataclass(slots=True, kw_only=True)
class ListView(Service):
    """The client's objects in it."""

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
        for thing in below(context.state, container, recursive=view.recursive)
        if not view.types or issubclass(vim_class(wire_type(thing)), view.types)
    ]
