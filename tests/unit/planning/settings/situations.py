"""The situations in which every setting is tried, as data: a case names its own, `check` says what must hold.

Every test module of this folder keeps its cases in `CASES`; `test_situations` runs them all and
fails where a key of the table lacks one.
"""

from __future__ import annotations

import importlib
import pkgutil
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from vgpu_cfg.changes.kinds.change_host import HostWrite
from vgpu_cfg.changes.values import Impact
from vgpu_cfg.model.desired import DesiredHosts
from vgpu_cfg.planning.host_settings.entry import DesiredSetting, HostSetting, HostView, Reading

_ABOUT_ALL = ("test_situations", "test_table")
"""Modules that look at the cases of all others, and have none."""


class Situation(StrEnum):
    """What a setting may meet on a host.

    RIGHT: what is wanted holds. WRONG: it does not, and this is what is written. OFF: the plan file
    turns off what is on. PENDING: what is wanted is configured and not in force. NOT_OFFERED: there is
    another way, or a manual step. UNREAD: nothing is known.
    """

    RIGHT = "right"
    WRONG = "wrong"
    OFF = "off"
    PENDING = "pending"
    NOT_OFFERED = "not offered"
    UNREAD = "unread"


@dataclass(frozen=True)
class Case:
    """One setting in one situation.

    `wants` is the value that the plan file's entry asks for `device`. `found` is what must be read as
    configured, where a test says it. `writes` are the exact calls. `other` is the second way;
    `by_hand` is a part of what a hand is told: of the manual step's text, or of the runbook's
    paragraph, whose commands stand in the step where the tool may not use the shell. `unread` is a
    part of the reason.
    `has_one_value` marks a source that never tells a runtime value, so that the host's mark
    alone can say that a restart is due (situation PENDING).
    """

    setting: str
    situation: Situation
    view: HostView
    entry: DesiredHosts
    wants: str
    device: str = ""
    found: str | None = None
    writes: tuple[HostWrite, ...] = ()
    other: HostWrite | None = None
    by_hand: str = ""
    unread: str = ""
    has_one_value: bool = False

    @property
    def id(self) -> str:
        """How a failing case is named."""
        return f"{self.setting} {self.situation.value} {self.device}".rstrip()


def all_cases() -> tuple[Case, ...]:
    """Collect the cases of all test modules of this folder."""
    found: list[Case] = []
    for module in pkgutil.iter_modules([str(Path(__file__).parent)]):
        if module.name.startswith("test_") and module.name not in _ABOUT_ALL:
            loaded = importlib.import_module(f"{__package__}.{module.name}")
            found += getattr(loaded, "CASES", ())
    return tuple(found)


def wish_of(setting: HostSetting, entry: DesiredHosts, view: HostView, device: str = "") -> DesiredSetting:
    """Return the one wish for a device."""
    (desired,) = [desired for desired in setting.desired_settings(entry, view) if desired.device == device]
    assert desired.setting == setting.key
    return desired


def check(case: Case, setting: HostSetting) -> None:
    """See that a setting does what its case says."""
    desired = wish_of(setting, case.entry, case.view, case.device)
    assert desired.value == case.wants
    reading = setting.read(case.view, case.device)
    if case.found is not None:
        assert reading.configured == case.found
    match case.situation:
        case Situation.RIGHT:
            assert not reading.unread
            assert setting.objects(case.view, desired) is None
            assert _is_right(setting, desired, reading.configured)
            assert _is_right(setting, desired, reading.in_force)
        case Situation.WRONG | Situation.OFF:
            assert not reading.unread
            assert setting.objects(case.view, desired) is None
            assert not _is_right(setting, desired, reading.configured)
            assert tuple(setting.write(case.view, [desired])) == case.writes
            if not case.writes:
                assert _is_told(case, setting, desired)
        case Situation.PENDING:
            _check_pending(case, setting, desired, reading)
        case Situation.NOT_OFFERED:
            other = setting.other_way(case.view, [desired])
            assert other == case.other
            if other is None:
                assert _is_told(case, setting, desired)
        case Situation.UNREAD:
            assert case.unread
            assert case.unread in reading.unread


def _check_pending(case: Case, setting: HostSetting, desired: DesiredSetting, reading: Reading) -> None:
    assert not reading.unread
    if case.has_one_value:
        assert reading.runtime is None
        return
    assert _is_right(setting, desired, reading.configured)
    assert reading.runtime is not None
    assert not setting.same(desired.value, reading.runtime)
    assert setting.impact(case.view, desired) is not Impact.NONE


def _is_told(case: Case, setting: HostSetting, desired: DesiredSetting) -> bool:
    how = setting.how(case.view, desired)
    told = (setting.by_hand(case.view, desired), how.client, *how.commands)
    return bool(case.by_hand) and any(case.by_hand in text for text in told)


def _is_right(setting: HostSetting, desired: DesiredSetting, value: str | None) -> bool:
    return value is not None and setting.same(desired.value, value)
