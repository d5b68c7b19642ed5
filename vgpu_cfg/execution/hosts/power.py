"""Reboot or shut down hosts, and poll them until they are back.

A reboot has happened when the host answers with another boot time. Values that must be in effect are read
back; a value that is still old after a reboot needs a cold boot.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from vgpu_cfg.changes.change import ColdBootHost, RebootHost, RemediateHost, ShutDownHost
from vgpu_cfg.changes.values import HostRef
from vgpu_cfg.errors import BmcError, LoginFailed, NotConfirmed, StalePlan, Unreachable, VgpuCfgError
from vgpu_cfg.execution.hosts.assess import COLD_BOOT, AssessedSetting, State
from vgpu_cfg.execution.hosts.manual import is_done
from vgpu_cfg.execution.hosts.session import HostSession, is_connected
from vgpu_cfg.execution.run.session import PLAN_AGAIN
from vgpu_cfg.execution.run.step import NeedsManualStep, Step, StepResult, Waiting, wait
from vgpu_cfg.model.observed.host_facts import is_same_boot
from vgpu_cfg.planning.host_settings.entry import HostView
from vgpu_cfg.ports import ServerPower

_TELL_EVERY_SECONDS = 180.0
"""How often a wait for a reboot says that it goes on."""


def reboot_host(change: RebootHost, hosts: HostSession) -> Step:
    """Reboot a host in maintenance mode, wait until it is back, and read the values that it booted with."""
    ref = change.host
    view = yield from hosts.read_awake(ref, change.settles)
    if hosts.is_in_force(change, view):
        return StepResult(is_needed=False, message="the pending settings are already active")
    if not _has_booted_since(change, view, hosts):
        check_down(view, hosts)
        hosts.run.check_going_on()
        hosts.marks.keep(ref.moid, restart="reboot")
        yield from _bring_down(
            ref, f"reboot {ref.name}", lambda: hosts.tools.writer.reboot_host(ref.moid), hosts
        )
        back = yield from _await_boot(change, view.facts.boot_time, hosts)
        hosts.shells.has_restarted(ref.moid, back.facts)
        hosts.marks.keep(ref.moid, restart="")
    yield from confirm_booted(change, hosts)
    hosts.marks.waits_no_more(ref.moid, *change.settles)
    return StepResult()


def cold_boot_host(change: ColdBootHost, hosts: HostSession) -> Step:
    """Shut down a host in maintenance mode, power it on through its BMC, and read its boot values.

    The BMC is asked before the shutdown: if it does not answer, the host stays up. One that an earlier run
    took down is switched on.
    """
    ref = change.host
    if hosts.tools.powers is None:
        raise BmcError("access to BMCs is not available", subject=ref.name, remedy=PLAN_AGAIN)
    power = hosts.tools.powers.connect(change.bmc)
    view = hosts.read(ref)
    mark = hosts.marks.own(ref.moid)
    is_down = not is_connected(view.host) and mark is not None
    before = None if is_down else view.facts.boot_time
    if not is_down:
        view = yield from hosts.read_awake(ref, change.settles)
        before = view.facts.boot_time
        if hosts.is_in_force(change, view):
            return StepResult(is_needed=False, message="the pending settings are already active")
        power.is_off()
        check_down(view, hosts)
        hosts.run.check_going_on()
        hosts.marks.keep(ref.moid, restart="shutdown")
        yield from _bring_down(
            ref, f"shut down {ref.name}", lambda: hosts.tools.writer.shut_down_host(ref.moid), hosts
        )
    yield from _await_off(ref, power, hosts)
    hosts.run.note(change.id, f"the host is off; its BMC {change.bmc.address} is powering it on")
    power.switch_on()
    back = yield from _await_boot(change, before, hosts, was_away=True)
    hosts.shells.has_restarted(ref.moid, back.facts)
    hosts.marks.keep(ref.moid, restart="")
    if change.settles:
        yield from hosts.confirm(
            change, ref, change.settles, in_force=True, seconds=hosts.run.options.boot_settle_seconds
        )
    hosts.marks.waits_no_more(ref.moid, *change.settles)
    return StepResult()


def _await_off(ref: HostRef, power: ServerPower, hosts: HostSession) -> Waiting[None]:
    """Wait until a server is off, as its BMC says. Raises NotConfirmed."""
    deadline = hosts.run.now() + hosts.run.options.restart_seconds
    while not power.is_off():
        if hosts.run.now() >= deadline:
            raise NotConfirmed(
                f"{ref.name}'s BMC reports that the host is not off {_minutes(hosts)} after the shutdown "
                "request, so it remains in maintenance mode",
                subject=ref.name,
                remedy="check its console; then " + PLAN_AGAIN,
            )
        yield from wait(hosts.run.options.host_poll_seconds)
        hosts.run.check_going_on()


def shut_down_host(change: ShutDownHost, hosts: HostSession) -> Step:
    """Shut a host in maintenance mode down, and wait until it no longer answers."""
    ref = change.host
    view = hosts.read(ref)
    mark = hosts.marks.own(ref.moid)
    if not is_connected(view.host) and mark is not None:
        return StepResult(is_needed=False, message="already down")
    follows = [other for other in hosts.run.plan.changes if change.id in other.needs]
    if follows and all(other.kind == "manual_step" and is_done(other, hosts) for other in follows):
        return StepResult(is_needed=False, message="the settings that required the shutdown are active")
    check_down(view, hosts)
    hosts.run.check_going_on()
    hosts.marks.keep(ref.moid, restart="shutdown")
    yield from _bring_down(
        ref, f"shut down {ref.name}", lambda: hosts.tools.writer.shut_down_host(ref.moid), hosts
    )
    deadline = hosts.run.now() + hosts.run.options.restart_seconds
    while is_connected(hosts.look(ref)):
        if hosts.run.now() >= deadline:
            hosts.shells.stays_up(ref.moid)
            raise NotConfirmed(
                f"{ref.name} is still responding {_minutes(hosts)} after the shutdown request, so it remains "
                "in maintenance mode",
                subject=ref.name,
                remedy="check its console; then " + PLAN_AGAIN,
            )
        yield from wait(hosts.run.options.host_poll_seconds)
        hosts.run.check_going_on()
    hosts.shells.has_restarted(ref.moid, None)
    return StepResult()


def _bring_down(ref: HostRef, what: str, start: Callable[[], str], hosts: HostSession) -> Waiting[None]:
    """Start the shutdown or reboot of a host; if that is refused, its shell must still be stopped."""
    hosts.shells.restarts(ref.moid)
    try:
        yield from hosts.run_or_join(
            ref, what, start, lambda seen: not is_connected(seen), hosts.run.options.settle_seconds
        )
    except (Unreachable, LoginFailed):
        raise  # whether it goes down is not known: the mark tells the next run to look
    except VgpuCfgError:
        hosts.shells.stays_up(ref.moid)
        raise


def check_down(view: HostView, hosts: HostSession) -> None:
    """See that the host is in maintenance mode and this plan's: nothing else is ever restarted."""
    host = view.host
    if not host.is_in_maintenance_mode or hosts.marks.own(host.moid) is None:
        what = (
            "is not in maintenance mode"
            if not host.is_in_maintenance_mode
            else "no longer has this plan's marker"
        )
        raise StalePlan(
            f"{host.name} {what}, so it was not restarted",
            subject=host.name,
            remedy="check who changed this; then " + PLAN_AGAIN,
        )


