"""The runs to undo as one: those of a plan since its last whole end, with the readings before and after."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from vgpu_cfg.changes.change import Change
from vgpu_cfg.changes.plan import Plan
from vgpu_cfg.changes.report import Outcome, OutcomeStatus, Report
from vgpu_cfg.changes.values import VmRef
from vgpu_cfg.model.frozen import Frozen, Moment
from vgpu_cfg.model.observed.inventory import Inventory
from vgpu_cfg.model.observed.vm import Vm
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.findings.collection import Findings

_SECRETS = "guestinfo."
_MAY_HAVE_CHANGED = (OutcomeStatus.DONE, OutcomeStatus.FAILED)


class Attempt(Frozen):
    """Runs with `--rollback-on-failure` that are neither complete nor undone.

    plan: the changes of all of them, the first run's first.
    before: the estate as the first run read it, with the VMs that the changes are about.
    began: the start of the first run.
    outcomes: results of the runs that ended, or were cut off and followed by another.
    report: the report of the last run; None if that run was cut off.
    """

    plan: Plan
    before: Inventory
    began: Moment
    outcomes: tuple[Outcome, ...] = ()
    report: Report | None = None

    @classmethod
    def of(cls, plan: Plan, before: Inventory, began: datetime) -> Attempt:
        """Begin an attempt; texts of guests, which may be secrets, are left out."""
        named = {change.subject.moid for change in plan.changes}
        vms = tuple(_without_secrets(vm) for vm in before.vms if vm.moid in named or vm.mark is not None)
        return cls(plan=plan, before=before.model_copy(update={"vms": vms, "locks": None}), began=began)

    @property
    def is_undoing(self) -> bool:
        """Whether the last run failed, so that its rollback began."""
        return self.report is not None and self.report.has_failed and not self.report.is_interrupted

    def followed_by(self, plan: Plan) -> Attempt:
        """Return the attempt with another run; any change of a run that was cut off may have been made."""
        known = {one.change_id for one in self.outcomes}
        cut_off = tuple(
            Outcome(
                change_id=change.id,
                subject=change.subject,
                status=OutcomeStatus.FAILED,
                started_at=self.began,
            )
            for change in self.plan.changes
            if change.id not in known
        )
        changes = (*self.plan.changes, *self._new_of(plan))
        return Attempt(
            plan=plan.model_copy(update={"changes": changes}),
            before=self.before,
            began=self.began,
            outcomes=(*self.outcomes, *cut_off),
        )

    def ended(self, report: Report) -> Attempt:
        """Return the attempt with the results of its last run."""
        outcomes = {one.change_id: one for one in self.outcomes}
        for one in report.outcomes:
            if one.status in _MAY_HAVE_CHANGED or one.change_id not in outcomes:
                outcomes[one.change_id] = one
        return self.model_copy(update={"outcomes": tuple(outcomes.values()), "report": report})

    def outcomes_in(self, after: Inventory) -> tuple[Outcome, ...]:
        """Return the results, with the VMs that runs made and did not live to report."""
        made = {change.id: change.makes.name for change in self.plan.changes if change.makes is not None}
        moids = {
            vm.name: vm.moid
            for vm in after.vms
            if vm.is_of(self.plan.desired.identity) and vm.moid not in self.before.vm_by_moid
        }
        return tuple(
            one.model_copy(update={"vm_moid": moids.get(made[one.change_id])})
            if one.change_id in made and one.vm_moid is None
            else one
            for one in self.outcomes
        )

    def _new_of(self, plan: Plan) -> Iterator[Change]:
        """Yield what only the new plan changes; a VM that the attempt made is undone by deleting it."""
        known = {change.id for change in self.plan.changes}
        made = {change.makes.name for change in self.plan.changes if change.makes is not None}
        for change in plan.changes:
            is_of_made = change.subject.kind == "vm" and change.subject.name in made
            if change.id not in known and not is_of_made:
                yield change


def _without_secrets(vm: Vm) -> Vm:
    if vm.detail is None:
        return vm
    kept = {key: text for key, text in vm.detail.extra_config.items() if not key.startswith(_SECRETS)}
    return vm.model_copy(update={"detail": vm.detail.model_copy(update={"extra_config": kept})})


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
