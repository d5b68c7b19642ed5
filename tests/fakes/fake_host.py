"""One host of a fake estate: what is configured, apart from what is in force.

`BOOT` settings come into force at a restart, `COLD` ones only when the host was switched off,
`GRAPHICS` ones when xorg restarts, all others at once.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from tests.fakes.fake_vcenter import START
from vgpu_cfg.model.observed.host_facts import HostAttribute, HostMark
from vgpu_cfg.model.observed.inventory import HostNic

BOOT = ("ats", "nvidia", "mig")
COLD = ("firmware",)
GRAPHICS = ("graphics",)
OFF_SINCE_INSTALLED: dict[str, str] = {
    "live": "off",
    "ats": "FALSE",
    "nvidia": "",
    "mig": "off",
    "firmware": "False",
    "graphics": "shared",
}


@dataclass
class FakeHost:
    """One host. `stuck` names settings that do not come into force, `deaf` those that do not take a
    value, `silent` those that are not told before the next boot.
    """

    name: str
    moid: str
    connected: bool = True
    maintenance: bool = False
    boot_time: datetime | None = START - timedelta(days=30)
    lockdown: str = "lockdownDisabled"
    services: dict[str, bool] = field(default_factory=lambda: {"TSM-SSH": False, "xorg": True})
    attributes: dict[HostAttribute, str] = field(default_factory=dict)
    remembered: dict[str, str] = field(default_factory=dict)
    alarms: dict[str, str] = field(default_factory=dict)
    configured: dict[str, str] = field(default_factory=lambda: dict(OFF_SINCE_INSTALLED))
    runtime: dict[str, str] = field(default_factory=lambda: dict(OFF_SINCE_INSTALLED))
    stuck: set[str] = field(default_factory=set)
    deaf: set[str] = field(default_factory=set)
    silent: set[str] = field(default_factory=set)
    goes_down_at: datetime | None = None
    comes_back_at: datetime | None = None
    nics: tuple[HostNic, ...] = ()
    boots: int = 0
    task: str = ""
    unread: str = ""
    logins: int = 0

    @property
    def mark(self) -> HostMark | None:
        return HostMark.parse(self.attributes.get(HostAttribute.MARK, ""))

    def set_mark(self, **fields: object) -> None:
        mark = HostMark.model_validate({"plan": "demo", "since": START, **fields})
        self.attributes[HostAttribute.MARK] = mark.text

    def configure(self, key: str, value: str) -> None:
        if key not in self.deaf:
            self.configured[key] = value
            if key not in (*BOOT, *COLD, *GRAPHICS) and key not in self.stuck:
                self.runtime[key] = value

    def bring_into_force(self, keys: Iterable[str]) -> None:
        for key in keys:
            if key not in self.stuck:
                self.runtime[key] = self.configured[key]


def texts_of(text: str) -> dict[str, str]:
    return {str(key): str(value) for key, value in json.loads(text).items()}
