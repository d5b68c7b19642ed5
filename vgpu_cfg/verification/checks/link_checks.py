"""Link checks of a guest's NICs: the speed of port and PCIe, and the counters during a pair's measurement.

Port and PCIe must run at the board's rated speed. A port that came up slower reports its own speed as the
line rate, so that measurements against it look well. The expected rate comes from elsewhere: the plan file,
else the catalog of NICs, and the port's reported maximum.

Counters show loss, pauses and notifications, and the priority in use. A network that is lossless for RDMA
pauses and marks; it never loses or reorders a packet of its priority.

Belief: guest-sees-nic-pcie-link.
"""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from vgpu_cfg.knowledge.verify_failures import VerifyCode
from vgpu_cfg.model.verification import CheckState
from vgpu_cfg.parsers.rdma.devices import (
    DISCARDED,
    GLOBAL_PAUSE,
    LINK_ERRORS,
    LOST,
    NOTIFIED,
    RECEIVER_LATE,
    STALLED,
    STORM_ERRORS,
    STORMS,
    PcieLink,
    PortSpeed,
    dropped,
    parse_hw_counters,
    parse_pcie_link,
    parse_port_speed,
    parse_statistics,
    pause_duration,
    paused,
    risen,
    sent_by_priority,
)
from vgpu_cfg.parsers.text import UnreadableOutput
from vgpu_cfg.ports import ShellResult
from vgpu_cfg.verification.asking import (
    Asking,
    Command,
    Step,
    failed,
    is_absent,
    missing,
    passed,
    skipped,
    unproven,
)
from vgpu_cfg.verification.learned import RdmaNic
from vgpu_cfg.verification.views import GuestView, PairView

_FILES = ("current_link_speed", "current_link_width", "max_link_speed", "max_link_width")

Rail: TypeAlias = tuple[RdmaNic, RdmaNic]
Counters: TypeAlias = dict[tuple[str, str, str], dict[str, int]]
"""By end of the pair, interface and source ("ethtool", "sysfs"): the value of each counter."""

SOURCE, TARGET = "source", "target"
_MUCH_PAUSED, _MANY_PAUSES = 0.05, 10_000
"""Below this share of the time, or this number if a NIC reports no time, pauses do not explain a slow pair.
"""

_ENOUGH_BYTES = 100_000_000
"""Below this the share of a priority says nothing."""


def pcie_files(interface: str) -> tuple[str, ...]:
    """Return the words that print a NIC's PCIe link."""
    return ("grep", "-s", ".", *(f"/sys/class/net/{interface}/device/{name}" for name in _FILES))


def ask_port(view: GuestView) -> Asking:
    """See whether each RDMA NIC's port runs at the line rate of its board."""
    if not view.learned.rdma:
        return skipped("the VM has no RDMA NIC")
    slow: list[str] = []
    unknown: list[str] = []
    right: list[str] = []
    rates: list[float] = []
    found: list[RdmaNic] = []
    for nic in view.learned.rdma:
        answer = yield Command(("ethtool", nic.interface))
        if is_absent(answer):
            return missing("ethtool", "ethtool")
        try:
            port = parse_port_speed(answer.stdout or answer.stderr)
        except UnreadableOutput:
            port = PortSpeed()
        now = port.gbps or nic.port_rate_gbps
        nominal, why = _nominal(view, nic, port)
        found.append(nic.model_copy(update={"line_rate_gbps": nominal or now}))
        if now is None:
            unknown.append(f"{nic.interface} does not report its speed")
        elif nominal is None:
            unknown.append(f"{nic.interface} runs at {now:g} Gb/s, but {why}")
        elif now < nominal:
            slow.append(f"{nic.interface} runs at {now:g} Gb/s")
            rates.append(nominal)
        else:
            right.append(f"{nic.interface} {now:g} Gb/s")
            rates.append(nominal)
    learned = view.learned.model_copy(update={"rdma": tuple(found)})
    if slow:
        verdict = failed(VerifyCode.PORT_SLOW, "; ".join(slow), f"{min(rates):g} Gb/s")
    elif unknown:
        verdict = unproven(f"{'; '.join(unknown)}: set the expected rate with `verify: {{line_gbps: N}}`")
    else:
        verdict = passed("; ".join(right), measured={"port_gbps": min(rates)})
    return replace(verdict, learned=learned)


def _nominal(view: GuestView, nic: RdmaNic, port: PortSpeed) -> tuple[float | None, str]:
    """Return the required rate of a port; None, and why, if that is not known."""
    stated = view.thresholds.line_gbps
    if stated is not None:
        return stated, ""
    listed = nic.model_rate_gbps
    if listed is None:
        if port.most_gbps is not None:
            return port.most_gbps, ""
        return None, "neither the port nor the catalog lists its maximum speed"
    if port.most_gbps is not None and port.most_gbps < listed:
        return None, (
            f"its port supports {port.most_gbps:g} Gb/s, while most boards of this model support {listed:g}"
        )
    return listed, ""


