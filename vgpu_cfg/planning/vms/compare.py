"""The necessary changes of a VM, or of a template's clone, to reach the wanted state.

One function for both: a new VM is compared with its template in everything, a VM that exists only in the keys
that the plan file states. Settings are the rows of the table; devices are compared by code of their own.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from vgpu_cfg.changes.kinds.vm_spec import NewTpm, RemoveDevice, VmSpec
from vgpu_cfg.changes.values import Edit
from vgpu_cfg.model.observed.vm import OwnerMark, SettingValue
from vgpu_cfg.model.wording import listed
from vgpu_cfg.planning.estate.devices import made_by
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.findings.collection import Findings
from vgpu_cfg.planning.vms.devices import (
    DiskEdits,
    compare_disks,
    compare_functions,
    compare_gpus,
    compare_kind,
    compare_nics,
    compare_policies,
    policy_of,
)
from vgpu_cfg.planning.vms.lookup.placed import PlacedVm
from vgpu_cfg.planning.vms.lookup.wanted import PVRDMA
from vgpu_cfg.planning.vms.settings.edits import (
    ClusterEdit,
    TagEdit,
    VmEdit,
    VmEdits,
    current,
    device_edit,
    pair_edit,
    setting_leaves,
    setting_spec,
)
from vgpu_cfg.planning.vms.settings.extra_config_rows import MARK_ROW, OWN_ROWS
from vgpu_cfg.planning.vms.settings.kept_keys import dropped_keys, kept_keys
from vgpu_cfg.planning.vms.settings.setting import Carrier, Topic, VmSetting, Wanted
from vgpu_cfg.planning.vms.settings.sharing import Numbers, likeness
from vgpu_cfg.planning.vms.settings.table import VM_SETTINGS
from vgpu_cfg.planning.vms.tags import compare_tags

_ORDER = {topic: place for place, topic in enumerate(Topic)}
_OTHER_KEYS = ", with different keys"


Asked = Sequence[tuple[VmSetting, Wanted | None]]
"""The rows of the table with what each asks of a VM."""
_OWN = {row.key for row in OWN_ROWS}


@dataclass(frozen=True, slots=True)
class Needs:
    """The requests for similar VMs, and the edits that all of them need; `vm` is the first of them.

    Values that differ from VM to VM are excluded: the rows of `OWN_ROWS`, NICs and attributes.
    """

    vm: PlacedVm
    asked: Asked
    settings: tuple[VmEdit, ...]
    gpus: tuple[VmEdit, ...]
    disks: DiskEdits
    others: tuple[VmEdit, ...]
    overrides: tuple[ClusterEdit, ...]
    tags: tuple[TagEdit, ...]

    @classmethod
    def of(cls, vm: PlacedVm) -> Needs:
        """Compare one VM with its template, or with its present state."""
        asked = [(setting, setting.desired(vm)) for setting in VM_SETTINGS if setting.key not in _OWN]
        wanted = vm.desired.disks if vm.manages("disks") else ()
        disks = compare_disks(wanted, vm.base, vm.inherited_disks, partial(policy_of, vm), vm.disks)
        manages = vm.manages("gpus")
        return cls(
            vm,
            asked,
            settings=tuple(_setting_edits(asked, vm)),
            gpus=tuple(compare_gpus(vm.gpus, vm.own, vm.gpu_notes, vm.device_groups)) if manages else (),
            disks=disks,
            others=(*compare_policies(vm, disks.there), *_stated_pairs(vm)),
            overrides=tuple(_overrides(vm, asked)),
            tags=tuple(compare_tags(vm)),
        )


@dataclass(frozen=True, slots=True)
class SharedNeeds:
    """The needs of new VMs, worked out once for all similar ones; an existing one is unique."""

    _numbers: Numbers = field(default_factory=Numbers)
    _known: dict[Hashable, Needs] = field(default_factory=dict)

    def of(self, vm: PlacedVm) -> Needs:
        """Return a VM's needs."""
        if not vm.is_new:
            return Needs.of(vm)
        key = likeness(vm, self._numbers)
        if key not in self._known:
            self._known[key] = Needs.of(vm)
        return self._known[key]


def compare_vm(vm: PlacedVm, needs: Needs, network_names: Mapping[str, str] | None = None) -> VmEdits:
    """List the edits that bring a VM to its wanted state; `network_names` spells the networks of its NICs."""
    own = [(row, row.desired(vm)) for row in OWN_ROWS]
    edits = [
        *needs.settings,
        *_setting_edits(own, vm),
        *needs.gpus,
        *_nic_edits(vm, network_names or {}),
        *needs.disks.edits,
        *needs.others,
    ]
    if edits and (mark := _mark_of_other_keys(vm, edits)) is not None:
        edits.append(mark)
    edits = _with_record(vm, edits)
    return VmEdits(
        edits=tuple(sorted(edits, key=lambda one: _ORDER[one.topic])),
        overrides=needs.overrides,
        attributes=tuple(_attributes(vm)),
        tags=needs.tags,
    )


