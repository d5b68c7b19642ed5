"""The keys of one existing VM: a plan file's words to keep it, or to make it again, unchanged.

An object has its bare name if that is unique, else its path. Devices that the plan file cannot express are
listed.

Belief: generated-mac-ranges.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from vgpu_cfg.documents import did_you_mean
from vgpu_cfg.errors import Ambiguous, NotFound
from vgpu_cfg.model.desired import DesiredPlan
from vgpu_cfg.model.observed.cordon import HOME_ATTRIBUTE
from vgpu_cfg.model.observed.inventory import Cluster, Folder, Host, Inventory, NetworkKind
from vgpu_cfg.model.observed.managed_object import ManagedObject
from vgpu_cfg.model.observed.vm import PassthroughDevice, PowerState, VirtualNic, Vm, VmDetail
from vgpu_cfg.model.plan_file import size_text
from vgpu_cfg.model.plan_file.entries import VmOptions
from vgpu_cfg.model.vgpu import VgpuProfile
from vgpu_cfg.planning.capacity.host_capacity import SRIOV
from vgpu_cfg.planning.estate.devices import (
    OwnedDisks,
    device_text,
    disk_text,
    exported_disks,
    recorded_others,
)
from vgpu_cfg.planning.estate.site import Site, find_named
from vgpu_cfg.planning.findings.collection import Findings
from vgpu_cfg.planning.vms.checks.place_checks import IOMMU_KEYS, MOST_CPUS_BESIDE_VGPU
from vgpu_cfg.planning.vms.devices import has_uvm
from vgpu_cfg.planning.vms.lookup.affinity import gpus_on
from vgpu_cfg.planning.vms.lookup.wanted import PVRDMA, VMXNET3, DeviceNames, is_named
from vgpu_cfg.planning.vms.settings.setting import FoundVm
from vgpu_cfg.planning.vms.settings.table import VM_SETTINGS


class Names:
    """The names of one datacenter's things, each looked up as a plan file's name would be."""

    def __init__(self, observed: Inventory, datacenter: str | None) -> None:
        self.observed = observed
        stand_in = DesiredPlan(name="export", vcenter=observed.vcenter.address, datacenter=datacenter)
        self.site = Site(stand_in, observed, Findings())
        usable = [one for one in self.site.networks if not one.is_uplink]
        self.networks: Mapping[str, str] = {
            one.portgroup_key or one.moid: name
            for one in usable
            if one.kind is not NetworkKind.OPAQUE and (name := _shortest(one, usable))
        }
        macs = Counter(
            nic.mac.casefold() for vm in observed.vms if vm.detail is not None for nic in vm.detail.nics
        )
        self.shared_macs = frozenset(mac for mac, count in macs.items() if count > 1)
        self._folders = {folder.moid: folder for folder in self.site.folders}
        self._roots = [folder.inventory_path for folder in self.site.folders if folder.is_root]

    def template(self, name: str) -> Vm:
        """Return the template of a name. Raises NotFound or Ambiguous, with the one that was meant."""
        templates = self.site.templates
        found = find_named(name, templates)
        if len(found) == 1:
            return found[0]
        if found:
            paths = " or ".join(one.inventory_path for one in found)
            raise Ambiguous(f"{len(found)} templates are named {name}", remedy=f"specify its path: {paths}")
        remedy = did_you_mean(name, (one.name for one in templates), noun="templates")
        raise NotFound(f"template {name!r} not found", remedy=remedy)

    def folder_of(self, vm: Vm) -> str | None:
        """Return the path of a VM's folder below the datacenter's VM folder; "" for that itself.

        None where it is in no folder of the datacenter.
        """
        folder = self._folders.get(vm.folder_moid or "")
        return None if folder is None else self.path_of(folder)

    def path_of(self, folder: Folder) -> str:
        """Return the path of a folder below the datacenter's VM folder."""
        for root in self._roots:
            if folder.inventory_path.startswith(f"{root}/"):
                return folder.inventory_path[len(root) + 1 :]
        return "" if folder.is_root else folder.inventory_path or folder.name

    def cluster_name(self, cluster: Cluster) -> str | None:
        """Return how a cluster is named."""
        return _shortest(cluster, self.site.clusters)

    def datastore_of(self, vm: Vm) -> str | None:
        """Return the first datastore of a VM, None where none was read."""
        known = {one.moid: one for one in self.site.datastores}
        moids = vm.detail.datastore_moids if vm.detail is not None else ()
        found = next((known[moid] for moid in moids if moid in known), None)
        return None if found is None else _shortest(found, self.site.datastores)

    def pool_of(self, vm: Vm, cluster: Cluster) -> str | None:
        """Return the resource pool of a VM, None for the root pool and for one that was not read."""
        moid = vm.detail.resource_pool_moid if vm.detail is not None else ""
        pools = [pool for pool in self.site.pools if pool.owner_moid == cluster.moid]
        found = next((pool for pool in pools if pool.moid == moid), None)
        is_root = moid in ("", cluster.resource_pool_moid)
        return None if found is None or is_root else _shortest(found, pools)


