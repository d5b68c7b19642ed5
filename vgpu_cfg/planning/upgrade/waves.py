"""Waves of an upgrade by maintenance windows: their hosts, plan files, and letters to the VMs' owners.

Clusters are upgraded in parallel, and in each at most `lanes` hosts are down at once. A host begins only if
its expected time is left in the window, as `apply` does it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from statistics import fmean
from typing import Any

from vgpu_cfg.catalog import Catalog
from vgpu_cfg.changes.report import Event, EventKind, OutcomeStatus
from vgpu_cfg.model.observed.inventory import Inventory
from vgpu_cfg.model.plan_file.host_entries import EstimateEntry
from vgpu_cfg.model.ranges import fold_names, runs_of
from vgpu_cfg.model.reservations import Quotas
from vgpu_cfg.model.wording import as_counted, counted, duration
from vgpu_cfg.planning.estate.down_hosts import exit_id
from vgpu_cfg.planning.hosts.sequence import enter_id, reboot_id, remediation_id
from vgpu_cfg.planning.hosts.window import parse_window
from vgpu_cfg.planning.pool.spare import ClusterSpare, spares_after
from vgpu_cfg.planning.upgrade.assess import AffectedHost, AffectedVm, Assessment, Fate

ALWAYS = "daily 00:00-24:00 UTC"
"""The window of an upgrade for which none was named."""
_BEFORE_FIRST = 120
"""So many seconds of a window `apply` may need before the first host: reading, locks, cluster options."""


@dataclass(frozen=True, slots=True)
class Times:
    """How long a host is away, in seconds: by default, or at most in earlier runs.

    `measured` counts the hosts whose times were taken, 0 for defaults, and `average` is their average.
    """

    maintenance: int
    reboot: int
    measured: int = 0
    average: int = 0

    @property
    def seconds(self) -> int:
        """The time that a window must have left for one host with one reboot."""
        return self.maintenance + self.reboot

    @property
    def expected(self) -> int:
        """The time that a host is expected to take."""
        return self.average or self.seconds

    @property
    def estimate(self) -> dict[str, int]:
        """The same as a plan file has it: whole minutes, rounded up."""
        return {"maintenance": -(-self.maintenance // 60), "reboot": -(-self.reboot // 60)}

    @property
    def source(self) -> str:
        """The times in words, with their source."""
        each = (
            f"per host, {duration(self.maintenance)} for maintenance mode and {duration(self.reboot)} to "
            f"reboot"
        )
        if self.measured:
            longest = f"{each}: the longest of {counted(self.measured, 'host')} in earlier runs"
            return f"{longest}; the hours are based on the average, {duration(self.expected)}"
        return f"{each}: defaults, because no earlier runs are recorded"


DEFAULT_TIMES = Times(60 * EstimateEntry().maintenance, 60 * EstimateEntry().reboot)


def times_of(runs: Iterable[Sequence[Event]]) -> Times:
    """Return the longest and average times of hosts that runs rebooted once; the defaults without any."""
    found: list[tuple[float, float]] = []
    for events in runs:
        begun = {one.change_id: one.at for one in events if one.kind is EventKind.STARTED}
        ended = {
            one.change_id: one.at
            for one in events
            if one.kind is EventKind.ENDED and one.status is OutcomeStatus.DONE
        }
        for host in dict.fromkeys(one.subject.name for one in events if one.subject.kind == "host"):
            enter, leave = enter_id(host), exit_id(host)
            reboot = next((one for one in (reboot_id(host), remediation_id(host)) if one in begun), "")
            if enter in begun and reboot in ended and leave in ended:
                booting = (ended[reboot] - begun[reboot]).total_seconds()
                found.append(((ended[leave] - begun[enter]).total_seconds() - booting, booting))
    if not found:
        return DEFAULT_TIMES
    maintenance, reboot = (math.ceil(max(column)) for column in zip(*found, strict=True))
    return Times(maintenance, reboot, len(found), math.ceil(fmean(map(sum, found))))


@dataclass(frozen=True, slots=True)
class Wave:
    """The hosts of one opening of the window, in their order; `ends` is when the last is expected back.

    A wave of canaries has one host of each cluster; the next wave may follow in the same opening.
    `spares` are the states of its clusters after it, if a quota file asks for a spare.
    """

    number: int
    opens: datetime
    closes: datetime
    ends: datetime
    hosts: tuple[AffectedHost, ...]
    is_canary: bool = False
    spares: tuple[ClusterSpare, ...] = ()

    @property
    def hours(self) -> float:
        """How long its work is expected to take."""
        return (self.ends - self.opens).total_seconds() / 3600

    def vms(self, fate: Fate) -> list[AffectedVm]:
        """Return its VMs with a fate."""
        return [vm for host in self.hosts for vm in host.vms if vm.fate is fate]


def make_waves(found: Assessment, window: str, times: Times, now: datetime) -> tuple[Wave, ...]:
    """Spread the hosts that are ready over the openings of a window.

    The first wave is one host of each cluster in which no host has the target yet: forecasts for the others
    can use its times. Raises ValueError for a window that is too short for a host.
    """
    parsed = parse_window(window or ALWAYS)
    longest = 60 * sum(times.estimate.values()) + _BEFORE_FIRST
    if longest > parsed.longest_seconds:
        raise ValueError(f"{window} is too short: one host requires {duration(times.seconds)}")
    left: dict[str, list[AffectedHost]] = {}
    # Hosts whose VMs require an action by their owner go last, so that a late owner delays no other host.
    for host in sorted(found.ready, key=_waits_for_owners):
        left.setdefault(host.cluster, []).append(host)
    unproven = dict.fromkeys(left.keys() - found.proven, 1)
    waves: list[Wave] = []
    opens = now
    while any(left.values()):
        opens = parsed.opens_at(opens)
        closes = parsed.closes_at(opens)
        # `apply` begins a host only if the minutes of the plan file are left, and none at once.
        last = (closes - opens).total_seconds() - longest
        turns = int(last // times.seconds) + 1 if last >= 0 else 0
        if parsed.longest_seconds == float("inf"):
            turns = len(found.ready)
        is_canary = not waves and bool(unproven)
        taken, most = _take(left, unproven, min(turns, 1)) if is_canary else _take(left, found.lanes, turns)
        if taken:
            ends = opens + timedelta(seconds=most * times.expected)
            begins, closing, end = (one.astimezone(parsed.zone) for one in (opens, closes, ends))
            waves.append(Wave(len(waves) + 1, begins, closing, end, tuple(taken), is_canary))
        opens = ends if taken and is_canary else closes
    return tuple(waves)


def _take(
    left: Mapping[str, list[AffectedHost]], lanes: Mapping[str, int], turns: int
) -> tuple[list[AffectedHost], int]:
    """Take the hosts of the clusters in `lanes` that fit into so many turns, and how many turns they need."""
    taken: list[AffectedHost] = []
    most = 0
    for cluster, hosts in left.items():
        lane = lanes.get(cluster, 0)
        now = hosts[: lane * turns]
        del hosts[: len(now)]
        taken += now
        most = max(most, -(-len(now) // lane)) if now else most
    return taken, most


def with_spares(
    waves: Sequence[Wave], quotas: Sequence[Quotas], observed: Inventory, catalog: Catalog
) -> tuple[Wave, ...]:
    """Return the waves with the spare of each of their clusters after them."""
    groups = [[host.moid for host in wave.hosts] for wave in waves]
    found = list(spares_after(quotas, observed, catalog, groups))
    there = [{host.cluster.rpartition("/")[2] for host in wave.hosts} for wave in waves]
    return tuple(
        replace(wave, spares=tuple(states[at] for states in found if states[at].cluster in there[at]))
        for at, wave in enumerate(waves)
    )


def _waits_for_owners(host: AffectedHost) -> tuple[bool, bool]:
    fates = {vm.fate for vm in host.vms}
    return Fate.STAYS in fates, Fate.OFF in fates


@dataclass(frozen=True, slots=True)
class Played:
    """A wave that was rehearsed: its time, the number of hosts that were upgraded, and the exit code.

    `measured` counts the hosts whose times its forecast used, 0 for defaults.
    """

    wave: Wave
    measured: int
    seconds: float
    done: int
    exit_code: int

    @property
    def deviation(self) -> float:
        """How much longer it took than expected, as a share."""
        return self.seconds / (3600 * self.wave.hours) - 1


UNKNOWN_OWNER = "unknown owner"

_ASKS = {
    Fate.MOVES: "Moved by vMotion, no action required",
    Fate.OFF: "Power off before this time, power on afterward",
    Fate.STAYS: "Move or power off before this time: vgpu-cfg cannot move these VMs",
}


def letters(found: Assessment, waves: Sequence[Wave]) -> Mapping[str, str]:
    """Return a text for each owner, by name; an owner is an attribute's value, or a plan."""
    owners = sorted({vm.owner for wave in waves for host in wave.hosts for vm in host.vms})
    return {owner or UNKNOWN_OWNER: _letter(owner, found, waves) for owner in owners}


