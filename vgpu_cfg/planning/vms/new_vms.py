"""The changes that make a VM: one clone with everything in it, and the detour of a hardware upgrade.

A template of an older hardware version cannot be given devices that the version does
not know: it is cloned without them, upgraded, and given its devices by one reconfigure.

A plan that only changes who manages VMs, or whether they exist, follows from its changes and findings alone.

Belief: clone-honours-config-spec, clone-keeps-hardware-version, clone-device-change, clone-sets-mac,
manual-mac-is-cloned, clone-takes-policies, clone-takes-device-groups, library-template-clones-alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from vgpu_cfg.changes.change import (
    Change,
    CreateVm,
    PowerOnVm,
    ReconfigureVm,
    SetAttributes,
    SetTags,
    UpgradeVm,
)
from vgpu_cfg.changes.kinds.create_vm import CloneFrom, Location, MakeFromScratch
from vgpu_cfg.changes.kinds.guest import Customization
from vgpu_cfg.changes.kinds.power import NumaPin
from vgpu_cfg.changes.plan import Plan, PlanTarget, all_disturbed, reckoned
from vgpu_cfg.changes.values import Edit, Subject, VmRef
from vgpu_cfg.model.desired import DesiredPlan, DesiredPower, ScratchSource, TemplateSource
from vgpu_cfg.model.observed.inventory import Datastore, Host
from vgpu_cfg.model.observed.vm import Vm
from vgpu_cfg.planning.estate.site import Site
from vgpu_cfg.planning.findings.collection import Findings, report_beliefs
from vgpu_cfg.planning.vms.customization import await_customization, edits_of
from vgpu_cfg.planning.vms.lookup.resolved_vm import ResolvedVm
from vgpu_cfg.planning.vms.settings.edits import TagEdit, VmEdit, VmEdits, joined, shown

LINKED_CLONE = "createNewChildDiskBacking"
CONSOLIDATED_CLONE = "moveAllDiskBackingsAndConsolidate"
"""vim `RelocateSpec.diskMoveType` of a clone that shares its template's disks; of one without their chain."""


@dataclass(frozen=True, slots=True)
class NewPlace:
    """The place of a new VM, and its hardware version there."""

    host: Host
    pool_moid: str
    datastore: Datastore
    hardware_version: int | None


def change_id(verb: str, name: str) -> str:
    """Name a change so that two plannings give it the same name."""
    return f"{verb} {name}"


def plan_new(
    resolved: ResolvedVm,
    edits: VmEdits,
    place: NewPlace,
    pin: NumaPin | None,
    customization: Customization | None = None,
) -> list[Change]:
    """List the changes that make a VM, and power it on if it is to run; `edits` are to its template.

    With `customization` its guest is customized at its first start, and the plan waits for that.
    """
    name = resolved.name
    subject, vm, host = Subject(kind="vm", name=name), VmRef(name=name), place.host
    base_version = resolved.base.hardware_version
    is_scratch = resolved.template is None
    upgrades = not is_scratch and (base_version or 0) < (place.hardware_version or 0)
    defaulted = resolved.desired.defaulted
    late = [one for one in edits.edits if one.is_late and upgrades]
    now = [one for one in edits.edits if not (one.is_late and upgrades)]
    customized = edits_of(customization) if customization is not None else ()
    create = CreateVm(
        id=change_id("create", name),
        subject=subject,
        edits=(*_head(resolved, place), *shown(now), *customized),
        host_moid=host.moid,
        vm=vm,
        source=_source(resolved),
        location=_location(resolved, place),
        spec=joined(now),
        customization=customization,
    )
    changes: list[Change] = [create]
    if upgrades:
        changes += _upgrade(resolved, place, late, create)
    if edits.attributes:
        changes.append(set_attributes(vm, subject, edits, (changes[-1].id,), host.moid))
    if edits.tags:
        changes.append(set_tags(vm, subject, edits.tags, (changes[-1].id,), host.moid))
    if resolved.desired.power is DesiredPower.ON:
        power_on = PowerOnVm(
            id=change_id("power on", name),
            subject=subject,
            edits=(power_edit("off", "on", is_default="power" in defaulted),),
            needs=(changes[-1].id,),
            host_moid=host.moid,
            vm=vm,
            pin=pin,
        )
        changes.append(power_on)
        if customization is not None and resolved.desired.guest is not None:
            changes.append(await_customization(power_on, resolved.desired.guest, before=None))
    return changes


