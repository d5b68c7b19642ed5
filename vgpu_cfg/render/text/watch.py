"""A watch as text: a block for each sign, ready to paste into a ticket."""

from __future__ import annotations

from collections.abc import Iterator

from rich.text import Text

from vgpu_cfg.knowledge.health_rules import BY_KEY, HealthRule, Urgency
from vgpu_cfg.model.verification import Watch, Watched
from vgpu_cfg.model.wording import counted, listed, shown
from vgpu_cfg.render.layout.lines import both_ends, fold
from vgpu_cfg.render.views.watch import advice, sentence

_STYLES = {Urgency.NOW: "bold red", Urgency.SOON: "yellow", Urgency.NOTE: "dim"}
_MOST_WORDS = 3


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
    yield Text.assemble((rule.title.upper(), _STYLES[rule.urgency]), f"  {rule.key}{new}")
    for label, words in _rows(rule, one, watch):
        yield from fold(Text(f"  {label:<7}{shown(words)}"), width, hang=9)
    if (done := watch.cordoned.get(sign.target)) is not None:
        yield from fold(Text(f"  {'done':<7}{sign.target}: {done}", "bold"), width, hang=9)


def _rows(rule: HealthRule, one: Watched, watch: Watch) -> Iterator[tuple[str, str]]:
    sign = one.sign
    yield "where", sign.place
    yield "since", f"{one.since:%Y-%m-%d %H:%M} UTC{'' if sign.is_now else ', in the log; it may be over'}"
    for words in sign.words[:_MOST_WORDS]:
        yield "seen", words
    if len(sign.words) > _MOST_WORDS:
        yield "seen", counted(len(sign.words) - _MOST_WORDS, "more line")
    for line in advice(one, watch):
        yield "do", line
    yield "source", rule.source
