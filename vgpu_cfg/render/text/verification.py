"""A verification on a terminal, and a watch of signs of failing hardware."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.text import Text

from vgpu_cfg.knowledge.health_rules import BY_KEY, HealthRule, Urgency
from vgpu_cfg.model.verification import CheckResult, CheckState, Verification, Watch, Watched
from vgpu_cfg.model.wording import counted, duration, listed, shown
from vgpu_cfg.render.layout.lines import Cell, Column, abridged, both_ends, fold, table_rows
from vgpu_cfg.render.layout.most import Most, first_screen, foremost, others
from vgpu_cfg.render.text.plan.findings import lay_out
from vgpu_cfg.render.views.verification import (
    Block,
    Part,
    advice,
    codes_of,
    count_states,
    is_folded,
    parts_of,
    result_text,
    sentence,
    shown_results,
    verdict_text,
)

_STYLES = {
    CheckState.PASSED: "green",
    CheckState.FAILED: "bold red",
    CheckState.UNPROVEN: "bold yellow",
    CheckState.NOT_ASKED: "yellow",
    CheckState.SKIPPED: "dim",
}
_SIGNS = {
    CheckState.PASSED: "ok",
    CheckState.FAILED: "FAIL",
    CheckState.UNPROVEN: "?",
    CheckState.NOT_ASKED: "-",
    CheckState.SKIPPED: "skip",
}
_COLUMNS = (Column(""), Column("", is_flexible=True), Column("", is_flexible=True))
_URGENCY_STYLES = {Urgency.NOW: "bold red", Urgency.SOON: "yellow", Urgency.NOTE: "dim"}
_MOST_WORDS = 3


def render_verification(
    found: Verification, width: int, *, next_command: str = "", with_all: bool = False
) -> list[Text]:
    """Lay out a verification. `next_command` is what to type when what failed is fixed."""
    hosts = max((len(part.blocks) for part in parts_of(found) if part.kind in ("host", "vm")), default=0)
    return first_screen(lambda most: _rendered(found, width, next_command, most), hosts, with_all=with_all)


def _rendered(found: Verification, width: int, next_command: str, most: Most) -> list[Text]:
    quick = ", quick" if found.is_quick else ""
    left = Text.assemble(
        (found.plan, "bold"), f" on {found.server}, verified {found.begun:%Y-%m-%d %H:%M}{quick}"
    )
    is_whole = found.passes and not found.unasked
    right = Text(verdict_text(found), "bold red" if found.failed else "green" if is_whole else "yellow")
    lines = both_ends(left, right, width)
    for part in parts_of(found):
        lines += [Text(""), Text(part.title, style="bold")]
        lines += _blocks(part, width, most)
    lines += _failures(found.failed, width, most)
    lines += _unproven(found.unproven, width, most)
    if found.unasked:
        names = f"NOT CHECKED  {abridged(found.unasked, most.runs)}: no checks ran in these guests"
        lines += [Text(""), *fold(Text(names, "yellow"), width, hang=13)]
    hides_skipped = not most.is_all and any(one.state is CheckState.SKIPPED for one in found.results)
    lines += _end(found, width, next_command, hides_skipped=hides_skipped)
    return lines


def _blocks(part: Part, width: int, most: Most) -> list[Text]:
    """Lay out a heading per subject with its results below; the columns are the same throughout."""
    with_all = most.is_all
    told, left = foremost(part.blocks, lambda block: not block.has_trouble, most)
    open_blocks = [block for block in told if not is_folded(part, block, with_all=with_all)]
    rows = [row for block in open_blocks for row in _rows(block, with_all=with_all)]
    laid = table_rows(_COLUMNS, rows, width, indent=4)[1:]
    lines: list[Text] = []
    for block in told:
        about = f"  {block.about}" if block.about else ""
        head = Text.assemble("  ", (block.name, "bold"), (about, ""))
        lines += both_ends(head, Text(block.counts, "yellow" if block.has_trouble else "dim"), width)
        if block in open_blocks:
            for _ in shown_results(block, with_all=with_all):
                lines += laid.pop(0)
    noun = {"host": "hosts", "vm": "VMs", "pair": "pairs"}.get(part.kind, "results")
    return lines + others(noun, ("not passed" if one.has_trouble else "passed" for one in left), width)


def _rows(block: Block, *, with_all: bool) -> list[list[Cell]]:
    return [
        [
            Text(_SIGNS[result.state], _STYLES[result.state]),
            result.title,
            Text(result_text(result), "" if result.state is not CheckState.SKIPPED else "dim"),
        ]
        for result in shown_results(block, with_all=with_all)
    ]


def _failures(failed: Sequence[CheckResult], width: int, most: Most) -> list[Text]:
    """Lay out failures like findings: code, subject, meaning, fix; like ones once."""
    if not failed:
        return []
    lines = [Text(""), Text.assemble(("FAILED", "bold"), f"  {len(failed)}")]
    alike: dict[tuple[str, ...], list[CheckResult]] = {}
    for one in failed:
        alike.setdefault((one.code, one.title, one.message, one.remedy), []).append(one)
    named = [(abridged((one.subject.name for one in same), most.runs), same[0]) for same in alike.values()]
    for name, one in named:
        lines += finding_lines(one, width, name=name)
    return lines


def _unproven(unproven: Sequence[CheckResult], width: int, most: Most) -> list[Text]:
    """Lay out the unverified settings of the plan, with the reasons; like ones once."""
    if not unproven:
        return []
    lines = [Text(""), Text.assemble(("NOT PROVEN", "bold"), f"  {len(unproven)}")]
    alike: dict[tuple[str, str], list[str]] = {}
    for one in unproven:
        alike.setdefault((one.title, one.why), []).append(one.subject.name)
    for (title, why), names in alike.items():
        lines += fold(Text(f"  {abridged(names, most.runs)}: {title}: {why}"), width, hang=4)
    return lines


def finding_lines(one: CheckResult, width: int, *, name: str = "") -> list[Text]:
    """Lay out a failure of one subject, or of several under one `name`."""
    head = (one.code, "bold red", name or one.subject.name)
    return lay_out(head, f"{one.title}: {one.message}", one.remedy, width)


def _end(found: Verification, width: int, next_command: str, *, hides_skipped: bool) -> list[Text]:
    hint = "  (-v shows skipped checks)" if hides_skipped else ""
    total = f"TOTAL  {count_states(found.results) or 'nothing'} in {duration(found.seconds)}{hint}"
    shares = found.thresholds
    least = (
        f"at least {shares.host_memory:.0%} of the line rate from host memory, "
        f"{shares.gpu_memory:.0%} from GPU memory, {shares.busbw:.0%} as bus bandwidth"
    )
    measured = any(one.measured.get("share") for one in found.results)
    lines = [Text(""), *fold(Text(total), width, hang=7)]
    if measured:
        lines += fold(Text(f"REQUIRED {least}"), width, hang=9)
    codes = codes_of(found.failed)
    if codes:
        lines += fold(Text(f"MORE   vgpu-cfg explain {' '.join(codes)}"), width, hang=7)
    if next_command:
        lines += fold(Text(f"NEXT   {next_command}"), width, hang=7)
    return lines


def render_watch(watch: Watch, width: int) -> list[Text]:
    """Lay out a watch: the signs to act on, those that ended, and what could not be asked."""
    left = Text.assemble((watch.plan, "bold"), f" on {watch.server}, watched {watch.at:%Y-%m-%d %H:%M}")
    lines = both_ends(left, Text(sentence(watch)), width)
    for one in watch.due:
        lines += [Text(""), *_block(one, watch, width)]
    if watch.gone:
        words = "; ".join(f"{one.sign.rule} ({one.sign.place})" for one in watch.gone)
        lines += [Text(""), *fold(Text(f"ENDED  {words}", "green"), width, hang=7)]
    if watch.pending:
        words = "; ".join(f"{one.sign.rule} ({one.sign.place})" for one in watch.pending)
        lines += [Text(""), *fold(Text(f"PENDING  {words}: reported if it persists", "dim"), width, hang=9)]
    if watch.unread:
        words = f"NOT CHECKED  {listed(watch.unread)}: no checks ran in these guests"
        lines += [Text(""), *fold(Text(words, "yellow"), width, hang=13)]
    return lines


def _block(one: Watched, watch: Watch, width: int) -> Iterator[Text]:
    rule, sign = BY_KEY[one.sign.rule], one.sign
    new = "" if one.is_told else "  new"
    yield Text.assemble((rule.title.upper(), _URGENCY_STYLES[rule.urgency]), f"  {rule.key}{new}")
    for label, words in _sign_rows(rule, one, watch):
        yield from fold(Text(f"  {label:<7}{shown(words)}"), width, hang=9)
    if (done := watch.cordoned.get(sign.target)) is not None:
        yield from fold(Text(f"  {'done':<7}{sign.target}: {done}", "bold"), width, hang=9)


def _sign_rows(rule: HealthRule, one: Watched, watch: Watch) -> Iterator[tuple[str, str]]:
    sign = one.sign
    yield "where", sign.place
    yield "since", f"{one.since:%Y-%m-%d %H:%M} UTC{'' if sign.is_now else ', in the log; it may have ended'}"
    for words in sign.words[:_MOST_WORDS]:
        yield "seen", words
    if len(sign.words) > _MOST_WORDS:
        yield "seen", counted(len(sign.words) - _MOST_WORDS, "more line")
    for line in advice(one, watch):
        yield "do", line
    yield "source", rule.source
