"""A case of planning as an estate of the lab: hosts, GPUs, clusters, rules and VMs, as far as it has them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from vgpu_cfg.catalog import Board, load_catalog
from vgpu_cfg.lab.estates.stock import BY_VERSION, RELEASES
from vgpu_cfg.lab.state.cluster import Cluster, Group, Rule
from vgpu_cfg.lab.state.devices import copy_with, disks_of
from vgpu_cfg.lab.state.inventory import Host as LabHost
from vgpu_cfg.lab.state.inventory import VirtualMachine
from vgpu_cfg.lab.state.tags import set_attribute
from vgpu_cfg.lab.vcenter import Lab
from vgpu_cfg.model.observed.inventory import Gpu, Host, Inventory
from vgpu_cfg.model.observed.vm import Vm
from vgpu_cfg.model.vgpu import Sharing, VgpuMode

Row = dict[str, Any]
_WINDOW = {"pciPassthru.use64bitMMIO": "TRUE", "pciPassthru.64bitMMIOSizeGB": "1024"}


class NotInTheLab(Exception):
    """A case has what no estate file can say, such as a board that nobody knows."""


def estate_of(observed: Inventory) -> Row:
    """Write an inventory as an estate file."""
    return {
        "about": "a case of planning",
        "vcenter": {"settings": {"vgpu.hotmigrate.enabled": True}},
        "clusters": [
            {
                "name": cluster.name,
                "standalone": cluster.is_standalone,
                "drs": cluster.drs_behavior if cluster.drs_enabled else "off",
                "ha": cluster.ha_enabled,
                "hosts": [_host(one, observed) for one in observed.hosts if one.compute_moid == cluster.moid],
            }
            for cluster in observed.clusters
        ],
        "datastores": [{"name": one.name} for one in observed.datastores],
        "networks": [{"name": one.name} for one in observed.networks],
        "folders": [one.inventory_path.partition("/vm/")[2] for one in observed.folders if not one.is_root],
        "templates": [_machine(vm, observed) for vm in observed.vms if vm.is_template],
        "vms": [_vm(vm, observed) for vm in observed.vms if not vm.is_template],
    }


def _host(host: Host, observed: Inventory) -> Row:
    release = next((name for name, one in RELEASES.items() if one.version == host.version), None)
    if release is None or not host.numa_nodes:
        raise NotInTheLab(f"ESXi {host.version}")
    boards = [_board(gpu) for gpu in host.gpus]
    return {
        "name": host.name,
        "esxi": release,
        "cpu": {
            "sockets": len(host.numa_nodes),
            "cores": host.numa_nodes[0].cores,
            "mhz": host.cpu_mhz or 2600,
        },
        "memory": host.memory_mib,
        "connection": host.connection.value,
        "maintenance": host.is_in_maintenance_mode,
        "assignment_policy": str(host.assignment_policy or "performance"),
        **_driver(host, observed),
        "gpus": [_gpu(gpu, board, host) for gpu, board in zip(host.gpus, boards, strict=True)],
        "nics": [
            {"pci_id": nic.pci_id, "vmnic": nic.device, "numa": nic.numa_node or 0}
            for nic in host.nics
            if nic.device
        ]
        + [
            {
                "pci_id": one.pci_id,
                "numa": one.numa_node or 0,
                "label": one.hardware_label or "",
                "passthrough": True,
            }
            for one in host.pci_devices
            if one.is_nic and one.passthrough_active
        ],
        "datastores": [one.name for one in observed.datastores if one.moid in host.datastore_moids],
        "networks": [one.name for one in observed.networks if one.moid in host.network_moids],
    }


def host_driver(host: Host, observed: Inventory) -> str:
    """Return the version of a host's driver, "" if the case does not say it."""
    facts = observed.facts.hosts.get(host.moid)
    packages = facts.software if facts is not None else ()
    return next((one.version.partition("-")[0] for one in packages if one.name.startswith("NVD")), "")


def _driver(host: Host, observed: Inventory) -> Row:
    if host.gpus and not host.profiles:
        return {"driver": "none"}
    return {"driver": {"version": version}} if (version := host_driver(host, observed)) else {}


def _board(gpu: Gpu) -> Board:
    board = load_catalog().by_pci(gpu.pci.vendor_id, gpu.pci.device_id, gpu.pci.subsystem_id)
    if board is None:
        raise NotInTheLab("an unknown board")
    return board


def _gpu(gpu: Gpu, board: Board, host: Host) -> Row:
    mode = (
        "passthrough"
        if gpu.is_passthrough
        else "mig"
        if gpu.sharing is Sharing.MIG
        else "mixed_size"
        if gpu.vgpu_mode is VgpuMode.MIXED_SIZE
        else "time_sliced"
    )
    row: Row = {
        "board": board.key,
        "pci_id": gpu.pci_id,
        "numa": gpu.numa_node or 0,
        "mode": mode,
        "label": gpu.pci.hardware_label or "",
    }
    place = [one.pci_id for one in host.gpus].index(gpu.pci_id)
    if board.is_nvswitch:
        row["nvswitch"] = True
    elif host.device_groups and (place ^ 1) < len(host.gpus):
        row["nvlink"] = [host.gpus[place ^ 1].pci_id]
    return row


