"""The changes of one host in their order: empty it, write, restart, write again, let it go.

A setting that needs another one in force, which itself needs a reboot, is written after that reboot: the
longest such chain is the number of restarts, and no setting costs one more. Settings that a reboot drops are
written after the last.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from vgpu_cfg.changes.change import (
    Change,
    ChangeHost,
    ColdBootHost,
    EnterMaintenance,
    ExitMaintenance,
    ManualStep,
    PowerOffVm,
    PowerOnVm,
    RebootHost,
    RemediateHost,
    RestartService,
    ShutDownHost,
)
from vgpu_cfg.changes.kinds.change_host import HostWrite
from vgpu_cfg.changes.kinds.restart_host import BmcRef
from vgpu_cfg.changes.values import Edit, Impact, SettingTarget, Subject, VmRef
from vgpu_cfg.model.desired import DesiredHosts
from vgpu_cfg.model.observed.host_facts import ClusterImage
from vgpu_cfg.model.observed.inventory import Inventory
from vgpu_cfg.model.observed.vm import Vm
from vgpu_cfg.model.wording import listed
from vgpu_cfg.planning.estate.down_hosts import exit_id
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.findings.collection import Findings
from vgpu_cfg.planning.host_settings.entry import (
    DesiredSetting,
    HostSetting,
    HostView,
    Reading,
    needs_of,
    target,
)
from vgpu_cfg.planning.host_settings.esxi import components_for
from vgpu_cfg.planning.host_settings.resolved_host import DISTURBS, Drift, DriftKind, ResolvedHost
from vgpu_cfg.planning.hosts.evacuate import Evacuation
from vgpu_cfg.planning.vms.new_vms import change_id

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


_EVACUATION_SECONDS = 1800
"""The time for the VMs of a host to leave. The time for all data of vSAN is unknown beforehand."""


def enter_id(host: str) -> str:
    """Return the id of the change by which a host goes down."""
    return f"enter maintenance {host}"


def reboot_id(host: str) -> str:
    """Return the id of the change by which a host restarts, or how it begins for one of several restarts."""
    return f"reboot {host}"


def remediation_id(host: str) -> str:
    """Return the id of the change by which an image restarts a host, or how it begins for one of several."""
    return f"remediate {host}"


def cold_boot_id(host: str) -> str:
    """Return how the ids of the steps begin by which a host is switched off and on."""
    return f"cold boot {host}"


def by_hand_id(host: str, setting: str) -> str:
    """Return the id of the manual step for a setting."""
    return f"by hand {host}: {setting}"


def was_acknowledged(step: str, observed: Inventory) -> bool:
    """Whether an earlier run kept on a host that a step is done, or the host has booted and needs none."""
    for moid, facts in observed.facts.hosts.items():
        host = observed.host_by_moid[moid].name
        known = {cold_boot_id(host), *(by_hand_id(host, setting) for setting in facts.done)}
        if step in known or (host in step and step in facts.done):
            return True
    return False


def host_seconds(resolved: ResolvedHost, phases: Phases) -> int:
    """Return how long a host is thought to be away for its changes."""
    estimate = resolved.entry.disruption.estimate
    return 60 * (estimate.maintenance + phases.restarts * estimate.reboot)


IN_BIOS = "; during startup, in its BIOS"
"""The words of a manual step that does more than to switch a host on."""


def is_by_hand(resolved: ResolvedHost, drift: Drift) -> bool:
    """Whether no way to write a setting is open to the tool on this host."""
    if drift.is_written or drift.setting.by_image(drift.desired):
        return False
    writes = drift.setting.write(resolved.view, [drift.desired])
    if not writes:
        return True
    return any(write.needs_shell for write in writes) and not has_shell(resolved)


def has_shell(resolved: ResolvedHost) -> bool:
    """Whether the plan file opens the host's shell to the tool."""
    return resolved.entry.access.ssh != "off"