def _has_booted_since(change: RebootHost, view: HostView, hosts: HostSession) -> bool:
    """Whether the host has booted since every setting that waits for it was written."""
    mark = hosts.marks.own(view.host.moid)
    waiting = mark.waiting if mark is not None else {}
    since = [waiting[target.id] for target in change.settles if target.id in waiting]
    booted = view.facts.boot_time
    is_stated = booted is not None and None not in since
    return bool(since) and is_stated and not any(is_same_boot(one, booted) for one in since)


def _await_boot(
    change: RebootHost | ColdBootHost, before: datetime | None, hosts: HostSession, *, was_away: bool = False
) -> Waiting[HostView]:
    """Wait until the host answers again; without a boot time, until it has been away and is back.

    `was_away`: it was seen to be off.
    """
    ref, begun = change.host, hosts.run.now()
    deadline = begun + hosts.run.options.restart_seconds
    noted_until = begun + _TELL_EVERY_SECONDS
    while True:
        yield from wait(_until_next_look(hosts.run.now() - begun, hosts))
        hosts.run.check_going_on()
        if hosts.run.now() >= noted_until:
            hosts.run.note(
                change.id,
                f"not responding yet, {round((hosts.run.now() - begun) / 60)} min after the reboot started",
            )
            noted_until += _TELL_EVERY_SECONDS
        view = _answer(ref, hosts)
        if view is None:
            was_away = True
        elif before is None or view.facts.boot_time is None:
            if was_away:
                return view
        elif not is_same_boot(view.facts.boot_time, before):
            return view
        if hosts.run.now() >= deadline:
            if view is not None:
                hosts.shells.stays_up(ref.moid)
            raise NotConfirmed(
                f"{ref.name} is not back online {_minutes(hosts)} after the reboot started, so it remains in "
                f"maintenance mode",
                subject=ref.name,
                remedy="check its console; when the host is back, " + PLAN_AGAIN,
            )


