"""What every change has: what it is about, what it edits, what it needs and what it disturbs."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from pydantic import Field

from vgpu_cfg.model.frozen import Frozen


def is_nothing(value: object) -> bool:
    """Whether a field says nothing, so that it is not written: a digest from before it still holds."""
    return not value


class Impact(StrEnum):
    """What a change disturbs, from nothing to a cold boot of the host."""

    NONE = "none"
    SERVICE_RESTART = "service-restart"
    VMOTION = "vmotion"
    POWER_CYCLE = "power-cycle"
    HOST_MAINTENANCE = "host-maintenance"
    HOST_REBOOT = "host-reboot"
    HOST_COLD_BOOT = "host-cold-boot"


class Subject(Frozen):
    """What a change or a finding is about; `kind` is "vm", "host", "cluster", "network" or "plan"."""

    kind: str
    name: str
    moid: str | None = None


class VmRef(Frozen):
    """A VM by name; `moid` is None until it has been made."""

    name: str
    moid: str | None = None


class Edit(Frozen):
    """One value before and after, as shown to a reader; None is "absent".

    `is_default` marks a value that the plan file does not state, `note` adds a reason. `sets` is what goes
    over the wire for it: each path in the request with its value, as in
    {"bootOptions.efiSecureBootEnabled": "true"}.
    """

    key: str
    before: str | None = None
    after: str | None = None
    is_default: bool = False
    note: str = ""
    sets: Mapping[str, str] = Field(default_factory=dict)


class ChangeBase(Frozen):
    """What every change has.

    `id` is stable between two plannings of the same thing ("create hvd-01"); `needs` names the
    changes that must have come true before; `host_moid` is the host it burdens, for the cap per host.
    """

    id: str
    subject: Subject
    edits: tuple[Edit, ...] = ()
    needs: tuple[str, ...] = ()
    impact: Impact = Impact.NONE
    host_moid: str | None = None
