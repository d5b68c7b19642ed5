"""The meaning of a watch for people: a sentence, the advice for each sign, and whether a person is needed."""

from __future__ import annotations

from vgpu_cfg.knowledge.health_rules import BY_KEY, Urgency
from vgpu_cfg.model.verification import Watch, Watched
from vgpu_cfg.model.wording import counted, listed


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
