"""Checks as rows for every face: a verification, and the meaning of a watch for people."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from vgpu_cfg.knowledge.health_rules import BY_KEY, Urgency
from vgpu_cfg.knowledge.verify_failures import FAILURES
from vgpu_cfg.model.verification import (
    UNITS,
    Baseline,
    CheckResult,
    CheckState,
    PastRun,
    Verification,
    Watch,
    Watched,
)
from vgpu_cfg.model.wording import counted, listed

STATE_WORDS = {
    CheckState.PASSED: "passed",
    CheckState.FAILED: "failed",
    CheckState.UNPROVEN: "not proven",
    CheckState.NOT_ASKED: "not run",
    CheckState.SKIPPED: "skipped",
}
_TITLES = {"host": "HOSTS", "vm": "VMS", "pair": "BETWEEN VMS", "training": "ALL TOGETHER"}
_MOST_UNFOLDED = 6


@dataclass(frozen=True, slots=True)
class Block:
    """The results of one subject. `about` says where it runs and with what."""

    name: str
    about: str
    results: tuple[CheckResult, ...]

    @property
    def counts(self) -> str:
        """How many results are in each state."""
        return count_states(self.results)

    @property
    def has_trouble(self) -> bool:
        """Whether something failed, could not be proven, or was not asked."""
        return any(one.state not in (CheckState.PASSED, CheckState.SKIPPED) for one in self.results)


@dataclass(frozen=True, slots=True)
class Part:
    """The blocks of one kind of subject."""

    title: str
    kind: str
    blocks: tuple[Block, ...]


def parts_of(found: Verification) -> tuple[Part, ...]:
    """Return the results by kind and subject."""
    about = {place.vm: ", ".join((place.host, *place.profiles)).strip(", ") for place in found.places}
    parts: list[Part] = []
    for kind, title in _TITLES.items():
        results = [one for one in found.results if one.subject.kind == kind]
        blocks = tuple(
            Block(name, about.get(name, ""), tuple(one for one in results if one.subject.name == name))
            for name in dict.fromkeys(one.subject.name for one in results)
        )
        if blocks:
            parts.append(Part(title, kind, blocks))
    return tuple(parts)


def is_folded(part: Part, block: Block, *, with_all: bool) -> bool:
    """Whether only the line of a block is shown: all is well in it, and there are many like it."""
    return not with_all and not block.has_trouble and len(part.blocks) > _MOST_UNFOLDED


def shown_results(block: Block, *, with_all: bool) -> tuple[CheckResult, ...]:
    """Return the shown results of a block; skipped ones only `with_all`."""
    return tuple(one for one in block.results if with_all or one.state is not CheckState.SKIPPED)


def result_text(result: CheckResult) -> str:
    """Say what came of a check in a cell."""
    match result.state:
        case CheckState.PASSED:
            return result.observed
        case CheckState.FAILED:
            return f"{result.observed}, expected {result.expected}" if result.expected else result.observed
        case CheckState.NOT_ASKED:
            return f"not run: {result.why}"
        case CheckState.UNPROVEN:
            return f"not proven: {result.why}"
        case CheckState.SKIPPED:
            return result.why


def count_states(results: Iterable[CheckResult]) -> str:
    """Say "1 failed, 2 not run, 14 passed", what matters most first."""
    states = [one.state for one in results]
    order = (
        CheckState.FAILED,
        CheckState.UNPROVEN,
        CheckState.NOT_ASKED,
        CheckState.PASSED,
        CheckState.SKIPPED,
    )
    return ", ".join(f"{states.count(state)} {STATE_WORDS[state]}" for state in order if state in states)


def verdict_text(found: Verification) -> str:
    """Say in one line what all of it came to."""
    if not found.results:
        return "no checks ran"
    failures = f"{counted(len(found.failed), 'check')} failed" if found.failed else ""
    if found.unproven:
        return f"{failures or 'nothing failed'}, {len(found.unproven)} not proven"
    if failures:
        return failures
    if not found.passes:
        return "no checks could be run"
    if found.unasked:
        return f"all checks passed, {counted(len(found.unasked), 'guest')} not checked"
    return "all checks passed"


def codes_of(results: Sequence[CheckResult]) -> tuple[str, ...]:
    """Return the codes of failures, each once, in their order."""
    return tuple(dict.fromkeys(one.code for one in results if one.code))


@dataclass(frozen=True, slots=True)
class Sums:
    """How many results are in each state. `left_out` were asked and not seen, `not_asked` never asked.

    `left_out` counts checks that rest on a failure, that this run could not make, and that another check
    covers.
    """

    passed: int
    failed: int
    unproven: int
    left_out: int
    not_asked: int


@dataclass(frozen=True, slots=True)
class PairCell:
    """Bandwidth from one worker to another: Gb/s, the required value, the line rate; None if unknown."""

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
    """All pairs of workers that one check measured; a missing cell was not measured."""

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
    """The meaning of a code, and the fix."""

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
    """View a verification; `own` is its entry in a history, `earlier` the other entries."""
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


def sentence(watch: Watch) -> str:
    """Summarize a watch in a few words, as a notification does."""
    if not watch.due and not watch.gone:
        return "no signs of trouble"
    parts = [f"{one.sign.rule} on {one.sign.vm or one.sign.host}" for one in watch.new]
    old = len(watch.due) - len(watch.new)
    new = [f"new: {listed(parts)}"] if parts else []
    ended = [f"ended: {listed(one.sign.rule for one in watch.gone)}"] if watch.gone else []
    return "; ".join([*new, *([counted(old, "known sign")] if old else []), *ended])


def advice(one: Watched, watch: Watch) -> tuple[str, ...]:
    """Return the remedy of a sign with its names; commands can be pasted."""
    sign = one.sign
    named = {"target": sign.target, "host": sign.host, "gpu": sign.target, "rule": sign.rule}
    named |= {"server": watch.server, "plan": watch.file}
    lines = BY_KEY[sign.rule].do
    if not sign.target.startswith("gpu:"):
        lines = tuple(line for line in lines if "{gpu}" not in line)
    if not sign.target or (
        sign.target in watch.cordoned and watch.cordoned[sign.target].startswith("cordoned")
    ):
        lines = tuple(line for line in lines if "{target}" not in line)
    return tuple(line.format(**named) if "{" in line else line for line in lines)


def needs_action(watch: Watch) -> bool:
    """Whether a sign is more than a note."""
    return any(BY_KEY[one.sign.rule].urgency is not Urgency.NOTE for one in watch.due)
