"""The changes that make a VM: one clone with everything in it, and the detour of a hardware upgrade.

A template of an older hardware version cannot be given devices that the version does
not know: it is cloned without them, upgraded, and given its devices by one reconfigure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from vgpu_cfg.model.change import (
    Change,
    CloneFrom,
    CreateVm,
    Edit,
    Location,
    MakeFromScratch,
    NumaPin,
    PowerOnVm,
    ReconfigureVm,
    Subject,
    UpgradeVm,
    VmRef,
)
from vgpu_cfg.model.desired import DesiredPower, ScratchSource, TemplateSource
from vgpu_cfg.model.inventory import Datastore, Host
from vgpu_cfg.model.vm import MARK_PLAN_KEY, MARK_VM_KEY
from vgpu_cfg.planning.case import Case
from vgpu_cfg.planning.compare import EFI, Difference, WantedVm, compare_vm


@dataclass(frozen=True, slots=True)
class NewPlace:
    """Where a new VM goes, and the hardware version that it shall have there."""

    host: Host
    pool_moid: str
    datastore: Datastore
    hardware_version: int | None


def change_id(verb: str, name: str) -> str:
    """Name a change so that two plannings give it the same name."""
    return f"{verb} {name}"


def plan_new(
    case: Case,
    wanted: WantedVm,
    place: NewPlace,
    plan: str,
    pin: NumaPin | None,
    network_names: Mapping[str, str],
) -> list[Change]:
    """List the changes that make a VM and, where it shall run, power it on."""
    name = case.name
    subject, vm, host = Subject(kind="vm", name=name), VmRef(name=name), place.host
    base_version = case.base.hardware_version
    is_scratch = case.template is None
    upgrades = not is_scratch and (base_version or 0) < (place.hardware_version or 0)
    defaulted = case.desired.defaulted
    found = compare_vm(
        wanted,
        case.base,
        lambda _: True,
        network_names=network_names,
        is_default=lambda key: key in defaulted,
    )
    found.extra_config |= {MARK_PLAN_KEY: plan, MARK_VM_KEY: name}
    more: dict[str, Any] = _always(case)
    if is_scratch:
        more["hardware_version"] = place.hardware_version
    late_edits = found.late_edits if upgrades else []
    edits = [*_head(case, place), *(edit for edit in found.edits if edit not in late_edits)]
    create = CreateVm(
        id=change_id("create", name),
        subject=subject,
        edits=tuple(edits),
        host_moid=host.moid,
        vm=vm,
        source=_source(case),
        location=_location(case, place),
        spec=found.spec(with_gpus=not upgrades, **more),
    )
    changes: list[Change] = [create]
    if upgrades:
        changes += _upgrade(case, place, found, create)
    if case.desired.power is DesiredPower.ON:
        changes.append(
            PowerOnVm(
                id=change_id("power on", name),
                subject=subject,
                edits=(Edit(key="power", before="off", after="on", is_default="power" in defaulted),),
                needs=(changes[-1].id,),
                host_moid=host.moid,
                vm=vm,
                pin=pin,
            )
        )
    return changes


def _upgrade(case: Case, place: NewPlace, found: Difference, create: CreateVm) -> list[Change]:
    name, version = case.name, place.hardware_version or 0
    upgrade = UpgradeVm(
        id=change_id("upgrade", name),
        subject=create.subject,
        edits=(_version_edit(case.base.hardware_version, version),),
        needs=(create.id,),
        host_moid=create.host_moid,
        vm=create.vm,
        hardware_version=version,
    )
    if not found.late_devices:
        return [upgrade]
    devices = ReconfigureVm(
        id=change_id("reconfigure", name),
        subject=create.subject,
        edits=tuple(found.late_edits),
        needs=(upgrade.id,),
        host_moid=create.host_moid,
        vm=create.vm,
        spec=found.spec(only_gpus=True),
    )
    return [upgrade, devices]


def _version_edit(before: int | None, after: int) -> Edit:
    return Edit(
        key="hardware_version",
        before=f"vmx-{before}" if before else None,
        after=f"vmx-{after}",
        is_default=True,
    )


def _head(case: Case, place: NewPlace) -> list[Edit]:
    """List what a reader wants to know of a new VM before its devices."""
    defaulted = case.desired.defaulted
    if case.template is not None:
        is_linked = isinstance(case.desired.source, TemplateSource) and case.desired.source.linked
        edits = [Edit(key="linked clone" if is_linked else "clone", after=case.template.name)]
    else:
        edits = [Edit(key="create", after=_guest_id(case))]
        if place.hardware_version is not None:
            edits.append(_version_edit(None, place.hardware_version))
    edits += [
        Edit(key="host", after=place.host.name),
        Edit(key="datastore", after=place.datastore.name, is_default="datastore" in defaulted),
        Edit(
            key="folder",
            after=case.folder.inventory_path or case.folder.name,
            is_default="folder" in defaulted,
        ),
    ]
    if _needs_efi(case):
        edits.append(Edit(key="firmware", after=EFI, is_default=True))
    return edits


def _always(case: Case) -> dict[str, Any]:
    """Return the fields that a new VM is given whatever its template says: a clone may drop its own."""
    fields: dict[str, Any] = {"reserve_all_memory": True}
    if _needs_efi(case) and case.base.firmware.casefold() != EFI:
        fields["firmware"] = EFI
    if "secure_boot" not in case.desired.defaulted and case.desired.secure_boot != case.base.secure_boot:
        fields["secure_boot"] = case.desired.secure_boot
    return fields


def _needs_efi(case: Case) -> bool:
    """Say whether the firmware is ours to decide: a VM without GPUs keeps its template's."""
    return bool(case.gpus) or case.template is None


def _guest_id(case: Case) -> str:
    return case.desired.source.guest_id if isinstance(case.desired.source, ScratchSource) else ""


def _source(case: Case) -> CloneFrom | MakeFromScratch:
    if case.template is None:
        return MakeFromScratch(guest_id=_guest_id(case))
    is_linked = isinstance(case.desired.source, TemplateSource) and case.desired.source.linked
    return CloneFrom(
        template=VmRef(name=case.template.name, moid=case.template.moid),
        snapshot_moid=case.base.snapshot_moid if is_linked else None,
    )


def _location(case: Case, place: NewPlace) -> Location:
    return Location(
        folder_moid=case.folder.moid,
        folder_path=case.folder.inventory_path or case.folder.name,
        host_moid=place.host.moid,
        host_name=place.host.name,
        resource_pool_moid=place.pool_moid,
        datastore_moid=place.datastore.moid,
        datastore_name=place.datastore.name,
    )


def with_needs(change: Change, needs: tuple[str, ...]) -> Change:
    """Return the change with more needs; those it has stay first."""
    return change.model_copy(update={"needs": tuple(dict.fromkeys((*change.needs, *needs)))})
