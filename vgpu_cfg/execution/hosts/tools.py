"""What a run needs beyond a reader and a writer in order to prepare hosts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from vgpu_cfg.execution.hosts.shell_access import ShellAccess
from vgpu_cfg.execution.records.lock import RunLocks
from vgpu_cfg.execution.records.marks import HostMarks
from vgpu_cfg.model.identity import PlanIdentity
from vgpu_cfg.model.observed.host_facts import EstateFacts
from vgpu_cfg.model.observed.inventory import Host
from vgpu_cfg.model.plan_file import AccessEntry
from vgpu_cfg.planning.host_settings.entry import HostSetting, HostView
from vgpu_cfg.ports import HostShells, HostWriter, RunClock, ServerPowers


def table_entry(key: str) -> HostSetting:
    """Return the settings table's entry of this key."""
    from vgpu_cfg.planning.host_settings.table import setting

    return setting(key)


@dataclass(slots=True)
class HostTools:
    """What changes hosts in the name of a plan, and how what they show is checked.

    `logins` opens shells, and `access` says by host moid how far that may go; `powers` speaks to BMCs.
    `secrets` maps a secret's name to its value. Of what `locks` hold no other run changes
    anything. `view_of` makes a view of what was read of a host, as the planner sees it. `settings` looks a
    setting up. Use it as a context, so that shells are closed however a run ends.
    """

    plan: PlanIdentity
    writer: HostWriter
    clock: RunClock
    locks: RunLocks
    view_of: Callable[[Host, EstateFacts], HostView]
    logins: HostShells | None = None
    powers: ServerPowers | None = None
    access: Mapping[str, AccessEntry] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    settings: Callable[[str], HostSetting] = table_entry
    marks: HostMarks = field(init=False)
    shells: ShellAccess = field(init=False)

    def __post_init__(self) -> None:
        self.marks = HostMarks(self.plan, self.writer, self.clock, self.locks)
        self.shells = ShellAccess(self.logins, self.access, self.marks)

    @property
    def opens_shells(self) -> bool:
        """Whether the plan file lets a shell be opened that nobody has opened before."""
        return any(access.ssh == "open-and-close" for access in self.access.values())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.shells.close()
