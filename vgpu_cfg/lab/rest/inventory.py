"""The inventory in the REST API: lists of VMs, hosts and the rest by filters, and a whole VM.

Sources: the vSphere Automation API reference as the SDK's bindings have it (vmware-vcenter on PyPI): fields,
filters, and how many may match. That templates are in no list of VMs is recalled. Adapters, disks and NICs
are shown in short: fields that the reference calls optional are left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from pyVmomi import vim

from vgpu_cfg.lab.rest.answer import Entries, Refused, Request
from vgpu_cfg.lab.simulation.simulation import Simulation
from vgpu_cfg.lab.state.devices import disks_of, network_of, nics_of
from vgpu_cfg.lab.state.inventory import (
    Cluster,
    Datacenter,
    Datastore,
    DistributedSwitch,
    Folder,
    Host,
    Managed,
    Network,
    ResourcePool,
    VirtualMachine,
)

PLACE = "/vcenter/"
MIB = 1024 * 1024

_FOLDER_TYPES = {
    "VirtualMachine": "VIRTUAL_MACHINE",
    "ComputeResource": "HOST",
    "Datastore": "DATASTORE",
    "Network": "NETWORK",
    "Datacenter": "DATACENTER",
}
_BUSES = {
    vim.vm.device.VirtualSCSIController: "SCSI",
    vim.vm.device.VirtualNVMEController: "NVME",
    vim.vm.device.VirtualAHCIController: "SATA",
}
_NIC_TYPES = {
    vim.vm.device.VirtualE1000e: "E1000E",
    vim.vm.device.VirtualE1000: "E1000",
    vim.vm.device.VirtualPCNet32: "PCNET32",
}
_CONNECTIONS = {"connected": "CONNECTED", "disconnected": "DISCONNECTED", "notResponding": "NOT_RESPONDING"}
_POWERS = {
    "poweredOn": "POWERED_ON",
    "poweredOff": "POWERED_OFF",
    "suspended": "SUSPENDED",
    "standBy": "STANDBY",
}


# ---------------------------------------------------------------- lists


@dataclass(frozen=True, slots=True)
class _Kind:
    """A kind of objects: its word, the maximum number of matches, the shown fields, and its filters."""

    of: type[Managed]
    most: int
    told: Callable[[Any], Mapping[str, Any]]
    asked: Callable[[Simulation, Any], Mapping[str, Any]]


def _told_of_vm(vm: VirtualMachine) -> Mapping[str, Any]:
    size = {"cpu_count": vm.cpus, "memory_size_MiB": vm.memory_mib}
    return {"power_state": _POWERS[vm.power_state], **size}


def _told_of_host(host: Host) -> Mapping[str, Any]:
    told = {"connection_state": _CONNECTIONS[host.connection]}
    return told if host.connection != "connected" else {**told, "power_state": _POWERS[host.power_state]}


def _told_of_store(store: Datastore) -> Mapping[str, Any]:
    size = {"free_space": store.free_mib * MIB, "capacity": store.capacity_mib * MIB}
    return {"type": store.kind.upper(), **size}


def _told_of_network(network: Network) -> Mapping[str, Any]:
    return {"type": "DISTRIBUTED_PORTGROUP" if network.is_distributed else "STANDARD_PORTGROUP"}


def _told_of_folder(folder: Folder) -> Mapping[str, Any]:
    return {"type": next(word for kind, word in _FOLDER_TYPES.items() if kind in folder.child_types)}


def _told_of_cluster(cluster: Cluster) -> Mapping[str, Any]:
    return {"ha_enabled": cluster.ha_enabled, "drs_enabled": cluster.drs_enabled}


def _asked_of_vm(lab: Simulation, vm: VirtualMachine) -> Mapping[str, Any]:
    host = lab.state.get(vm.host, Host)
    pools = {"resource_pools": vm.resource_pool, "power_states": _POWERS[vm.power_state]}
    return {"hosts": host.moid, "clusters": host.parent, **pools}


def _asked_of_host(lab: Simulation, host: Host) -> Mapping[str, Any]:
    cluster = lab.state.cluster_of(host)
    alone = {"standalone": cluster.is_standalone, "folders": cluster.parent}
    return {"clusters": cluster.moid, "connection_states": _CONNECTIONS[host.connection], **alone}


def _asked_of_pool(_lab: Simulation, pool: ResourcePool) -> Mapping[str, Any]:
    return {"clusters": pool.owner, "parent_resource_pools": pool.parent}


def _asked_of_folder(_lab: Simulation, folder: Folder) -> Mapping[str, Any]:
    return {**_told_of_folder(folder), "folders": folder.moid, "parent_folders": folder.parent}


def _types(told: Callable[[Any], Mapping[str, Any]]) -> Callable[[Simulation, Any], Mapping[str, Any]]:
    return lambda _lab, thing: {"types": told(thing)["type"]}


def _nothing(*_: Any) -> Mapping[str, Any]:
    return {}


_KINDS = {
    "vm": _Kind(VirtualMachine, 4000, _told_of_vm, _asked_of_vm),
    "host": _Kind(Host, 2500, _told_of_host, _asked_of_host),
    "cluster": _Kind(Cluster, 1000, _told_of_cluster, _nothing),
    "datacenter": _Kind(Datacenter, 1000, _nothing, _nothing),
    "datastore": _Kind(Datastore, 2500, _told_of_store, _types(_told_of_store)),
    "folder": _Kind(Folder, 1000, _told_of_folder, _asked_of_folder),
    "network": _Kind(Network, 1000, _told_of_network, _types(_told_of_network)),
    "resource-pool": _Kind(ResourcePool, 1000, _nothing, _asked_of_pool),
}


def _list(word: str, lab: Simulation, request: Request) -> list[Mapping[str, Any]]:
    """List the objects of a kind that a filter lets through. Raises Refused for too many of them."""
    kind, key = _KINDS[word], word.replace("-", "_")
    found: list[Mapping[str, Any]] = []
    for thing in lab.state.all(kind.of):
        is_none = isinstance(thing, Cluster) and thing.is_standalone
        if is_none or (isinstance(thing, VirtualMachine) and thing.is_template):
            continue
        if lab.lacks(thing.moid, "System.Read"):
            continue
        asked = {
            "names": thing.name,
            "folders": thing.parent,
            "datacenters": getattr(lab.state.datacenter_of(thing), "moid", None),
            **kind.asked(lab, thing),
            f"{key}s": thing.moid,
        }
        if _is_let_through(asked, request.filter):
            found.append({key: thing.moid, "name": thing.name, **kind.told(thing)})
    if len(found) > kind.most:
        raise Refused(400, "unable_to_allocate_resource", f"More than {kind.most} match. Add filters.")
    return found


def _is_let_through(asked: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    for name, values in wanted.items():
        if name not in asked:
            raise Refused(400, "invalid_argument", f"{name} is not a filter.")
        one_of = {str(value).casefold() for value in (values if isinstance(values, list) else [values])}
        if one_of and str(asked[name]).casefold() not in one_of:
            return False
    return True


# ---------------------------------------------------------------- a VM


def vm(lab: Simulation, request: Request) -> Any:
    """Show a VM. Raises Refused for one that is not there."""
    found = lab.state.find(request.id, VirtualMachine)
    if found is None or lab.lacks(found.moid, "System.Read"):
        raise Refused(404, "not_found", f"Virtual machine with identifier '{request.id}' does not exist.")
    cpu = {"count": found.cpus, "cores_per_socket": found.cores_per_socket}
    return {
        "guest_OS": _guest_os(found.guest_id),
        "name": found.name,
        "identity": {
            "name": found.name,
            "bios_uuid": found.uuid,
            "instance_uuid": found.instance_uuid,
        },
        "power_state": _POWERS[found.power_state],
        "instant_clone_frozen": False,
        "hardware": {
            "version": f"VMX_{found.hardware_version:02d}",
            "upgrade_policy": "NEVER",
            "upgrade_status": "NONE",
        },
        "boot": {
            "type": found.firmware.upper(),
            **({"efi_legacy_boot": False, "network_protocol": "IPV4"} if found.firmware == "efi" else {}),
            "delay": found.boot_delay_ms,
            "retry": False,
            "retry_delay": 10000,
            "enter_setup_mode": False,
        },
        "boot_devices": [],
        "cpu": {**cpu, "hot_add_enabled": found.cpu_hot_add, "hot_remove_enabled": False},
        "memory": {"size_MiB": found.memory_mib, "hot_add_enabled": found.memory_hot_add},
        "disks": Entries({str(disk.key): _disk(found, disk) for disk in disks_of(found.devices)}),
        "nics": Entries({str(nic.key): _nic(lab, nic) for nic in nics_of(found.devices)}),
        **{
            name: Entries()
            for name in (
                "cdroms", "floppies", "parallel_ports", "serial_ports",
                "sata_adapters", "scsi_adapters", "nvme_adapters",
            )
        },
    }  # fmt: skip


def _guest_os(guest_id: str) -> str:
    """Return the word for a guest's system: by rule from its identifier, `rhel9_64Guest` is RHEL_9_64."""
    return "_".join(re.findall(r"\d+|[A-Z]?[a-z]+", guest_id.removesuffix("Guest"))).upper()


