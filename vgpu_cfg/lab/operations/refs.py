"""References in a call's arguments, turned into objects of the state."""

from __future__ import annotations

from typing import Any, TypeVar

from pyVmomi import vmodl

from vgpu_cfg.lab.rules import refusals
from vgpu_cfg.lab.state.inventory import LabState, Managed

ManagedT = TypeVar("ManagedT", bound=Managed)


def moid_of(reference: Any) -> str:
    """Return the moid in a reference."""
    return str(reference._GetMoId())


def resolve(state: LabState, reference: Any, kind: type[ManagedT]) -> ManagedT:
    """Return the object that a reference means. Raises ManagedObjectNotFound."""
    found = state.find(moid_of(reference), kind)
    if found is None:
        raise vmodl.fault.ManagedObjectNotFound(
            obj=reference, msg="The object has already been deleted or has not been completely created."
        )
    return found


def resolve_or_none(state: LabState, reference: Any, kind: type[ManagedT]) -> ManagedT | None:
    """Return the object that a reference means, None for no reference. Raises ManagedObjectNotFound."""
    return None if reference is None else resolve(state, reference, kind)


def required(state: LabState, reference: Any, kind: type[ManagedT], path: str) -> ManagedT:
    """Return the object that a reference means. Raises InvalidArgument where there is no reference."""
    if reference is None:
        raise refusals.bad_argument(path)
    return resolve(state, reference, kind)
