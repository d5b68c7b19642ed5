"""The rows of an assumed absence: one for each VM with devices, and notes for all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, assert_never

from vgpu_cfg.model.ranges import fold_names
from vgpu_cfg.model.wording import counted, duration
from vgpu_cfg.planning.upkeep.absence import Absence, Absent, Death, Going, How, Loss
from vgpu_cfg.planning.upkeep.away import AwayCluster, AwayGpu, AwayHost, AwayNic, LostUplink
from vgpu_cfg.render.layout.lines import size, without_domain
from vgpu_cfg.render.layout.profiles import ladder
from vgpu_cfg.render.views.estate.topology import short

Tone: TypeAlias = Literal["", "warn", "bad"]

_MANY = {
    How.VMOTION: ("by vMotion", "by vMotion"),
    How.COLD: ("moved while powered off", "moved while powered off"),
    How.RESTART: ("restarted on the same host", "restarted on the same host"),
    How.OFF: ("off", "off"),
    How.STAYS: ("stays", "stay"),
}
_TONES: dict[How, Tone] = {
    How.VMOTION: "",
    How.COLD: "warn",
    How.RESTART: "warn",
    How.OFF: "bad",
    How.STAYS: "bad",
}


@dataclass(frozen=True, slots=True)
class AbsenceRow:
    """A VM with devices; `host` is empty where all are of one. Tones mark problems of its ways."""

    vm: str
    host: str
    holds: str
    way: str
    way_tone: Tone
    stun: str
    after: str
    after_tone: Tone


@dataclass(frozen=True, slots=True)
class AbsenceView:
    """All of it in words: `lines` hold for several VMs, each with its label; `next_step` is what to type."""

    title: str
    rows: tuple[AbsenceRow, ...]
    lines: tuple[tuple[str, str], ...]
    next_step: str


def view_absence(found: Absence) -> AbsenceView:
    """Put it into words."""
    is_part = found.cluster and not isinstance(found.away, AwayCluster)
    hosts = without_domain(host.name for host in found.away.hosts)
    is_one = len(found.away.hosts) == 1
    return AbsenceView(
        f"without {found.away.title}" + (f" in {found.cluster}" if is_part else ""),
        tuple(_row(one, "" if is_one else hosts[one.host]) for one in found.with_devices),
        tuple(_lines(found)),
        _next(found),
    )


def _row(one: Absent, host: str) -> AbsenceRow:
    stun = "unknown" if one.stun is None else duration(one.stun)
    return AbsenceRow(
        one.vm,
        host,
        _held(one),
        way_words(one.drained),
        _TONES[one.drained.how],
        stun if one.drained.how is How.VMOTION else "",
        after_words(one.died),
        "" if one.died.to and one.died.dies is not False else "bad",
    )


def _lines(found: Absence) -> Iterator[tuple[str, str]]:
    for why, names in _reasons(found).items():
        yield "WHY", f"{fold_names(names)}: {why}"
    if found.others:
        yield "OTHERS", _others(found.others)
    yield "TOTAL", _total(found)
    yield "LOST", _lost(found)
    yield from (("NVLINK", words) for words in _nvlink(found.loss))
    yield from (("UPLINK", _uplink(uplink)) for uplink in found.uplinks)
    yield "HA", _restarts(found)
    yield from (("NOTE", note) for note in found.notes)


def _held(one: Absent) -> str:
    """List a VM's devices of its host: vGPUs and whole GPUs, then functions of NICs."""
    parts = [ladder(Counter(one.holds))] if one.holds else []
    parts += [counted(one.functions, "virtual function")] if one.functions else []
    parts += [f"{one.whole_nics}×whole NIC"] if one.whole_nics else []
    return ", ".join(parts)


def way_words(going: Going) -> str:
    """Say how a VM leaves, and where to."""
    match going.how:
        case How.VMOTION:
            return f"vMotion to {going.to}"
        case How.COLD:
            return f"moved to {going.to} while powered off"
        case How.RESTART:
            return f"restarted on {going.to}"
        case How.OFF | How.STAYS:
            return going.how.value
    assert_never(going.how)


def after_words(died: Death) -> str:
    """Say what becomes of a VM after a death."""
    if died.dies is False:
        return f"keeps running without {', '.join(died.loses)}"
    return f"restarts on {died.to}" if died.to else "cannot restart"


def _reasons(found: Absence) -> dict[str, list[str]]:
    """Return the VMs that are blocked, by their obstacle."""
    reasons: dict[str, list[str]] = {}
    for one in found.vms:
        if why := one.drained.why or one.died.why:
            reasons.setdefault(why, []).append(one.vm)
    return reasons


