"""The changes of one host in their order: empty it, write, restart, write again, let it go."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from vgpu_cfg.model.observed.vm import Vm
from vgpu_cfg.model.plan.change import (
    Change,
    ChangeHost,
    Edit,
    EnterMaintenance,
    ExitMaintenance,
    Impact,
    ManualStep,
    PowerOffVm,
    PowerOnVm,
    RebootHost,
    RestartService,
    SettingTarget,
    ShutDownHost,
    Subject,
    VmRef,
)
from vgpu_cfg.model.plan.host_change import HostWrite, ShellWrite
from vgpu_cfg.planning.host_settings.case import DISTURBS, Gap, GapKind, HostCase
from vgpu_cfg.planning.host_settings.entry import HostView, target
from vgpu_cfg.planning.hosts.evacuate import Evacuation
from vgpu_cfg.planning.hosts.stretches import Stretches, make_calls
from vgpu_cfg.planning.vms.new_vms import change_id

_EVACUATION_SECONDS = 1800
"""How long the VMs of a host may take to leave. How long all data of vSAN takes nobody knows beforehand."""


def enter_id(host: str) -> str:
    """Return the id of the change by which a host goes down."""
    return f"enter maintenance {host}"


def exit_id(host: str) -> str:
    """Return the id of the change by which a host comes back."""
    return f"leave maintenance {host}"


def is_by_hand(case: HostCase, gap: Gap) -> bool:
    """Whether no way to write a setting is open to the tool on this host."""
    if gap.is_written:
        return False
    writes = gap.setting.write(case.view, [gap.wish])
    if not writes:
        return True
    return _needs_shell(writes) and not has_shell(case)


def has_shell(case: HostCase) -> bool:
    """Whether the plan file opens the host's shell to the tool."""
    return case.entry.access.ssh != "off"


def _needs_shell(writes: Iterable[HostWrite]) -> bool:
    return any(isinstance(write, ShellWrite) for write in writes)