def _letter(owner: str, found: Assessment, waves: Sequence[Wave]) -> str:
    lines = [f"Subject: {found.target.words} on the hosts of your VMs", ""]
    for wave in waves:
        own = [vm for host in wave.hosts for vm in host.vms if vm.owner == owner]
        if not own:
            continue
        lines.append(f"{wave.opens:%a %Y-%m-%d %H:%M %Z}, until about {wave.ends:%H:%M}:")
        for fate, asks in _ASKS.items():
            by_reason: dict[str, list[str]] = {}
            for vm in own:
                if vm.fate is fate:
                    by_reason.setdefault(vm.why, []).append(vm.name)
            for why, names in by_reason.items():
                lines.append(
                    f"  {asks}{f' ({why})' if why else ''}: {fold_names(sorted(names, key=as_counted))}"
                )
        stun = max((vm.stun_ms or 0 for vm in own), default=0)
        if stun:
            lines.append(f"  vMotion pauses a VM for up to {stun / 1000:.0f} seconds.")
    lines += [f"\n{first.text}." for first in found.firsts if first.is_for_owners]
    return "\n".join(lines) + "\n"


@dataclass(frozen=True, slots=True)
class Installation:
    """The choices of the user for the plan files; without `depots`, installing is a manual step."""

    vcenter: str
    window: str
    times: Times
    depots: tuple[str, ...] = ()