def _shortest(wanted: ManagedObject, objects: Sequence[ManagedObject]) -> str | None:
    """Return the shortest text that means this and nothing else; None where a plan file has none.

    Braces would be ranges there.
    """
    for name in (wanted.name, wanted.inventory_path):
        if name and "{" not in name and find_named(name, objects) == [wanted]:
            return name
    return None


_PLACE = ("cluster", "folder", "resource_pool", "datastore")
_SIZE = ("cpus", "memory", "gpus", "numa", "nics", "disks")

ORDER = ("template", *_PLACE, *_SIZE, *VmOptions.model_fields, "extra_config", "place", "power", "ignore")
"""In which order the keys of a VM are written."""

KEY_OF_DEVICE = {"gpu": "gpus", "nic": "nics", "nic mac": "nics", "disk": "disks"}
"""The key that says what an edit of a device changes, by the edit's own key."""

_LONGEST_ATTRIBUTE = 80
Item = dict[str, Any]

_MADE_BY_VCENTER = re.compile(r"00:50:56:[89ab][0-9a-f]:|00:0c:29:")
"""MACs that vCenter (00:50:56:80 to bf) and hosts (00:0c:29) make: a new VM gets one of its own.

Source: vSphere Networking 8.0, "MAC Address Assignment from vCenter Server" and "MAC Address Generation on
ESXi Hosts".
"""


@dataclass(slots=True)
class ExportedVm:
    """An existing VM with its keys. `left_out` are the parts that a plan file cannot express.

    `because` is, for keys under `ignore`, the change that the next plan would make otherwise.
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
    """Write the keys of a VM that was read in detail; `template` is its source."""
    detail = vm.detail or VmDetail()
    host = names.observed.host_by_moid.get(vm.host_moid or "")
    found = ExportedVm(vm)
    keys = found.keys
    _say_where(vm, host, names, keys)
    place: dict[str, Any] = {}
    others = recorded_others(vm)
    own = detail.without_devices({one.key for one in others})
    found.left_out += [
        f"{device_text(one, names.networks)}, which does not belong to the plan" for one in others
    ]
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
            f"the attributes {', '.join(unsaid)}: their braces would be interpreted as a range or variable"
        )
    if attributes := {name: text for name, text in attributes.items() if name not in unsaid}:
        keys["attributes"] = attributes
    if options := _iommu_options(detail):
        keys["extra_config"] = options
    if place:
        keys["place"] = place
    if vm.power_state is not PowerState.ON:
        keys["power"] = "leave" if vm.power_state is PowerState.SUSPENDED else False
    found.keys = in_order(keys)
    return found


def _iommu_options(detail: VmDetail) -> dict[str, str]:
    """Return the options without which so many CPUs and a vGPU would be refused; unread values are on."""
    if detail.cpus <= MOST_CPUS_BESIDE_VGPU or not detail.vgpus:
        return {}
    known = {key.casefold(): value for key, value in detail.extra_config.items()}
    known = dict.fromkeys(map(str.casefold, detail.option_names), "TRUE") | known
    return {key: "TRUE" for key in IOMMU_KEYS if known.get(key.casefold(), "").upper() == "TRUE"}


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
    """Write the custom attributes, and clear those that a clone would have from its template.

    The origin of a drained VM is no wish, and holds for the present VM alone.
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
    """Write the values of the table of VM settings; several rows may share a key."""
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


@dataclass(slots=True)
class Said:
    """A plan file's value at one key; None if it is absent. `left_out` are parts that it cannot express.

    `is_bound` is whether it holds on the VM's own host only: it names a function by its address.
    """

    value: Any = None
    left_out: list[str] = field(default_factory=list)
    is_bound: bool = False


