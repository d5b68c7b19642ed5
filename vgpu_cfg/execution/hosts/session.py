"""The state of the hosts that a run prepares: reading them again, and their marks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from vgpu_cfg.changes.base import HostChangeBase
from vgpu_cfg.changes.change import Change, ColdBootHost, RebootHost, RemediateHost, RestartService
from vgpu_cfg.changes.report import LeftBehind, LeftState
from vgpu_cfg.changes.values import HostRef, SettingTarget
from vgpu_cfg.errors import (
    HostShellError,
    Interrupted,
    LoginFailed,
    NotConfirmed,
    StalePlan,
    TaskFailed,
    Unreachable,
    VCenterError,
    VgpuCfgError,
)
from vgpu_cfg.execution.hosts.assess import AssessedSetting, State, assess, not_shown
from vgpu_cfg.execution.hosts.shell_access import HostTools
from vgpu_cfg.execution.run.session import PLAN_AGAIN, RunSession
from vgpu_cfg.execution.run.step import Waiting, wait
from vgpu_cfg.model.observed.host_facts import SHELL_GROUPS, FactGroup, HostFacts
from vgpu_cfg.model.observed.inventory import Connection, Host
from vgpu_cfg.planning.host_settings.entry import HostView


class HostSession:
    """The hosts of one run, whose general state is in the `run` session; `moids` lists them.

    `given_back` holds the moids of those that this run took out of maintenance mode.
    """

    def __init__(self, run: RunSession, tools: HostTools) -> None:
        self.run = run
        self.tools = tools
        self.marks = tools.marks
        self.shells = tools.shells
        self._by_id = {change.id: change for change in run.plan.changes}
        of_hosts = (change.host.moid for change in run.plan.changes if isinstance(change, HostChangeBase))
        self.moids = tuple(dict.fromkeys((*tools.access, *of_hosts)))
        self.given_back: set[str] = set()
        self._by_hand: set[tuple[str, str]] = set()
        self._shown: set[tuple[str, str]] = set()

    def down_before(self) -> frozenset[str]:
        """Return the moids of hosts in maintenance mode that the plan would take there: one reading."""
        moids = [change.host.moid for change in self.run.plan.changes if change.kind == "enter_maintenance"]
        found = self.run.reader.read_hosts(moids) if moids else ()
        return frozenset(host.moid for host in found if host.is_in_maintenance_mode)

    # ------------------------------------------------------------- reading

    def read(self, ref: HostRef, targets: Sequence[SettingTarget] = ()) -> HostView:
        """Read a host again, with the facts that some settings take: its shell only where it may be used.

        Raises StalePlan if it has gone or carries another plan's mark, NotConfirmed if vCenter does not
        report the data asked for, the mark included, and HostShellError.
        """
        groups = {FactGroup.BASE}.union(*(self.tools.settings(target.setting).facts for target in targets))
        host, estate = self.run.reader.read_host(ref.moid, frozenset(groups - SHELL_GROUPS))
        if host is None:
            raise has_gone(ref)
        facts = estate.hosts.get(ref.moid, HostFacts())
        if is_connected(host) and FactGroup.BASE in facts.unread:
            raise NotConfirmed(
                f"{ref.name} cannot be read: {facts.unread[FactGroup.BASE]}",
                subject=ref.name,
                remedy="fix this; then " + PLAN_AGAIN,
            )
        self.marks.take(host, facts)
        if is_connected(host):
            self.shells.adopt(host, facts)
        if groups & SHELL_GROUPS and is_connected(host) and self.shells.is_allowed(host.moid):
            shell = self.shells.read(host, facts, frozenset(groups))
            facts = facts.model_copy(update={"shell": shell})
            estate = estate.model_copy(update={"hosts": {**estate.hosts, ref.moid: facts}})
        return self.tools.view_of(host, estate)

    def look(self, ref: HostRef) -> Host:
        """Read the host alone, without facts: one or two calls."""
        found = self.run.reader.read_hosts([ref.moid])
        if not found:
            raise has_gone(ref)
        return found[0]

    def read_awake(self, ref: HostRef, targets: Sequence[SettingTarget] = ()) -> Waiting[HostView]:
        """Read a host that must answer; one that this plan has taken down may be on its way back."""
        deadline = self.run.now() + self.run.options.restart_seconds
        while True:
            view = self.read(ref, targets)
            if is_connected(view.host):
                return view
            mark = self.marks.own(ref.moid)
            if mark is None or not mark.maintenance or self.run.now() >= deadline:
                raise NotConfirmed(
                    f"{ref.name} is not responding ({view.host.connection})",
                    subject=ref.name,
                    remedy="check its console and whether it is powered on; then " + PLAN_AGAIN,
                )
            yield from wait(self.run.options.host_poll_seconds)
            self.run.check_going_on()

    def read_known(
        self, ref: HostRef, targets: Sequence[SettingTarget]
    ) -> Waiting[tuple[HostView, tuple[AssessedSetting, ...]]]:
        """Read settings of a host that must answer; a missing answer is an error.

        Values that need a shell the plan may not use are UNREAD. Raises NotConfirmed.
        """
        deadline = self.run.now() + self.run.options.settle_seconds
        while True:
            view = yield from self.read_awake(ref, targets)
            assessed = self.assess(view, targets)
            silent = [one for one in assessed if self.is_silent(one, ref)]
            if not silent:
                return view, assessed
            if self.run.now() >= deadline:
                raise not_shown(ref, silent)
            yield from wait(self.run.options.poll_seconds)

    def is_silent(self, assessed: AssessedSetting, ref: HostRef) -> bool:
        """Whether a required setting is missing from the answer.

        Not required are values that need a shell the plan may not use, manual steps that are acknowledged,
        and settings confirmed earlier in this run on a device that the host has since handed out.
        """
        key = (ref.moid, assessed.target.id)
        is_excused = key in self._by_hand or (assessed.is_absent and key in self._shown)
        return assessed.state is State.UNREAD and not is_excused and not self._is_hidden(ref, assessed.target)

    def accept_as_done(self, ref: HostRef, targets: Iterable[SettingTarget]) -> None:
        """Accept settings as set manually until a reading contradicts them."""
        self._by_hand.update((ref.moid, target.id) for target in targets)

    # ------------------------------------------------------------- doing

    def run_or_join(
        self,
        ref: HostRef,
        what: str,
        start: Callable[[], str],
        has_come: Callable[[Host], bool],
        seconds: float,
    ) -> Waiting[None]:
        """Run a task. If that is refused or fails, look for the same task of an interrupted run.

        vCenter refuses a task that is already running, so its result is awaited for `seconds` before the
        refusal counts.
        """
        deadline = self.run.now() + seconds
        try:
            yield from self.run.run_task(start, what, ref.name)
        except (Unreachable, LoginFailed):
            raise
        except (VCenterError, TaskFailed):
            while not has_come(self.look(ref)):
                if self.run.now() >= deadline:
                    raise
                yield from wait(self.run.options.poll_seconds)
                self.run.check_going_on()

    # ------------------------------------------------------------- assessing

    def assess(self, view: HostView, targets: Iterable[SettingTarget]) -> tuple[AssessedSetting, ...]:
        """Return for each setting the host's value and its state."""
        mark = self.marks.own(view.host.moid)
        assessed = tuple(
            assess(view, target, self.tools.settings(target.setting), mark) for target in targets
        )
        self._shown.update((view.host.moid, one.target.id) for one in assessed if one.state is State.HOLDS)
        return assessed

    def is_in_force(
        self, change: RestartService | RebootHost | ColdBootHost | RemediateHost, view: HostView
    ) -> bool:
        """Whether all that waits for a restart is in force already; it is read back with that."""
        # A driver that is new may tell nothing before the restart.
        assessed = self.assess(view, change.settles)
        if not assessed or any(one.state is not State.HOLDS for one in assessed):
            return False
        self.keep_readings(change, assessed)
        self.marks.waits_no_more(change.host.moid, *change.settles)
        return True

    def keep_readings(self, change: Change, assessed: Iterable[AssessedSetting]) -> None:
        """Add the values read back to the change's outcome."""
        self.run.readings[change.id] = tuple(one.reading for one in assessed)

    def _is_hidden(self, ref: HostRef, target: SettingTarget) -> bool:
        """Whether only the host's shell shows a setting for certain, and the plan may not use it."""
        is_in_shell = bool(self.tools.settings(target.setting).facts & SHELL_GROUPS)
        return is_in_shell and not self.shells.is_allowed(ref.moid)

    def _report_hidden(self, change: Change, assessed: Iterable[AssessedSetting]) -> None:
        hidden = [one.target.id for one in assessed if one.state is State.UNREAD]
        if hidden:
            words = "not verified because this plan has no access to the host's shell"
            self.run.note(change.id, f"{words}: {', '.join(hidden)}")

    def confirm(
        self,
        change: Change,
        ref: HostRef,
        targets: Sequence[SettingTarget],
        *,
        in_force: bool,
        seconds: float | None = None,
    ) -> Waiting[HostView]:
        """Read settings back until they show the written values; `in_force` adds those that needed a restart.

        Returns the last view. Raises NotConfirmed with the missing values after `seconds`, or after
        `settle_seconds` by default.
        """
        deadline = self.run.now() + (self.run.options.settle_seconds if seconds is None else seconds)
        while True:
            try:
                view = self.read(ref, targets)
            except (HostShellError, NotConfirmed):  # a host that has just booted may not tell all yet
                if self.run.now() >= deadline:
                    raise
            else:
                assessed = self.assess(view, targets)
                self.keep_readings(change, assessed)
                missing = [
                    one
                    for one in assessed
                    if not (one.state is State.HOLDS if in_force else one.is_written)
                    and (one.state is not State.UNREAD or self.is_silent(one, ref))
                ]
                if not missing:
                    self._report_hidden(change, assessed)
                    return view
                if self.run.now() >= deadline:
                    raise not_shown(ref, missing)
            yield from wait(self.run.options.poll_seconds)

    # ------------------------------------------------------------- what is left

    def is_down(self, ref: HostRef) -> bool:
        """Whether this plan has taken the host down, or works on one that was down."""
        mark = self.marks.own(ref.moid)
        if mark is None or ref.moid in self.given_back:
            return False
        return mark.maintenance or bool(mark.reason)

    def must_be_down(self, change: Change, ref: HostRef) -> bool:
        """Whether a change comes between an `EnterMaintenance` of the host and its `ExitMaintenance`."""
        todo, seen = list(change.needs), {change.id, *change.needs}
        while todo:
            before = self._by_id[todo.pop()]
            if before.kind == "enter_maintenance" and before.host.moid == ref.moid:
                return True
            if before.kind != "exit_maintenance" or before.host.moid != ref.moid:
                todo += [need for need in before.needs if need not in seen]
                seen.update(before.needs)
        return False

    def note_reason(self, ref: HostRef, reason: str) -> None:
        """Let the mark of a host that stays down say why; where that cannot be written it is only noted."""
        if self.is_down(ref):
            try:
                self.marks.keep(ref.moid, reason=reason)
            except VgpuCfgError:
                return  # the mark keeps the reason for which the host was taken down

    def note_failure(self, change: Change, ref: HostRef, error: VgpuCfgError) -> None:
        """Keep on a host that stays down what failed there; a stop or a lost vCenter is no such failure."""
        if not isinstance(error, Interrupted | Unreachable | LoginFailed):
            self.note_reason(ref, f"{change.id}: {error.message}")

    def list_left_behind(self) -> Iterator[LeftBehind]:
        """Yield the hosts that are down, wait for a restart, or have their shell open."""
        for moid, name, mark in self.marks.items():
            if moid in self.given_back and mark.maintenance:
                state = "out of maintenance mode, but vgpu-cfg's marker on it could not be removed"
                yield LeftBehind(name=name, state=state)
            elif self.is_down(HostRef(name=name, moid=moid)):
                why = mark.reason or "no reason given"
                yield LeftBehind(name=name, state=LeftState.DOWN, why=why)
            elif mark.waiting:
                why = ", ".join(sorted(mark.waiting))
                yield LeftBehind(name=name, state="restart pending", why=why)
        for name, why in self.shells.problems.items():
            yield LeftBehind(name=name, state=LeftState.SSH_RUNS, why=why)


def has_gone(ref: HostRef) -> StalePlan:
    """Return what to raise for a host that vCenter no longer has."""
    return StalePlan(f"the host {ref.name} no longer exists", subject=ref.name, remedy=PLAN_AGAIN)


def is_connected(host: Host) -> bool:
    """Whether vCenter has a connection to the host."""
    return host.connection is Connection.CONNECTED
