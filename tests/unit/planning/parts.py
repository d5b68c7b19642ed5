"""The edits of devices taken apart: what they remove, add and set, and what a reader sees."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from vgpu_cfg.changes.kinds.vm_spec import DeviceEdit, RemoveDevice
from vgpu_cfg.changes.values import Edit
from vgpu_cfg.planning.vms.settings.edits import VmEdit, joined


@dataclass(frozen=True)
class Parts:
    """The parts of one request; `edits` are what a reader sees."""

    removals: list[DeviceEdit] = field(default_factory=list)
    additions: list[DeviceEdit] = field(default_factory=list)
    extra_config: Mapping[str, str] = field(default_factory=dict)
    device_groups: Mapping[int, str] = field(default_factory=dict)
    edits: list[Edit] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        return self == Parts()


def parts(found: Iterable[VmEdit]) -> Parts:
    edits = list(found)
    spec = joined(edits)
    return Parts(
        [device for device in spec.devices if isinstance(device, RemoveDevice)],
        [device for device in spec.devices if not isinstance(device, RemoveDevice)],
        spec.extra_config,
        spec.device_groups,
        [one.edit for one in edits],
    )