@dataclass(slots=True)
class HostSequence:
    """Builds the chain of one host's changes: each needs the one before it."""

    case: HostCase
    stretches: Stretches
    evacuation: Evacuation
    max_down: int = 1
    first_needs: tuple[str, ...] = ()
    prelude: Sequence[Gap] = ()
    is_held: bool = False
    changes: list[Change] = field(default_factory=list)
    _last: tuple[str, ...] = ()
    _written: list[SettingTarget] = field(default_factory=list)

    def build(self) -> list[Change]:
        """Return the changes, in order."""
        self._last = self.first_needs
        for gap in self.prelude:
            self._add_manual(gap)
        is_down = self.stretches.needs_empty_host or self._is_marked
        switched_off = self.evacuation.switched_off if is_down or self.stretches.touches_graphics else []
        self._switch_off(switched_off)
        if is_down:
            self._enter()
        for index, stretch in enumerate(self.stretches.gaps):
            self._write(stretch, index)
            if index < self.stretches.restarts:
                self._restart(stretch, index)
        for service, gaps in self.stretches.services.items():
            settles = tuple(target(gap.wish, gap.reading) for gap in gaps)
            self._append(
                RestartService(
                    id=f"restart {service} {self.case.name}",
                    service=service,
                    settles=settles,
                    impact=Impact.SERVICE_RESTART,
                    **self._common,
                )
            )
        if is_down or self.case.view.facts.mark is not None:
            self._exit()
        self._switch_on(switched_off)
        return self.changes

    @property
    def _is_marked(self) -> bool:
        """Whether the host stands in maintenance mode for this plan already."""
        mark = self.case.view.facts.mark
        return mark is not None and mark.maintenance and self.case.view.host.is_in_maintenance_mode

    @property
    def _common(self) -> dict[str, Any]:
        return {
            "subject": self.case.subject,
            "host": self.case.ref,
            "host_moid": self.case.view.host.moid,
            "wave": self.case.wave,
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
                    host_moid=self.case.view.host.moid,
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
                    host_moid=self.case.view.host.moid,
                )
            )
        self._last = before

    def _enter(self) -> None:
        disruption = self.case.entry.disruption
        self._append(
            EnterMaintenance(
                id=enter_id(self.case.name),
                reason=self._reason(),
                evacuates=tuple(vm.name for vm in self.evacuation.moved),
                vsan=disruption.vsan,
                timeout_seconds=0 if disruption.vsan == "evacuateAllData" else _EVACUATION_SECONDS,
                max_down=self.max_down,
                window=disruption.window or "",
                is_held=self.is_held,
                impact=Impact.HOST_MAINTENANCE,
                **self._common,
            )
        )

    def _reason(self) -> str:
        titles = list(dict.fromkeys(gap.setting.title for gap in self.stretches.everything))
        return "sets " + ", ".join(titles) if titles else "left by an earlier run"

    def _exit(self) -> None:
        everything = [(gap.setting, gap.wish, gap.reading) for gap in self.stretches.everything]
        # What nothing shows stands by somebody's word, and cannot be read back.
        told = [one for one in self.case.right if not one[2].unread]
        shown = self._shown(len(self.stretches.gaps))
        unique = {
            wish.id: target(wish, reading)
            for setting, wish, reading in (*everything, *told)
            if not setting.read(shown, wish.device).is_absent
        }
        self._append(
            ExitMaintenance(
                id=exit_id(self.case.name),
                settles=tuple(unique.values()),
                is_held=self.is_held,
                **self._common,
            )
        )

    def _shown(self, stretches: int) -> HostView:
        """Return the host as it will be after so many stretches: some settings hide others from it."""
        host = self.case.view.host
        for stretch in self.stretches.gaps[:stretches]:
            for gap in stretch:
                host = gap.setting.show(host, gap.wish)
        return replace(self.case.view, host=host)

    def _write(self, stretch: Sequence[Gap], index: int) -> None:
        written: list[Gap] = []
        for gap in stretch:
            if gap.is_written or _is_cold_by_hand(self.case, gap):
                continue
            if is_by_hand(self.case, gap):
                self._add_manual(gap)
            else:
                written.append(gap)
        for group, gaps in make_calls(written):
            wishes = [gap.wish for gap in gaps]
            writes = gaps[0].setting.write(self.case.view, wishes)
            other_way = gaps[0].setting.other_way(self.case.view, wishes)
            for write, covered in _shares(writes, gaps):
                self._append(self._change(group, write, other_way, covered, index))

    def _change(
        self, group: str, write: HostWrite, other_way: HostWrite | None, gaps: Sequence[Gap], index: int
    ) -> ChangeHost:
        targets = tuple(target(gap.wish, gap.reading) for gap in gaps)
        self._written += targets
        what = targets[0].id if len(targets) == 1 else group
        name = f"set {what} on {self.case.name}"
        taken = {change.id for change in self.changes}
        if name in taken:
            name = f"{name} after restart {index}" if index else f"{name} again"
        return ChangeHost(
            id=name,
            write=write,
            other_way=other_way,
            settings=targets,
            edits=tuple(_edit(gap) for gap in gaps),
            impact=max((gap.impact for gap in gaps), key=DISTURBS.index),
            **self._common,
        )

    def _restart(self, stretch: Sequence[Gap], index: int) -> None:
        number = f" {index + 1}" if self.stretches.restarts > 1 else ""
        done = [gap for earlier in self.stretches.gaps[: index + 1] for gap in earlier]
        shown = self._shown(index + 1)
        settles = tuple(
            target(gap.wish, gap.reading)
            for gap in done
            if (gap.restarts or gap.impact is Impact.SERVICE_RESTART) and gap.kind is not GapKind.DROPPED
            if not gap.setting.read(shown, gap.wish.device).is_absent
        )
        if not self.stretches.cold[index]:
            self._append(
                RebootHost(
                    id=f"reboot {self.case.name}{number}",
                    settles=settles,
                    impact=Impact.HOST_REBOOT,
                    **self._common,
                )
            )
            return
        self._append(
            ShutDownHost(
                id=f"shut down {self.case.name}{number}", impact=Impact.HOST_COLD_BOOT, **self._common
            )
        )
        by_hand = [gap for gap in stretch if _is_cold_by_hand(self.case, gap)]
        texts = [gap.setting.by_hand(self.case.view, gap.wish) for gap in by_hand]
        text = f"power {self.case.name} on by hand"
        if texts:
            text = f"{text}; on the way, in its BIOS: {'; '.join(texts)}"
        self._append(
            ManualStep(
                id=f"cold boot {self.case.name}{number}",
                subject=self.case.subject,
                text=text,
                proof="; ".join(dict.fromkeys(_proof(self.case, gap) for gap in stretch if gap.restarts)),
                proves=settles,
                impact=Impact.HOST_COLD_BOOT,
                host_moid=self.case.view.host.moid,
            )
        )

    def _add_manual(self, gap: Gap) -> None:
        writes = gap.setting.write(self.case.view, [gap.wish])
        commands = tuple(
            shlex.join(command)
            for write in writes
            if isinstance(write, ShellWrite)
            for command in write.commands
        )
        text = gap.setting.by_hand(self.case.view, gap.wish)
        if not text:
            what = f"{gap.setting.title} {gap.wish.device}".rstrip()
            text = f"set {what} to {gap.wish.value or 'none'} on the host's shell"
        if writes and gap.restarts:
            text = f"with {self.case.name} in maintenance mode: {text}; then reboot it"
        how = _filled(self.case, gap, gap.setting.how(self.case.view, gap.wish).commands)
        self._append(
            ManualStep(
                id=f"by hand {self.case.name}: {gap.wish.id}",
                subject=self.case.subject,
                text=text,
                proof=_proof(self.case, gap),
                commands=commands or how,
                proves=(target(gap.wish, gap.reading),),
                edits=(_edit(gap),),
                impact=gap.impact,
                host_moid=self.case.view.host.moid,
            )
        )


