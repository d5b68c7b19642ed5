"""What `verify` found: a result per check and subject, with what a failure means and what to do about it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Literal

from pydantic import Field

from vgpu_cfg.model.frozen import Frozen


class CheckState(StrEnum):
    """What became of a check.

    NOT_ASKED: what it rests on failed. SKIPPED: it does not apply here, or cannot be measured here.
    """

    PASSED = "passed"
    FAILED = "failed"
    NOT_ASKED = "not_asked"
    SKIPPED = "skipped"


class CheckSubject(Frozen):
    """What a check is of: a host, a VM, a pair of VMs in one direction, or all workers together.

    `vms` names the VMs that take part, none of a host.
    """

    kind: Literal["host", "vm", "pair", "training"]
    name: str
    vms: tuple[str, ...] = ()


class CheckResult(Frozen):
    """What one check of one subject came to.

    `expected` and `observed` are for people. A failure has a `code`, its `meaning` and a `remedy`; what was
    not asked or was skipped says `why`. `measured` holds numbers for programs, by name with their unit.
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
    seconds: float = 0.0

    @property
    def message(self) -> str:
        """Say what failed in one sentence, as a finding does."""
        seen = f"{self.observed}, expected {self.expected}" if self.expected else self.observed
        return f"{seen}: {self.meaning}" if self.meaning else seen


class Thresholds(Frozen):
    """What a measured bandwidth must reach, as a share of the line rate, and how long is measured."""

    host_memory: float = Field(default=0.90, gt=0, le=1)
    gpu_memory: float = Field(default=0.85, gt=0, le=1)
    busbw: float = Field(default=0.84, gt=0, le=1)
    seconds: int = Field(default=5, ge=1, le=600)


class VmPlace(Frozen):
    """Where a VM that was verified runs, and with what."""

    vm: str
    host: str = ""
    profiles: tuple[str, ...] = ()


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

    def in_state(self, state: CheckState) -> tuple[CheckResult, ...]:
        """Return the results in a state."""
        return tuple(found for found in self.results if found.state is state)

    @property
    def failed(self) -> tuple[CheckResult, ...]:
        """What failed."""
        return self.in_state(CheckState.FAILED)

    @property
    def passes(self) -> bool:
        """Whether nothing failed, and something was asked."""
        return not self.failed and bool(self.in_state(CheckState.PASSED))
