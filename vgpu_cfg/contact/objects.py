"""Experiments with alarms and events: locks and the history of runs rest on them."""

from __future__ import annotations

from datetime import timedelta
from functools import partial

from vgpu_cfg.contact.bench import Bench, Verdicts, rejection, verdict_on
from vgpu_cfg.model.locks import MOST_SIGNS
from vgpu_cfg.model.verdicts import Verdict
from vgpu_cfg.model.wording import counted
from vgpu_cfg.planning.doctor.trials import ALARM, ALARMS_AT_ONCE, ATTRIBUTE, EVENTS
from vgpu_cfg.planning.doctor.tried import Tried
from vgpu_cfg.vsphere.history.collectors import KINDS
from vgpu_cfg.vsphere.writing.throw_away import SeenEvent

_SLACK = timedelta(seconds=2)
MOST_IN_ATTRIBUTE = 255
"""The characters of a mark on a host. Belief: custom-attribute-holds-255."""
_PAUSE_SECONDS = 1.5
"""Long enough for times that vCenter keeps by the second."""


def _alarm(bench: Bench) -> Verdicts:
    """Make an alarm twice, look at it as locks do, and change its text."""
    things, name = bench.tools.things, bench.mark.name("alarm")
    text = f"Created by a vgpu-cfg trial and safe to remove. {'.' * MOST_SIGNS}"[:MOST_SIGNS]
    before, made = things.now(), list[str]()
    said = rejection(lambda: made.extend(things.make_alarms(name, text)))
    yield verdict_on("disabled-alarm-expression", said or "the alarm was created", is_so=not said)
    if not made:
        return
    (moid,), after = made, things.now()
    bench.tools.clock.pause(_PAUSE_SECONDS)
    again = things.make_alarms(name, text)
    result = "created again" if again else "the second was rejected"
    yield verdict_on("alarm-names-are-unique", result, is_so=not again)
    found = next((one for one in things.alarms(name) if one.moid == moid), None)
    yield verdict_on(
        "alarms-are-visible-at-once", "listed" if found else "not listed", is_so=found is not None
    )
    if found is None:
        return
    length = f"{len(found.text)} of {len(text)} characters"
    yield verdict_on("alarm-description-400", length, is_so=found.text == text)
    times = f"created at {after:%X}, shown {found.at:%X}"
    is_so = before - _SLACK <= found.at <= after + _SLACK
    yield verdict_on("alarm-time-is-its-creation", times, is_so=is_so)
    bench.tools.clock.pause(_PAUSE_SECONDS)
    things.change_alarm(moid, name, text[::-1])
    at = next((one.at for one in things.alarms(name) if one.moid == moid), found.at)
    yield verdict_on("alarm-time-moves", f"{found.at:%X}, then {at:%X}", is_so=at > found.at)


def _alarms_at_once(bench: Bench) -> Verdicts:
    """Request two alarms of one name at the same time."""
    (belief,) = ALARMS_AT_ONCE.beliefs
    made = bench.tools.things.make_alarms(bench.mark.name("alarm-at-once"), "A trial of vgpu-cfg.", 2)
    if len(made) == 1 and not bench.tools.things.can_ask_together:
        yield Tried(belief, Verdict.OPEN, "this connection sends one request at a time")
    else:
        yield verdict_on(belief, f"{counted(len(made), 'alarm')} created", is_so=len(made) == 1)


def _events(bench: Bench) -> Verdicts:
    """Write two events, and find them by each spelling of their type."""
    things = bench.tools.things
    texts = [f"A trial of vgpu-cfg: {bench.mark.name(f'event-{number}')}" for number in (1, 2)]
    since = things.now() - _SLACK
    said = next(filter(None, (rejection(partial(bench.tools.run_log.write, text)) for text in texts)), "")

    def found(*kinds: str) -> list[SeenEvent]:
        return list(things.events(kinds, since))

    is_found = not said and bench.shown(lambda: {*texts} <= {one.text for one in found()})
    seen = said or ("found with their texts" if is_found else "not found")
    yield verdict_on("user-events", seen, is_so=is_found)
    if not is_found:
        return
    by_kind = {kind: found(kind) for kind in KINDS}
    right = [kind for kind, events in by_kind.items() if any(one.text in texts for one in events)]
    spelled = f"found by {' and '.join(right) or 'neither spelling'}"
    yield verdict_on("event-type-spelling", spelled, is_so=bool(right))
    bare = KINDS[-1]
    yield verdict_on("event-filter-takes-bare-names", spelled, is_so=bare in right)
    others = sorted({one.kind for events in by_kind.values() for one in events} - {bare})
    returned = f"also returned: {', '.join(others) or 'nothing'}" if right else spelled
    yield verdict_on("event-filter-by-type-id", returned, is_so=bool(right) and not others)
    order = [one.text for one in found() if one.text in texts]
    is_so = order == texts[::-1]
    yield verdict_on("event-collector-reads-backwards", "newest first" if is_so else f"{order}", is_so=is_so)


def _attribute(bench: Bench) -> Verdicts:
    """Define an attribute, set it to the longest text that marks need, and read it."""
    (belief,), text = ATTRIBUTE.beliefs, "x" * MOST_IN_ATTRIBUTE
    found = bench.tools.things.try_attribute(bench.mark.name("attribute"), text)
    yield verdict_on(belief, f"{len(found)} of {len(text)} characters", is_so=found == text)


COURSES = {
    ALARM.does: _alarm,
    ALARMS_AT_ONCE.does: _alarms_at_once,
    EVENTS.does: _events,
    ATTRIBUTE.does: _attribute,
}
