"""Steps on one host: write a change and read it back, restart services, take it out of service and return it.

A host is taken out of service and returned with a mark, an alarm, and maintenance mode. The mark comes first
and goes last, so that a run that is killed at any moment leaves a host that names its owner, and that the
next run can finish.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection
from typing import assert_never

from vgpu_cfg.changes.change import (
    ChangeHost,
    ColdBootHost,
    EnterMaintenance,
    ExitMaintenance,
    RebootHost,
    RemediateHost,
    RestartService,
    ShutDownHost,
)
from vgpu_cfg.changes.kinds.change_host import EsxcliWrite, HostWrite, ShellWrite
from vgpu_cfg.changes.values import HostRef
from vgpu_cfg.errors import (
    HostShellError,
    Interrupted,
    LoginFailed,
    NotConfirmed,
    NotOffered,
    NotPermitted,
    StalePlan,
    TaskFailed,
    Unreachable,
    VCenterError,
    VgpuCfgError,
)
from vgpu_cfg.execution.hosts.assess import RESTARTS, AssessedSetting, State
from vgpu_cfg.execution.hosts.images import remediate_host
from vgpu_cfg.execution.hosts.networks import drop_names, keep_names
from vgpu_cfg.execution.hosts.power import cold_boot_host, reboot_host, shut_down_host
from vgpu_cfg.execution.hosts.session import HostSession, is_connected
from vgpu_cfg.execution.run.session import PLAN_AGAIN, succeeded
from vgpu_cfg.execution.run.step import Step, StepResult, Waiting, wait, wait_for
from vgpu_cfg.model.observed.inventory import Host
from vgpu_cfg.model.observed.vm import Vm
from vgpu_cfg.planning.host_settings.entry import HostView

HostStep = (
    EnterMaintenance
    | ChangeHost
    | RestartService
    | RebootHost
    | ColdBootHost
    | RemediateHost
    | ShutDownHost
    | ExitMaintenance
)

_WITHOUT_LIMIT_SECONDS = 86400
"""The wait for a maintenance entry of an interrupted run, if vCenter sets no limit on it."""


def make_host_step(change: HostStep, hosts: HostSession) -> Step:
    """Return the generator that carries a change to a host out.

    A failure on a host that is down is recorded in the host's mark.
    """
    match change:
        case EnterMaintenance():
            step = enter_maintenance(change, hosts)
        case ChangeHost():
            step = change_host(change, hosts)
        case RestartService():
            step = restart_service(change, hosts)
        case RebootHost():
            step = reboot_host(change, hosts)
        case ColdBootHost():
            step = cold_boot_host(change, hosts)
        case RemediateHost():
            step = remediate_host(change, hosts)
        case ShutDownHost():
            step = shut_down_host(change, hosts)
        case ExitMaintenance():
            step = exit_maintenance(change, hosts)
        case _:
            assert_never(change)
    return _guarded(change, step, hosts)


def _guarded(change: HostStep, step: Step, hosts: HostSession) -> Step:
    try:
        return (yield from step)
    except VgpuCfgError as error:
        hosts.note_failure(change, change.host, error)
        raise


def change_host(change: ChangeHost, hosts: HostSession) -> Step:
    """Write one thing, unless it is there, and see that it shows.

    A setting that waits for a restart is noted in the mark before it is written.
    """
    ref = change.host
    view, assessed = yield from hosts.read_known(ref, change.settings)
    hosts.keep_readings(change, assessed)
    if assessed and all(one.is_written for one in assessed):
        waits = sorted({one.reading.waits_for for one in assessed if one.state is State.PENDING})
        message = f"already set; pending {' and a '.join(waits)}" if waits else "already done"
        return StepResult(is_needed=False, message=message)
    if hosts.must_be_down(change, ref) and not view.host.is_in_maintenance_mode:
        raise StalePlan(
            f"{ref.name} exited maintenance mode before the work was complete",
            subject=ref.name,
            remedy="check who ended maintenance mode; then " + PLAN_AGAIN,
        )
    hosts.run.check_going_on()
    waiting = [one.target for one in assessed if not one.is_written and one.impact in RESTARTS]
    hosts.marks.waits_since(ref.moid, view.facts.boot_time, *waiting)
    try:
        keep_names(change, view, hosts)
        yield from _write(change, view, hosts)
    except Unreachable:
        raise  # whether it was written is not known
    except VgpuCfgError:
        _unmark(ref.moid, assessed, hosts)
        raise
    yield from hosts.confirm(change, ref, change.settings, in_force=False)
    return StepResult(message=_waits(change, hosts))


def restart_service(change: RestartService, hosts: HostSession) -> Step:
    """Restart a service of the host and see that what waited for it is in force.

    Raises StalePlan where a VM runs on a GPU there: it was to be moved or switched off before.
    """
    ref = change.host
    view = yield from hosts.read_awake(ref, change.settles)
    if hosts.is_in_force(change, view):
        return StepResult(is_needed=False, message="the pending settings are already active")
    hosts.run.check_going_on()
    _check_idle(ref, hosts)
    hosts.run.begin(lambda: hosts.tools.writer.control_service(ref.moid, change.service, "restart"))
    hosts.marks.waits_no_more(ref.moid, *change.settles)
    yield from hosts.confirm(change, ref, change.settles, in_force=True)
    return StepResult()


def _check_idle(ref: HostRef, hosts: HostSession) -> None:
    """See that nothing runs on a GPU of the host: one or two readings."""
    found = hosts.run.reader.read_gpu_holders([ref.moid]).get(ref.moid, {})
    holders = sorted({moid for moids in found.values() for moid in moids})
    if holders:
        names = sorted(vm.name for vm in hosts.run.reader.read_vms(holders)) or holders
        raise StalePlan(
            f"{', '.join(names)} {('run' if len(names) > 1 else 'runs')} on a GPU of {ref.name}, so its "
            "graphics service was not restarted",
            subject=ref.name,
            remedy="have their owners power off the VMs; then " + PLAN_AGAIN,
        )


def _write(change: ChangeHost, view: HostView, hosts: HostSession) -> Waiting[None]:
    """Write the first way, or where that is not offered the next: a way that failed is never gone round."""
    ways = _ways(change, hosts)
    for index, way in enumerate(ways):
        try:
            return (yield from _write_one_way(change, way, view, hosts))
        except NotOffered as refused:
            if index == len(ways) - 1:
                raise
            hosts.run.note(change.id, f"{refused.message}; using the alternative method")
    return None


def _ways(change: ChangeHost, hosts: HostSession) -> tuple[HostWrite, ...]:
    ways = (change.write,) if change.other_way is None else (change.write, change.other_way)
    if not hosts.shells.is_allowed(change.host.moid):
        return ways
    typed = (ShellWrite(commands=(esxcli_command(way),)) for way in ways if isinstance(way, EsxcliWrite))
    return (*ways, *typed)


def _write_one_way(change: ChangeHost, write: HostWrite, view: HostView, hosts: HostSession) -> Waiting[None]:
    ref, run = change.host, hosts.run
    if isinstance(write, ShellWrite):
        run.check_going_on()
        _run_commands(write, view, hosts)
        return
    write = write.on_network(run.networks.get(write.joins, ""))
    sent = write
    task = run.begin(lambda: hosts.tools.writer.write_host(ref.moid, sent, hosts.tools.secrets))
    if task is not None:
        succeeded((yield from wait_for(task)), change.id, ref.name)


def _run_commands(write: ShellWrite, view: HostView, hosts: HostSession) -> None:
    host = view.host
    shell = hosts.shells.shell(host, view.facts)
    for command in write.commands:
        try:
            result = shell.run(command, timeout_seconds=hosts.run.options.command_seconds)
        except HostShellError:
            hosts.shells.forget(host.moid)
            raise
        if result.status != 0:
            said = (result.stderr.strip() or result.stdout.strip() or "no output").splitlines()
            raise HostShellError(
                f"`{shlex.join(command)}` failed with status {result.status}: {'; '.join(said[-3:])}",
                subject=host.name,
                remedy="check the command's output; then " + PLAN_AGAIN,
            )


def esxcli_command(write: EsxcliWrite) -> tuple[str, ...]:
    """Return an esxcli command as the host's shell takes it: words, then long options with their values."""
    words = write.command.replace(".", " ").split()
    return ("esxcli", *words, *(f"--{name}={value}" for name, value in write.arguments))