def set_attributes(
    vm: VmRef, subject: Subject, edits: VmEdits, needs: tuple[str, ...], host_moid: str | None
) -> SetAttributes:
    """Return the change that sets the custom attributes of a VM."""
    return SetAttributes(
        id=change_id("set attributes of", vm.name),
        subject=subject,
        edits=edits.attributes,
        needs=needs,
        host_moid=host_moid,
        vm=vm,
        values={edit.key: edit.after or "" for edit in edits.attributes},
    )


def set_tags(
    vm: VmRef, subject: Subject, edits: Sequence[TagEdit], needs: tuple[str, ...], host_moid: str | None
) -> SetTags:
    """Return the change that gives a VM tags and takes others from it."""
    return SetTags(
        id=change_id("set tags of", vm.name),
        subject=subject,
        edits=tuple(one.edit for one in edits),
        needs=needs,
        host_moid=host_moid,
        vm=vm,
        detach=tuple(tag for one in edits for tag in one.detach),
        attach=tuple(tag for one in edits for tag in one.attach),
    )


def _upgrade(resolved: ResolvedVm, place: NewPlace, late: Sequence[VmEdit], create: CreateVm) -> list[Change]:
    name, version = resolved.name, place.hardware_version or 0
    upgrade = UpgradeVm(
        id=change_id("upgrade", name),
        subject=create.subject,
        edits=(version_edit(resolved.base.hardware_version, version),),
        needs=(create.id,),
        host_moid=create.host_moid,
        vm=create.vm,
        hardware_version=version,
    )
    if not late:
        return [upgrade]
    devices = ReconfigureVm(
        id=change_id("reconfigure", name),
        subject=create.subject,
        edits=shown(late),
        needs=(upgrade.id,),
        host_moid=create.host_moid,
        vm=create.vm,
        spec=joined(late),
    )
    return [upgrade, devices]


@lru_cache(maxsize=4096)
def power_edit(before: str, after: str, *, is_default: bool = False) -> Edit:
    """Return the edit of a VM's power state."""
    return Edit(key="power", before=before, after=after, is_default=is_default)


@lru_cache(maxsize=4096)
def version_edit(before: int | None, after: int) -> Edit:
    """Return the edit that raises the hardware version."""
    return Edit(
        key="hardware_version",
        before=f"vmx-{before}" if before else None,
        after=f"vmx-{after}",
        is_default=True,
        sets={"version": f"vmx-{after}"},
    )


def _head(resolved: ResolvedVm, place: NewPlace) -> list[Edit]:
    """List a new VM's main facts for a reader before its settings: its source, and its place."""
    defaulted = resolved.desired.defaulted
    if resolved.template is not None:
        is_linked = resolved.desired.is_linked
        snapshot, sets = resolved.base.snapshot_moid, {"name": resolved.name}
        if is_linked:
            sets |= {"location.diskMoveType": LINKED_CLONE, "snapshot": snapshot or ""}
        elif snapshot is not None:
            sets |= {"location.diskMoveType": CONSOLIDATED_CLONE}
        made = Edit(
            key="linked clone" if is_linked else "clone",
            after=resolved.template.name,
            note=_library_note(resolved),
            sets=sets,
        )
    else:
        path = f"[{place.datastore.name}]"
        sets = {"name": resolved.name, "guestId": _guest_id(resolved), "files.vmPathName": path}
        made = Edit(key="create", after=_guest_id(resolved), sets=sets)
    is_clone = resolved.template is not None
    return [
        made,
        _host_edit(place.host.name, place.host.moid, place.pool_moid, is_clone=is_clone),
        _place_edit(
            "datastore",
            place.datastore.name,
            sets=("location.datastore", place.datastore.moid) if is_clone else None,
            is_default="datastore" in defaulted,
        ),
        _place_edit(
            "folder",
            resolved.folder.inventory_path or resolved.folder.name,
            sets=("folder", resolved.folder.moid) if is_clone else None,
            is_default="folder" in defaulted,
        ),
    ]


