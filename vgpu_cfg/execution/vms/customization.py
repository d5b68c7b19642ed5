"""How the end of a guest's customisation is waited for: vCenter is asked for its events of the VM."""

from __future__ import annotations

from vgpu_cfg.changes.change import AwaitCustomization
from vgpu_cfg.errors import NotConfirmed, TaskFailed
from vgpu_cfg.execution.run.session import PLAN_AGAIN, RunSession
from vgpu_cfg.execution.run.step import Step, StepResult, wait
from vgpu_cfg.model.observed.customization import CustomizationSeen

_ONCE = "it is not begun a second time: mend what is wrong, delete the VM, and plan again"
_TOLD = {
    "CustomizationNetworkSetupFailed": "the guest's network could not be set up",
    "CustomizationLinuxIdentityFailed": "the guest's host name could not be set",
    "CustomizationSysprepFailed": "sysprep failed in the guest",
}
"""What events mean that tell of a failure, by their descriptions in the vSphere API reference."""


def await_customization(change: AwaitCustomization, session: RunSession) -> Step:
    """Ask until the customisation has ended. Raises TaskFailed where it failed, NotConfirmed out of time."""
    vm = yield from session.present(change.vm)
    deadline = session.now() + change.wait_seconds
    is_told = False
    while True:
        seen = session.reader.read_customization(vm.moid)
        if seen.state == "succeeded":
            return StepResult(vm_moid=vm.moid)
        if seen.state == "failed":
            raise _failure(vm.name, seen)
        if seen.state == "running" and not is_told:
            session.note(change.id, "the guest is being customised")
            is_told = True
        if session.now() >= deadline:
            raise _no_end(vm.name, change.wait_seconds, seen)
        yield from wait(session.options.guest_poll_seconds)
        session.check_going_on()


def _failure(name: str, seen: CustomizationSeen) -> TaskFailed:
    where = f"read {seen.log} in the guest; " if seen.log else ""
    return TaskFailed(
        f"customise {name}: {seen.message or seen.event}",
        subject=name,
        cause=_TOLD.get(seen.event, ""),
        remedy=f"{where}{_ONCE}",
    )


def _no_end(name: str, seconds: int, seen: CustomizationSeen) -> NotConfirmed:
    minutes = f"{seconds / 60:.0f} min"
    if seen.state == "running":
        remedy = (
            f"read {seen.log or 'the log of VMware Tools'} in the guest; once it is done there, {PLAN_AGAIN}"
        )
        return NotConfirmed(
            f"{name}: after {minutes} its customisation has not ended", subject=name, remedy=remedy
        )
    return NotConfirmed(
        f"{name}: after {minutes} its customisation has not begun",
        subject=name,
        remedy=f"see that VMware Tools run in it, and that they carry customisation out there; {_ONCE}",
    )
