"""The context of one call of a method: the simulation, the caller's session, and the API version."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from vgpu_cfg.lab.api.references import reference
from vgpu_cfg.lab.api.versions import version_name
from vgpu_cfg.lab.simulation.sessions import LAB_CREDENTIALS, Credentials, Session
from vgpu_cfg.lab.simulation.simulation import Simulation
from vgpu_cfg.lab.state.inventory import LabState


@dataclass(slots=True)
class Context:
    """The context for a method or a renderer. `session` is None before login; `version` is pyvmomi's name."""

    lab: Simulation
    version: str
    session: Session | None = None
    credentials: Credentials = LAB_CREDENTIALS
    user_agent: str = ""
    token_subject: str = ""

    @property
    def state(self) -> LabState:
        """The lab's current state; a stored lab may load another one between calls."""
        return self.lab.state


def referred(context: Context, moids: Iterable[str]) -> list[Any]:
    """Return the references of objects by moid; one that is gone is left out."""
    objects = context.state.objects
    return [reference(objects[moid]) for moid in moids if moid in objects]


def reference_to(context: Context, moid: str | None) -> Any:
    """Return the reference of one object by moid, None for none."""
    thing = context.state.objects.get(moid or "")
    return None if thing is None else reference(thing)


def vcenter_version(context: Context) -> str:
    """Return the newest API version of this vCenter, by pyvmomi's name."""
    return version_name(context.state.api_version) or context.version
