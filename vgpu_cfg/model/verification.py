"""Results of `verify`, one per check and subject, and the signs of failing hardware that it follows."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Literal

from pydantic import Field

from vgpu_cfg.model.frozen import Frozen

UNITS = {"gbps": "Gb/s", "busbw_gigabytes": "GB/s", "port_gbps": "Gb/s"}
"""The figures that are kept, by their names in `measured`: of each more is better."""

OF_PROGRAMS = frozenset({13, 31, 43, 45})
"""Xids that a program on the GPU causes by its own fault, or by being stopped (NVIDIA's Xid catalogue)."""
RESETS = frozenset({46, 62, 109, 110, 119, 120, 143, 151, 154, 155, 156, 158, 169})
"""Xids after which a GPU must be reset (NVIDIA's Xid catalogue: RESET_GPU), and the driver's own demand."""


class CheckState(StrEnum):
    """The result of a check.

    NOT_ASKED: a check that it depends on failed. SKIPPED: it does not apply, or another check proves it.
    UNPROVEN: the plan requires it, but it could not be determined.
    """

    PASSED = "passed"
    FAILED = "failed"
    UNPROVEN = "unproven"
    NOT_ASKED = "not_asked"
    SKIPPED = "skipped"


class CheckSubject(Frozen):
    """The subject of a check: a host, a VM, a pair of VMs in one direction, or all workers together.

    `vms` names the VMs that take part, none of a host.
    """

    kind: Literal["host", "vm", "pair", "training"]
    name: str
    vms: tuple[str, ...] = ()


class Evidence(Frozen):
    """One sign of a machine's health as its tools report it, before a rule judges it.

    `gpu` is its PCI address on that machine, "" if the sign is of no GPU. `is_past`: it was logged since the
    boot, and may be over by now.
    """

    kind: str
    words: str
    gpu: str = ""
    is_past: bool = False


class CheckResult(Frozen):
    """The result of one check of one subject.

    `expected` and `observed` are for people. A failure has a `code`, its `meaning` and a `remedy`; one that
    was not run, skipped or not proven has `why`. `measured` contains numbers for programs, by name with
    their unit. `is_asked` is False for checks skipped because the plan does not request them.
    """

    subject: CheckSubject
    check: str
    title: str
    state: CheckState
    expected: str = ""
    observed: str = ""
    code: str = ""
    meaning: str = ""
    remedy: str = ""
    why: str = ""
    measured: Mapping[str, float] = Field(default_factory=dict)
    is_asked: bool = True
    seconds: float = 0.0
    evidence: tuple[Evidence, ...] = Field(default=(), exclude=True)
    """For `verify --watch`; a plain run's results are complete without it."""

    @property
    def message(self) -> str:
        """Say what failed in one sentence, as a finding does."""
        seen = f"{self.observed}, expected {self.expected}" if self.expected else self.observed
        return f"{seen}: {self.meaning}" if self.meaning else seen


class Thresholds(Frozen):
    """Thresholds: bandwidth as a share of the line rate, and other measures.

    `line_gbps` is the required speed of RDMA ports, if their boards differ from most of the model.
    `clock_seconds` is how far a clock may be off, `licence_hours` how long a licence must hold still, `loss`
    the share by which a figure may fall below the baseline's. `shared_gpus`: other VMs may share GPUs.
    """

    host_memory: float = Field(default=0.90, gt=0, le=1)
    gpu_memory: float = Field(default=0.85, gt=0, le=1)
    busbw: float = Field(default=0.84, gt=0, le=1)
    seconds: int = Field(default=5, ge=1, le=600)
    line_gbps: float | None = Field(default=None, gt=0, le=10_000)
    clock_seconds: float = Field(default=2, gt=0, le=3600)
    licence_hours: float = Field(default=12, ge=0, le=8760)
    loss: float = Field(default=0.05, gt=0, lt=1)
    shared_gpus: bool = False


class VmPlace(Frozen):
    """The host and devices of a verified VM."""

    vm: str
    host: str = ""
    profiles: tuple[str, ...] = ()
    host_gpus: tuple[str, ...] = Field(default=(), exclude=True)
    """The addresses of its GPUs on the host, as far as they are known."""


class Figure(Frozen):
    """A measurement (higher is better): the value, its check and its subject."""

    check: str
    subject: str
    name: str
    value: float = Field(gt=0)


class Baseline(Frozen):
    """The figures of a run that a later one is held against."""

    plan: str
    server: str = ""
    begun: datetime
    figures: tuple[Figure, ...] = ()


class FailedCheck(Frozen):
    """A failure in an earlier run."""

    code: str
    check: str
    subject: str


class PastRun(Frozen):
    """An earlier run in a history: time, result and measurements. `counts` are by state."""

    plan: str
    server: str = ""
    begun: datetime
    seconds: float = 0.0
    is_quick: bool = False
    passes: bool
    counts: Mapping[CheckState, int] = Field(default_factory=dict)
    failed: tuple[FailedCheck, ...] = ()
    figures: tuple[Figure, ...] = ()


class Verification(Frozen):
    """The results of one run, in the order in which they are read: hosts, VMs, pairs, all together."""

    plan: str
    server: str
    begun: datetime
    seconds: float = 0.0
    is_quick: bool = False
    thresholds: Thresholds = Thresholds()
    places: tuple[VmPlace, ...] = ()
    results: tuple[CheckResult, ...] = ()
    unasked: tuple[str, ...] = ()
    """VMs in whose guests no check ran, though checks of guests were chosen."""

    def in_state(self, state: CheckState) -> tuple[CheckResult, ...]:
        """Return the results in a state."""
        return tuple(found for found in self.results if found.state is state)

    @property
    def failed(self) -> tuple[CheckResult, ...]:
        """The failures."""
        return self.in_state(CheckState.FAILED)

    @property
    def unproven(self) -> tuple[CheckResult, ...]:
        """The plan's requirements that could not be determined."""
        return self.in_state(CheckState.UNPROVEN)

    @property
    def passes(self) -> bool:
        """Whether all that was asked holds: nothing failed, nothing is unproven, and something was asked."""
        return not self.failed and not self.unproven and bool(self.in_state(CheckState.PASSED))


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
