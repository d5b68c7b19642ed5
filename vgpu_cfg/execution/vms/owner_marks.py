"""Completion of a VM's owner mark at run time: instance UUID, account, time.

A plan says that a VM is marked, and with which names. The other fields are made here, for each request that
carries those names.

Belief: clone-accepts-instance-uuid.
"""

from __future__ import annotations

from datetime import datetime

from vgpu_cfg.changes.change import MarkVm
from vgpu_cfg.changes.kinds.vm_spec import GrowDisk, NewDisk, VmSpec
from vgpu_cfg.execution.run.session import RunSession
from vgpu_cfg.model.observed.vm import MARK_PLAN_KEY, MARK_VM_KEY, OwnerMark, TemplateSeen, Vm, VmDetail
from vgpu_cfg.planning.estate.devices import made_by
from vgpu_cfg.planning.vms.settings.table import kept_keys


def is_marking(spec: VmSpec) -> bool:
    """Whether a request writes an owner mark that is to be completed; one with an id goes as it was."""
    text = spec.extra_config.get(MARK_PLAN_KEY, "")
    return bool(text) and not OwnerMark.parse(text, "").id


def marked_new(
    spec: VmSpec,
    name: str,
    instance_uuid: str,
    at: datetime,
    session: RunSession,
    template: Vm | None,
) -> VmSpec:
    """Return a request with its owner mark complete: of a VM that is made, and gets this instance UUID.

    The copies of its template's devices, and those that the request adds, are the plan's. The template's
    version lets later plans see that it is another one by now.
    """
    if not is_marking(spec):
        return spec
    mark = _mark(name, instance_uuid, session.user, at, session)
    detail = (template.detail if template is not None else None) or VmDetail()
    grown = {device.key: device.size_mib for device in spec.devices if isinstance(device, GrowDisk)}
    sizes = [grown.get(disk.key, disk.capacity_mib) for disk in detail.disks]
    sizes += [device.size_mib for device in spec.devices if isinstance(device, NewDisk)]
    asked = OwnerMark.parse(spec.extra_config[MARK_PLAN_KEY], "")
    made = made_by(detail, spec.devices) if asked.pci is None else {}
    came = {"new_disks": tuple(sizes), "template": _seen(template), **made}
    return _with(spec, mark.naming(asked, None).model_copy(update=came))


def _seen(template: Vm | None) -> TemplateSeen | None:
    version = template.detail.change_version if template is not None and template.detail is not None else ""
    if template is None or not version:
        return None
    return TemplateSeen(name=template.name, instance_uuid=template.instance_uuid.lower(), version=version)


def marked_again(spec: VmSpec, vm: Vm, session: RunSession) -> VmSpec:
    """Return a request with its owner mark complete, for a VM that is there.

    Author and time are kept if the mark has them. One of version 0.1.0 does not: it gets this account.
    """
    if not is_marking(spec):
        return spec
    return _with(spec, _mark_again(spec, vm, session))


def marked_as(change: MarkVm, vm: Vm, session: RunSession) -> VmSpec:
    """Return the request of a change that writes an owner mark or takes it away, with the mark complete."""
    if not is_marking(change.spec):
        return change.spec
    mark = _mark_again(change.spec, vm, session).model_copy(update={"is_imported": change.mark == "imported"})
    return _with(change.spec, mark)


def _mark_again(spec: VmSpec, vm: Vm, session: RunSession) -> OwnerMark:
    before = vm.mark
    made_by, made_at = session.user, session.clock.now()
    if before is not None and before.id and before.made_at is not None:
        made_by, made_at = before.made_by, before.made_at
    mark = _mark(spec.extra_config[MARK_VM_KEY], vm.instance_uuid, made_by, made_at, session)
    asked = OwnerMark.parse(spec.extra_config[MARK_PLAN_KEY], "")
    mark = mark.naming(asked, before)
    if before is None:
        return mark
    kept = {"is_imported": before.is_imported, "template": before.template}
    return mark.model_copy(update={**kept, "keys": mark.keys or before.keys})


def _mark(name: str, instance_uuid: str, made_by: str, made_at: datetime, session: RunSession) -> OwnerMark:
    desired = session.plan.desired
    plan = desired.identity
    wanted = next((vm for vm in desired.vms if vm.name == name), None)
    return OwnerMark(
        plan=plan.name,
        vm=name,
        id=plan.id,
        instance_uuid=instance_uuid.lower(),
        made_by=made_by,
        made_at=made_at,
        keys=kept_keys(wanted) if wanted is not None else (),
    )


def _with(spec: VmSpec, mark: OwnerMark) -> VmSpec:
    return spec.model_copy(update={"extra_config": {**spec.extra_config, **mark.pairs}})