def _machine(vm: Vm, observed: Inventory) -> Row:
    detail = vm.detail
    if detail is None:
        raise NotInTheLab("a VM that cannot be read")
    networks = {one.portgroup_key or one.moid: one.name for one in observed.networks}
    holds = bool(detail.vgpus or detail.passthrough)
    return {
        "name": vm.name,
        "hardware_version": detail.hardware_version or 21,
        "guest_id": detail.guest_id,
        "firmware": detail.firmware,
        "cpus": detail.cpus,
        "memory": detail.memory_mib,
        "reserve_memory": detail.memory_reservation_locked or holds,
        "disks": [disk.capacity_mib for disk in detail.disks],
        "networks": [networks[nic.network] for nic in detail.nics if nic.network in networks],
        "extra_config": dict(detail.extra_config) | (_WINDOW if holds and vm.mark is None else {}),
    }


def _vm(vm: Vm, observed: Inventory) -> Row:
    detail, host = vm.detail, observed.host_by_moid.get(vm.host_moid or "")
    if (
        detail is None
        or host is None
        or host.version not in BY_VERSION
        or vm.power_state.value == "suspended"
    ):
        raise NotInTheLab("a VM that cannot be read, or is suspended")
    if detail.mixed_groups or any(nic.kind != "vmxnet3" for nic in detail.nics):
        raise NotInTheLab("a device that estates give no VM")
    mark = vm.mark.pairs if vm.mark is not None else {}
    row = _machine(vm, observed)
    newest = next(one.max_hardware_version for one in RELEASES.values() if one.version == host.version)
    return row | {
        "hardware_version": min(row["hardware_version"], newest),
        "host": host.name,
        "folder": (observed.folder_by_moid[vm.folder_moid or ""].inventory_path).partition("/vm/")[2],
        "power": "on" if vm.is_on else "off",
        "attributes": dict(detail.attributes),
        "extra_config": row["extra_config"] | mark,
        "gpus": [*_vgpus(vm, host), *_whole(vm)],
    }


def _vgpus(vm: Vm, host: Host) -> Iterator[Any]:
    places = [gpu.pci_id for gpu in host.gpus if vm.moid in gpu.vm_moids]
    vgpus = vm.detail.vgpus if vm.detail else ()
    if vm.detail is not None and vm.detail.device_groups:
        yield from ({"group": name, "on": places} for name in vm.detail.device_groups.values())
        return
    for number, vgpu in enumerate(vgpus):
        on = places[min(number, len(places) - 1)] if places else None
        yield {"profile": vgpu.profile} | ({"on": on} if on and vm.is_on else {})


def _whole(vm: Vm) -> Iterator[Row]:
    for device in vm.detail.passthrough if vm.detail else ():
        if device.is_nic or not (device.pci_id or device.label):
            raise NotInTheLab("a device that estates give no VM")
        yield {"pci_id": device.pci_id} if device.pci_id else {"label": device.label}


def _name_disks(made: VirtualMachine, vm: Vm) -> None:
    """Give a lab VM's disks the UUIDs of the case, by which plans know their own."""
    for disk, seen in zip(disks_of(made.devices), vm.detail.disks if vm.detail else (), strict=False):
        made.devices[disk.key] = copy_with(disk, backing=copy_with(disk.backing, uuid=seen.uuid))


def complete(lab: Lab, observed: Inventory) -> None:
    """Give a lab what estate files do not say: rules and groups of DRS, cordons, and the VMs' own UUIDs."""
    with lab.transaction():
        vms = {vm.name: vm for vm in lab.state.all(VirtualMachine)}
        hosts = {host.name: host for host in lab.state.all(LabHost)}
        names = {one.moid: one.name for one in (*observed.vms, *observed.hosts)}
        for vm in observed.vms:
            if vm.instance_uuid:
                vms[vm.name].instance_uuid = vm.instance_uuid
                _name_disks(vms[vm.name], vm)
                lab.state.touch(vms[vm.name])
        for host in observed.hosts:
            for cordon in host.cordons:
                set_attribute(lab.state, hosts[host.name], cordon.attribute, cordon.text)
        for cluster in lab.state.all(Cluster):
            seen = next(one for one in observed.clusters if one.name == cluster.name)
            cluster.groups = [
                *(
                    Group(one.name, "vm", tuple(vms[names[m]].moid for m in one.vm_moids))
                    for one in seen.vm_groups
                ),
                *(
                    Group(one.name, "host", tuple(hosts[names[m]].moid for m in one.host_moids))
                    for one in seen.host_groups
                ),
            ]
            cluster.rules = [
                Rule(
                    key=one.key,
                    uuid=f"rule-{one.key}",
                    name=one.name,
                    kind="affinity" if one.kind == "affinity" else "anti_affinity",
                    enabled=one.is_enabled,
                    mandatory=one.is_mandatory,
                    vms=tuple(vms[names[m]].moid for m in one.vm_moids),
                )
                for one in seen.rules
            ] + [
                Rule(
                    key=one.key,
                    uuid=f"rule-{one.key}",
                    name=one.name,
                    kind="vm_host",
                    enabled=one.is_enabled,
                    mandatory=one.is_mandatory,
                    vm_group=one.vm_group,
                    host_group=one.host_group or one.avoided_group,
                    affine=bool(one.host_group),
                )
                for one in seen.host_rules
            ]
            lab.state.touch(cluster)
