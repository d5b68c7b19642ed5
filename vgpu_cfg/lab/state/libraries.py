"""The state of content libraries, as plain values by their ids.

In `LabState.libraries`: `libraries` id → {name, and what else was set}, `items` id → {name, type, library_id,
vm_template}, the last the moid of a VM template, "" for any other item, `sessions` id → {kind, item, state,
files} of those that put files into items, or get them.
"""

from __future__ import annotations

import uuid
from typing import Any

from vgpu_cfg.lab.state.inventory import LabState

VM_TEMPLATE = "vm-template"
_NAMES = uuid.UUID("5a0f4a0c-1c0e-4f6e-8a53-7a1b0f6c9e21")


def libraries_of(state: LabState) -> dict[str, dict[str, Any]]:
    """Return the libraries by id; a change of it is one of the state's."""
    found: dict[str, dict[str, Any]] = state.libraries.setdefault("libraries", {})
    return found


def items_of(state: LabState) -> dict[str, dict[str, Any]]:
    """Return the items of all libraries by id; a change of it is one of the state's."""
    found: dict[str, dict[str, Any]] = state.libraries.setdefault("items", {})
    return found


def sessions_of(state: LabState) -> dict[str, dict[str, Any]]:
    """Return the sessions that put and get files, by id; a change of it is one of the state's."""
    found: dict[str, dict[str, Any]] = state.libraries.setdefault("sessions", {})
    return found


def add_library(state: LabState, name: str) -> str:
    """Add a library, and return its id; several may have one name."""
    made = str(uuid.uuid5(_NAMES, name))
    while made in libraries_of(state):
        made = str(uuid.uuid5(_NAMES, made))
    libraries_of(state)[made] = {"name": name}
    return made


def add_item(state: LabState, library_id: str, name: str, kind: str, vm_template: str = "") -> str:
    """Add an item to a library, and return its id."""
    made = str(uuid.uuid5(_NAMES, f"{library_id}/{name}"))
    items_of(state)[made] = {"name": name, "type": kind, "library_id": library_id, "vm_template": vm_template}
    return made


def forget_item_of(state: LabState, moid: str) -> None:
    """Take a VM template that has gone out of its library, as vCenter does."""
    for item_id in [one for one, item in items_of(state).items() if item["vm_template"] == moid]:
        del items_of(state)[item_id]
