"""A case played on the stage, and judged: what others experience was announced, with its approval."""

from __future__ import annotations

from tests.properties.witness.comparison import Fault, approval_of, disturbed_strangers, faults_of
from tests.properties.witness.plans import Case
from tests.properties.witness.stage import ESTATE, Stage, Witnessed
from tests.properties.witness.tampering import tamper
from vgpu_cfg.model.choices import Approval

REFUSED = (4, 5)
"""Exit codes of a command that touches nothing: a plan that cannot be, and a VM or host that is not there."""


def played(stage: Stage, case: Case) -> list[Fault]:
    """Run a case's commands one after the other, and return where they break the law.

    A command that is refused for want of an approval is given it, and run again.
    """
    if case.before is None:
        stage.build(case.estate)
    else:
        stage.build_with(case.estate, case.before)
    tamper(stage, case.tampers)
    found: list[Fault] = []
    for plan, words in case.commands:
        stage.write(plan)
        stage.vgpu_cfg.script(ESTATE, *([case.fault] if case.fault is not None else []))
        witnessed = stage.run(*words)
        approved = {*plan.get("allow", ()), *(word.removeprefix("--allow=") for word in words)}
        found += judged(witnessed, approved)
        if "VG514" in witnessed.ran.out and not witnessed.shown:
            allowed = [f"--allow={word}" for word in Approval]
            found += judged(stage.run(*words[:-1], *allowed, words[-1]), {*Approval})
    return found


def judged(witnessed: Witnessed, approved: set[str]) -> list[Fault]:
    """Return where one command breaks the law; `approved` are the words that it was given."""
    assert witnessed.ran.code in (0, *REFUSED, 6, 7), witnessed.ran.told
    found = faults_of(witnessed)
    for entry in disturbed_strangers(witnessed):
        needed = approval_of(entry)
        if not witnessed.shown:
            found.append(Fault("unasked", f"refused, and still: {entry.what} of {entry.name}"))
        elif needed is not None and needed not in approved:
            found.append(Fault("unapproved", f"without {needed}: {entry.what} of {entry.name}"))
    return found