def _others(others: Sequence[Absent]) -> str:
    ways = Counter("move by vMotion" if one.drained.how is How.VMOTION else "do not move" for one in others)
    nowhere = [one.vm for one in others if not one.died.to]
    said = ", ".join(f"{count} {way}" for way, count in sorted(ways.items(), reverse=True))
    words = f"{counted(len(others), 'VM')} without GPUs: {said}"
    return f"{words}; after a failure, {fold_names(nowhere)} cannot restart" if nowhere else words


def _total(found: Absence) -> str:
    """Say how many VMs go how, for how long at most, and what starts again after a death."""
    sums = found.totals
    if not sums.vms:
        return "no VMs are affected" if found.away.host_stays else "no VMs are running on it"
    ways = [f"{count} {_MANY[how][count > 1]}" for how, count in sums.ways.items() if count]
    if sums.longest_stun_ms is not None:
        ways[0] += f" (paused for up to {duration(sums.longest_stun_ms / 1000)})"
    nowhere = sums.vms - sums.starts
    after = [f"{sums.starts} can restart"] if sums.starts else []
    after += [f"{nowhere} cannot" if sums.starts else "none can restart"] if nowhere else []
    return f"{counted(sums.vms, 'VM')}, maintenance: {', '.join(ways)}; after a failure: {', '.join(after)}"


def _lost(found: Absence) -> str:
    loss = found.loss
    gpus = ", ".join(f"{count} × {name}" for name, count in loss.gpus.items()) or "no GPU"
    memory = f" ({size(loss.memory_mib)}, {size(loss.free_mib)} currently free)" if loss.memory_mib else ""
    dying = found.totals.dies
    dies = f"; if the host fails, also the memory contents of {counted(dying, 'VM')}" if dying else ""
    return f"{gpus}{memory}{dies}"


def _nvlink(loss: Loss) -> Iterator[str]:
    """List the GPUs that NVLink joins with the lost ones, and how many sets of peers that leaves."""
    for host, domain in loss.links:
        names = ", ".join(short(pci_id) for pci_id in sorted(domain.gpus))
        yield f"{domain.kind} of {names} on {host}{'' if domain.is_certain else ' (a guess)'}"
    sets = [f"{one.left} of {one.now} with {one.size} GPUs" for one in loss.peer_sets if one.left < one.now]
    if sets:
        yield f"remaining peer sets: {', '.join(sets)}"


def _uplink(uplink: LostUplink) -> str:
    """List the hosts that a lost switch leaves without a NIC, and the VMs that are cut off."""
    if not uplink.is_last:
        return f"{uplink.switch} keeps {', '.join(uplink.up)}"
    why = f"no link on {', '.join(uplink.others)}" if uplink.others else "it has no other NIC"
    users = [*uplink.names, *uplink.vmknics] if uplink.is_told else []
    cut = f"; disconnects {', '.join(users)}" if users else ""
    vms = f", which cuts off {fold_names(vm.name for vm in uplink.cut_off)}" if uplink.cut_off else ""
    return f"{uplink.switch} loses its last uplink ({why}){cut}{vms}"


def _restarts(found: Absence) -> str:
    match found.away:
        case AwayGpu():
            return "restarts VMs of failed hosts; for GPU failures, see NOTE"
        case AwayNic():
            return "restarts VMs of failed hosts; not verified for NIC failures"
        case AwayCluster():
            return "restarts VMs only on hosts in the same cluster, but none remain"
        case AwayHost():
            pass
        case _:
            assert_never(found.away)
    if found.has_ha:
        by_hand = [one.vm for one in found.vms if one.died.to and not one.died.by_ha]
        but = f"; restart {fold_names(by_hand)} manually" if by_hand else ""
        room = "restarts VMs if the remaining hosts have capacity"
        return f"enabled in {found.cluster}: {room}{but}"
    return "disabled: after confirming that the host is down, restart the VMs manually"


def _next(found: Absence) -> str:
    match found.away:
        case AwayHost():
            return f"vgpu-cfg drain {found.away.word} --others --dry-run"
        case AwayCluster():
            return f"one host at a time: vgpu-cfg fit --without host:{found.away.hosts[0].name}"
        case AwayGpu():
            return f"vgpu-cfg cordon {found.away.word} --reason WHY"
        case AwayNic():
            return f"vgpu-cfg fit --without host:{found.away.host.name}"
    assert_never(found.away)