def _with_record(vm: PlacedVm, edits: list[VmEdit]) -> list[VmEdit]:
    """Let the owner mark say which devices are the plan's once all of these are there."""
    devices = [device for one in edits for device in one.spec.devices]
    sizes = tuple(size for device in devices if (size := device.new_disk_mib) is not None)
    added = len(sizes)
    existing, owned = vm.resolved.existing, vm.resolved.devices
    if existing is None:
        # Else the run tells it by the request; here some devices come after it, with another version.
        is_upgraded = not vm.is_scratch and (vm.base.hardware_version or 0) < (vm.hardware_version or 0)
        if not (is_upgraded and any(one.is_late for one in edits)):
            return edits
        mark = OwnerMark(plan=vm.plan, vm=vm.desired.name, **made_by(vm.base, devices))
        return _marked(vm, edits, Wanted(f"{mark.text}/{mark.vm}", is_default=True))
    if existing.mark is None or vm.disks is None or owned is None:
        return edits
    record = owned.record(devices)
    if not (sizes or record):
        return edits
    told = next((one.edit.note for one in edits if one.edit.key == MARK_ROW.key), "")
    disks = vm.disks.uuids if sizes else vm.disks.to_record
    mark = OwnerMark(plan=vm.plan, vm=vm.desired.name, disks=disks, new_disks=sizes, **record)
    notes = [
        *([f"with {added} new {'disk' if added == 1 else 'disks'}"] if sizes else [told] if told else []),
        *(["with its NICs and GPUs"] if record else []),
    ]
    wanted = Wanted(f"{mark.text}/{mark.vm}", is_default=True, note="; ".join(notes), is_anew=True)
    return _marked(vm, edits, wanted)


def _marked(vm: PlacedVm, edits: list[VmEdit], wanted: Wanted) -> list[VmEdit]:
    """Return the edits with this owner mark in place of another."""
    made = _edit(MARK_ROW, wanted, vm)
    if made is not None and made.edit.before == made.edit.after:
        made = replace(made, edit=made.edit.model_copy(update={"before": None}))
    return edits if made is None else [*(one for one in edits if one.edit.key != MARK_ROW.key), made]


def _mark_of_other_keys(vm: PlacedVm, edits: Iterable[VmEdit]) -> VmEdit | None:
    """Return the edit that names other keys in a VM's mark; it goes along with others, never by itself.

    A mark that names no keys is left so: it was written before there were any.
    """
    mark = vm.resolved.existing.mark if vm.resolved.existing is not None else None
    is_made = any(one.edit.key == MARK_ROW.key for one in edits)
    if mark is None or not mark.keys or is_made or mark.keys == kept_keys(vm.desired):
        return None
    note, value = "with the keys now in the plan file", f"{vm.plan}/{vm.desired.name}"
    made = _edit(MARK_ROW, Wanted(value, is_default=True, note=note, is_anew=True), vm)
    if made is None:
        return None
    return replace(made, edit=made.edit.model_copy(update={"before": f"{mark.plan}{_OTHER_KEYS}"}))


def goes_along(edit: Edit) -> bool:
    """Whether an edit goes with others: of a mark that names other keys or devices, and no other plan."""
    return edit.key == MARK_ROW.key and edit.before in (None, f"{edit.after}{_OTHER_KEYS}")


def report_dropped(vm: PlacedVm, findings: Findings) -> None:
    """Report the keys that the plan file no longer states for a VM: they are not managed now."""
    if dropped := dropped_keys(vm):
        words = listed((f"{key} ({shown})" for key, shown in dropped.items()), shown=6)
        message = f"removed from the plan file, so no longer managed: {words}"
        remedy = (
            "the current value is kept; to change it, add the key again. This message is shown until the VM "
            "next changes"
        )
        findings.add_vm(Code.NO_LONGER_MANAGED, vm.desired, message, remedy)


def check_options(vm: PlacedVm, asked: Asked, findings: Findings) -> None:
    """Say of each setting that is asked for why it must not be given."""
    for setting, wanted in asked:
        found = setting.objects(vm, wanted.value) if wanted is not None else None
        if found is not None:
            findings.add_vm(found.code, vm.desired, found.message, found.remedy)


def differing_at_creation(vm: PlacedVm, asked: Asked) -> Iterator[str]:
    """Yield the keys that a VM which exists does not show, and that only a new one gets."""
    for setting, wanted in asked:
        is_told = setting.is_of_creation and setting.plan_key and not vm.is_new
        if is_told and wanted is not None and not setting.holds(wanted.value, vm.base):
            yield setting.plan_key


def _setting_edits(asked: Asked, vm: PlacedVm) -> Iterator[VmEdit]:
    """Yield the edits of rows for which something is to be done."""
    for setting, wanted in asked:
        if setting.carrier is Carrier.CLUSTER or (setting.is_of_creation and not vm.is_new):
            continue
        edit = _edit_without_devices(setting, vm) if wanted is None else _edit(setting, wanted, vm)
        if edit is not None:
            yield edit


