"""The necessary changes of a VM, or of a template's clone, to reach the wanted state.

One function for both: a new VM is compared with its template in everything, a VM that exists only in the keys
that the plan file states. Settings are the rows of the table; devices are compared by code of their own. New
VMs that are alike in all that their settings, GPUs and disks follow from share the comparison.

Of tags only the categories that the plan file names are compared. Neither a tag nor a category is ever made:
a name that is not there is more likely mistyped than wanted.

Belief: clone-has-no-tags, clone-and-attributes.
"""

from __future__ import annotations

import shlex
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from operator import itemgetter

from vgpu_cfg.changes.kinds.vm_spec import NewTpm, RemoveDevice, VmSpec
from vgpu_cfg.changes.values import Edit
from vgpu_cfg.documents import did_you_mean
from vgpu_cfg.model.desired import DesiredVm, asks_gpudirect
from vgpu_cfg.model.observed.own_items import Tag, TagCategory
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
from vgpu_cfg.planning.vms.settings.setting import Carrier, Topic, VmSetting, Wanted
from vgpu_cfg.planning.vms.settings.table import VM_SETTINGS, dropped_keys, kept_keys

OWN_KEYS = frozenset({"name", "line", "origin", "guest", "nics", "attributes"})
"""The keys that are not compared for a VM of the plan: they differ within a line."""

_shared = itemgetter(*(key for key in DesiredVm.model_fields if key not in OWN_KEYS))


@dataclass(frozen=True, slots=True)
class Numbers:
    """Numbers for what plan files say: equal values have the same one. VMs of one line share their values."""

    _by_id: dict[int, tuple[object, int]] = field(default_factory=dict)
    _by_value: dict[Hashable, int] = field(default_factory=dict)
    _by_ids: dict[tuple[int, ...], tuple[int, ...]] = field(default_factory=dict)

    def of_all(self, values: Sequence[object]) -> tuple[int, ...]:
        """Return the numbers of values, in their order."""
        ids = tuple(map(id, values))
        if ids not in self._by_ids:
            self._by_ids[ids] = tuple(self.of(value) for value in values)
        return self._by_ids[ids]

    def of(self, value: object) -> int:
        """Return the number of a value."""
        known = self._by_id.get(id(value))
        if known is None:
            content = tuple(sorted(value.items())) if isinstance(value, Mapping) else value
            number = self._by_value.setdefault((type(value), content), len(self._by_value))
            known = self._by_id[id(value)] = value, number
        return known[1]