def _until_next_look(seconds: float, hosts: HostSession) -> float:
    """Return when a host is looked at again that has been away for so long: within a tenth of that."""
    options = hosts.run.options
    return min(max(options.host_poll_seconds, float(round(seconds / 10))), options.host_poll_most_seconds)


def _answer(ref: HostRef, hosts: HostSession) -> HostView | None:
    """Read a host that may be rebooting; None where it does not answer, or not with everything yet."""
    if not is_connected(hosts.look(ref)):
        return None
    try:
        view = hosts.read(ref)
    except NotConfirmed:
        return None
    return view if is_connected(view.host) else None


def confirm_booted(change: RebootHost | RemediateHost, hosts: HostSession) -> Waiting[None]:
    """Read back the values that the reboot activates; a value that is still old needs a cold boot."""
    seconds = hosts.run.options.boot_settle_seconds
    try:
        yield from hosts.confirm(change, change.host, change.settles, in_force=True, seconds=seconds)
    except NotConfirmed as error:
        assessed = hosts.assess(hosts.read(change.host, change.settles), change.settles)
        pending = [_needs_cold_boot(one) for one in assessed if one.state is State.PENDING]
        hosts.run.readings[change.id] = tuple(
            next((found.reading for found in pending if found.target == one.target), one.reading)
            for one in assessed
        )
        is_more = any(one.state is State.WRONG or hosts.is_silent(one, change.host) for one in assessed)
        if not pending or is_more:
            raise
        names = ", ".join(one.target.id for one in pending)
        raise NeedsManualStep(
            f"rebooting {change.host.name} did not activate {names}; a cold boot is required",
            subject=change.host.name,
            remedy="run the same command again, which shuts down the host if `disruption` allows "
            "`cold_boot`; or power-cycle the host first",
        ) from error


def _needs_cold_boot(assessed: AssessedSetting) -> AssessedSetting:
    reading = assessed.reading.model_copy(update={"waits_for": COLD_BOOT})
    return AssessedSetting(assessed.target, assessed.setting, assessed.impact, assessed.state, reading)


def _minutes(hosts: HostSession) -> str:
    return f"{hosts.run.options.restart_seconds / 60:.0f} min"