def plan_files(found: Assessment, waves: Sequence[Wave], how: Installation) -> Mapping[str, dict[str, Any]]:
    """Return the content of each plan file, by its name."""
    datacenters = sorted({host.datacenter for host in found.ready})
    width = max(2, len(str(len(waves))))
    files = {}
    for wave in waves:
        for datacenter in datacenters:
            hosts = [host for host in wave.hosts if host.datacenter == datacenter]
            stem = f"wave-{wave.number:0{width}}"
            name = f"{stem}-{datacenter}" if len(datacenters) > 1 else stem
            if hosts:
                several = {"server": how.vcenter, "datacenter": datacenter}
                version = found.target.driver or "-".join(found.target.fixed) or found.target.esxi
                files[f"{name}.yaml"] = {
                    "version": 1,
                    "name": f"upgrade-{version}-{name}",
                    "vcenter": several if len(datacenters) > 1 else how.vcenter,
                    "hosts": _entries(hosts, found, how),
                }
    return files


def _entries(hosts: Sequence[AffectedHost], found: Assessment, how: Installation) -> list[dict[str, Any]]:
    """Return an entry for the hosts of each cluster and driver: entries are upgraded in parallel."""
    groups: dict[tuple[str, str, str, bool], list[AffectedHost]] = {}
    for host in hosts:
        groups.setdefault((host.cluster, host.kind, host.target, host.by_image), []).append(host)
    entries = []
    for (cluster, kind, version, by_image), group in groups.items():
        driver: dict[str, Any] = {
            "kind": kind,
            "version": version if version.count(".") > 1 else f"{version}.*",
        }
        driver["by"] = "image" if by_image else "esxcli" if how.depots else "hand"
        if driver["by"] == "esxcli":
            driver["depot"] = list(how.depots)
        disruption: dict[str, Any] = {"max_hosts_down": found.lanes[cluster]}
        disruption["allow"] = ["maintenance", "reboot"]
        if how.window:
            disruption["window"] = how.window
        disruption["estimate"] = how.times.estimate
        entry: dict[str, Any] = {"cluster": cluster} if cluster else {}
        entry["names"] = [written for written, _ in runs_of(host.name for host in group)]
        if version:
            entry["driver"] = driver
        if found.target.esxi and by_image:
            entry["esxi"] = {"build": int(found.target.esxi), "by": "image"}
        if any(vm.fate is Fate.MOVES and vm.has_gpu for host in group for vm in host.vms):
            entry["cluster_options"] = {"evacuate_vgpu": True, "hot_migrate": True}
        entry["disruption"] = disruption
        entries.append(entry)
    return entries