def likeness(vm: PlacedVm, numbers: Numbers) -> Hashable:
    """Return the common key of new VMs with the same edits, except their NICs, attributes and own rows.

    Objects of vCenter are compared by identity: to keep a likeness, keep the VM, too.
    """
    desired, resolved = vm.desired, vm.resolved
    return (
        numbers.of_all(_shared(desired.__dict__)),
        asks_gpudirect(desired),
        None if vm.nics is None else tuple(nic.kind for nic in vm.nics),
        vm.functions,
        id(resolved.base),
        id(resolved.template),
        id(resolved.datastore),
        id(resolved.known_policies),
        tuple((name, policy.id) for name, policy in resolved.policies.items()),
        resolved.cpus,
        resolved.memory_mib,
        None if vm.host is None else vm.host.cpu_mhz,
        id(vm.cluster),
        vm.hardware_version,
        vm.gpus,
        vm.gpu_notes,
        tuple(vm.device_groups.items()),
        vm.mmio_gb,
        vm.inherited_disks,
        vm.affinity,
        vm.affinity_note,
        vm.nodes,
        vm.cores_per_numa_node,
        vm.addresses is None,
    )


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
        message = f"keys removed from the plan file and no longer managed: {words}"
        remedy = (
            "the current values are kept; to change one, add its key again. This finding is shown until "
            "the VM is changed again"
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


def compare_tags(vm: PlacedVm) -> Iterator[TagEdit]:
    """Yield, by category, a VM's missing and excess tags, compared with the plan file; a new VM has none.

    A missing category or tag is reported by `check_tags`, and nothing is done in its category.
    """
    found = {} if vm.is_new else vm.base.tags
    if found is None or vm.tag_categories is None:
        return
    categories = {one.name: one for one in vm.tag_categories}
    for name, wanted in _asked(vm):
        category = categories.get(name)
        tags = [category.tag(tag) for tag in wanted] if category is not None else []
        if category is None or None in tags:
            continue
        had = found.get(name, ())
        detach = tuple(tag for tag in category.tags if tag.name in had and tag.name not in wanted)
        attach = tuple(tag for tag in tags if tag is not None and tag.name not in had)
        if detach or attach:
            yield tag_edit(name, had, wanted, detach, attach)


def tag_edit(
    category: str,
    before: Sequence[str],
    after: Sequence[str],
    detach: tuple[Tag, ...],
    attach: tuple[Tag, ...],
) -> TagEdit:
    """Return the edit of a VM's tags of one category: before, after, and which ids are sent for it."""
    sets = {f"detach[{tag.id}]": tag.id for tag in detach} | {f"attach[{tag.id}]": tag.id for tag in attach}
    edit = Edit(key=category, before=", ".join(before) or None, after=", ".join(after) or None, sets=sets)
    return TagEdit(edit=edit, detach=detach, attach=attach)


def check_tags(vm: PlacedVm, findings: Findings) -> None:
    """Say why tags that are asked for cannot be given."""
    asked = list(_asked(vm))
    if not asked:
        return
    if vm.tag_categories is None or (not vm.is_new and vm.base.tags is None):
        message = "its tags could not be read, so they are not compared"
        remedy = "recordings contain no tags; connect to the vCenter and run `plan` again"
        findings.add_vm(Code.TAGS_NOT_READ, vm.desired, message, remedy)
        return
    categories = {one.name: one for one in vm.tag_categories}
    for name, wanted in asked:
        category = categories.get(name)
        if category is None:
            hint = did_you_mean(name, categories, noun="categories")
            message = f"this vCenter has no tag category {name!r}" + (f": {hint}" if hint else "")
            remedy = f"use an existing category, or create it: govc tags.category.create {shlex.quote(name)}"
            findings.refuse_vm(Code.TAG_CATEGORY_ABSENT, vm.desired, message, remedy)
            continue
        _check_category(vm, category, wanted, findings)


def _check_category(vm: PlacedVm, category: TagCategory, wanted: tuple[str, ...], findings: Findings) -> None:
    name = category.name
    for absent in (tag for tag in wanted if category.tag(tag) is None):
        hint = did_you_mean(absent, (tag.name for tag in category.tags), noun="tags")
        message = f"the category {name} has no tag {absent!r}" + (f": {hint}" if hint else "")
        words = shlex.join(["tags.create", "-c", name, absent])
        remedy = f"use an existing tag, or create it: govc {words}"
        findings.refuse_vm(Code.TAG_ABSENT, vm.desired, message, remedy)
    if category.is_single and len(wanted) > 1:
        message = (
            f"{listed(wanted)} are requested, but an object can have only one tag from the category {name}"
        )
        findings.refuse_vm(Code.TAG_CATEGORY_SINGLE, vm.desired, message, "use only one of them")
    if wanted and not category.is_for_vms:
        message = f"tags in the category {name} apply to {listed(sorted(category.types))}, not to VMs"
        remedy = "use a category that applies to VMs, or extend this one to VMs"
        findings.refuse_vm(Code.TAG_CATEGORY_OF_OTHERS, vm.desired, message, remedy)


def _asked(vm: PlacedVm) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield each category that the plan file names, and its wanted tags of the VM, each once."""
    for name, wanted in sorted((vm.desired.tags or {}).items()) if vm.manages("tags") else ():
        yield name, tuple(sorted(dict.fromkeys(wanted)))
