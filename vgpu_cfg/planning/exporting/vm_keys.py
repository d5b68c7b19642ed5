"""The keys of one VM that is there: what a plan file says for it to stay, or be made again, as it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from vgpu_cfg.model.observed.cordon import HOME_ATTRIBUTE
from vgpu_cfg.model.observed.inventory import Host
from vgpu_cfg.model.observed.vm import PowerState, Vm, VmDetail
from vgpu_cfg.model.plan_file.device_entries import VmOptions
from vgpu_cfg.planning.estate.devices import device_text, recorded_others
from vgpu_cfg.planning.estate.disks import exported_disks
from vgpu_cfg.planning.exporting.devices import Said, disks_of, gpus_of, nics_of
from vgpu_cfg.planning.exporting.names import Names
from vgpu_cfg.planning.vms.lookup.affinity import gpus_on
from vgpu_cfg.planning.vms.lookup.gpu_match import DeviceNames
from vgpu_cfg.planning.vms.settings.setting import FoundVm
from vgpu_cfg.planning.vms.settings.table import VM_SETTINGS

_PLACE = ("cluster", "folder", "resource_pool", "datastore")
_SIZE = ("cpus", "memory", "gpus", "numa", "nics", "disks")
ORDER = ("template", *_PLACE, *_SIZE, *VmOptions.model_fields, "extra_config", "place", "power", "ignore")
"""In which order the keys of a VM are written."""
KEY_OF_DEVICE = {"gpu": "gpus", "nic": "nics", "nic mac": "nics", "disk": "disks"}
"""The key that says what an edit of a device changes, by the edit's own key."""
_LONGEST_ATTRIBUTE = 80


@dataclass(slots=True)
class ExportedVm:
    """A VM that is there with its keys. `left_out` tells what of it has no words in a plan file.

    `because` says of keys under `ignore` what the next plan would change without that.
    """

    vm: Vm
    keys: dict[str, Any] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)
    because: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The VM's name."""
        return self.vm.name

    def ignore(self, key: str, why: str) -> bool:
        """Leave drift of a key alone; whether that is news."""
        ignored = self.keys.get("ignore", [])
        if key in ignored:
            return False
        self.keys["ignore"] = sorted([*ignored, key])
        self.because.append(why)
        return True


def vm_keys(vm: Vm, names: Names, devices: DeviceNames, template: VmDetail | None = None) -> ExportedVm:
    """Write the keys of a VM that was read in detail; `template` is what it would be made from."""
    detail = vm.detail or VmDetail()
    host = names.observed.host_by_moid.get(vm.host_moid or "")
    found = ExportedVm(vm)
    keys = found.keys
    _say_where(vm, host, names, keys)
    place: dict[str, Any] = {}
    others = recorded_others(vm)
    own = detail.without_devices({one.key for one in others})
    found.left_out += [f"{device_text(one, names.networks)}, which is not the plan's" for one in others]
    for key, said in (
        ("gpus", gpus_of(own, devices)),
        ("nics", nics_of(own, names.networks, names.shared_macs)),
        ("disks", disks_of(detail, template, exported_disks(vm))),
    ):
        _take(keys, key, said, found)
        if said.is_bound and host is not None and len(_hosts_of(names, host)) > 1:
            place["hosts"] = [host.name]
    _take_rows(keys, _found(vm, host, names, template))
    attributes = _attributes(detail, template)
    unsaid = sorted(name for name, text in attributes.items() if "{" in f"{name}{text}")
    if unsaid:
        found.left_out.append(
            f"the attributes {', '.join(unsaid)}, whose braces would count or be a variable"
        )
    if attributes := {name: text for name, text in attributes.items() if name not in unsaid}:
        keys["attributes"] = attributes
    if place:
        keys["place"] = place
    if vm.power_state is not PowerState.ON:
        keys["power"] = "leave" if vm.power_state is PowerState.SUSPENDED else False
    found.keys = in_order(keys)
    return found


def in_order(keys: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys in the order in which they are written."""
    return {key: keys[key] for key in ORDER if key in keys}


def _say_where(vm: Vm, host: Host | None, names: Names, keys: dict[str, Any]) -> None:
    cluster = names.observed.cluster_of(host)
    if cluster is not None:
        _name(keys, "cluster", names.cluster_name(cluster))
        _name(keys, "resource_pool", names.pool_of(vm, cluster))
    _name(keys, "folder", names.folder_of(vm))
    _name(keys, "datastore", names.datastore_of(vm))


def _attributes(detail: VmDetail, template: VmDetail | None) -> dict[str, str]:
    """Say the custom attributes, and clear those that a clone would have from its template.

    Where a drain took a VM from is nobody's wish, and holds for the VM that is there alone.
    """
    cleared = dict.fromkeys(template.attributes, "") if template is not None else {}
    found = {**cleared, **detail.attributes}
    found.pop(HOME_ATTRIBUTE, None)
    return {name: text for name, text in found.items() if len(name) <= _LONGEST_ATTRIBUTE}


def _name(keys: dict[str, Any], key: str, name: str | None) -> None:
    if name:
        keys[key] = name


def _take(keys: dict[str, Any], key: str, said: Said, found: ExportedVm) -> None:
    if said.value is not None and (said.value != [] or key == "nics"):
        keys[key] = said.value
    found.left_out += list(dict.fromkeys(said.left_out))


def _take_rows(keys: dict[str, Any], found: FoundVm) -> None:
    """Say what the rows of the table of VM settings show; several rows may share a key."""
    for row in VM_SETTINGS:
        value = row.said(found)
        if value is None:
            continue
        key = row.plan_key or row.said_in
        keys[key] = {**keys.get(key, {}), **value} if isinstance(value, dict) else value


def _found(vm: Vm, host: Host | None, names: Names, template: VmDetail | None) -> FoundVm:
    detail = vm.detail or VmDetail()
    nodes = [node for _, node in gpus_on(host, vm.moid, detail)] if host is not None else []
    cluster = names.observed.cluster_of(host)
    return FoundVm(
        detail,
        template,
        frozenset(node for node in nodes if node is not None) if None not in nodes else frozenset(),
        {} if cluster is None else cluster.overrides_of(vm.moid),
    )


def _hosts_of(names: Names, host: Host) -> tuple[str, ...]:
    cluster = names.observed.cluster_of(host)
    return () if cluster is None else cluster.host_moids
