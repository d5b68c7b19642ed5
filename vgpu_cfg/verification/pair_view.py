"""Two VMs of a plan, as checks see them that ask one about the other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from vgpu_cfg.model.verification import CheckResult, Thresholds
from vgpu_cfg.verification.learned import RdmaNic
from vgpu_cfg.verification.views import GuestView


@dataclass(frozen=True, slots=True)
class PairView:
    """Two VMs, in one direction. `number` tells pairs apart that are measured at the same time.

    `earlier` holds results that this pair may explain itself by: (check, subject) to the result.
    """

    source: GuestView
    target: GuestView
    thresholds: Thresholds = field(default_factory=Thresholds)
    number: int = 0
    earlier: Mapping[tuple[str, str], CheckResult] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """How the pair is called."""
        return f"{self.source.name} -> {self.target.name}"

    @property
    def rails(self) -> tuple[tuple[RdmaNic, RdmaNic], ...]:
        """The RDMA NICs that face each other: the first with the first, and so on."""
        return tuple(zip(self.source.learned.rdma, self.target.learned.rdma, strict=False))
