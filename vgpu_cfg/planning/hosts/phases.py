"""The phases in which a host's settings are written, and the restarts between them.

A setting that needs another one in force, which itself needs a reboot, is written after that reboot: the
longest such chain is the number of restarts, and no setting costs one more. Settings that a reboot drops are
written after the last.

The management controller (BMC) that switches a host on, as the plan file names it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from vgpu_cfg.changes.kinds.restart_host import BmcRef
from vgpu_cfg.changes.values import Impact
from vgpu_cfg.model.desired import DesiredHosts
from vgpu_cfg.model.wording import listed
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.findings.collection import Findings
from vgpu_cfg.planning.host_settings.entry import DesiredSetting, HostSetting, HostView, Reading, needs_of
from vgpu_cfg.planning.host_settings.resolved_host import Drift, DriftKind, ResolvedHost

_NEEDS_EMPTY_HOST = (Impact.HOST_MAINTENANCE, Impact.HOST_REBOOT, Impact.HOST_COLD_BOOT)


@dataclass(slots=True)
class Phases:
    """The writes between restarts, in order; restart i comes after phase i.

    `cold` is, for each restart, whether it must be a cold boot. `services` are restarted at the end, for
    settings that no reboot activates anyway.
    """

    drifts: list[list[Drift]] = field(default_factory=lambda: [[]])
    cold: list[bool] = field(default_factory=list)
    services: dict[str, list[Drift]] = field(default_factory=dict)

    @property
    def restarts(self) -> int:
        """How often the host restarts."""
        return len(self.cold)

    @property
    def everything(self) -> list[Drift]:
        """All drifts, in the order in which they are met."""
        return [drift for phase in self.drifts for drift in phase]

    @property
    def needs_empty_host(self) -> bool:
        """Whether the host must be in maintenance mode meanwhile."""
        return any(drift.impact in _NEEDS_EMPTY_HOST for drift in self.everything)

    @property
    def touches_graphics(self) -> bool:
        """Whether a service is restarted that VMs with GPUs do not survive."""
        return bool(self.services)


def make_phases(
    view: HostView, drifts: Sequence[Drift], right: Sequence[tuple[HostSetting, DesiredSetting, Reading]]
) -> Phases:
    """Put drifts into phases; settings that are right and would be dropped by a reboot come last."""
    order = _in_order(drifts)
    level: dict[str, int] = {}
    for drift in order:
        least = 0
        for other in order:
            if other.desired.id not in level or other.desired.id == drift.desired.id:
                continue
            if other.setting.key in needs_of(drift.setting, drift.desired) and _is_related(
                other.desired, drift.desired
            ):
                # What is written already is brought by the same restart as what it needs.
                waits = other.restarts and not drift.is_written
                least = max(least, level[other.desired.id] + waits)
            elif other.setting.key in drift.setting.after and _is_related(other.desired, drift.desired):
                least = max(least, level[other.desired.id])
        level[drift.desired.id] = least
    restarts = max((level[drift.desired.id] + 1 for drift in drifts if drift.restarts), default=0)
    found = Phases(drifts=[[] for _ in range(restarts + 1)], cold=[False] * restarts)
    for drift in order:
        is_dropped = restarts > 0 and drift.setting.is_dropped_by_reboot(view, drift.desired)
        place = restarts if is_dropped else level[drift.desired.id]
        found.drifts[place].append(drift)
        if drift.impact is Impact.HOST_COLD_BOOT:
            found.cold[place] = True
        if drift.impact is Impact.SERVICE_RESTART and place == restarts:
            found.services.setdefault(drift.setting.service, []).append(drift)
    if restarts:
        found.drifts[-1] += [
            Drift(setting, desired, reading, DriftKind.DROPPED, setting.impact(view, desired))
            for setting, desired, reading in right
            if setting.is_dropped_by_reboot(view, desired)
        ]
    return found


def _in_order(drifts: Sequence[Drift]) -> list[Drift]:
    """Sort so that a setting's needs and predecessors come before it; else in the table's order."""
    left = list(drifts)
    found: list[Drift] = []
    while left:
        ready = next((drift for drift in left if not _waits(drift, left)), left[0])
        left.remove(ready)
        found.append(ready)
    return found


def _waits(drift: Drift, others: Sequence[Drift]) -> bool:
    return any(other is not drift and waits_for(drift, other) for other in others)


def waits_for(drift: Drift, other: Drift) -> bool:
    """Whether one setting is written after another one."""
    keys = (*needs_of(drift.setting, drift.desired), *drift.setting.after)
    return other.setting.key in keys and _is_related(other.desired, drift.desired)


def make_calls(drifts: Sequence[Drift]) -> list[tuple[str, list[Drift]]]:
    """Put the drifts of one group (HostSetting.group) into one call each, in an order that their needs allow.

    A group comes in two calls only where something between needs one part of it and precedes the other.
    """
    calls: list[tuple[str, list[Drift]]] = []
    for drift in drifts:
        group = drift.setting.group
        at = next((i for i in reversed(range(len(calls))) if calls[i][0] == group), None)
        if at is None:
            calls.append((group, [drift]))
            continue
        later = [one for _, call in calls[at + 1 :] for one in call]
        if not _waits(drift, later):
            calls[at][1].append(drift)
        elif any(_waits(one, calls[at][1]) for one in later):
            calls.append((group, [drift]))
        else:
            calls.append((group, [*calls.pop(at)[1], drift]))
    return calls


def _is_related(one: DesiredSetting, other: DesiredSetting) -> bool:
    """Whether two settings are of the same device, or one of them of the whole host."""
    first, second = one.device.split(" ")[0], other.device.split(" ")[0]
    return not first or not second or first == second


def bmc_of(entry: DesiredHosts, host_name: str) -> BmcRef | None:
    """Return the BMC of a host, None where the plan file names none for it."""
    bmc = entry.access.bmc
    address = _of(bmc.addresses, host_name)
    if address is None:
        return None
    return BmcRef(
        address=address,
        user=bmc.user,
        password=bmc.password,
        thumbprint=_of(bmc.thumbprints, host_name),
        system=bmc.system or "",
    )


def check_bmc(resolved: ResolvedHost, *, boots_cold: bool, findings: Findings) -> None:
    """Say of a host that boots cold that its entry names BMCs, and none for it."""
    bmc = resolved.entry.access.bmc
    if not boots_cold or not bmc.addresses or bmc_of(resolved.entry, resolved.name) is not None:
        return
    message = (
        f"a cold boot is planned, but `bmc` has no address for this host: {listed(bmc.addresses, shown=4)}"
    )
    remedy = f"set `addresses: {{{resolved.name}: …}}`, or power it on manually"
    findings.add(Code.BMC_UNNAMED, resolved.subject, message, remedy)


def _of(by_host: dict[str, str], host_name: str) -> str | None:
    folded = {name.casefold(): value for name, value in by_host.items()}
    return folded.get(host_name.casefold())
