"""How a run is held against the figures of an earlier one: what was better then has lost something since."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from vgpu_cfg.knowledge.verify_failures import FAILURES, VerifyCode
from vgpu_cfg.model.verification import (
    UNITS,
    Baseline,
    CheckResult,
    CheckState,
    FailedCheck,
    Figure,
    PastRun,
    Thresholds,
    Verification,
)


def figures_of(results: Sequence[CheckResult]) -> tuple[Figure, ...]:
    """Return the figures that a run measured."""
    return tuple(
        Figure(check=one.check, subject=one.subject.name, name=name, value=value)
        for one in results
        for name, value in one.measured.items()
        if name in UNITS and value > 0
    )


def baseline_of(found: Verification) -> Baseline:
    """Return what later runs are held against."""
    return Baseline(
        plan=found.plan, server=found.server, begun=found.begun, figures=figures_of(found.results)
    )


def past_run(found: Verification) -> PastRun:
    """Return what a history keeps of a run."""
    return PastRun(
        plan=found.plan,
        server=found.server,
        begun=found.begun,
        seconds=found.seconds,
        is_quick=found.is_quick,
        passes=found.passes,
        counts={state: len(found.in_state(state)) for state in CheckState},
        failed=tuple(
            FailedCheck(code=one.code, check=one.check, subject=one.subject.name) for one in found.failed
        ),
        figures=figures_of(found.results),
    )


def held_against(
    baseline: Baseline, results: Sequence[CheckResult], thresholds: Thresholds
) -> tuple[CheckResult, ...]:
    """Return the results, where one that passed and is behind its earlier figure fails.

    What was measured then and not now is not proven; what failed for another reason stays as it is.
    """
    before = {(one.check, one.subject, one.name): one.value for one in baseline.figures}
    return tuple(_held(one, _own(before, one), baseline, thresholds) for one in results)


def _own(before: Mapping[tuple[str, str, str], float], result: CheckResult) -> dict[str, float]:
    key = (result.check, result.subject.name)
    return {name: value for (*whose, name), value in before.items() if tuple(whose) == key}


def _held(
    result: CheckResult, before: Mapping[str, float], baseline: Baseline, thresholds: Thresholds
) -> CheckResult:
    if not before or result.state not in (CheckState.PASSED, CheckState.SKIPPED):
        return result
    day = f"{baseline.begun:%Y-%m-%d}"
    gone = [name for name in before if name not in result.measured]
    if gone:
        words = ", ".join(f"{before[name]:.1f} {UNITS.get(name, name)}" for name in gone)
        why = f"the baseline of {day} has {words} of it, and this run measured none"
        return result.model_copy(update={"state": CheckState.UNPROVEN, "why": why})
    for name, then in before.items():
        now = result.measured[name]
        if now < (1 - thresholds.loss) * then:
            failure = FAILURES[VerifyCode.BEHIND_BASELINE]
            unit = UNITS.get(name, name)
            return result.model_copy(
                update={
                    "state": CheckState.FAILED,
                    "code": failure.code.value,
                    "observed": f"{now:.1f} {unit}, {1 - now / then:.1%} less than on {day}",
                    "expected": f"at least {(1 - thresholds.loss) * then:.1f} of {then:.1f} {unit}",
                    "meaning": failure.meaning,
                    "remedy": failure.remedy,
                    "measured": {**result.measured, f"{name}_before": then},
                }
            )
    return result
