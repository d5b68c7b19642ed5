"""How a host is taken out of service and given back: mark, alarm, maintenance mode, and the way back.

The mark comes first and goes last, so that a run that is killed at any moment leaves a host
that says whose it is, and that the next run can finish.
"""

from __future__ import annotations

from collections.abc import Collection

from vgpu_cfg.changes.change import EnterMaintenance, ExitMaintenance
from vgpu_cfg.changes.values import HostRef
from vgpu_cfg.errors import (
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
from vgpu_cfg.execution.hosts.session import HostSession, is_connected
from vgpu_cfg.execution.hosts.vmnics import drop_names
from vgpu_cfg.execution.run.session import PLAN_AGAIN
from vgpu_cfg.execution.run.step import Step, StepResult, Waiting, wait
from vgpu_cfg.model.observed.inventory import Host
from vgpu_cfg.model.observed.vm import Vm
from vgpu_cfg.planning.host_settings.entry import HostView

_WITHOUT_LIMIT_SECONDS = 86400
"""How long an entry is looked out for that a killed run has begun, where vCenter has no limit on it."""


def enter_maintenance(change: EnterMaintenance, hosts: HostSession) -> Step:
    """Mark the host, raise the alarm, enter maintenance mode and see that it is entered.

    A host that is there under this plan's mark needs nothing, whatever the window says: it waits to
    be finished. Where vCenter does not bring it there, mark and alarm go again.
    """
    ref = change.host
    host = hosts.read(ref).host
    mark = hosts.marks.own(ref.moid)
    if host.is_in_maintenance_mode and mark is not None and (mark.maintenance or change.is_held):
        hosts.marks.keep(ref.moid, reason=change.reason)
        return StepResult(is_needed=False, message="it is in maintenance mode already, by this plan")
    if change.is_recovered:
        return _mark_again(host, change, hosts)
    _check_mode(host, change)
    hosts.run.check_going_on()
    if change.is_held:
        hosts.marks.keep(ref.moid, reason=change.reason)
        return StepResult(message="somebody else holds it in maintenance mode; it is marked")
    _check_vms(host, change, hosts)
    hosts.marks.keep(ref.moid, maintenance=True, reason=change.reason)
    # A run that was killed may have begun it: then the mark was there, and vCenter is on its way.
    is_begun = mark is not None and mark.maintenance
    patience = (change.timeout_seconds or _WITHOUT_LIMIT_SECONDS) if is_begun else 0
    try:
        _raise_alarm(change, hosts)
        yield from hosts.run_or_join(
            ref,
            f"take {ref.name} into maintenance mode",
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
    """Mark a host that stands in maintenance mode for this plan, and whose mark was lost."""
    if not host.is_in_maintenance_mode:
        raise StalePlan(
            f"{host.name} has left maintenance mode since it was read", subject=host.name, remedy=PLAN_AGAIN
        )
    hosts.marks.keep(change.host.moid, maintenance=True, reason=change.reason)
    return StepResult(message="an earlier run of this plan took it there; it is marked again")


def exit_maintenance(change: ExitMaintenance, hosts: HostSession) -> Step:
    """Read back what was set, leave maintenance mode, clear the alarm, close the shell, clear the mark."""
    ref = change.host
    view = yield from hosts.read_awake(ref)
    mark = hosts.marks.own(ref.moid)
    is_needed = False
    if view.host.is_in_maintenance_mode and not change.is_held:
        if mark is None or not mark.maintenance:
            raise StalePlan(
                f"{ref.name} is in maintenance mode, and this plan did not take it there",
                subject=ref.name,
                remedy="see who did, and leave maintenance mode by hand once they agree",
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
        return StepResult(is_needed=is_needed, message="it stays in maintenance mode, as it was found")
    return StepResult(
        is_needed=is_needed, message="" if is_needed else "it has left maintenance mode already"
    )


def _clear_mark(change: ExitMaintenance, view: HostView, hosts: HostSession) -> None:
    """Stop what is owed a stop and clear the mark; where the stop fails the mark goes on telling of it."""
    moid = change.host.moid
    try:
        hosts.shells.stop(moid, view.facts)
    except (Unreachable, LoginFailed):
        raise
    except VCenterError as error:
        hosts.run.note(change.id, f"its SSH service could not be stopped: {error.message}")
        hosts.marks.keep(moid, maintenance=False, reason="", waiting={})
    else:
        hosts.marks.clear(moid)


def _check_mode(host: Host, change: EnterMaintenance) -> None:
    if not is_connected(host):
        raise StalePlan(
            f"{host.name} does not answer ({host.connection})", subject=host.name, remedy=PLAN_AGAIN
        )
    if host.is_in_maintenance_mode and not change.is_held:
        raise StalePlan(
            f"somebody else has taken {host.name} into maintenance mode since it was planned",
            subject=host.name,
            remedy="see who did, and what for; then " + PLAN_AGAIN,
        )
    if change.is_held and not host.is_in_maintenance_mode:
        raise StalePlan(
            f"{host.name} has left the maintenance mode that somebody else had taken it into",
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
                f"{vm.name} runs on {host.name} and cannot be moved away: {_tie_of(vm)}",
                subject=host.name,
                remedy=f"have {vm.name} shut down by whom it belongs to; then " + PLAN_AGAIN,
            )
    others = sorted(vm.name for vm in seen if vm.name not in change.evacuates)
    if others:
        run.note(change.id, f"DRS also moves what came to run there since: {', '.join(others)}")


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
        return "the account may not read its devices"
    if vm.detail.vgpus and not vm.detail.passthrough:
        return "it has a vGPU, and came after the plan was made"
    return "it holds a device of that host"


def _raise_alarm(change: EnterMaintenance, hosts: HostSession) -> None:
    try:
        hosts.tools.writer.raise_alarm(change.host.moid, hosts.run.plan.name, change.reason)
    except (NotPermitted, NotOffered) as error:
        hosts.run.note(change.id, f"no alarm was set on the host: {error.message}")


def _clear_alarm(change: ExitMaintenance | EnterMaintenance, hosts: HostSession) -> None:
    """Remove the alarm; if that fails the mark stays, too, and the next run finds by it what is left."""
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
        hosts.run.note(change.id, f"the mark stays on the host: {error.message}")


def _await_mode(ref: HostRef, hosts: HostSession, *, is_wanted: bool) -> Waiting[None]:
    """See that the host shows the mode that a task has brought."""
    run = hosts.run
    deadline = run.now() + run.options.settle_seconds
    while hosts.look(ref).is_in_maintenance_mode != is_wanted:
        if run.now() >= deadline:
            shown = "is not in maintenance mode" if is_wanted else "is still in maintenance mode"
            raise NotConfirmed(
                f"{ref.name} {shown} although the task succeeded", subject=ref.name, remedy=PLAN_AGAIN
            )
        yield from wait(run.options.poll_seconds)