def _unmark(host_moid: str, assessed: tuple[AssessedSetting, ...], hosts: HostSession) -> None:
    """Take settings that were refused off the mark again; those of an earlier write stay."""
    refused = [one.target for one in assessed if one.state is not State.PENDING and not one.is_written]
    try:
        hosts.marks.waits_no_more(host_moid, *refused)
    except VgpuCfgError:
        return  # they show as not written when they are read, whatever the mark says


def _waits(change: ChangeHost, hosts: HostSession) -> str:
    readings = hosts.run.readings.get(change.id, ())
    waits = sorted({reading.waits_for for reading in readings if reading.waits_for})
    return f"pending {' and a '.join(waits)}" if waits else ""


def enter_maintenance(change: EnterMaintenance, hosts: HostSession) -> Step:
    """Mark the host, raise the alarm, enter maintenance mode and see that it is entered.

    A host that is there under this plan's mark needs nothing, whatever the window says: it waits to be
    finished. If vCenter does not complete the entry, mark and alarm are removed again.
    """
    ref = change.host
    host = hosts.read(ref).host
    mark = hosts.marks.own(ref.moid)
    if host.is_in_maintenance_mode and mark is not None and (mark.maintenance or change.is_held):
        hosts.marks.keep(ref.moid, reason=change.reason)
        return StepResult(is_needed=False, message="already in maintenance mode for this plan")
    if change.is_recovered:
        return _mark_again(host, change, hosts)
    _check_mode(host, change)
    hosts.run.check_going_on()
    if change.is_held:
        hosts.marks.keep(ref.moid, reason=change.reason)
        return StepResult(message="already in maintenance mode for another reason; marker added")
    _check_vms(host, change, hosts)
    hosts.marks.keep(ref.moid, maintenance=True, reason=change.reason)
    # A run that was killed may have begun it: then the mark was there, and vCenter is on its way.
    is_begun = mark is not None and mark.maintenance
    patience = (change.timeout_seconds or _WITHOUT_LIMIT_SECONDS) if is_begun else 0
    try:
        _raise_alarm(change, hosts)
        yield from hosts.run_or_join(
            ref,
            f"put {ref.name} into maintenance mode",
            lambda: hosts.tools.writer.enter_maintenance(ref.moid, change.vsan, change.timeout_seconds),
            lambda seen: seen.is_in_maintenance_mode,
            patience,
        )
    except (Unreachable, LoginFailed):
        raise  # whether it enters is not known: the mark stays
    except (VCenterError, TaskFailed):
        _take_back(change, hosts)
        raise
    except Interrupted:
        if not patience:
            _take_back(change, hosts)
        raise
    yield from _await_mode(ref, hosts, is_wanted=True)
    return StepResult()