def _is_cold_by_hand(case: HostCase, gap: Gap) -> bool:
    return gap.impact is Impact.HOST_COLD_BOOT and is_by_hand(case, gap)


def _proof(case: HostCase, gap: Gap) -> str:
    return "; ".join(_filled(case, gap, gap.setting.how(case.view, gap.wish).verify))


def _filled(case: HostCase, gap: Gap, lines: Iterable[str]) -> tuple[str, ...]:
    """Put names and values where a setting's command lines have {host}, {device} and {value}.

    Of a parameter of a device's firmware, the device is its address.
    """
    values = {"{host}": case.name, "{device}": gap.wish.device.partition(" ")[0], "{value}": gap.wish.value}
    found = []
    for line in lines:
        words = line
        for key, value in values.items():
            words = words.replace(key, shlex.quote(value) if value else value)
        found.append(words)
    return tuple(found)


def _shares(writes: Sequence[HostWrite], gaps: Sequence[Gap]) -> list[tuple[HostWrite, Sequence[Gap]]]:
    """Say which write fulfils which gaps: one does all, or each its own."""
    if len(writes) == 1:
        return [(writes[0], gaps)]
    return [(write, [gap]) for write, gap in zip(writes, gaps, strict=True)]


def _edit(gap: Gap) -> Edit:
    notes = {
        GapKind.DROPPED: "asserted again, as a reboot drops it",
        GapKind.SUPPOSED: "not read yet",
        GapKind.UNDONE: "kept, as another change would undo it",
    }
    return Edit(
        key=f"{gap.setting.title} {gap.wish.device}".rstrip(),
        before=None if gap.reading.unread else gap.reading.configured or None,
        after=gap.wish.value or None,
        is_default=gap.wish.is_derived,
        note=gap.wish.note or notes.get(gap.kind, ""),
    )
