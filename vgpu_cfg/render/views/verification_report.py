"""What the page of a verification has beside its results: sums, bandwidth by pair, and figures over time.

All sums are made here; the page's script lays them out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vgpu_cfg.knowledge.verify_failures import FAILURES
from vgpu_cfg.model.verification import UNITS, Baseline, CheckResult, CheckState, PastRun, Verification
from vgpu_cfg.render.views.verification import codes_of, result_text, verdict_text


@dataclass(frozen=True, slots=True)
class Sums:
    """How many results are in each state. `left_out` were asked and not seen, `not_asked` never asked.

    `left_out` counts what rests on a failure, what this run had no way to see, and what another check tells.
    """

    passed: int
    failed: int
    unproven: int
    left_out: int
    not_asked: int


@dataclass(frozen=True, slots=True)
class PairCell:
    """Bandwidth from one worker to another: Gb/s, what it must reach, the line rate; None where not known."""

    source: str
    target: str
    state: str
    code: str
    text: str
    gbps: float | None
    least_gbps: float | None
    line_gbps: float | None


@dataclass(frozen=True, slots=True)
class PairMatrix:
    """All pairs of workers that one check measured; what is no cell was not measured."""

    check: str
    title: str
    workers: tuple[str, ...]
    cells: tuple[PairCell, ...]


@dataclass(frozen=True, slots=True)
class FigureRow:
    """A figure over time. `before` is the baseline's, `change` the share gained since; None without one.

    `values` has one for each run, None where that run did not measure it; the last one is this run.
    """

    check: str
    subject: str
    unit: str
    before: float | None
    change: float | None
    values: tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class CodeRow:
    """What a code means, and what to do."""

    code: str
    title: str
    meaning: str
    remedy: str


@dataclass(frozen=True, slots=True)
class ReportView:
    """A verification as its page shows it. `texts` are the results in words, in their order."""

    verdict: str
    exit_code: int
    sums: Sums
    texts: tuple[str, ...]
    matrices: tuple[PairMatrix, ...]
    baseline_begun: str
    runs: tuple[PastRun, ...]
    figures: tuple[FigureRow, ...]
    codes: tuple[CodeRow, ...]


def view_report(
    found: Verification,
    own: PastRun,
    *,
    exit_code: int,
    baseline: Baseline | None = None,
    earlier: Sequence[PastRun] = (),
) -> ReportView:
    """View a verification; `own` is what a history keeps of it, `earlier` what one has of others."""
    runs = (*earlier, own)
    return ReportView(
        verdict=verdict_text(found),
        exit_code=exit_code,
        sums=_sums(found),
        texts=tuple(map(result_text, found.results)),
        matrices=_matrices(found),
        baseline_begun=f"{baseline.begun:%Y-%m-%d}" if baseline is not None else "",
        runs=runs,
        figures=_figures(runs, baseline) if baseline is not None or earlier else (),
        codes=tuple(
            CodeRow(one.code.value, one.summary, one.meaning, one.remedy)
            for one in FAILURES.values()
            if one.code.value in codes_of(found.failed)
        ),
    )


def _sums(found: Verification) -> Sums:
    left_out = sum(one.is_asked for one in found.in_state(CheckState.SKIPPED))
    return Sums(
        passed=len(found.in_state(CheckState.PASSED)),
        failed=len(found.failed),
        unproven=len(found.unproven),
        left_out=left_out + len(found.in_state(CheckState.NOT_ASKED)),
        not_asked=len(found.in_state(CheckState.SKIPPED)) - left_out,
    )


def _matrices(found: Verification) -> tuple[PairMatrix, ...]:
    shares = {"bandwidth": found.thresholds.host_memory, "bandwidth-gpu": found.thresholds.gpu_memory}
    made = []
    for check, share in shares.items():
        results = [one for one in found.results if one.check == check and one.subject.kind == "pair"]
        if any("gbps" in one.measured for one in results):
            workers = tuple(dict.fromkeys(vm for one in results for vm in one.subject.vms))
            cells = tuple(_cell(one, share) for one in results)
            made.append(PairMatrix(check, results[0].title, workers, cells))
    return tuple(made)


def _cell(result: CheckResult, share: float) -> PairCell:
    line = result.measured.get("line_rate_gbps")
    source, target = result.subject.vms
    return PairCell(
        source=source,
        target=target,
        state=result.state.value,
        code=result.code,
        text=result_text(result),
        gbps=result.measured.get("gbps"),
        least_gbps=None if line is None else round(share * line, 1),
        line_gbps=line,
    )


def _figures(runs: Sequence[PastRun], baseline: Baseline | None) -> tuple[FigureRow, ...]:
    """List each figure of this run or of the baseline, with what runs had of it."""
    had = [{(one.check, one.subject, one.name): one.value for one in run.figures} for run in runs]
    then = {(one.check, one.subject, one.name): one.value for one in baseline.figures} if baseline else {}
    rows = []
    for key in dict.fromkeys((*had[-1], *then)):
        now, before = had[-1].get(key), then.get(key)
        change = round(now / before - 1, 4) if now is not None and before is not None else None
        values = tuple(one.get(key) for one in had)
        rows.append(FigureRow(key[0], key[1], UNITS.get(key[2], key[2]), before, change, values))
    return tuple(rows)
