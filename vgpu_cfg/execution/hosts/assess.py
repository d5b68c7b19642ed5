"""The state of a setting by its reading: in effect, pending a restart, wrong, or unknown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from vgpu_cfg.changes.report import SettingReading
from vgpu_cfg.changes.values import HostRef, Impact, SettingTarget
from vgpu_cfg.errors import NotConfirmed
from vgpu_cfg.execution.records.copies import is_waiting
from vgpu_cfg.execution.run.session import PLAN_AGAIN
from vgpu_cfg.model.observed.host_facts import HostMark
from vgpu_cfg.planning.host_settings.entry import DesiredSetting, HostSetting, HostView

RESTARTS = (Impact.SERVICE_RESTART, Impact.HOST_REBOOT, Impact.HOST_COLD_BOOT)
"""The restarts that a written value may need; all other values take effect at once."""

COLD_BOOT = "cold boot"


class State(StrEnum):
    """The state of a setting."""

    HOLDS = "holds"
    PENDING = "pending"
    """Configured as wanted; a restart has yet to bring it."""
    WRONG = "wrong"
    UNREAD = "unread"


@dataclass(frozen=True, slots=True)
class AssessedSetting:
    """A setting that was read back. `why` is the reason if it is UNREAD.

    `is_absent` says that the host has no such setting, or no longer the device to ask.
    """

    target: SettingTarget
    setting: HostSetting
    impact: Impact
    state: State
    reading: SettingReading
    why: str = ""
    is_absent: bool = False

    @property
    def is_written(self) -> bool:
        """Whether there is nothing left to write."""
        return self.state is State.HOLDS or (self.state is State.PENDING and self.impact in RESTARTS)

    def __str__(self) -> str:
        found = self.reading
        if self.state is State.UNREAD:
            return f"{self.target.id} could not be read: {self.why or 'no reason given'}"
        if self.state is State.PENDING:
            return f"{self.target.id} is set to {found.wanted}, pending {found.waits_for}"
        return f"{self.target.id} is {found.configured or 'not set'}, not {found.wanted}"


def assess(
    view: HostView, target: SettingTarget, setting: HostSetting, mark: HostMark | None
) -> AssessedSetting:
    """Return the value of a setting on a host, and its state.

    If the source reports only the configured value, `mark` shows whether the host has restarted since.
    """
    impact = setting.impact(
        view, DesiredSetting(setting=target.setting, value=target.value, device=target.device)
    )
    found = setting.read(view, target.device)
    reading = SettingReading(setting=target.setting, device=target.device, wanted=target.value)
    if found.unread or found.is_absent:
        why = found.unread or "the host has no such setting"
        return AssessedSetting(target, setting, impact, State.UNREAD, reading, why, found.is_absent)
    state = State.WRONG
    if found.configured is not None and setting.same(target.value, found.configured):
        is_hidden = found.runtime is None and is_waiting(mark, target, view.facts.boot_time)
        is_in_force = found.in_force is not None and setting.same(target.value, found.in_force)
        state = State.HOLDS if is_in_force and not is_hidden else State.PENDING
    waits_for = _restart_of(setting, impact) if state is State.PENDING else ""
    shown = {
        "configured": found.configured,
        "runtime": found.in_force,
        "waits_for": waits_for,
        "differs": state is State.WRONG,
    }
    return AssessedSetting(target, setting, impact, state, reading.model_copy(update=shown))


def not_shown(ref: HostRef, missing: Sequence[AssessedSetting]) -> NotConfirmed:
    remedy = "check what else changes this (a host profile, another administrator); then " + PLAN_AGAIN
    if all(one.state is State.PENDING for one in missing):
        remedy = "the next run restarts the host to activate it: " + PLAN_AGAIN
    if any(one.state is State.UNREAD for one in missing):
        remedy = "fix the reading error; then " + PLAN_AGAIN
    return NotConfirmed(
        f"{ref.name} does not have the requested settings: {'; '.join(str(one) for one in missing)}",
        subject=ref.name,
        remedy=remedy,
    )


def _restart_of(setting: HostSetting, impact: Impact) -> str:
    if impact is Impact.SERVICE_RESTART:
        return f"restart of {setting.service}"
    return COLD_BOOT if impact is Impact.HOST_COLD_BOOT else "reboot"
