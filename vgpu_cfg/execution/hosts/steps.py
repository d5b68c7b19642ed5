"""How one thing is written to a host and read back, and how a service of it is restarted."""

from __future__ import annotations

import shlex
from typing import assert_never

from vgpu_cfg.changes.change import (
    ChangeHost,
    ColdBootHost,
    EnterMaintenance,
    ExitMaintenance,
    RebootHost,
    RestartService,
    ShutDownHost,
)
from vgpu_cfg.changes.kinds.change_host import EsxcliWrite, HostWrite, ShellWrite
from vgpu_cfg.changes.values import HostRef
from vgpu_cfg.errors import HostShellError, NotOffered, StalePlan, Unreachable, VgpuCfgError
from vgpu_cfg.execution.hosts.assess import RESTARTS, AssessedSetting, State
from vgpu_cfg.execution.hosts.maintenance import enter_maintenance, exit_maintenance
from vgpu_cfg.execution.hosts.power import cold_boot_host, reboot_host, shut_down_host
from vgpu_cfg.execution.hosts.session import HostSession
from vgpu_cfg.execution.hosts.vmnics import keep_names
from vgpu_cfg.execution.run.session import PLAN_AGAIN, succeeded
from vgpu_cfg.execution.run.step import Step, StepResult, Waiting, wait_for
from vgpu_cfg.planning.host_settings.entry import HostView

HostStep = (
    EnterMaintenance
    | ChangeHost
    | RestartService
    | RebootHost
    | ColdBootHost
    | ShutDownHost
    | ExitMaintenance
)


def make_host_step(change: HostStep, hosts: HostSession) -> Step:
    """Return the generator that carries a change to a host out.

    What fails on a host that is down leaves its reason in the host's mark.
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
        message = f"written already; waits for a {' and a '.join(waits)}" if waits else "it is so already"
        return StepResult(is_needed=False, message=message)
    if hosts.must_be_down(change, ref) and not view.host.is_in_maintenance_mode:
        raise StalePlan(
            f"{ref.name} has left maintenance mode before it was done",
            subject=ref.name,
            remedy="see who took it out; then " + PLAN_AGAIN,
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
        return StepResult(is_needed=False, message="what waited for it is in force already")
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
            f"{', '.join(names)} {'run' if len(names) > 1 else 'runs'} on a GPU of {ref.name}:"
            " its graphics service is not restarted",
            subject=ref.name,
            remedy="have them switched off by whom they belong to; then " + PLAN_AGAIN,
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
            hosts.run.note(change.id, f"{refused.message}; taking the other way")
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
            said = (result.stderr.strip() or result.stdout.strip() or "it printed nothing").splitlines()
            raise HostShellError(
                f"`{shlex.join(command)}` ended with status {result.status}: {'; '.join(said[-3:])}",
                subject=host.name,
                remedy="see what the command says; then " + PLAN_AGAIN,
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
    return f"waits for a {' and a '.join(waits)}" if waits else ""
