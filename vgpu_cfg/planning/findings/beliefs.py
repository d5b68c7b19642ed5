"""The verdict file of a plan's vCenter: beliefs that do not hold there, and changes that rely on them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from vgpu_cfg.changes.change import Change
from vgpu_cfg.changes.plan import BeliefsHere
from vgpu_cfg.changes.values import Subject
from vgpu_cfg.model.desired import DesiredPlan
from vgpu_cfg.model.observed.inventory import Inventory, VCenter
from vgpu_cfg.model.verdicts import Verdict, VerdictFile
from vgpu_cfg.model.wording import listed
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.findings.collection import Findings


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
                f"{listed(names)}: cannot be undone, and relies on an assumption that does not hold in this "
                f"vCenter: {belief.statement.rstrip('.')} ({source}). {belief.if_wrong}",
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
            f"made for another build; this vCenter now has {vcenter.build}" if older else "of another vCenter"
        )
        files = listed([one.file_name for one in older or desired.verdicts])
        says = f"not used: {files}: {why}; run `vgpu-cfg doctor --save FOLDER`"
        return BeliefsHere(says=says, is_first=is_first)
    counts = Counter(row.verdict for row in found.beliefs.values())
    fails = [key for key, row in found.beliefs.items() if row.verdict is Verdict.FAILS]
    names = f" ({listed(fails)})" if fails else ""
    says = f"tested in this vCenter: {counts[Verdict.HOLDS]} hold, {len(fails)} do not{names}"
    says += f", {counts[Verdict.OPEN]} could not be tested ({found.file_name})"
    return BeliefsHere(says=says, is_first=is_first)