def _mark_again(host: Host, change: EnterMaintenance, hosts: HostSession) -> StepResult:
    """Mark a host that is in maintenance mode for this plan, and whose mark was lost."""
    if not host.is_in_maintenance_mode:
        raise StalePlan(
            f"{host.name} has exited maintenance mode since it was read",
            subject=host.name,
            remedy=PLAN_AGAIN,
        )
    hosts.marks.keep(change.host.moid, maintenance=True, reason=change.reason)
    return StepResult(message="put into maintenance mode by an earlier run of this plan; marker restored")


def exit_maintenance(change: ExitMaintenance, hosts: HostSession) -> Step:
    """Read back the settings, leave maintenance mode, clear the alarm, close the shell, clear the mark."""
    ref = change.host
    view = yield from hosts.read_awake(ref)
    mark = hosts.marks.own(ref.moid)
    is_needed = False
    if view.host.is_in_maintenance_mode and not change.is_held:
        if mark is None or not mark.maintenance:
            raise StalePlan(
                f"{ref.name} is in maintenance mode, but not for this plan",
                subject=ref.name,
                remedy="find out who put the host into maintenance mode; if they agree, exit maintenance "
                "mode manually",
            )
        view = yield from hosts.confirm(change, ref, change.settles, in_force=True)
        yield from hosts.run_or_join(
            ref,
            f"take {ref.name} out of maintenance mode",
            lambda: hosts.tools.writer.exit_maintenance(ref.moid, change.timeout_seconds),
            lambda seen: not seen.is_in_maintenance_mode,
            hosts.run.options.settle_seconds,
        )
        yield from _await_mode(ref, hosts, is_wanted=False)
        hosts.given_back.add(ref.moid)
        is_needed = True
    elif change.is_held and mark is not None:
        view = yield from hosts.confirm(change, ref, change.settles, in_force=True)
        is_needed = True
    drop_names(ref, view, hosts)
    if mark is not None and mark.maintenance:
        _clear_alarm(change, hosts)
    _clear_mark(change, view, hosts)
    if change.is_held:
        return StepResult(is_needed=is_needed, message="it remains in maintenance mode")
    return StepResult(is_needed=is_needed, message="" if is_needed else "already out of maintenance mode")


def _clear_mark(change: ExitMaintenance, view: HostView, hosts: HostSession) -> None:
    """Stop the services due for it and clear the mark; if the stop fails the mark still records it."""
    moid = change.host.moid
    try:
        hosts.shells.stop(moid, view.facts)
    except (Unreachable, LoginFailed):
        raise
    except VCenterError as error:
        hosts.run.note(change.id, f"the host's SSH service could not be stopped: {error.message}")
        hosts.marks.keep(moid, maintenance=False, reason="", waiting={})
    else:
        hosts.marks.clear(moid)