@lru_cache(maxsize=4096)
def _host_edit(name: str, moid: str, pool_moid: str, *, is_clone: bool) -> Edit:
    where = "location." if is_clone else ""
    return Edit(key="host", after=name, sets={f"{where}host": moid, f"{where}pool": pool_moid})


@lru_cache(maxsize=4096)
def _place_edit(key: str, name: str, *, sets: tuple[str, str] | None, is_default: bool) -> Edit:
    return Edit(key=key, after=name, is_default=is_default, sets=dict([sets] if sets else []))


def _library_note(resolved: ResolvedVm) -> str:
    """Return the content library's item of a template, if the plan file names it so."""
    source = resolved.desired.source
    of_library = isinstance(source, TemplateSource) and source.library is not None
    return f"library item {source}" if of_library else ""


def _guest_id(resolved: ResolvedVm) -> str:
    return resolved.desired.source.guest_id if isinstance(resolved.desired.source, ScratchSource) else ""


def _source(resolved: ResolvedVm) -> CloneFrom | MakeFromScratch:
    if resolved.template is None:
        return MakeFromScratch(guest_id=_guest_id(resolved))
    snapshot_moid = resolved.base.snapshot_moid
    return _clone_from(
        resolved.template.name, resolved.template.moid, snapshot_moid, is_linked=resolved.desired.is_linked
    )


@lru_cache(maxsize=4096)
def _clone_from(name: str, moid: str, snapshot_moid: str | None, *, is_linked: bool) -> CloneFrom:
    return CloneFrom(
        template=VmRef(name=name, moid=moid),
        snapshot_moid=snapshot_moid if is_linked else None,
        consolidates=snapshot_moid is not None and not is_linked,
    )


def _location(resolved: ResolvedVm, place: NewPlace) -> Location:
    return _located(
        folder_moid=resolved.folder.moid,
        folder_path=resolved.folder.inventory_path or resolved.folder.name,
        host_moid=place.host.moid,
        host_name=place.host.name,
        resource_pool_moid=place.pool_moid,
        datastore_moid=place.datastore.moid,
        datastore_name=place.datastore.name,
    )


@lru_cache(maxsize=4096)
def _located(**where: str) -> Location:
    return Location(**where)


def with_needs(change: Change, needs: tuple[str, ...]) -> Change:
    """Return the change with more needs; those it has stay first."""
    return change.model_copy(update={"needs": tuple(dict.fromkeys((*change.needs, *needs)))})


def plan_about_vms(
    desired: DesiredPlan,
    site: Site,
    changes: Sequence[Change],
    findings: Findings,
    *,
    in_sync: Iterable[str] = (),
    orphans: Iterable[Vm] = (),
    chosen: Iterable[str] | None = None,
) -> Plan:
    """Put a plan together; `chosen` names the VMs with reported findings, None for all."""
    observed, vcenter = site.observed, site.observed.vcenter
    report_beliefs(desired, observed, changes, findings)
    vms = {change.subject.moid or "" for change in changes if change.subject.kind == "vm"}
    hosts = {change.host_moid for change in changes}
    plan = Plan(
        name=desired.name,
        target=PlanTarget(
            address=vcenter.address,
            instance_uuid=vcenter.instance_uuid,
            datacenter=site.datacenter.name if site.datacenter else "",
        ),
        read_at=observed.read_at,
        desired=desired,
        diagnostics=findings.diagnostics(chosen),
        changes=tuple(changes),
        in_sync=tuple(in_sync),
        orphans=tuple(vm.name for vm in orphans),
    )
    return reckoned(plan, observed, all_disturbed(changes, observed, vms), vms=vms, hosts=hosts)
