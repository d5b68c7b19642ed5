"""One host that the plan prepares: its requests, and its deviations."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from vgpu_cfg.changes.values import HostRef, Impact, Subject
from vgpu_cfg.model.desired import DesiredHosts
from vgpu_cfg.planning.host_settings.entry import DesiredSetting, HostSetting, HostView, Reading

DISTURBS = (
    Impact.NONE,
    Impact.SERVICE_RESTART,
    Impact.POWER_CYCLE,
    Impact.HOST_MAINTENANCE,
    Impact.HOST_REBOOT,
    Impact.HOST_COLD_BOOT,
)
"""The disturbances of a change, the least first."""


class DriftKind(StrEnum):
    """Why a setting is not as wanted."""

    WRONG = "wrong"
    PENDING = "pending"
    """Configured as wanted; a restart has yet to bring it."""
    SUPPOSED = "supposed"
    """It cannot be read before other work of the plan is done, and is read before it is written."""
    UNKNOWN = "unknown"
    """An unknown value that may be as wanted: no part of the work."""
    DROPPED = "dropped"
    """It is right now, and the plan's own reboot will drop it."""
    UNDONE = "undone"
    """It is right now, and another change of the plan would undo it: it is written along."""


@dataclass(frozen=True, slots=True)
class Drift:
    """One setting of one device that must change, be waited for or be asserted again."""

    setting: HostSetting
    desired: DesiredSetting
    reading: Reading
    kind: DriftKind
    impact: Impact

    @property
    def restarts(self) -> bool:
        """Whether it takes a restart of the host to be in force."""
        return self.impact in (Impact.HOST_REBOOT, Impact.HOST_COLD_BOOT)

    @property
    def is_to_be_seen(self) -> bool:
        """Whether nothing shows the setting, and a look at the host is all that it takes."""
        return self.kind is DriftKind.SUPPOSED and self.impact is Impact.NONE

    @property
    def is_written(self) -> bool:
        """Whether nothing but a restart is left to do: what holds at once and does not is written again."""
        waits = self.restarts or self.impact is Impact.SERVICE_RESTART
        return self.kind is DriftKind.PENDING and waits


@dataclass(slots=True)
class ResolvedHost:
    """A host of an entry of `hosts`. `is_blocked` if a finding forbids to change anything on it.

    `unknown` are unread settings that may be as requested. `has_refusals` is whether a request is impossible:
    the host does not meet it.
    """

    entry: DesiredHosts
    view: HostView
    wave: str
    desired_settings: dict[str, tuple[HostSetting, DesiredSetting]] = field(default_factory=dict)
    drifts: list[Drift] = field(default_factory=list)
    right: list[tuple[HostSetting, DesiredSetting, Reading]] = field(default_factory=list)
    unknown: list[Drift] = field(default_factory=list)
    is_blocked: bool = False
    has_refusals: bool = False

    @property
    def name(self) -> str:
        """The host's name."""
        return self.view.host.name

    @property
    def ref(self) -> HostRef:
        """The host as changes name it."""
        return HostRef(name=self.view.host.name, moid=self.view.host.moid)

    @property
    def subject(self) -> Subject:
        """The host as findings and changes are about it."""
        return Subject(kind="host", name=self.view.host.name, moid=self.view.host.moid)

    @property
    def is_checked_only(self) -> bool:
        """Whether the plan file says `mode: check`."""
        return self.entry.mode == "check"
