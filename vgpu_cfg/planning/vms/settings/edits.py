"""The edits of one VM: each is the displayed text with its part of the request; and extraConfig's values.

The displayed and the sent values are made here at once, so that neither can be without the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from vgpu_cfg.changes.kinds.vm_spec import DeviceEdit, PolicyRef, VmSpec
from vgpu_cfg.changes.values import Edit, extra_config_path, wire_text
from vgpu_cfg.model.observed.own_items import Tag
from vgpu_cfg.model.observed.vm import SettingValue, VmDetail
from vgpu_cfg.planning.vms.settings.setting import Carrier, Topic, VmSetting


@dataclass(frozen=True, slots=True)
class VmEdit:
    """One edit of a VM.

    `spec` is its part of the request. `is_late` is whether the VM's hardware version must be raised first,
    `is_live` whether a running VM accepts it. `undo` is the request that reverses it, empty if none does.
    """

    topic: Topic
    edit: Edit
    spec: VmSpec = field(default_factory=VmSpec)
    is_late: bool = False
    is_live: bool = False
    undo: VmSpec = field(default_factory=VmSpec)


@dataclass(frozen=True, slots=True)
class ClusterEdit:
    """An override of a VM in its cluster: the displayed text, by the key of its row, and the value."""

    edit: Edit
    value: SettingValue


@dataclass(frozen=True, slots=True)
class TagEdit:
    """The change of a VM's tags of one category: the displayed text, and the tags to remove and add."""

    edit: Edit
    detach: tuple[Tag, ...] = ()
    attach: tuple[Tag, ...] = ()


@dataclass(frozen=True, slots=True)
class VmEdits:
    """All edits that a VM needs, in the order in which they are shown.

    `overrides` go to its cluster, `attributes` to vCenter's custom attributes, `tags` to its REST side.
    """

    edits: tuple[VmEdit, ...] = ()
    overrides: tuple[ClusterEdit, ...] = ()
    attributes: tuple[Edit, ...] = ()
    tags: tuple[TagEdit, ...] = ()

    @property
    def is_live(self) -> bool:
        """Whether a running VM takes all of them."""
        return all(one.is_live for one in self.edits)


def joined(edits: Iterable[VmEdit]) -> VmSpec:
    """Return the one request that carries the edits; removals come first."""
    settings: dict[str, SettingValue] = {}
    extra_config: dict[str, str] = {}
    groups: dict[int, str] = {}
    devices: list[DeviceEdit] = []
    home_policy: PolicyRef | None = None
    for one in edits:
        settings |= one.spec.settings
        extra_config |= one.spec.extra_config
        groups |= one.spec.device_groups
        devices += one.spec.devices
        home_policy = one.spec.home_policy or home_policy
    devices.sort(key=lambda device: device.removes is None)
    return VmSpec(
        settings=settings,
        extra_config=dict(sorted(extra_config.items())),
        devices=tuple(devices),
        device_groups=groups,
        home_policy=home_policy,
    )


def shown(edits: Iterable[VmEdit]) -> tuple[Edit, ...]:
    """Return the displayed text of the edits."""
    return tuple(one.edit for one in edits)


def undone(edits: Iterable[VmEdit]) -> VmSpec:
    """Return the request that restores settings and extraConfig."""
    known = list(edits)
    settings = {key: value for one in known for key, value in one.undo.settings.items()}
    extra_config = {key: value for one in known for key, value in one.undo.extra_config.items()}
    return VmSpec(settings=settings, extra_config=dict(sorted(extra_config.items())))


def setting_spec(setting: VmSetting, value: SettingValue) -> VmSpec:
    """Return the request that sets a row to a value."""
    if setting.carrier is Carrier.EXTRA_CONFIG:
        return VmSpec(extra_config={key: str(leaf) for key, leaf in setting.on_wire(value).items()})
    return VmSpec(settings={setting.key: value})


def device_edit(
    topic: Topic,
    edit: Edit,
    devices: Sequence[DeviceEdit],
    *,
    extra_config: Mapping[str, str] | None = None,
    device_groups: Mapping[int, str] | None = None,
    is_late: bool = False,
) -> VmEdit:
    """Return the edit of one or more devices, with the values sent for them."""
    spec = VmSpec(devices=tuple(devices), extra_config=extra_config or {}, device_groups=device_groups or {})
    return VmEdit(
        topic=topic, edit=edit.model_copy(update={"sets": spec.leaves()}), spec=spec, is_late=is_late
    )


def pair_edit(key: str, before: str | None, value: str, *, note: str = "") -> VmEdit:
    """Return the edit of one extraConfig pair; an empty value deletes it."""
    sets = {extra_config_path(key): value}
    return VmEdit(
        topic=Topic.OPTIONS,
        edit=Edit(key=key, before=before, after=value or None, note=note, sets=sets),
        spec=VmSpec(extra_config={key: value}),
        undo=VmSpec(extra_config={key: before or ""}),
    )


def setting_leaves(setting: VmSetting, value: SettingValue) -> dict[str, str]:
    """Return the values sent for a row, by paths."""
    is_pair = setting.carrier is Carrier.EXTRA_CONFIG
    return {
        extra_config_path(path) if is_pair else path: wire_text(leaf)
        for path, leaf in setting.on_wire(value).items()
    }


def current(key: str, detail: VmDetail) -> str | None:
    """Return an extraConfig value; names in a VMX file are the same whatever their case (recalled)."""
    exact = detail.extra_config.get(key)
    if exact is not None:
        return exact
    folded = key.casefold()
    return next((value for name, value in detail.extra_config.items() if name.casefold() == folded), None)