def ask_pcie(view: GuestView) -> Asking:
    """Check that the PCIe link of each RDMA NIC has all its lanes and enough bandwidth for the port."""
    if not view.learned.rdma:
        return skipped("the VM has no RDMA NIC")
    bad: list[str] = []
    words: list[str] = []
    for nic in view.learned.rdma:
        answer = yield Command(pcie_files(nic.interface))
        link = parse_pcie_link(answer.stdout)
        fault = _link_fault(view, nic, link)
        (bad if fault else words).append(f"{nic.interface} {link.words}{fault}")
    if bad:
        rates = [nic.line_rate_gbps for nic in view.learned.rdma if nic.line_rate_gbps]
        needed = f"all lanes and {max(rates):g} Gb/s" if rates else "all lanes"
        return failed(VerifyCode.PCIE_NARROW, "; ".join(bad), needed)
    if all("not reported" in one for one in words):
        return skipped("the guest's kernel does not report the link; see the measured bandwidth")
    return passed("; ".join(words))


def _link_fault(view: GuestView, nic: RdmaNic, link: PcieLink) -> str:
    if link.gbps is None:
        return ""
    needed = nic.line_rate_gbps
    if needed is not None and link.gbps < needed:
        return f" ({link.gbps:.0f} Gb/s)"
    # A board in a slot of fewer lanes is somebody's choice only where the plan file says what it shall carry.
    is_narrow = link.width is not None and link.most_width is not None and link.width < link.most_width
    return ", fewer lanes than supported" if is_narrow and view.thresholds.line_gbps is None else ""


def ask_counters(view: GuestView) -> Asking:
    """Collect the counters of each RDMA NIC that rise when its link or the network fails."""
    if not view.learned.rdma:
        return skipped("the VM has no RDMA NIC")
    counts: dict[str, float] = {}
    for nic in view.learned.rdma:
        answer = yield Command(("ethtool", "-S", nic.interface))
        for name, value in parse_statistics(answer.stdout).items():
            if name in WATCHED:
                counts[f"{nic.interface} {name}"] = value
    return passed("read", measured=counts)


def read_counters(view: PairView, rails: Sequence[Rail]) -> Generator[Step, ShellResult, Counters]:
    """Read the counters of the NICs of both ends; missing ones are left out."""
    found: Counters = {}
    for own, other in rails:
        for end, vm, nic in ((SOURCE, view.source.name, own), (TARGET, view.target.name, other)):
            answer = yield Command(("ethtool", "-S", nic.interface), on=vm)
            with contextlib.suppress(UnreadableOutput):
                if answer.status == 0:
                    found[end, nic.interface, "ethtool"] = parse_statistics(answer.stdout)
            folder = f"/sys/class/infiniband/{nic.device}/ports/{nic.port}/hw_counters"
            answer = yield Command(("sh", "-c", f"grep -s . {folder}/*"), on=vm)
            with contextlib.suppress(UnreadableOutput):
                if answer.status == 0:
                    found[end, nic.device, "sysfs"] = parse_hw_counters(answer.stdout)
    return found


def counted(before: Counters, after: Counters) -> dict[str, float]:
    """Return by how much each counter of interest rose, by `END_COUNTER`, over all rails.

    A storm before the measurement counts as well.
    """
    found: dict[str, float] = {}
    for key, counts in before.items():
        for name, number in risen(counts | {STORM_ERRORS: 0}, after.get(key, {})).items():
            if name in _WATCHED:
                found[f"{key[0]}_{name}"] = found.get(f"{key[0]}_{name}", 0) + number
    return found


_PRIORITIES = range(8)
WATCHED = frozenset([*LINK_ERRORS, *STORMS, *DISCARDED, *(pause_duration(number) for number in _PRIORITIES)])
"""The counters of a NIC that `verify --watch` compares with its last reading."""
_WATCHED = frozenset(
    [*LOST, *LINK_ERRORS, *RECEIVER_LATE, *NOTIFIED, *GLOBAL_PAUSE, *STORMS, *STALLED]
    + [
        name
        for priority in _PRIORITIES
        for name in (*paused(priority), pause_duration(priority), *dropped(priority))
    ]
    + [f"{side}_prio{priority}_bytes" for side in ("tx", "rx") for priority in _PRIORITIES]
)


def lost_words(view: PairView, counts: Mapping[str, float]) -> str:
    """Say which counters of loss rose and where, "" where none did."""
    return _risen_words(view, counts, (*LOST, *dropped(_priority(view))))


def damaged_words(view: PairView, counts: Mapping[str, float]) -> str:
    """Say which counters of damaged packets rose and where, "" where none did."""
    return _risen_words(view, counts, LINK_ERRORS)


STORM = (
    "this NIC stopped accepting data for so long that it paused the network, and packets may have been lost",
    "check its PCIe link, ATS, and the process that uses it; enable the PFC watchdog on the switches",
)
"""The meaning and remedy of a pause storm."""


