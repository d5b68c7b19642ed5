"""What a plan does not know of hosts: settings that nobody told, and what they could come to."""

from __future__ import annotations

from vgpu_cfg.changes.values import HostRef, Impact
from vgpu_cfg.model.frozen import Frozen


class UnknownSetting(Frozen):
    """A setting that the plan file states and whose value is not known, and why.

    `setting` is a key of the settings table, `title` the same in words. `is_of_shell` says that only the
    host's shell tells it; `verify` are lines to type there that show it.
    """

    setting: str
    title: str
    device: str = ""
    wanted: str
    why: str
    is_of_shell: bool = True
    verify: tuple[str, ...] = ()


class UnknownHost(Frozen):
    """What is not known of one host. It is no difference, and no change of the plan is about it.

    Should all of it differ, `impact` is the most that setting it would disturb, with so many restarts more
    than the plan's own; nothing of that is part of the plan. Where `is_checked_only` nothing would be set.
    `remedy` says how it is found out.
    """

    host: HostRef
    settings: tuple[UnknownSetting, ...]
    impact: Impact = Impact.NONE
    reboots: int = 0
    cold_boots: int = 0
    is_checked_only: bool = False
    remedy: str = ""
