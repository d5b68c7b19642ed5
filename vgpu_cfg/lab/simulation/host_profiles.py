"""Host profiles as the lab has them: a name, and the hosts that it is attached to."""

from __future__ import annotations

from dataclasses import dataclass

from vgpu_cfg.lab.api.references import Service
from vgpu_cfg.lab.state.inventory import Host, LabState

PREFIX = "hostprofile"


@dataclass(slots=True, kw_only=True)
class Profile(Service):
    """A host profile, known by the hosts that name it."""

    hosts: tuple[str, ...] = ()


def profiles_of(state: LabState) -> list[Profile]:
    """Return every host profile; its number is its place among the names."""
    names: dict[str, list[str]] = {}
    for host in state.all(Host):
        if host.profile:
            names.setdefault(host.profile, []).append(host.moid)
    return [
        Profile(moid=f"{PREFIX}-{number}", name=name, kind="HostProfile", hosts=tuple(names[name]))
        for number, name in enumerate(sorted(names), start=1)
    ]
