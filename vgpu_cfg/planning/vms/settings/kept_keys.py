"""The plan file's keys in a VM's owner mark: those that its file stated when it was last marked.

So a key that was dropped from the file is distinguished from one that was never there. A pair, an attribute
and a category of tags are keys of their own.
"""

from __future__ import annotations

from collections.abc import Iterator

from vgpu_cfg.model.desired import DesiredVm
from vgpu_cfg.model.wording import counted
from vgpu_cfg.planning.vms.lookup.placed import PlacedVm
from vgpu_cfg.planning.vms.settings.edits import current
from vgpu_cfg.planning.vms.settings.setting import Carrier
from vgpu_cfg.planning.vms.settings.table import VM_SETTINGS

_DEVICES = frozenset({"gpus", "nics", "disks", "storage_policy"})
_PAIR, _ATTRIBUTE, _TAGS = "extra_config.", "attributes.", "tags."


def kept_keys(vm: DesiredVm) -> tuple[str, ...]:
    """Return the keys that a plan file states of a VM, and that `apply` brings about on one that exists."""
    rows = {row.plan_key for row in VM_SETTINGS if row.plan_key and not row.is_of_creation}
    pairs = {f"{_PAIR}{key}" for key in vm.extra_config}
    attributes = {f"{_ATTRIBUTE}{name}" for name in vm.attributes or {}}
    tags = {f"{_TAGS}{category}" for category in vm.tags or {}}
    return tuple(sorted((vm.managed & (rows | _DEVICES)) | pairs | attributes | tags))


def dropped_keys(vm: PlacedVm) -> dict[str, str]:
    """Return the keys in a VM's mark that its plan file no longer states, each with its present value."""
    mark = vm.resolved.existing.mark if vm.resolved.existing is not None else None
    stated = set(kept_keys(vm.desired))
    return {key: _shown(key, vm) for key in (mark.keys if mark is not None else ()) if key not in stated}


def _shown(key: str, vm: PlacedVm) -> str:
    base = vm.base
    if key.startswith(_PAIR):
        return current(key.removeprefix(_PAIR), base) or "unset"
    if key.startswith(_ATTRIBUTE):
        return base.attributes.get(key.removeprefix(_ATTRIBUTE)) or "unset"
    if key.startswith(_TAGS):
        return "not read, because no plan file specifies it"
    match key:
        case "gpus":
            return counted(len(base.vgpus) + len(base.passthrough_gpus), "GPU")
        case "nics":
            return counted(len(base.nics) + len(base.passthrough_nics), "NIC")
        case "disks":
            return counted(len(base.disks), "disk")
        case "storage_policy":
            return "unchanged"  # nobody asks for policies where no file names one
        case _:
            return ", ".join(_rows(key, vm)) or "unset"


def _rows(key: str, vm: PlacedVm) -> Iterator[str]:
    """Yield the present values on a VM of the rows that a key states."""
    for row in VM_SETTINGS:
        if row.plan_key != key:
            continue
        if row.carrier is not Carrier.CLUSTER:
            text = row.text_of(vm.base)
        else:
            text = row.text(vm.overrides[row.key]) if row.key in vm.overrides else None
        if text:
            yield text
