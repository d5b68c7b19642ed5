"""Reconfigure a VM although its change version moves by itself.

Not only edits move `changeVersion`: a power-on does too (vmware/vic, pull request 2510), and vCenter may show
it late. If vCenter refuses a request for the version alone, the VM is read again; if only the version has
changed, the request is made once more.
"""

from __future__ import annotations

from vgpu_cfg.changes.kinds.vm_spec import VmSpec
from vgpu_cfg.execution.run.session import RunSession, succeeded
from vgpu_cfg.execution.run.step import Waiting, wait, wait_for
from vgpu_cfg.model.observed.vm import AFFINITY_KEY, MARK_PLAN_KEY, MARK_VM_KEY, Vm
from vgpu_cfg.ports import TaskUpdate

MOST_REQUESTS = 3
# Belief: power-on-moves-change-version, power-off-moves-change-version.
_REFUSED_FOR_VERSION = "ConcurrentAccess"
_PASSING = {"guest": None, "cpu_mhz": None, "uptime_seconds": None}
"""The properties that change by themselves while a VM runs."""
_ELSEWHERE = {"tags": None}
"""The properties that only a reading of the estate shows; no change version guards them."""
_COMPARED_KEYS = frozenset({AFFINITY_KEY, MARK_PLAN_KEY, MARK_VM_KEY})


def reconfigure(vm: Vm, spec: VmSpec, what: str, session: RunSession) -> Waiting[None]:
    """Reconfigure a VM; `vm` is how it was last read. Raises TaskFailed where vCenter does not do it."""
    before = session.seen.get(vm.moid, vm)
    update = yield from _request(vm.moid, spec, session)
    for _ in range(MOST_REQUESTS - 1):
        if update.fault != _REFUSED_FOR_VERSION or spec.change_version is None:
            break
        yield from wait(session.options.poll_seconds)
        after = yield from session.read_vm(vm.moid)
        version = after.detail.change_version if after is not None and after.detail is not None else ""
        if after is None or version in ("", spec.change_version) or not is_unmoved(before, after):
            break
        spec = spec.model_copy(update={"change_version": version})
        update = yield from _request(vm.moid, spec, session)
    succeeded(update, what, vm.name)


def is_unmoved(before: Vm, after: Vm) -> bool:
    """Whether two readings of a VM differ in nothing that a plan is about; the change version aside."""
    return _essence(before) == _essence(after)


def _essence(vm: Vm) -> Vm:
    if vm.detail is None:
        return vm
    kept = {key: value for key, value in vm.detail.extra_config.items() if key in _COMPARED_KEYS}
    detail = vm.detail.model_copy(
        update={"change_version": "", "extra_config": kept, **_PASSING, **_ELSEWHERE}
    )
    return vm.model_copy(update={"detail": detail, "name": vm.called or vm.name, "called": ""})


def _request(moid: str, spec: VmSpec, session: RunSession) -> Waiting[TaskUpdate]:
    task = session.begin(lambda: session.writer.reconfigure_vm(moid, spec))
    return (yield from wait_for(task))