@dataclass(slots=True)
class HostSequence:
    """Builds the chain of one host's changes: each needs the one before it."""

    resolved: ResolvedHost
    phases: Phases
    evacuation: Evacuation
    max_down: int = 1
    first_needs: tuple[str, ...] = ()
    manual_first: Sequence[Drift] = ()
    is_held: bool = False
    changes: list[Change] = field(default_factory=list)
    _last: tuple[str, ...] = ()

    def build(self) -> list[Change]:
        """Return the changes, in order."""
        self._last = self.first_needs
        for drift in self.manual_first:
            self._add_manual(drift)
        is_down = self.phases.needs_empty_host or self._is_marked
        switched_off = self.evacuation.switched_off if is_down or self.phases.touches_graphics else []
        tried = [drift for drift in self.phases.everything if is_down and drift.setting.is_tried_first]
        self._write(tried, 0)
        self._switch_off(switched_off)
        if is_down:
            self._enter()
        for index, phase in enumerate(self.phases.drifts):
            self._write([drift for drift in phase if drift not in tried], index)
            if index < self.phases.restarts:
                self._restart(phase, index)
        for service, drifts in self.phases.services.items():
            settles = tuple(target(drift.desired, drift.reading) for drift in drifts)
            self._append(
                RestartService(
                    id=f"restart {service} {self.resolved.name}",
                    service=service,
                    settles=settles,
                    impact=Impact.SERVICE_RESTART,
                    **self._common,
                )
            )
        if is_down or self.resolved.view.facts.mark is not None:
            self._exit()
        self._switch_on(switched_off)
        return self.changes

    @property
    def _is_marked(self) -> bool:
        """Whether the host is in maintenance mode for this plan already."""
        mark = self.resolved.view.facts.mark
        return mark is not None and mark.maintenance and self.resolved.view.host.is_in_maintenance_mode

    @property
    def _common(self) -> dict[str, Any]:
        return {
            "subject": self.resolved.subject,
            "host": self.resolved.ref,
            "host_moid": self.resolved.view.host.moid,
            "wave": self.resolved.wave,
        }

    def _append(self, change: Change) -> None:
        change = change.model_copy(update={"needs": tuple(dict.fromkeys((*self._last, *change.needs)))})
        self.changes.append(change)
        self._last = (change.id,)

    def _switch_off(self, vms: Sequence[Vm]) -> None:
        before = self._last
        offs = []
        for vm in vms:
            self._last = before
            self._append(
                PowerOffVm(
                    id=change_id("power off", vm.name),
                    subject=Subject(kind="vm", name=vm.name, moid=vm.moid),
                    vm=VmRef(name=vm.name, moid=vm.moid),
                    impact=Impact.POWER_CYCLE,
                    host_moid=self.resolved.view.host.moid,
                )
            )
            offs.append(self.changes[-1].id)
        self._last = tuple(offs) or before

    def _switch_on(self, vms: Sequence[Vm]) -> None:
        before = self._last
        for vm in vms:
            self._last = before
            self._append(
                PowerOnVm(
                    id=change_id("power on", vm.name),
                    subject=Subject(kind="vm", name=vm.name, moid=vm.moid),
                    vm=VmRef(name=vm.name, moid=vm.moid),
                    host_moid=self.resolved.view.host.moid,
                )
            )
        self._last = before

    def _enter(self) -> None:
        disruption = self.resolved.entry.disruption
        mark = self.resolved.view.facts.mark
        titles = list(dict.fromkeys(drift.setting.title for drift in self.phases.everything))
        self._append(
            EnterMaintenance(
                id=enter_id(self.resolved.name),
                reason="sets " + ", ".join(titles) if titles else "left by an earlier run",
                evacuates=tuple(vm.name for vm in self.evacuation.moved),
                vsan=disruption.vsan,
                timeout_seconds=0 if disruption.vsan == "evacuateAllData" else _EVACUATION_SECONDS,
                max_down=self.max_down,
                window=disruption.window or "",
                takes_seconds=host_seconds(self.resolved, self.phases) if disruption.window else 0,
                is_held=self.is_held,
                is_recovered=mark is not None and mark.is_recovered,
                impact=Impact.HOST_MAINTENANCE,
                **self._common,
            )
        )

    def _exit(self) -> None:
        everything = [(drift.setting, drift.desired, drift.reading) for drift in self.phases.everything]
        # What nothing shows stands by somebody's word, and cannot be read back.
        reported = [one for one in self.resolved.right if not one[2].unread]
        shown = self._shown(len(self.phases.drifts))
        unique = {
            desired.id: target(desired, reading)
            for setting, desired, reading in (*everything, *reported)
            if not setting.read(shown, desired.device).is_absent
        }
        self._append(
            ExitMaintenance(
                id=exit_id(self.resolved.name),
                settles=tuple(unique.values()),
                is_held=self.is_held,
                **self._common,
            )
        )

    def _shown(self, phases: int) -> HostView:
        """Return the host as it will be after so many phases: some settings hide others from it."""
        host = self.resolved.view.host
        for phase in self.phases.drifts[:phases]:
            for drift in phase:
                host = drift.setting.show(host, drift.desired)
        return replace(self.resolved.view, host=host)

    def _write(self, phase: Sequence[Drift], index: int) -> None:
        written: list[Drift] = []
        for drift in phase:
            by_restart = drift.setting.by_image(drift.desired) or _is_cold_by_hand(self.resolved, drift)
            if drift.is_written or by_restart:
                continue
            if is_by_hand(self.resolved, drift):
                self._add_manual(drift)
            else:
                written.append(drift)
        for group, drifts in make_calls(written):
            desired_settings = [drift.desired for drift in drifts]
            writes = drifts[0].setting.write(self.resolved.view, desired_settings)
            other_way = drifts[0].setting.other_way(self.resolved.view, desired_settings)
            for write, covered in _shares(writes, drifts):
                self._append(self._change(group, write, other_way, covered, index))

    def _change(
        self, group: str, write: HostWrite, other_way: HostWrite | None, drifts: Sequence[Drift], index: int
    ) -> ChangeHost:
        targets = tuple(target(drift.desired, drift.reading) for drift in drifts)
        what = targets[0].id if len(targets) == 1 else group
        name = f"set {what} on {self.resolved.name}"
        taken = {change.id for change in self.changes}
        if name in taken:
            name = f"{name} after restart {index}" if index else f"{name} again"
        return ChangeHost(
            id=name,
            write=write,
            other_way=other_way,
            settings=targets,
            edits=tuple(_edit(drift) for drift in drifts),
            impact=max((drift.impact for drift in drifts), key=DISTURBS.index),
            **self._common,
        )

    def _restart(self, phase: Sequence[Drift], index: int) -> None:
        number = f" {index + 1}" if self.phases.restarts > 1 else ""
        done = [drift for earlier in self.phases.drifts[: index + 1] for drift in earlier]
        shown = self._shown(index + 1)
        settles = tuple(
            target(drift.desired, drift.reading)
            for drift in done
            if (drift.restarts or drift.impact is Impact.SERVICE_RESTART)
            and drift.kind is not DriftKind.DROPPED
            if not drift.setting.read(shown, drift.desired.device).is_absent
        )
        remediated = [drift for drift in phase if drift.setting.by_image(drift.desired)]
        if remediated:
            self._append(self._remediation(remediated, settles, number))
            if not self.phases.cold[index]:
                return
        if not self.phases.cold[index]:
            self._append(
                RebootHost(
                    id=f"{reboot_id(self.resolved.name)}{number}",
                    settles=settles,
                    impact=Impact.HOST_REBOOT,
                    **self._common,
                )
            )
            return
        by_hand = [drift for drift in phase if _is_cold_by_hand(self.resolved, drift)]
        bmc = bmc_of(self.resolved.entry, self.resolved.name)
        if bmc is not None and not by_hand:
            self._append(
                ColdBootHost(
                    id=f"{cold_boot_id(self.resolved.name)}{number}",
                    bmc=bmc,
                    settles=settles,
                    impact=Impact.HOST_COLD_BOOT,
                    **self._common,
                )
            )
            return
        self._append(
            ShutDownHost(
                id=f"shut down {self.resolved.name}{number}", impact=Impact.HOST_COLD_BOOT, **self._common
            )
        )
        texts = [drift.setting.by_hand(self.resolved.view, drift.desired) for drift in by_hand]
        text = f"power {self.resolved.name} on manually"
        if texts:
            text = f"{text}{IN_BIOS}: {'; '.join(texts)}"
        self._append(
            ManualStep(
                id=f"{cold_boot_id(self.resolved.name)}{number}",
                subject=self.resolved.subject,
                text=text,
                proof="; ".join(
                    dict.fromkeys(_proof(self.resolved, drift) for drift in phase if drift.restarts)
                ),
                proves=settles,
                impact=Impact.HOST_COLD_BOOT,
                host_moid=self.resolved.view.host.moid,
            )
        )

    def _remediation(
        self, drifts: Sequence[Drift], settles: tuple[SettingTarget, ...], number: str
    ) -> RemediateHost:
        view = self.resolved.view
        image = view.cluster_facts.image or ClusterImage()
        wanted = {name for drift in drifts for name in components_for(image, drift.desired)}
        last = image.hosts.get(view.host.moid)
        differs = last.differs if last is not None else {}
        also = (
            f"{name}: {before or 'absent'} -> {after or 'removed'}"
            for name, (before, after) in sorted(differs.items())
            if name not in wanted
        )
        return RemediateHost(
            id=f"{remediation_id(self.resolved.name)}{number}",
            cluster_moid=view.host.owner_moid,
            cluster_name=view.cluster.name if view.cluster is not None else "",
            settles=settles,
            also=tuple(also),
            changes=tuple(sorted({*wanted, *differs})),
            compliance=last.outlook if last is not None and not last.is_compliant else "",
            edits=tuple(_edit(drift) for drift in drifts),
            impact=Impact.HOST_REBOOT,
            **self._common,
        )

    def _add_manual(self, drift: Drift) -> None:
        writes = drift.setting.write(self.resolved.view, [drift.desired])
        commands = tuple(
            line for write in writes if write.needs_shell for line in write.typed(self.resolved.name)
        )
        text = drift.setting.by_hand(self.resolved.view, drift.desired)
        if not text:
            what = f"{drift.setting.title} {drift.desired.device}".rstrip()
            text = f"set {what} to {drift.desired.value or 'none'} in the host's shell"
        if writes and drift.restarts:
            host = self.resolved.name
            text = f"with {host} in maintenance mode: {text}; then reboot it and exit maintenance mode"
        how = filled(self.resolved, drift, drift.setting.how(self.resolved.view, drift.desired).commands)
        self._append(
            ManualStep(
                id=by_hand_id(self.resolved.name, drift.desired.id),
                subject=self.resolved.subject,
                text=text,
                proof=_proof(self.resolved, drift),
                commands=commands or how,
                proves=(target(drift.desired, drift.reading),),
                edits=(_edit(drift),),
                impact=drift.impact,
                host_moid=self.resolved.view.host.moid,
            )
        )


