"""The run that is to be undone: its actions, and the readings before and after it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from vgpu_cfg.changes.change import Change
from vgpu_cfg.changes.plan import Plan
from vgpu_cfg.changes.report import Outcome, OutcomeStatus
from vgpu_cfg.changes.values import VmRef
from vgpu_cfg.model.observed.inventory import Inventory
from vgpu_cfg.model.observed.vm import Vm
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.findings.collection import Findings


@dataclass(slots=True)
class FailedRun:
    """A run, the estate before and after it, and the findings on the way to undo it.

    `made` are the VMs that the run made and that are there now, by name.
    """

    plan: Plan
    outcomes: Mapping[str, Outcome]
    before: Inventory
    after: Inventory
    findings: Findings = field(default_factory=Findings)
    made: dict[str, Vm] = field(init=False)

    def __post_init__(self) -> None:
        found: dict[str, Vm] = {}
        for change in self.plan.changes:
            outcome = self.outcomes.get(change.id)
            if change.makes is not None and outcome is not None and outcome.vm_moid:
                vm = self.after.vm_by_moid.get(outcome.vm_moid)
                if vm is not None:
                    found[change.makes.name] = vm
        self.made = found

    def begun(self) -> Iterator[Change]:
        """Yield the changes that the run began and that were needed, whether or not they came true."""
        for change in self.plan.changes:
            outcome = self.outcomes.get(change.id)
            if outcome is not None and outcome.status in (OutcomeStatus.DONE, OutcomeStatus.FAILED):
                yield change

    def is_made(self, vm: VmRef) -> bool:
        """Whether the run made a VM: undoing it removes the VM."""
        return vm.moid is None

    def cannot(self, change: Change, why: str, remedy: str = "") -> Iterable[Change]:
        """Note that a change cannot be undone, or only in part; return nothing to do."""
        self.findings.add(Code.NOT_UNDONE, change.subject, f"{change.id}: {why}", remedy)
        return ()

    def leave(self, change: Change, why: str) -> Iterable[Change]:
        """Note that a change is kept on purpose; return nothing to do."""
        self.findings.add(Code.NOT_UNDONE_ON_PURPOSE, change.subject, f"{change.id}: {why}")
        return ()
