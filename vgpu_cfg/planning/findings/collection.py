"""The findings of one planning: adjusted by the plan file's `checks`, folded, and their consequences.

Some findings report a difference from the plan file that no change of the plan corrects. One that only
informs is not such a difference: the plan file states a wish (`must: false`), or made it so by `checks`. The
changes of a plan with an error are shown marked, and the plan is not carried out. Beliefs that the verdict
file of the plan's vCenter refutes are findings, too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from vgpu_cfg.changes.change import Change
from vgpu_cfg.changes.plan import BeliefsHere, Diagnostic, Hindrance
from vgpu_cfg.changes.severity import Severity
from vgpu_cfg.changes.values import Subject
from vgpu_cfg.model.desired import DesiredPlan, DesiredVm
from vgpu_cfg.model.observed.inventory import Inventory, VCenter
from vgpu_cfg.model.ranges import fold_names
from vgpu_cfg.model.verdicts import Verdict, VerdictFile
from vgpu_cfg.model.wording import as_counted, listed
from vgpu_cfg.planning.findings.codes import Basis, Code, code_of

_OfVms = tuple[Code, Severity, str, str, tuple[Hindrance, ...]]
"""The common values of VMs that share a finding: code, severity, message, remedy, and obstacles."""
_WEIGHT = {Severity.ERROR: 0, Severity.WARNING: 1, Severity.INFO: 2}

DIFFERENCES_OF_VMS = frozenset(
    {
        Code.SET_AT_CREATION_ONLY,
        Code.SPREAD_UNMET,
        Code.ELSEWHERE,
        Code.HOST_FORBIDDEN,
        Code.KEEP_FREE_UNMET,
        Code.NOT_MADE_ANEW,
        Code.ORPHAN_ELSEWHERE,
        Code.NAME_TAKEN,
        Code.DEVICES_OF_OTHERS,
    }
)
"""A VM is elsewhere than the plan file says or cannot have its name, is not as one made now, cannot be made
anew, left the file, or has devices that it does not ask for."""

DIFFERENCES_OF_HOSTS = frozenset({Code.HOST_SILENT, Code.OTHERS_MAINTENANCE, Code.HOST_LOST})
"""A host does not answer, or others work on it: its settings and VMs are not brought to the wanted state."""


@dataclass(frozen=True, slots=True)
class Objection:
    """The reason why a request cannot be met: a finding of this code."""

    code: Code
    message: str
    remedy: str


def _order(found: Diagnostic) -> tuple[int, bool, str, str, str]:
    """Sort the worst first; errors of VMs may follow from those of hosts, which come before them."""
    is_effect = found.severity is Severity.ERROR and found.subject.kind == "vm"
    return (_WEIGHT[found.severity], is_effect, found.code, found.subject.name, found.message)


@dataclass(slots=True)
class Findings:
    """Collects findings; `diagnostics()` gives them, errors first, equal ones of VMs as one.

    `relaxed` is the plan file's `checks`.
    """

    relaxed: Mapping[str, Severity] = field(default_factory=dict)
    _others: dict[Diagnostic, None] = field(default_factory=dict)
    _of_vms: dict[_OfVms, dict[str, None]] = field(default_factory=dict)

    @classmethod
    def for_plan(cls, desired: DesiredPlan, *, is_leaving: bool = False) -> Findings:
        """Take the plan file's own severities, and complain of those that it must not give.

        These stop no plan by which VMs are deleted or given up.
        """
        findings = cls({code: Severity(text) for code, text in desired.checks.items()})
        for code, severity in findings.relaxed.items():
            findings._assess_relaxation(desired.name, code, severity, is_leaving=is_leaving)
        return findings

    def add(
        self, code: Code, subject: Subject, message: str, remedy: str = "", severity: Severity | None = None
    ) -> None:
        """Add a finding; `severity` replaces the table's, not the plan file's."""
        weight = self.severity_of(code, severity)
        self._others[
            Diagnostic(code=code.value, severity=weight, subject=subject, message=message, remedy=remedy)
        ] = None

    def refuse_vm(
        self,
        code: Code,
        vm: DesiredVm,
        message: str,
        remedy: str = "",
        hindrances: tuple[Hindrance, ...] = (),
    ) -> None:
        """Take a finding that leaves a VM without a plan: an error, whatever the plan file says."""
        self._take_vm(vm, (code, Severity.ERROR, message, remedy, hindrances))

    def add_vm(
        self,
        code: Code,
        vm: DesiredVm,
        message: str,
        remedy: str = "",
        severity: Severity | None = None,
        *,
        hindrances: tuple[Hindrance, ...] = (),
    ) -> None:
        """Take a finding about a VM of the plan; `severity` as in `add`."""
        self._take_vm(vm, (code, self.severity_of(code, severity), message, remedy, hindrances))

    def _take_vm(self, vm: DesiredVm, found: _OfVms) -> None:
        self._of_vms.setdefault(found, {})[vm.name] = None

    def severity_of(self, code: Code, severity: Severity | None = None) -> Severity:
        """Say how much a finding weighs in this plan."""
        weight = severity or code.severity
        desired = self.relaxed.get(code.value)
        if desired is None or (_WEIGHT[desired] > _WEIGHT[weight] and not code.is_relaxable):
            return weight
        return desired

    def vms_with_errors(self) -> set[str]:
        """Return the names of the VMs that an error was found of."""
        return {
            name
            for (_, weight, *_), names in self._of_vms.items()
            if weight is Severity.ERROR
            for name in names
        }

    def vms_with(self, codes: Collection[Code]) -> set[str]:
        """Return the names of the VMs of which one of these was found, and does more than inform."""
        return {
            name
            for (code, weight, *_), names in self._of_vms.items()
            if code in codes and weight is not Severity.INFO
            for name in names
        }

    def diagnostics(self, wanted: Iterable[str] | None = None) -> tuple[Diagnostic, ...]:
        """Return everything found, or of VMs only what concerns the wanted ones."""
        chosen = None if wanted is None else set(wanted)
        found = list(self._others)
        for (code, weight, message, remedy, hindrances), names in self._of_vms.items():
            kept = [name for name in names if chosen is None or name in chosen]
            if kept:
                found.append(
                    Diagnostic(
                        code=code.value,
                        severity=weight,
                        subject=Subject(kind="vm", name=fold_names(sorted(kept, key=as_counted))),
                        message=message,
                        remedy=remedy,
                        hindrances=hindrances,
                    )
                )
        return tuple(sorted(found, key=_order))

    def _assess_relaxation(self, plan: str, code: str, severity: Severity, *, is_leaving: bool) -> None:
        known = code_of(code)
        if known is None:
            message = f"`checks` contains {code}, which is not a check code"
            remedy = "for a list of codes, see docs/reference/checks"
        elif _WEIGHT[severity] > _WEIGHT[known.severity] and not known.is_relaxable:
            message = f"{code} ({known.summary}) cannot be changed to {severity}: {_why_not(known)}"
            remedy = f"remove {code} from `checks`"
        else:
            return
        weight = Severity.WARNING if is_leaving else None
        self.add(Code.CHECK_NOT_RELAXABLE, Subject(kind="plan", name=plan), message, remedy, weight)


def _why_not(code: Code) -> str:
    if code.basis in {Basis.DOCUMENTED, Basis.OBSERVED}:
        return f"checks with the basis `{code.basis}` have a fixed severity"
    return "planning cannot continue without it"


def blocked_changes(
    changes: Sequence[Change], findings: Iterable[Diagnostic], vms: Collection[str]
) -> tuple[str, ...]:
    """Return the ids of the changes that errors are about, and of those that need them.

    `vms` are the names of the VMs with an error: a finding about several of a line names them together. A VM
    that is switched off only for blocked changes stays on.
    """
    refused = {(one.subject.kind, one.subject.name) for one in findings if one.severity is Severity.ERROR} | {
        ("vm", name) for name in vms
    }
    found = {change.id for change in changes if (change.subject.kind, change.subject.name) in refused}
    before = -1
    while before != len(found):
        before = len(found)
        found |= {change.id for change in changes if found & {*change.needs}}
    needing: dict[str, set[str]] = {}
    for change in changes:
        for need in change.needs:
            needing.setdefault(need, set()).add(change.id)
    found |= {
        change.id
        for change in changes
        if change.stops and needing.get(change.id, set()) & found
        if needing[change.id] <= found
    }
    return tuple(change.id for change in changes if change.id in found)


def verdicts_at(files: Iterable[VerdictFile], vcenter: VCenter) -> VerdictFile | None:
    """Return the file of this build of this vCenter."""
    here = (vcenter.instance_uuid.lower(), vcenter.build)
    return next((one for one in files if (one.vcenter.instance_uuid, one.vcenter.build) == here), None)


def report_beliefs(
    desired: DesiredPlan, observed: Inventory, changes: Sequence[Change], findings: Findings
) -> None:
    """Report each belief that does not hold here if a change that cannot be undone rests on it."""
    found = verdicts_at(desired.verdicts, observed.vcenter)
    failed = [key for key, row in found.beliefs.items() if row.verdict is Verdict.FAILS] if found else []
    if found is None or not failed:
        return
    from vgpu_cfg.knowledge.beliefs import load_beliefs

    for key in failed:
        belief = load_beliefs().get(key)
        names = [change.id for change in changes if belief is not None and change.kind in belief.steps]
        if belief is not None and names:
            seen = found.beliefs[key].seen
            source = f"{key}; seen: {seen}" if seen else key
            findings.add(
                Code.BELIEF_FAILS,
                Subject(kind="plan", name=desired.name),
                f"{listed(names)}: this cannot be undone, and it relies on an assumption that is false in "
                f"this vCenter: {belief.statement.rstrip('.')} ({source}). {belief.if_wrong}",
                f"to accept this, add `checks: {{{Code.BELIEF_FAILS.value}: warning}}` to the plan file",
            )


def beliefs_here(desired: DesiredPlan, observed: Inventory) -> BeliefsHere | None:
    """Return the verdicts for this vCenter, or why the files do not count; None without a file."""
    if not desired.verdicts:
        return None
    vcenter = observed.vcenter
    is_first = not any(vm.is_of(desired.identity) for vm in observed.vms)
    found = verdicts_at(desired.verdicts, vcenter)
    if found is None:
        uuid = vcenter.instance_uuid.lower()
        older = [one for one in desired.verdicts if one.vcenter.instance_uuid == uuid]
        why = (
            f"saved for another build; this vCenter is now at build {vcenter.build}"
            if older
            else "saved for another vCenter"
        )
        files = listed([one.file_name for one in older or desired.verdicts])
        says = f"{files} not used ({why}); run `vgpu-cfg doctor --save FOLDER`"
        return BeliefsHere(says=says, is_first=is_first)
    counts = Counter(row.verdict for row in found.beliefs.values())
    fails = [key for key, row in found.beliefs.items() if row.verdict is Verdict.FAILS]
    names = f" ({listed(fails)})" if fails else ""
    says = f"tested in this vCenter: {counts[Verdict.HOLDS]} true, {len(fails)} false{names}"
    says += f", {counts[Verdict.OPEN]} could not be tested ({found.file_name})"
    return BeliefsHere(says=says, is_first=is_first)