def storm_words(view: PairView, counts: Mapping[str, float]) -> str:
    """Say which counters of pause storms rose and where, "" where none did."""
    return _risen_words(view, counts, STORMS)


def stalled_words(view: PairView, counts: Mapping[str, float]) -> str:
    """Say on which NIC PCIe was too slow, "" for none."""
    return _risen_words(view, counts, STALLED)


def paused_words(view: PairView, counts: Mapping[str, float]) -> str:
    """Describe how often the sender's port was paused, and for how long; "" if that was little."""
    priority = _priority(view)
    times = counts.get(f"{SOURCE}_{paused(priority)[0]}", 0)
    seconds = counts.get(f"{SOURCE}_{pause_duration(priority)}", 0) / 1e6
    if seconds < _MUCH_PAUSED * view.thresholds.seconds and (seconds or times < _MANY_PAUSES):
        return ""
    lasted = f", for {seconds:.1f} s" if seconds else ""
    return f"priority {priority} of {view.source.name} was paused {times:.0f} times{lasted}"


def _priority(view: PairView) -> int:
    return view.source.roce.priority if view.source.roce is not None else 0


def _risen_words(view: PairView, counts: Mapping[str, float], names: Sequence[str]) -> str:
    ends = ((SOURCE, view.source.name), (TARGET, view.target.name))
    return ", ".join(
        f"{name} {counts[key]:.0f} on {vm}"
        for end, vm in ends
        for name in names
        if counts.get(key := f"{end}_{name}", 0) > 0
    )


def ask_congestion(view: PairView) -> Asking:
    """Judge the counters of the host memory measurement."""
    yield from ()
    measured = view.earlier.get(("bandwidth", view.name))
    if measured is not None and measured.state is CheckState.SKIPPED:
        return skipped("no RDMA bandwidth was measured between them")
    numbers = measured.measured if measured is not None else {}
    counts = {name: value for name, value in numbers.items() if name.startswith((f"{SOURCE}_", f"{TARGET}_"))}
    if not counts and not any(
        end.roce is not None and end.roce.owns_port for end in (view.source, view.target)
    ):
        return skipped("these guests have no physical port; the hosts' NICs count packet loss", is_asked=True)
    if measured is None or not counts:
        return unproven("their NICs have no counters, so packet loss is unknown")
    damaged = damaged_words(view, counts)
    if damaged:
        return failed(VerifyCode.LINK_ERRORS, damaged, "no corrupted packets", measured=counts)
    lost = lost_words(view, counts)
    if lost:
        return failed(VerifyCode.RDMA_LOSS, lost, "no lost or reordered packets", measured=counts)
    if storm := storm_words(view, counts):
        meaning, remedy = STORM
        return failed(
            VerifyCode.RDMA_LOSS, storm, "no pause storms", meaning=meaning, remedy=remedy, measured=counts
        )
    roce = view.source.roce
    if roce is not None and roce.owns_port:
        elsewhere = _elsewhere(view, counts, roce.priority)
        if elsewhere:
            return failed(
                VerifyCode.WRONG_PRIORITY,
                elsewhere,
                f"all traffic on priority {roce.priority}",
                measured=counts,
            )
    return passed(
        _words(counts, roce.priority if roce is not None else 0),
        "no lost or reordered packets",
        measured=counts,
    )


def _elsewhere(view: PairView, counts: Mapping[str, float], priority: int) -> str:
    """Say where the traffic did not run on the priority that PFC protects, or where the whole link paused."""
    for end, vm, side in ((SOURCE, view.source.name, "tx"), (TARGET, view.target.name, "rx")):
        own = {
            name.removeprefix(f"{end}_"): int(value)
            for name, value in counts.items()
            if name.startswith(f"{end}_")
        }
        for name in GLOBAL_PAUSE:
            if own.get(name):
                return f"{name} {own[name]} on {vm}: the whole link was paused"
        by_priority = sent_by_priority(own, side)
        total = sum(by_priority.values())
        if total >= _ENOUGH_BYTES and by_priority.get(priority, 0) * 2 < total:
            most = max(by_priority, key=lambda number: by_priority[number])
            verb = "sent" if side == "tx" else "received"
            return f"{vm} {verb} {by_priority[most] / total:.0%} on priority {most}"
    return ""


def _words(counts: Mapping[str, float], priority: int) -> str:
    """Describe the number of pauses and marks, as far as known."""
    received, sent = (
        [counts[key] for end in (SOURCE, TARGET) if (key := f"{end}_{name}") in counts]
        for name in paused(priority)
    )
    marked, notified = (
        [counts[key] for end in (SOURCE, TARGET) if (key := f"{end}_{name}") in counts]
        for name in ("np_ecn_marked_roce_packets", "np_cnp_sent")
    )
    words = ["no packet loss"]
    if received or sent:
        words.append(f"priority {priority}: paused {sum(received):.0f} times, sent {sum(sent):.0f} pauses")
    if marked or notified:
        words.append(f"{sum(marked):.0f} packets with ECN marks, {sum(notified):.0f} CNPs sent")
    return "; ".join(words)
