"""Signs of failing hardware that `verify --watch` follows from one reading to the next."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

from vgpu_cfg.model.frozen import Frozen


class Sign(Frozen):
    """A rule that applies to a machine, or to a GPU of it.

    `gpu` is the GPU's PCI address on the host if it is known, else on the machine, "" for no GPU. `checks`
    are those that showed the sign, `words` their lines.
    """

    rule: str
    host: str
    vm: str = ""
    gpu: str = ""
    target: str = ""
    """The target that `cordon` accepts: `gpu:HOST/PCI`, or `host:HOST`; "" where the host is unknown."""
    checks: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    is_now: bool = False
    """Whether a driver or vCenter reports it as a state; a log line alone is past."""

    @property
    def key(self) -> tuple[str, str, str, str]:
        """Its identity from reading to reading."""
        return self.rule, self.host, self.vm, self.gpu

    @property
    def place(self) -> str:
        """Its place, for people."""
        parts = (
            self.host and f"host {self.host}",
            self.vm and f"VM {self.vm}",
            self.gpu and f"GPU {self.gpu}",
        )
        return ", ".join(part for part in parts if part)


class Watched(Frozen):
    """A sign over time. `since` is its first reading.

    `held_since` and `readings` begin anew where a reading could not be made, or showed it only as past;
    `seen_at` is the last reading that showed it.
    """

    sign: Sign
    since: datetime
    held_since: datetime
    seen_at: datetime
    readings: int = 1
    is_told: bool = False
    """Whether an earlier watch has reported it."""

    def held(self, now: datetime) -> timedelta:
        """Return for how long it has lasted without a gap."""
        return now - self.held_since


class WatchMemory(Frozen):
    """The memory of a watch for the next one. `counters` are of NICs, by VM."""

    at: datetime
    signs: tuple[Watched, ...] = ()
    counters: Mapping[str, Mapping[str, float]] = {}


class Watch(Frozen):
    """The outcome of a watch. `due` are the signs to report, `pending` those that have not lasted yet.

    `gone` were reported before. `unread` are machines that could not be asked. `cordoned` maps targets to
    the outcome of each cordon that the plan file allows.
    """

    plan: str
    server: str
    at: datetime
    file: str = ""
    """The plan file, as it was typed."""
    due: tuple[Watched, ...] = ()
    pending: tuple[Watched, ...] = ()
    gone: tuple[Watched, ...] = ()
    unread: tuple[str, ...] = ()
    cordoned: Mapping[str, str] = {}

    @property
    def new(self) -> tuple[Watched, ...]:
        """The signs that no earlier watch has reported."""
        return tuple(one for one in self.due if not one.is_told)