def _edit(setting: VmSetting, wanted: Wanted, vm: PlacedVm) -> VmEdit | None:
    """Return what gives a VM a value; None where it shows it."""
    holds = setting.holds(wanted.value, vm.base) and not wanted.is_anew
    if holds and not (setting.is_always and vm.is_new):
        return None
    edit = Edit(
        key=setting.key,
        before=None if holds else setting.text_of(vm.base),
        after=setting.text(wanted.value) or None,
        is_default=wanted.is_default,
        note=wanted.note,
        sets=setting_leaves(setting, wanted.value) if setting.carrier is not Carrier.DEVICE else {},
    )
    is_late = setting.hardware > (vm.base.hardware_version or setting.hardware)
    if setting.carrier is Carrier.DEVICE:
        return _tpm_edit(setting, wanted, edit, vm, is_late=is_late)
    return VmEdit(
        topic=setting.topic,
        edit=edit,
        spec=setting_spec(setting, wanted.value),
        is_late=is_late,
        is_live=setting.is_live,
        undo=_undo(setting, vm),
    )


def _edit_without_devices(setting: VmSetting, vm: PlacedVm) -> VmEdit | None:
    """Return what takes a setting back to the template's that came with devices which the VM gives up."""
    if setting.brought is None or not vm.sheds_devices or not setting.brought(vm):
        return None
    plain = _without_devices(setting, vm)
    is_pair = setting.carrier is Carrier.EXTRA_CONFIG
    if plain == setting.shown(vm.base) or (not is_pair and setting.holds(plain, vm.base)):
        return None
    edit = Edit(
        key=setting.key,
        before=setting.text_of(vm.base),
        after=setting.text(plain) or None,
        is_default=True,
        note="belongs to devices that are being removed",
        sets=setting_leaves(setting, plain),
    )
    return VmEdit(topic=setting.topic, edit=edit, spec=setting_spec(setting, plain), undo=_undo(setting, vm))


def _without_devices(setting: VmSetting, vm: PlacedVm) -> SettingValue:
    """Return a setting's value in a new VM without devices: its template's, else nothing."""
    template = vm.resolved.template
    shown = setting.shown(template.detail) if template is not None and template.detail is not None else None
    nothing = "" if setting.carrier is Carrier.EXTRA_CONFIG else 0
    return nothing if shown is None else shown


def _undo(setting: VmSetting, vm: PlacedVm) -> VmSpec:
    """Return the request that restores the earlier value; empty if it is unknown, or no value undoes it."""
    found = setting.shown(vm.base)
    if setting.carrier is Carrier.EXTRA_CONFIG:
        return (
            VmSpec(extra_config={setting.path: "" if found is None else str(found)})
            if setting.path
            else VmSpec()
        )
    return VmSpec() if found is None or setting.undo else VmSpec(settings={setting.key: found})


def _tpm_edit(setting: VmSetting, wanted: Wanted, edit: Edit, vm: PlacedVm, *, is_late: bool) -> VmEdit:
    if wanted.value:
        return device_edit(setting.topic, edit, [NewTpm()], is_late=is_late)
    removal = RemoveDevice(key=vm.base.tpm_key or 0, was=setting.name)
    return device_edit(setting.topic, edit, [removal])


def _nic_edits(vm: PlacedVm, names: Mapping[str, str]) -> Iterator[VmEdit]:
    if vm.manages("nics") and vm.nics is not None:
        yield from compare_functions(vm.functions, vm.own, names)
        yield from compare_kind(PVRDMA, vm.nics, vm.own, names)
        yield from compare_nics(vm.nics, vm.own, names)


def _stated_pairs(vm: PlacedVm) -> Iterator[VmEdit]:
    """Yield the extraConfig pairs that the plan file states itself."""
    for key, value in sorted(vm.desired.extra_config.items()) if vm.manages("extra_config") else ():
        found = current(key, vm.base)
        if (found or "") != value:
            yield pair_edit(key, found, value)


def _overrides(vm: PlacedVm, asked: Asked) -> Iterable[ClusterEdit]:
    """Yield the cluster's overrides for the VM."""
    for setting, wanted in asked:
        if setting.carrier is not Carrier.CLUSTER or wanted is None:
            continue
        found = vm.overrides.get(setting.key)
        if wanted.value != found:
            before = None if found is None else setting.text(found)
            yield ClusterEdit(
                edit=Edit(
                    key=setting.key,
                    before=before,
                    after=setting.text(wanted.value),
                    sets=setting_leaves(setting, wanted.value),
                ),
                value=wanted.value,
            )


def _attributes(vm: PlacedVm) -> Iterable[Edit]:
    """Yield the custom attributes that the VM does not show; a clone may have its template's, or none."""
    for name, value in sorted((vm.desired.attributes or {}).items()) if vm.manages("attributes") else ():
        found = vm.base.attributes.get(name) or None
        if (found or "") != value or (vm.is_new and found):
            before = found if found != value else None
            yield Edit(key=name, before=before, after=value or None, sets={f"customValue[{name}]": value})