def _is_cold_by_hand(resolved: ResolvedHost, drift: Drift) -> bool:
    return drift.impact is Impact.HOST_COLD_BOOT and is_by_hand(resolved, drift)


def _proof(resolved: ResolvedHost, drift: Drift) -> str:
    return "; ".join(filled(resolved, drift, drift.setting.how(resolved.view, drift.desired).verify))


def filled(resolved: ResolvedHost, drift: Drift, lines: Iterable[str]) -> tuple[str, ...]:
    """Put names and values where a setting's command lines have {host}, {device} and {value}.

    Of a parameter of a device's firmware, the device is its address.
    """
    values = {
        "{host}": resolved.name,
        "{device}": drift.desired.device.partition(" ")[0],
        "{value}": drift.desired.value,
    }
    found = []
    for line in lines:
        words = line
        for key, value in values.items():
            words = words.replace(key, shlex.quote(value) if value else value)
        found.append(words)
    return tuple(found)


def _shares(writes: Sequence[HostWrite], drifts: Sequence[Drift]) -> list[tuple[HostWrite, Sequence[Drift]]]:
    """Say which write fulfils which drifts: one does all, or each its own."""
    if len(writes) == 1:
        return [(writes[0], drifts)]
    return [(write, [drift]) for write, drift in zip(writes, drifts, strict=True)]


def _before(drift: Drift) -> str | None:
    """Return the value that is to change; None if it is unknown, or if it is already right."""
    found = () if drift.reading.unread else (drift.reading.configured, drift.reading.in_force)
    return next((one for one in found if one and not drift.setting.same(drift.desired.value, one)), None)


def _edit(drift: Drift) -> Edit:
    notes = {
        DriftKind.DROPPED: "set again because a reboot resets it",
        DriftKind.SUPPOSED: "not read yet",
        DriftKind.UNDONE: "kept because another change would undo it",
    }
    return Edit(
        key=f"{drift.setting.title} {drift.desired.device}".rstrip(),
        before=_before(drift),
        after=drift.desired.value or None,
        is_default=drift.desired.is_derived,
        note=drift.desired.note or notes.get(drift.kind, ""),
    )