def _disk(owner: VirtualMachine, disk: Any) -> Mapping[str, Any]:
    controller = owner.devices.get(disk.controllerKey)
    bus = next((word for kind, word in _BUSES.items() if isinstance(controller, kind)), "IDE")
    return {
        "label": disk.deviceInfo.label,
        "type": bus,
        bus.lower(): {"bus": getattr(controller, "busNumber", 0), "unit": disk.unitNumber or 0},
        "backing": {"type": "VMDK_FILE", "vmdk_file": getattr(disk.backing, "fileName", None) or ""},
        "capacity": disk.capacityInKB * 1024,
    }


def _nic(lab: Simulation, nic: Any) -> Mapping[str, Any]:
    network = lab.state.find(network_of(nic), Network)
    backing = {"network": network.moid, **_told_of_network(network)} if network is not None else {}
    if network is not None and network.is_distributed:
        backing["distributed_switch_uuid"] = lab.state.get(network.switch, DistributedSwitch).uuid
    elif network is not None:
        backing["network_name"] = network.name
    state = nic.connectable
    kind = next((word for kind, word in _NIC_TYPES.items() if isinstance(nic, kind)), "VMXNET3")
    return {
        "label": nic.deviceInfo.label,
        "type": kind,
        **({"upt_compatibility_enabled": bool(nic.uptCompatibilityEnabled)} if kind == "VMXNET3" else {}),
        "mac_type": (nic.addressType or "assigned").upper(),
        "mac_address": nic.macAddress,
        "wake_on_lan_enabled": bool(nic.wakeOnLanEnabled),
        "backing": backing or {"type": "HOST_DEVICE", "host_device": ""},
        "state": "CONNECTED" if state is not None and state.connected else "NOT_CONNECTED",
        "start_connected": bool(state is None or state.startConnected),
        "allow_guest_control": bool(state is None or state.allowGuestControl),
    }


HANDLERS: dict[tuple[str, bool], Callable[[Simulation, Request], Any]] = {
    **{(f"{PLACE}{word}", False): partial(_list, word) for word in _KINDS},
    (f"{PLACE}vm", True): vm,
}
"""The handlers of a path, by whether an id follows."""
