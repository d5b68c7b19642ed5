"""What a saved plan says will be sent: of each change in plan.json, the calls, their paths and values.

A change to a VM says it in the `sets` of its edits. Every other change is itself typed as what is sent
(`write`, `network`, `option`), and is read here as the vSphere API has it, apart from the code that sends it.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Interface
from itertools import combinations
from typing import Any

from tests.properties.shown_and_run.wire import GUEST_SHELL, HOST_SHELL

Change = Mapping[str, Any]
Leaves = list[tuple[str, str, int | None]]
Call = tuple[str, str, Leaves]
MAYBE = -1

OF_A_VM = frozenset({"CloneVM_Task", "CreateVM_Task", "ReconfigVM_Task", "UpgradeVM_Task"})
"""Methods that carry what an edit sets, on whatever object they are made."""
SET = "set a VM"
"""What all of them are called here: which one carries an edit is the server's doing as much as the plan's."""

_TAGGING = ("detach-multiple-tags-from-object", "attach-multiple-tags-to-object")
_VGPU_MODES = {"same_size": "sameSize", "mixed_size": "mixedSize"}
_VSAN: Mapping[str, str] = {"ensureAccessibility": "ensureObjectAccessibility"}
_CLUSTER = "ReconfigureComputeResource_Task"


@dataclass(frozen=True, slots=True)
class Told:
    """A leaf that a change says will be sent; a path of "" is the call itself.

    `on` is the moid of a host, cluster or network, or the name of a VM; "" stands for any object. `edit`
    is the number of the edit that shows it, None where the change is shown as one step. `way` is 0 for
    what is sent first; all of another number may be sent in its place, and what is `MAYBE` or not at all.
    """

    change: str
    method: str
    on: str
    path: str = ""
    value: str = ""
    edit: int | None = None
    way: int = 0


def told_by(change: Change) -> Iterator[Told]:
    """Yield everything that a change says will be sent."""
    yield from _told(change, _calls(change))
    match change["kind"]:
        case "power_on_vm" if change["pin"] is not None:
            yield from _told(change, _pinned(change), MAYBE)
        case "power_off_vm":
            yield from _told(change, [("PowerOffVM_Task", change["vm"]["name"], [])], 1)
        case "stage_guest" | "pause_training" | "resume_training":
            yield from _told(change, [(GUEST_SHELL, change["vm"]["name"], [])], MAYBE)
        case "change_host":
            moid = change["host"]["moid"]
            for way, other in enumerate(_other_ways(change), 1):
                yield from _told(change, ((method, moid, own) for method, own in _write(other, change)), way)
        case _:
            return


def _told(change: Change, calls: Iterable[Call], way: int = 0) -> Iterator[Told]:
    for method, on, leaves in calls:
        yield Told(change["id"], method, on, way=way)
        for path, value, edit in leaves:
            yield Told(change["id"], method, on, path, value, edit, way)


def _other_ways(change: Change) -> Iterator[Mapping[str, Any]]:
    """Yield what may be written instead: the change's own other way, and esxcli on the host's shell."""
    ways = [way for way in (change["write"], change["other_way"]) if way is not None]
    yield from ways[1:]
    for way in ways:
        if way["kind"] == "esxcli":
            options = (f"--{name}={value}" for name, value in way["arguments"])
            yield {"kind": "shell", "commands": [["esxcli", *way["command"].split("."), *options]]}


def _pinned(change: Change) -> Iterator[Call]:
    """Yield what follows where ESXi chose GPUs of another node: off, and any affinity to their nodes."""
    name, pin = change["vm"]["name"], change["pin"]
    yield "PowerOffVM_Task", name, []
    nodes = sorted({*pin["node_by_pci_id"].values(), *pin["nodes"]})
    for count in range(1, len(nodes) + 1):
        for some in combinations(nodes, count):
            yield SET, name, [("extraConfig[numa.nodeAffinity]", ",".join(map(str, some)), None)]


def _calls(change: Change) -> Iterator[Call]:
    match change["kind"]:
        case "create_vm" | "upgrade_vm" | "reconfigure_vm" | "mark_vm":
            yield SET, change["vm"]["name"], _sets(change)
        case "power_on_vm" | "power_off_vm" | "destroy_vm" | "stage_guest":
            yield from _of_vm(change)
        case "set_tags":
            for method in _TAGGING:
                leaves = [one for one in _sets(change) if one[0].startswith(method.partition("-")[0])]
                if leaves:
                    yield method, change["vm"]["name"], leaves
        case "rename_vm":
            yield "Rename_Task", change["vm"]["name"], _sets(change)
        case "move_vm_to_folder":
            yield "MoveIntoFolder_Task", change["folder_moid"], [("list", change["vm"]["name"], 0)]
        case "relocate_vm":
            yield "RelocateVM_Task", change["vm"]["name"], _sets(change)
        case "set_rule" | "set_host_rule" | "remove_rule" | "remove_vm_group" | "set_cluster_option":
            yield _CLUSTER, change["cluster_moid"], list(_in_cluster(change))
        case "set_vcenter_option":
            value = str(change["value"]).lower()
            yield "UpdateOptions", "", [(f"changedValue[{change['option']}]", value, 0)]
        case "set_image" | "remediate_host":
            for method, leaves in _of_image(change):
                yield method, change["cluster_moid"], leaves
        case "change_network":
            yield _network(change["network"])
        case "change_host":
            for method, leaves in _write(change["write"], change):
                yield method, change["host"]["moid"], leaves
        case "manual_step" | "await_customization" | "pause_training" | "resume_training":
            return
        case _:
            yield from _of_host(change)


def _of_image(change: Change) -> Iterator[tuple[str, Leaves]]:
    """Yield the requests to Lifecycle Manager: a draft is made, and its end is the commit."""
    if change["kind"] == "remediate_host":
        yield "image apply", [("hosts", change["host"]["moid"], 0), ("accept_eula", "true", None)]
        return
    edits = enumerate(change["edits"])
    yield "image POST drafts", []
    yield (
        "image PATCH components",
        [(f"components_to_set[{one['key']}]", one["after"], n) for n, one in edits],
    )
    yield "image validate", []
    yield "image commit", [("message", change["message"], None)]
    yield "image check", [("hosts", ", ".join(change["hosts"]), None)]


def _sets(change: Change) -> Leaves:
    return [
        (path, value, number)
        for number, edit in enumerate(change["edits"])
        for path, value in edit.get("sets", {}).items()
    ]


def _of_vm(change: Change) -> Iterator[Call]:
    name = change["vm"]["name"]
    match change["kind"]:
        case "power_on_vm":
            host = change["host_moid"]
            yield "PowerOnVM_Task", name, [("host", host, None)] if host else []
        case "power_off_vm":
            yield "ShutdownGuest", name, []
        case "destroy_vm":
            yield "Destroy_Task", name, []
        case _:
            return


def _of_host(change: Change) -> Iterator[Call]:
    moid = change["host"]["moid"]
    match change["kind"]:
        case "enter_maintenance" if not change["is_held"]:
            leaves: Leaves = [("timeout", str(change["timeout_seconds"]), None)]
            if change["vsan"] is not None:
                action: str = _VSAN.get(change["vsan"], change["vsan"])
                leaves.append(("maintenanceSpec.vsanMode.objectAction", action, None))
            yield "EnterMaintenanceMode_Task", moid, leaves
        case "exit_maintenance" if not change["is_held"]:
            yield "ExitMaintenanceMode_Task", moid, [("timeout", str(change["timeout_seconds"]), None)]
        case "reboot_host":
            yield "RebootHost_Task", moid, []
        case "shut_down_host" | "cold_boot_host":
            yield "ShutdownHost_Task", moid, []
        case "restart_service":
            yield "RestartService", moid, [("id", change["service"], None)]
        case _:
            return


def _in_cluster(change: Change) -> Iterator[tuple[str, str, int | None]]:
    """Yield the leaves of a cluster's ConfigSpecEx; a rule's own line shows all of it, none has an edit."""
    match change["kind"]:
        case "set_cluster_option":
            yield f"drsConfig.option[{change['option']}]", change["value"] or "", 0
        case "remove_rule":
            yield f"rulesSpec[{change['rule_key']}].removeKey", str(change["rule_key"]), None
        case "remove_vm_group":
            yield f"groupSpec[{change['group_name']}].removeKey", change["group_name"], None
        case _:
            rule = f"rulesSpec[{change['rule_name']}].info"
            vms = ", ".join(vm["name"] for vm in change["vms"])
            yield f"{rule}.name", change["rule_name"], None
            yield f"{rule}.enabled", "true", None
            yield f"{rule}.mandatory", str(change["is_mandatory"]).lower(), None
            if change["rule_key"] is not None:
                yield f"{rule}.key", str(change["rule_key"]), None
            if change["kind"] == "set_rule":
                yield f"{rule}.vm", vms, None
                return
            group = f"groupSpec[{change['vm_group']}].info"
            yield f"{group}.name", change["vm_group"], None
            yield f"{group}.vm", vms, None
            yield f"{rule}.vmGroupName", change["vm_group"], None
            yield f"{rule}.affineHostGroupName", change["host_group"], None


def _network(network: Mapping[str, Any]) -> Call:
    leaves: Leaves
    match network["kind"]:
        case "make_switch":
            leaves = [("configSpec.name", network["name"], 0)]
            if network["mtu"] is not None:
                leaves.append(("configSpec.maxMtu", str(network["mtu"]), 1))
            return "CreateDVS_Task", "", leaves
        case "edit_switch":
            leaves = [("maxMtu", str(network["mtu"]), 0)] if network["mtu"] is not None else []
            for number, (host, nics) in enumerate(network["members"].items(), len(leaves)):
                leaves.append((f"host[{host}].host", host, number))
                leaves += [(f"host[{host}].backing.pnicSpec[{nic}].pnicDevice", nic, number) for nic in nics]
            return "ReconfigureDvs_Task", network["switch_moid"] or "", leaves
        case "set_portgroup":
            is_new = network["portgroup_moid"] is None
            start = f"spec[{network['name']}]." if is_new else ""
            leaves = [(f"{start}name", network["name"], 0)] if is_new else []
            if is_new:
                ports = {"numPorts": str(network["ports"]), "type": "earlyBinding", "autoExpand": "true"}
                leaves += [(f"{start}{name}", value, 1) for name, value in ports.items()]
            if network["vlan"] is not None:
                number = 2 if is_new else 0
                leaves.append((f"{start}defaultPortConfig.vlan.vlanId", str(network["vlan"]), number))
            if is_new:
                return "AddDVPortgroup_Task", network["switch_moid"] or "", leaves
            return "ReconfigureDVPortgroup_Task", network["portgroup_moid"], leaves
        case kind:
            raise ValueError(kind)


# ------------------------------------------------------------- writes to hosts


def _write(write: Mapping[str, Any], change: Change) -> Iterator[tuple[str, Leaves]]:
    """Yield the calls of a write to a host, each leaf with the edit of its own setting and device."""
    edits = _Edits(change)
    match write["kind"]:
        case "graphics":
            yield "UpdateGraphicsConfig", list(_graphics(write, edits))
        case "passthrough":
            yield "UpdatePassthruConfig", list(_passthrough(write, edits))
        case "option":
            yield (
                "UpdateOptions",
                [
                    (f"changedValue[{key}]", _plain(value), edits.any())
                    for key, value in write["options"].items()
                ],
            )
        case "module":
            leaves = [("name", write["module"], edits.any()), ("options", write["options"], edits.any())]
            yield "UpdateModuleOptionString", leaves
        case "esxcli":
            yield (
                f"esxcli {write['command']}",
                [(name, value, edits.any()) for name, value in write["arguments"]],
            )
        case "shell":
            for words in write["commands"]:
                line = shlex.join([words[0].rpartition("/")[2], *words[1:]])
                yield HOST_SHELL, [("line", line, edits.any())]
        case "ruleset":
            method = "EnableRuleset" if write["is_enabled"] else "DisableRuleset"
            yield method, [("id", write["ruleset"], edits.any())]
        case "vmknic":
            yield _vmknic(write, edits.any())
        case "switch":
            yield "UpdateVirtualSwitch", list(_switch(write, edits.any()))
        case "licence":
            yield "UpdateAssignedLicense", [("entity", change["host"]["moid"], edits.any())]
        case kind:
            raise ValueError(kind)


class _Edits:
    """Which edit of a change to a host is of which setting and device."""

    def __init__(self, change: Change) -> None:
        self._settings = [(one["setting"], one["device"]) for one in change["settings"]]

    def of(self, device: str, *settings: str) -> int | None:
        """Return the edit of one of these settings of a device, None where there is none."""
        return next((n for n, (s, d) in enumerate(self._settings) if d == device and s in settings), None)

    def any(self) -> int | None:
        """Return the edit of what several settings share, as an option string: the first."""
        return 0 if self._settings else None


def _graphics(write: Mapping[str, Any], edits: _Edits) -> Iterator[tuple[str, str, int | None]]:
    if write["default_type"] is not None:
        yield "hostDefaultGraphicsType", write["default_type"], edits.of("", "graphics_type")
    if write["assignment_policy"] is not None:
        yield "sharedPassthruAssignmentPolicy", write["assignment_policy"], edits.of("", "assignment_policy")
    for pci_id, kind in write["graphics_types"].items():
        yield f"deviceType[{pci_id}].graphicsType", kind, edits.of(pci_id, "gpu_graphics_type")
    for pci_id, mode in write["vgpu_modes"].items():
        yield f"deviceType[{pci_id}].vgpuMode", _VGPU_MODES[mode], edits.of(pci_id, "vgpu_mode")


def _passthrough(write: Mapping[str, Any], edits: _Edits) -> Iterator[tuple[str, str, int | None]]:
    for device in write["devices"]:
        pci_id = device["pci_id"]
        start = f"config[{pci_id}]"
        if device["is_passthrough"] is not None:
            own = edits.of(pci_id, "gpu_passthrough", "nic_passthrough")
            yield f"{start}.passthruEnabled", _plain(device["is_passthrough"]), own
        if device["label"] is not None:
            yield f"{start}.hardwareLabel", device["label"], edits.of(pci_id, "gpu_label", "nic_label")
        if device["virtual_functions"] is not None:
            own = edits.of(pci_id, "nic_sriov")
            yield f"{start}.sriovEnabled", _plain(device["virtual_functions"] > 0), own
            yield f"{start}.numVirtualFunction", str(device["virtual_functions"]), own


def _vmknic(write: Mapping[str, Any], edit: int | None) -> tuple[str, Leaves]:
    leaves: Leaves = []
    if write["address"] == "dhcp":
        leaves.append(("nic.ip.dhcp", "true", edit))
    elif write["address"] is not None:
        interface = IPv4Interface(write["address"])
        leaves += [
            ("nic.ip.dhcp", "false", edit),
            ("nic.ip.ipAddress", str(interface.ip), edit),
            ("nic.ip.subnetMask", str(interface.netmask), edit),
        ]
    if write["mtu"] is not None:
        leaves.append(("nic.mtu", str(write["mtu"]), edit))
    if write["device"] is not None:
        return "UpdateVirtualNic", [("device", write["device"], edit), *leaves]
    if not write["network_moid"] or write["network_moid"].startswith("dvportgroup-"):
        return "AddVirtualNic", leaves
    return "AddVirtualNic", [("portgroup", write["network_name"], edit), *leaves]


def _switch(write: Mapping[str, Any], edit: int | None) -> Iterator[tuple[str, str, int | None]]:
    yield "vswitchName", write["switch"], edit
    if write["mtu"] is not None:
        yield "mtu", str(write["mtu"]), edit
    if write["uplinks"]:
        yield "bridge.nicDevice", ", ".join(write["uplinks"]), edit


def _plain(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