def _check_mode(host: Host, change: EnterMaintenance) -> None:
    if not is_connected(host):
        raise StalePlan(
            f"{host.name} is not responding ({host.connection})", subject=host.name, remedy=PLAN_AGAIN
        )
    if host.is_in_maintenance_mode and not change.is_held:
        raise StalePlan(
            f"{host.name} entered maintenance mode for another reason after planning",
            subject=host.name,
            remedy="find out who put it into maintenance mode and why; then " + PLAN_AGAIN,
        )
    if change.is_held and not host.is_in_maintenance_mode:
        raise StalePlan(
            f"{host.name} has exited the maintenance mode that another user had started",
            subject=host.name,
            remedy=PLAN_AGAIN,
        )


def _check_vms(host: Host, change: EnterMaintenance, hosts: HostSession) -> None:
    """See that nothing has come to run there that would have to be switched off: one reading of its VMs."""
    run = hosts.run
    seen = [vm for vm in run.reader.read_vms_on(host.moid) if vm.is_on]
    # DRS may have put here what an earlier host of this plan was emptied of: it moves once more.
    on_the_move = {
        name for one in run.plan.changes if one.kind == "enter_maintenance" for name in one.evacuates
    }
    for vm in seen:
        if _is_stuck(vm, on_the_move):
            raise StalePlan(
                f"{vm.name} is running on {host.name} and cannot be migrated: {_tie_of(vm)}",
                subject=host.name,
                remedy=f"have the owner of {vm.name} shut it down; then " + PLAN_AGAIN,
            )
    others = sorted(vm.name for vm in seen if vm.name not in change.evacuates)
    if others:
        run.note(
            change.id,
            f"DRS also migrates VMs that were started on the host after planning: {', '.join(others)}",
        )


def _is_stuck(vm: Vm, on_the_move: Collection[str]) -> bool:
    # Of one whose devices nobody may read nobody knows that it can be moved, whatever the plan says.
    if vm.detail is None:
        return True
    if vm.detail.passthrough or any(nic.kind == "sriov" for nic in vm.detail.nics):
        return True
    # Whether one with a vGPU finds room elsewhere was worked out only for those the plan names.
    return bool(vm.detail.vgpus) and vm.name not in on_the_move


def _tie_of(vm: Vm) -> str:
    if vm.detail is None:
        return "the account has no read access to its devices"
    if vm.detail.vgpus and not vm.detail.passthrough:
        return "it has a vGPU and was moved to this host after planning"
    return "it uses a device on this host"


def _raise_alarm(change: EnterMaintenance, hosts: HostSession) -> None:
    try:
        hosts.tools.writer.raise_alarm(change.host.moid, hosts.run.plan.name, change.reason)
    except (NotPermitted, NotOffered) as error:
        hosts.run.note(change.id, f"no alarm was created on the host: {error.message}")


def _clear_alarm(change: ExitMaintenance | EnterMaintenance, hosts: HostSession) -> None:
    """Remove the alarm; if that fails the mark stays, too, and shows the next run the remains."""
    try:
        hosts.tools.writer.clear_alarm(change.host.moid, hosts.marks.plan.name)
    except (NotPermitted, NotOffered) as error:
        hosts.run.note(change.id, f"the alarm could not be removed from the host: {error.message}")


def _take_back(change: EnterMaintenance, hosts: HostSession) -> None:
    """Leave no mark and no alarm on a host that was not taken down after all, as far as vCenter lets us."""
    try:
        if not hosts.look(change.host).is_in_maintenance_mode:
            _clear_alarm(change, hosts)
            hosts.marks.keep(change.host.moid, maintenance=False, reason="")
    except VgpuCfgError as error:
        hosts.run.note(change.id, f"vgpu-cfg's marker remains on the host: {error.message}")


def _await_mode(ref: HostRef, hosts: HostSession, *, is_wanted: bool) -> Waiting[None]:
    """See that the host shows the mode that a task has brought."""
    run = hosts.run
    deadline = run.now() + run.options.settle_seconds
    while hosts.look(ref).is_in_maintenance_mode != is_wanted:
        if run.now() >= deadline:
            shown = "is not in maintenance mode" if is_wanted else "is still in maintenance mode"
            raise NotConfirmed(
                f"{ref.name} {shown} even though the task succeeded", subject=ref.name, remedy=PLAN_AGAIN
            )
        yield from wait(run.options.poll_seconds)
