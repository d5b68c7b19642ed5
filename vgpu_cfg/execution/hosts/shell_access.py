"""The tools of a run that prepares hosts: host shells with their opening and closing, and other dependencies.

Host shells are closed in every case. The plan file sets the limit: never, only if the SSH service already
runs, or "open-and-close": then the service is started through vCenter if needed, and stopped again. A host in
lockdown mode is left alone. One login per host serves a whole run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from vgpu_cfg.errors import HostShellError, VgpuCfgError
from vgpu_cfg.execution.records.copies import HostMarks
from vgpu_cfg.execution.records.lock import RunLocks
from vgpu_cfg.model.identity import PlanIdentity
from vgpu_cfg.model.observed.host_facts import (
    NO_LOCKDOWN,
    SHELL_GROUPS,
    SSH_SERVICE,
    EstateFacts,
    FactGroup,
    HostFacts,
    ShellFacts,
)
from vgpu_cfg.model.observed.inventory import Host
from vgpu_cfg.model.plan_file import AccessEntry
from vgpu_cfg.planning.host_settings.entry import HostSetting, HostView
from vgpu_cfg.ports import HostShell, HostShells, HostWriter, RunClock, ServerPowers

_NEVER = AccessEntry()


class ShellAccess:
    """The shells of a run's hosts. `access` is by host moid; a host that is not in it has none.

    `close` it: what this run started is stopped again. `problems` says what could not be stopped, by host
    name.
    """

    def __init__(
        self, shells: HostShells | None, access: Mapping[str, AccessEntry], marks: HostMarks
    ) -> None:
        self.problems: dict[str, str] = {}
        self._shells = shells
        self._access = access
        self._marks = marks
        self._open: dict[str, HostShell] = {}
        self._owed: dict[str, str] = {}
        self._restarting: set[str] = set()

    @property
    def opened(self) -> tuple[str, ...]:
        """The names of the hosts whose SSH service this run started and has not stopped yet."""
        return tuple(sorted(self._owed.values()))

    def is_allowed(self, host_moid: str) -> bool:
        """Whether the plan file lets this host's shell be used at all."""
        return self._shells is not None and self._access.get(host_moid, _NEVER).ssh != "off"

    def shell(self, host: Host, facts: HostFacts) -> HostShell:
        """Return a login on a host, made if need be; `facts` were read just now, BASE at least.

        The mark says that the service is owed a stop before it is started. Raises HostShellError,
        and VCenterError where the service cannot be started.
        """
        found = self._open.get(host.moid)
        if found is not None:
            return found
        access = self._access.get(host.moid, _NEVER)
        if self._shells is None or access.ssh == "off":
            raise HostShellError(
                "the plan file does not allow access to the host's shell",
                subject=host.name,
                remedy="set `access: {ssh: open-and-close}` for this host",
            )
        if facts.lockdown not in ("", NO_LOCKDOWN):
            raise HostShellError(
                f"the host is in lockdown mode ({facts.lockdown}), so its shell cannot be used",
                subject=host.name,
                remedy="disable lockdown mode while the change is in progress, or make the change manually "
                "on the console",
            )
        self.adopt(host, facts)
        if not facts.is_ssh_running:
            self._start(host, access)
        self._open[host.moid] = self._shells.connect(host.name, access)
        return self._open[host.moid]

    def read(self, host: Host, facts: HostFacts, groups: frozenset[FactGroup]) -> ShellFacts:
        """Ask a host's shell, opened if need be; `facts` were read just now, and their mark is noted.

        Raises HostShellError, VCenterError, and StalePlan where another plan works there.
        """
        self._marks.take(host, facts)
        shell = self.shell(host, facts)
        try:
            return shell.read_facts(groups & SHELL_GROUPS, nic_addresses(host))
        except HostShellError:
            self.forget(host.moid)
            raise

    def adopt(self, host: Host, facts: HostFacts) -> None:
        """Take over the stop that a run of this plan owed when it broke off; `facts` were read just now."""
        mark = self._marks.own(host.moid)
        if mark is None or not mark.opened_ssh or host.moid in self._owed:
            return
        if facts.is_ssh_running:
            self._owed[host.moid] = host.name
        else:
            self._marks.keep(host.moid, opened_ssh=False)

    def forget(self, host_moid: str) -> None:
        """Let go of a login that is about to die, or has died."""
        shell = self._open.pop(host_moid, None)
        if shell is not None:
            try:
                shell.close()
            except HostShellError:
                return  # it is gone either way

    def restarts(self, host_moid: str) -> None:
        """Take note that a host is about to go down, and its SSH service with it.

        A run that ends before the host is back stops nothing there: the mark makes the next run check.
        """
        self.forget(host_moid)
        self._restarting.add(host_moid)

    def stays_up(self, host_moid: str) -> None:
        """Note that a host did not go down: services started there must still be stopped."""
        self._restarting.discard(host_moid)

    def has_restarted(self, host_moid: str, facts: HostFacts | None) -> None:
        """Note that a host has restarted, or is down (`facts` None): services started there have ended."""
        self.forget(host_moid)
        self._restarting.discard(host_moid)
        if facts is None or not facts.is_ssh_running:
            self._owed.pop(host_moid, None)
            if self._marks.own(host_moid) is not None:
                self._marks.keep(host_moid, opened_ssh=False)

    def stop(self, host_moid: str, facts: HostFacts) -> None:
        """Close a host's shell, and stop its SSH service where this plan started it, in whatever run.

        If that fails it is tried again when the run ends. Raises VCenterError.
        """
        self.forget(host_moid)
        mark = self._marks.own(host_moid)
        # What this run has started runs, also where `facts` were read before it was started.
        if host_moid in self._owed or (mark is not None and mark.opened_ssh and facts.is_ssh_running):
            self._owed[host_moid] = self._marks.names.get(host_moid, host_moid)
            self._marks.check(host_moid)
            self._marks.writer.control_service(host_moid, SSH_SERVICE, "stop")
        self._owed.pop(host_moid, None)
        if mark is not None:
            self._marks.keep(host_moid, opened_ssh=False)

    def close(self) -> None:
        """Log out everywhere, and stop the started services; failures are kept in `problems`, not raised."""
        for host_moid in tuple(self._open):
            self.forget(host_moid)
        for host_moid, name in tuple(self._owed.items()):
            if host_moid in self._restarting:
                continue
            try:
                self._marks.check(host_moid)
                self._marks.writer.control_service(host_moid, SSH_SERVICE, "stop")
                del self._owed[host_moid]
                self.problems.pop(name, None)
                self._marks.keep(host_moid, opened_ssh=False)
            except VgpuCfgError as error:
                self.problems[name] = error.message

    def _start(self, host: Host, access: AccessEntry) -> None:
        if access.ssh != "open-and-close":
            raise HostShellError(
                "the host's SSH service is not running, and the plan file does not allow starting it",
                subject=host.name,
                remedy="start it, or set `access: {ssh: open-and-close}`",
            )
        self._marks.keep(host.moid, opened_ssh=True)
        self._owed[host.moid] = host.name
        self._marks.writer.control_service(host.moid, SSH_SERVICE, "start")


def nic_addresses(host: Host) -> tuple[str, ...]:
    """List the addresses of the NICs that the host has not handed out: only their firmware can be read."""
    return tuple(
        nic.pci_id
        for nic in (*host.nics, *host.infiniband)
        if nic.pci_id and not (nic.pci and nic.pci.passthrough_active)
    )


def table_entry(key: str) -> HostSetting:
    """Return the settings table's entry of this key."""
    from vgpu_cfg.planning.host_settings.table import setting

    return setting(key)


@dataclass(slots=True)
class HostTools:
    """The tools that change hosts for a plan and verify the result.

    `logins` opens shells, and `access` says by host moid how far that may go; `powers` speaks to BMCs.
    `secrets` maps a secret's name to its value. Objects held by `locks` are changed by no other run.
    `view_of` turns a host's reading into the planner's view. `settings` looks a setting up. Use it as a
    context, so that shells are closed however a run ends.
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
        """Whether the plan file permits starting a shell service that is not running."""
        return any(access.ssh == "open-and-close" for access in self.access.values())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.shells.close()
