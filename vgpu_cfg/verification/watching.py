"""The judgement of `verify --watch`: from the results of checks to signs, from signs over time to cordons.

A cordon requires more than a report: a state that the driver reports now, in several readings without a gap,
by a rule that the plan file names. A log line, a reset, a restart, or an upgrade never has all of that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta

from vgpu_cfg.knowledge.health_rules import BY_KEY, RULES, rule_of
from vgpu_cfg.model.plan_file import WatchEntry
from vgpu_cfg.model.verification import (
    CheckResult,
    CheckState,
    Evidence,
    Sign,
    Thresholds,
    Verification,
    VmPlace,
    Watch,
    Watched,
    WatchMemory,
)
from vgpu_cfg.parsers.rdma.devices import DISCARDED, STORMS, risen
from vgpu_cfg.verification.table import Choice

CHECKS = (
    *("connected", "host-alarms", "host-driver", "host-gpu-health", "host-licence", "host-kernel-log"),
    *("reached", "kernel-log", "driver", "gpus", "gpu-health", "dcgm", "licence", "nvlink"),
    *("rdma", "port", "pcie", "counters", "metrics"),
)
"""The checks that a watch makes."""


HEALTH_CHECKS = (
    *("connected", "host-driver", "host-gpu-health", "host-kernel-log"),
    *("reached", "kernel-log", "driver", "gpus", "gpu-health", "diagnostics", "nvlink"),
)
"""The checks of GPUs and hosts that a cordon keeps free, before it ends."""


def health_choice(thresholds: Thresholds) -> Choice:
    """Return the checks that `cordon --check` makes."""
    return Choice(HEALTH_CHECKS, is_quick=True, thresholds=thresholds, watches=True)


def watch_choice(parallel: int, thresholds: Thresholds) -> Choice:
    """Return the checks that a watch makes; none of them measures."""
    return Choice(CHECKS, is_quick=True, parallel=parallel, thresholds=thresholds, watches=True)


LEAST_READINGS = 3
"""So many readings in a row must show a state before it may cordon."""
MOST_PAUSED = 0.05
"""The share of the time that a NIC may be paused on a priority."""
_FORGOTTEN = timedelta(days=1)
"""A sign of a machine that could not be asked for so long is dropped: it may no longer be in the plan."""
_READ = (CheckState.PASSED, CheckState.FAILED)


def watched(before: WatchMemory | None, found: Verification, now: datetime) -> tuple[Watch, WatchMemory]:
    """Judge a reading against the one before; return the report and the memory for the next watch."""
    earlier = {one.sign.key: one for one in before.signs} if before is not None else {}
    seen = {sign.key: sign for sign in _signs(found, before, now)}
    signs = [_followed(earlier.get(key), sign, now) for key, sign in seen.items()]
    read = {(one.check, one.subject.name) for one in found.results if one.state in _READ}
    away = [one for key, one in earlier.items() if key not in seen]
    unread = [one for one in away if not _was_read(one.sign, read) and now - one.seen_at < _FORGOTTEN]
    kept = [one.model_copy(update={"held_since": now, "readings": 0}) for one in unread]
    gone = tuple(one for one in away if one.is_told and one not in unread)
    order = {rule.key: place for place, rule in enumerate(RULES)}
    signs = sorted([*signs, *kept], key=lambda one: (order.get(one.sign.rule, 0), one.sign.key))
    due = tuple(one for one in signs if one.is_told or _is_due(one, now))
    counters = {} if before is None else dict(before.counters)
    counters |= {one.subject.name: one.measured for one in found.results if one.check == "counters"}
    memory = WatchMemory(
        at=now,
        signs=tuple(one.model_copy(update={"is_told": one.is_told or one in due}) for one in signs),
        counters=counters,
    )
    watch = Watch(
        plan=found.plan,
        server=found.server,
        at=now,
        due=due,
        pending=tuple(one for one in signs if one not in due),
        gone=gone,
        unread=tuple(name for name in found.unasked if name not in _off(found)),
    )
    return watch, memory


def to_cordon(signs: Iterable[Watched], policy: WatchEntry, now: datetime) -> tuple[Watched, ...]:
    """Return the signs for which the plan file lets a host or GPU be cordoned, the longest lasting first."""
    least = timedelta(minutes=policy.after_minutes)
    found = [
        one
        for one in signs
        if one.sign.rule in policy.cordon
        and BY_KEY[one.sign.rule].may_cordon
        and one.sign.target
        and one.sign.is_now
        and one.readings >= LEAST_READINGS
        and one.held(now) >= least
    ]
    return tuple(sorted(found, key=lambda one: one.held_since))


def _followed(earlier: Watched | None, sign: Sign, now: datetime) -> Watched:
    if earlier is None:
        return Watched(sign=sign, since=now, held_since=now, seen_at=now)
    news = {"sign": sign, "seen_at": now, "readings": earlier.readings + 1}
    if sign.is_now and not earlier.sign.is_now:
        news |= {"held_since": now, "readings": 1}
    return earlier.model_copy(update=news)


def _off(found: Verification) -> set[str]:
    """Return the VMs that are powered off as planned: their guests cannot be asked, and need not."""
    state = CheckState.NOT_ASKED
    return {one.subject.name for one in found.results if one.check == "reached" and one.state is state}


def _was_read(sign: Sign, read: set[tuple[str, str]]) -> bool:
    return all((check, sign.vm or sign.host) in read for check in sign.checks)


def _is_due(one: Watched, now: datetime) -> bool:
    return one.held(now) >= timedelta(minutes=BY_KEY[one.sign.rule].patience_minutes)


def _signs(found: Verification, before: WatchMemory | None, now: datetime) -> Iterator[Sign]:
    places = {place.vm: place for place in found.places}
    made: dict[tuple[str, str, str, str], Sign] = {}
    for result in found.results:
        for one in (*_evidence(result), *_risen(result, before, now)):
            sign = _sign(one, result, places)
            if sign is None:
                continue
            known = made.get(sign.key)
            made[sign.key] = sign if known is None else _joined(known, sign)
    yield from made.values()


def _evidence(result: CheckResult) -> Iterator[Evidence]:
    yield from result.evidence
    if result.state is CheckState.FAILED and not result.evidence:
        yield Evidence(kind=result.code, words=result.observed)


def _sign(one: Evidence, result: CheckResult, places: Mapping[str, VmPlace]) -> Sign | None:
    rule = rule_of(one.kind)
    if rule is None:
        return None
    vm = result.subject.name if result.subject.kind == "vm" else ""
    place = places.get(vm, VmPlace(vm=vm, host="" if vm else result.subject.name))
    host, own = place.host, place.host_gpus
    gpu = own[0] if vm and one.gpu and len(own) == 1 else one.gpu
    is_of_host = bool(gpu) and (not vm or gpu in own)
    target = f"gpu:{host}/{gpu}" if is_of_host else f"host:{host}"
    return Sign(
        rule=rule.key,
        host=host,
        vm=vm,
        gpu=gpu,
        target=target if host else "",
        checks=(result.check,),
        words=(one.words,),
        is_now=not one.is_past,
    )


def _joined(one: Sign, other: Sign) -> Sign:
    return one.model_copy(
        update={
            "checks": tuple(dict.fromkeys((*one.checks, *other.checks))),
            "words": tuple(dict.fromkeys((*one.words, *other.words))),
            "is_now": one.is_now or other.is_now,
        }
    )


def _risen(result: CheckResult, before: WatchMemory | None, now: datetime) -> Iterator[Evidence]:
    """Yield by how much a NIC's counters rose since the last reading; one that was set back is left out."""
    if result.check != "counters" or before is None:
        return
    seconds = (now - before.at).total_seconds()
    for name, more in risen(before.counters.get(result.subject.name, {}), result.measured).items():
        counter = name.rpartition(" ")[2]
        if counter.endswith("_pause_duration"):
            if seconds > 0 and more / 1e6 > MOST_PAUSED * seconds:
                yield Evidence(kind="nic-paused", words=f"{name}: {more / 1e6 / seconds:.0%} of the time")
        elif more:
            kind = (
                "nic-dropped" if counter in DISCARDED else "nic-storm" if counter in STORMS else "nic-damage"
            )
            yield Evidence(kind=kind, words=f"{name} rose by {more}")
