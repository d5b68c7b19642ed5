"""The marks that this tool keeps on hosts while it works there: whose a host is, and what is owed to it.

The mark is all that outlives a run. It is written before what it tells of is done, and
cleared once nothing is owed any more: no maintenance mode, no open shell, no setting that waits
for a restart.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from vgpu_cfg.changes.values import SettingTarget
from vgpu_cfg.errors import StalePlan
from vgpu_cfg.execution.records.lock import RunLocks
from vgpu_cfg.model.identity import PlanIdentity
from vgpu_cfg.model.locks import LockName
from vgpu_cfg.model.observed.host_facts import HostAttribute, HostFacts, HostMark, is_same_boot
from vgpu_cfg.model.observed.inventory import Host
from vgpu_cfg.ports import Clock, HostWriter


@dataclass(slots=True)
class HostMarks:
    """The marks of a plan's hosts, as last read or written. `names` maps moids to names, for messages."""

    plan: PlanIdentity
    writer: HostWriter
    clock: Clock
    locks: RunLocks
    names: dict[str, str] = field(default_factory=dict)
    _known: dict[str, HostMark | None] = field(default_factory=dict)

    def take(self, host: Host, facts: HostFacts) -> HostMark | None:
        """Remember what was read of a host, and return this plan's mark on it, if any.

        Raises StalePlan where the mark is another plan's: that one works there, or broke off there.
        """
        self.names[host.moid] = host.name
        mark = facts.mark
        if mark is not None and not mark.is_of(self.plan):
            raise StalePlan(
                f"the plan {mark.plan} has been working on {host.name} since {mark.since:%Y-%m-%d %H:%M}"
                + (f": {mark.reason}" if mark.reason else ""),
                subject=host.name,
                remedy=mark.way_on(self.plan),
            )
        self._known[host.moid] = mark
        return mark

    def own(self, host_moid: str) -> HostMark | None:
        """Return this plan's mark on a host, as last read or written."""
        return self._known.get(host_moid)

    def keep(self, host_moid: str, **fields: object) -> None:
        """Write the mark with some fields changed; where nothing is owed any more it is cleared.

        Takes one call, or none where the mark says so already. What is written is this run's mark, whichever
        run of the plan began it: it has the host's lock. Raises VCenterError, and LockLost where it has not.
        """
        before = self._known.get(host_moid)
        after = (before or HostMark(plan=self.plan.name, id=self.plan.id, since=self.clock.now())).model_copy(
            update=fields
        )
        if _owes_nothing(after):
            self.clear(host_moid)
        elif after != before:
            self.check(host_moid)
            after = after.model_copy(update={"run": self.locks.holder.run})
            self.writer.set_host_attribute(host_moid, HostAttribute.MARK, after.text)
            self._known[host_moid] = after

    def clear(self, host_moid: str) -> None:
        """Remove the mark, if there is one."""
        if self._known.get(host_moid) is not None:
            self.check(host_moid)
            self.writer.set_host_attribute(host_moid, HostAttribute.MARK, None)
        self._known[host_moid] = None

    def check(self, host_moid: str) -> None:
        """See that the host is this run's to write to: marks and services are cleared by who holds its lock.

        Raises LockLost.
        """
        self.locks.check(LockName(kind="host", key=host_moid, label=self.names.get(host_moid, "")))

    def waits_since(self, host_moid: str, boot_time: datetime | None, *targets: SettingTarget) -> None:
        """Note that settings are about to be written and wait for a restart of a host that booted then."""
        mark = self._known.get(host_moid)
        waiting = dict(mark.waiting) if mark is not None else {}
        self.keep(host_moid, waiting={**waiting, **{target.id: boot_time for target in targets}})

    def waits_no_more(self, host_moid: str, *targets: SettingTarget) -> None:
        """Note that settings have had their restart, or were never written."""
        mark = self._known.get(host_moid)
        if mark is not None:
            gone = {target.id for target in targets}
            left = {name: since for name, since in mark.waiting.items() if name not in gone}
            self.keep(host_moid, waiting=left)

    def items(self) -> tuple[tuple[str, str, HostMark], ...]:
        """List (moid, name, mark) of every host that carries this plan's mark now."""
        return tuple(
            (moid, self.names.get(moid, moid), mark) for moid, mark in self._known.items() if mark is not None
        )


def is_waiting(mark: HostMark | None, target: SettingTarget, boot_time: datetime | None) -> bool:
    """Whether a setting was written and the host has not booted since.

    Where a boot time is not told, now and then alike, it counts as the same boot.
    """
    return mark is not None and target.id in mark.waiting and is_same_boot(mark.waiting[target.id], boot_time)


def _owes_nothing(mark: HostMark) -> bool:
    return not (mark.maintenance or mark.opened_ssh or mark.waiting or mark.reason)
