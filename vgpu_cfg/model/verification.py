"""What `verify` found: a result per check and subject, with what a failure means and what to do about it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Literal

from pydantic import Field

from vgpu_cfg.model.frozen import Frozen

UNITS = {"gbps": "Gb/s", "busbw_gigabytes": "GB/s", "port_gbps": "Gb/s"}
"""The figures that are kept, by their names in `measured`: of each more is better."""

OF_PROGRAMS = frozenset({13, 31, 43, 45})
"""Xids that a program on the GPU causes by its own fault, or by being stopped (NVIDIA's Xid catalogue)."""


class CheckState(StrEnum):
    """What became of a check.

    NOT_ASKED: what it rests on failed. SKIPPED: it does not apply here, or something else proves it.
    UNPROVEN: the plan asks for it, and nothing here could tell whether it holds.
    """

    PASSED = "passed"
    FAILED = "failed"
    UNPROVEN = "unproven"
    NOT_ASKED = "not_asked"
    SKIPPED = "skipped"


class CheckSubject(Frozen):
    """What a check is of: a host, a VM, a pair of VMs in one direction, or all workers together.

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
    """What one check of one subject came to.

    `expected` and `observed` are for people. A failure has a `code`, its `meaning` and a `remedy`; what was
    not asked, was skipped or not proven says `why`. `measured` holds numbers for programs, by name with
    their unit. `is_asked` is False of what was skipped because the plan does not ask for it.
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
    """What must be reached: bandwidth as a share of the line rate, and what else has a measure.

    `line_gbps` is what the ports of RDMA shall run at, where their boards differ from most of the model.
    `clock_seconds` is how far a clock may be off, `licence_hours` how long a licence must hold still, `loss`
    the share that a figure may be behind the baseline's. `shared_gpus`: VMs of others may take turns on GPUs.
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
    """Where a VM that was verified runs, and with what."""

    vm: str
    host: str = ""
    profiles: tuple[str, ...] = ()
    host_gpus: tuple[str, ...] = Field(default=(), exclude=True)
    """The addresses of its GPUs on the host, as far as they are known."""


class Figure(Frozen):
    """A figure of which more is better: what was measured by which check, of whom."""

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
    """What failed in an earlier run."""

    code: str
    check: str
    subject: str


class PastRun(Frozen):
    """An earlier run as a history keeps it: when, what it came to, and its figures. `counts` are by state."""

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
        """What failed."""
        return self.in_state(CheckState.FAILED)

    @property
    def unproven(self) -> tuple[CheckResult, ...]:
        """What the plan asks for and nothing here could tell of."""
        return self.in_state(CheckState.UNPROVEN)

    @property
    def passes(self) -> bool:
        """Whether all that was asked holds: nothing failed, nothing is unproven, and something was asked."""
        return not self.failed and not self.unproven and bool(self.in_state(CheckState.PASSED))