def gpus_of(detail: VmDetail, names: DeviceNames) -> Said:
    """Say the GPUs of a VM; nothing at all where one of them has no words: the rest would be too few."""
    said = Said()
    items: list[Item | str] = []
    for vgpu in detail.vgpus:
        if not _is_profile(vgpu.profile):
            wrong = f"{vgpu.profile} is not a valid profile" if vgpu.profile else "a vGPU has no profile"
            said.left_out.append(f"gpus: {wrong}")
    plain = [gpu for gpu in detail.vgpus if gpu.group_key not in detail.device_groups]
    for (profile, uvm), same in groupby(plain, lambda gpu: (gpu.profile, has_uvm(gpu, detail))):
        items.append(_counted({"profile": profile, **({"uvm": True} if uvm else {})}, len(list(same))))
    for key in sorted(detail.device_groups):
        members = [gpu for gpu in detail.vgpus if gpu.group_key == key]
        if is_gpu_with_nics(detail, key):
            items.append({"profile": members[0].profile, "group": detail.device_groups[key]})
            continue
        items += _group([*members, *detail.other_members(key)], detail.device_groups[key], said)
    said.left_out += [
        f"gpus: plan files do not support DVX devices ({one.device_class})" for one in detail.dvx
    ]
    for device in (one for one in detail.passthrough_gpus if one.group_key is None):
        found = _whole(device, names)
        if found is None:
            said.left_out.append("gpus: plan files cannot list the functions of Dynamic DirectPath devices")
        else:
            said.is_bound |= device.is_fixed
            items.append(found)
    if items and not said.left_out:
        said.value = items[0] if len(items) == 1 and isinstance(items[0], str) else _folded(items)
    return said


def _is_profile(name: str) -> bool:
    try:
        VgpuProfile.parse(name)
    except ValueError:
        return False
    return True


def is_gpu_with_nics(detail: VmDetail, key: int) -> bool:
    """Whether a device group is one vGPU with NICs that are passed through: a plan file can ask for it."""
    others = detail.other_members(key)
    are_nics = all(isinstance(one, PassthroughDevice) and one.is_nic for one in others)
    return bool(others) and are_nics and sum(gpu.group_key == key for gpu in detail.vgpus) == 1


def _group(members: Sequence[Any], name: str, said: Said) -> Iterator[Item]:
    """Yield the item of one device group: as a plan file has it, peers with all of a GPU each."""
    profiles = {getattr(gpu, "profile", None) for gpu in members}
    if len(profiles) != 1 or None in profiles or len(members) < 2:
        if members:
            said.left_out.append(f"gpus: plan files do not support the device group {name}")
        return
    yield {"profile": members[0].profile, "count": len(members), "nvlink": True}


def _whole(device: PassthroughDevice, names: DeviceNames) -> Item | None:
    """Write a passthrough GPU: by its address, or by its possible kinds."""
    if device.pci_id is not None:
        return {"pin": device.pci_id}
    wanted: Item = {"label": device.label} if device.label else {}
    if len(device.allowed) == 1:
        wanted["device_id"] = "{:04x}:{:04x}".format(*device.allowed[0])
    elif not device.label:
        model = _model_of(device.allowed, names)
        if model is None:
            return None
        wanted["model"] = model
    return {"device": wanted}


def _model_of(allowed: Sequence[tuple[int, int]], names: DeviceNames) -> str | None:
    """Return words that match every allowed device and as few others as possible; None if there are none."""
    runs = [run for name in names.get(allowed[0], ()) for run in _runs(name)] if allowed else []
    named = {run: {ids for ids in names if is_named(run, ids, names)} for run in runs}
    shared = [run for run in runs if named[run] >= set(allowed)]
    return min(shared, key=lambda run: (len(named[run]), -len(run)), default=None)


def _runs(name: str) -> Iterator[str]:
    """Yield every sequence of neighboring words of a name."""
    words = name.replace("[", " ").replace("]", " ").split()
    for start in range(len(words)):
        for end in range(start + 1, len(words) + 1):
            yield " ".join(words[start:end])


def _counted(item: Item, count: int) -> Item | str:
    if count > 1:
        return {**item, "count": count}
    return str(item["profile"]) if set(item) == {"profile"} else item


def _folded(items: Iterable[Item | str]) -> list[Item | str]:
    """Count equal passthrough neighbors by their kind; vGPUs are counted already."""
    made: list[Item | str] = []
    for item, same in groupby(items):
        count = len(list(same))
        is_many = count > 1 and isinstance(item, dict) and "device" in item
        made += [{**item, "count": count}] if is_many and isinstance(item, dict) else [item] * count
    return made


def nics_of(detail: VmDetail, networks: Mapping[str, str], shared: Collection[str] = ()) -> Said:
    """Write the NICs of a VM, by the names of networks; nothing if one of them cannot be expressed.

    `shared` are the MACs that several NICs have: these are unintended.
    """
    said = Said()
    items: list[Item | str] = []
    for nic in detail.nics:
        item = _virtual(nic, networks, shared, said)
        if item is not None:
            items.append(item)
    for device in detail.passthrough_nics:
        if device.group_key is not None:
            if is_gpu_with_nics(detail, device.group_key):
                items.append({"type": "passthrough", "near": "gpu"})
            continue
        if device.pci_id is not None:
            said.is_bound = True
            items.append({"type": "passthrough", "pin": device.pci_id})
        elif device.label:
            items.append({"type": "passthrough", "device": {"label": device.label}})
        else:
            said.left_out.append("nics: a passthrough NIC has neither an address nor a label")
    if not said.left_out:
        said.value = items[0] if len(items) == 1 and isinstance(items[0], str) else _joined(items)
    return said


def _virtual(
    nic: VirtualNic, networks: Mapping[str, str], shared: Collection[str], said: Said
) -> Item | str | None:
    kind, network = nic.kind.casefold(), networks.get(nic.network)
    if kind not in (VMXNET3, PVRDMA, SRIOV):
        said.left_out.append(f"nics: a NIC has the type {nic.kind}")
        return None
    if network is None:
        said.left_out.append("nics: a NIC is on a network that could not be read")
        return None
    mac = nic.mac.casefold()
    item: Item = {"network": network}
    if kind != VMXNET3:
        item["type"] = kind
    if nic.function is not None:
        item["pin"] = nic.function
        said.is_bound = True
    if mac and mac not in shared and not _MADE_BY_VCENTER.match(mac):
        item["mac"] = mac
    return network if set(item) == {"network"} else item


def _joined(items: Sequence[Item | str]) -> list[Item | str]:
    """Count equal neighbours, but for those with an address of their own."""
    made: list[Item | str] = []
    for item, same in groupby(items):
        count = len(list(same))
        is_one = isinstance(item, dict) and ("mac" in item or item.get("type") == "passthrough")
        if count == 1 or is_one:
            made += [item] * count
        else:
            made.append({**({"network": item} if isinstance(item, str) else item), "count": count})
    return made


def disks_of(detail: VmDetail, template: VmDetail | None, owned: OwnedDisks | None = None) -> Said:
    """Write the disks of a VM: the minimum size of the template's first one, and the others.

    Other disks, by `owned`, are left out and named: no plan file asks for them.
    """
    said = Said()
    disks = sorted(detail.disks if owned is None else owned.own, key=lambda disk: disk.key)
    said.left_out += (
        [f"disks: {disk_text(disk)} is not included in the plan" for disk in owned.others] if owned else []
    )
    kinds = {controller.key: controller.kind for controller in detail.controllers}
    given = {disk.key: disk for disk in template.disks} if template is not None else {}
    inherited = [disk for disk in disks if disk.key in given] if template is not None else disks[:1]
    items: list[Item] = []
    for disk in inherited:
        was = given[disk.key].capacity_mib if disk.key in given else 0
        if disk is inherited[0]:
            items += [{"grow": size_text(disk.capacity_mib)}] if disk.capacity_mib > was else []
        elif disk.capacity_mib != was:
            said.left_out.append("disks: a template disk other than the first was extended")
    for disk in disks:
        if disk in inherited:
            continue
        kind = kinds.get(disk.controller_key, "scsi")
        if kind not in ("scsi", "nvme"):
            said.left_out.append(f"disks: a disk is on a controller of type {kind}")
            continue
        items.append(
            {"size": size_text(disk.capacity_mib), **({"controller": kind} if kind == "nvme" else {})}
        )
    said.value = items or None
    return said
