"""The diary: each kind of experience, and beside it the twin that experiences nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyVmomi import vim

from tests.unit.lab.rig import Rig, change, disk, estate_of, options
from vgpu_cfg.lab import open_lab
from vgpu_cfg.lab.nvidia.smi import run_nvidia_smi
from vgpu_cfg.lab.simulation.clock import VirtualClock
from vgpu_cfg.lab.simulation.operations import find_operation
from vgpu_cfg.lab.state.devices import disks_of
from vgpu_cfg.lab.state.inventory import Cluster, DistributedSwitch, Host, Network
from vgpu_cfg.lab.state.managed import KEPT_ENTRIES

ESTATE = """
about: Two hosts on one switch; VMs of all kinds.
vcenter: {settings: {vgpu.hotmigrate.enabled: false}}
clusters:
- name: gpu
  drs: fullyAutomated
  hosts:
  - names: [one.lab, two.lab]
    gpus: [{board: H100, pci_id: "0000:21:00.0"}]
    nics:
    - {model: ConnectX-6 Lx, vmnic: vmnic0, pci_id: "0000:c1:00.0", switch: vSwitch0}
    - {model: ConnectX-6 Dx, vmnic: vmnic2, pci_id: "0000:24:00.0", switch: dvs}
    - {model: ConnectX-6 Dx, vmnic: vmnic3, pci_id: "0000:e4:00.0"}
switches: [{name: dvs}]
networks: [{name: vm-network}, {name: dv-12, switch: dvs, vlan: 12}, {name: dv-13, switch: dvs, vlan: 13}]
datastores: [{name: vsan}, {name: nfs}]
vms:
- {name: on-dv, host: one.lab, memory: 4GiB, disks: [10GiB], networks: [dv-12]}
- {name: on-std, host: one.lab, memory: 4GiB, disks: [10GiB], networks: [vm-network]}
- {name: off, host: one.lab, power: "off", memory: 4GiB, disks: [10GiB], networks: [dv-12]}
- {name: gpu-off, host: one.lab, power: "off", memory: 4GiB, gpus: [nvidia_h100-10c]}
- {name: afar, host: two.lab, memory: 4GiB, disks: [10GiB], networks: [dv-13]}
"""
GPU = "0000:21:00.0"
Happened = list[tuple[str, str, str]]


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(estate_of(ESTATE, tmp_path))


def diary(rig: Rig, *names: str) -> Happened:
    """Return what happened to whom, and to which part of it."""
    return [(one.name, one.what, one.about) for one in rig.lab.state.diary if not names or one.name in names]


def reconfigured_switch(rig: Rig, **fields: Any) -> None:
    switch = rig.find(DistributedSwitch)
    spec: Any = vim.dvs.VmwareDistributedVirtualSwitch.ConfigSpec
    rig.done(switch, "ReconfigureDvs_Task", spec=spec(configVersion=str(switch.config_version), **fields))


def at_host(rig: Rig, kind: str, method: str, **arguments: Any) -> None:
    """Call a method of one of a host's managers."""
    with rig.lab.transaction():
        find_operation(kind, method)(rig.lab, rig.host("one.lab"), **arguments)


# ---------------------------------------------------------------- networks


def test_another_mtu_of_a_distributed_switch_drops_the_links_of_all_that_is_reached_through_it(
    rig: Rig,
) -> None:
    reconfigured_switch(rig, maxMtu=9000)
    assert diary(rig) == [
        ("one.lab", "link", "vmnic2"),
        ("on-dv", "link", "Network adapter 1"),
        ("two.lab", "link", "vmnic2"),
        ("afar", "link", "Network adapter 1"),
    ]
    assert {one.cause for one in rig.lab.state.diary} == {"ReconfigureDvs_Task dvs"}


def test_the_mtu_that_a_distributed_switch_has_and_a_new_name_drop_none(rig: Rig) -> None:
    reconfigured_switch(rig, maxMtu=1500, name="dvs-new")
    assert diary(rig) == []


@pytest.mark.parametrize(("nics", "is_disturbed"), [(["vmnic3"], True), (["vmnic2", "vmnic3"], False)])
def test_an_uplink_less_drops_the_links_of_that_host(rig: Rig, nics: list[str], is_disturbed: bool) -> None:
    pnics = [vim.dvs.HostMember.PnicSpec(pnicDevice=nic) for nic in nics]
    member = vim.dvs.HostMember.ConfigSpec(
        operation="edit",
        host=vim.HostSystem(rig.host("one.lab").moid),
        backing=vim.dvs.HostMember.PnicBacking(pnicSpec=pnics),
    )
    reconfigured_switch(rig, host=[member])
    links = [("one.lab", "link", "vmnic2"), ("on-dv", "link", "Network adapter 1")]
    assert diary(rig) == (links if is_disturbed else [])


@pytest.mark.parametrize(("mtu", "is_disturbed"), [(9000, True), (1500, False)])
def test_a_standard_switch_disturbs_those_on_it(rig: Rig, mtu: int, is_disturbed: bool) -> None:
    bridge = vim.host.VirtualSwitch.BondBridge(nicDevice=["vmnic0"])
    spec = vim.host.VirtualSwitch.Specification(numPorts=128, mtu=mtu, bridge=bridge)
    at_host(rig, "HostNetworkSystem", "UpdateVirtualSwitch", vswitchName="vSwitch0", spec=spec)
    links = [("one.lab", "link", "vmnic0"), ("one.lab", "link", "vmk0")]
    assert diary(rig) == ([*links, ("on-std", "link", "Network adapter 1")] if is_disturbed else [])


@pytest.mark.parametrize(("vlan", "is_disturbed"), [(14, True), (12, False)])
def test_another_vlan_is_another_network_for_vms_that_run(rig: Rig, vlan: int, is_disturbed: bool) -> None:
    portgroup = rig.find(Network, "dv-12")
    shapes = vim.dvs.VmwareDistributedVirtualSwitch
    ports = shapes.VmwarePortConfigPolicy(vlan=shapes.VlanIdSpec(vlanId=vlan, inherited=False))
    spec = vim.dvs.DistributedVirtualPortgroup.ConfigSpec(
        configVersion=str(portgroup.config_version), defaultPortConfig=ports
    )
    rig.done(portgroup, "ReconfigureDVPortgroup_Task", spec=spec)
    assert diary(rig) == ([("on-dv", "network", "Network adapter 1")] if is_disturbed else [])


@pytest.mark.parametrize(("mtu", "is_disturbed"), [(9000, True), (1500, False)])
def test_a_vmkernel_nic_that_is_changed(rig: Rig, mtu: int, is_disturbed: bool) -> None:
    nic = vim.host.VirtualNic.Specification(mtu=mtu)
    at_host(rig, "HostNetworkSystem", "UpdateVirtualNic", device="vmk0", nic=nic)
    assert diary(rig) == ([("one.lab", "network", "vmk0")] if is_disturbed else [])


# --------------------------------------------------------------------- VMs


@pytest.mark.parametrize(
    ("name", "method", "happened"),
    [
        ("off", "PowerOnVM_Task", ["power on"]),
        ("on-dv", "PowerOffVM_Task", ["power off"]),
        ("on-dv", "SuspendVM_Task", ["power off"]),
        ("on-dv", "ResetVM_Task", ["restart"]),
        ("on-dv", "ShutdownGuest", ["power off"]),
        ("on-dv", "RebootGuest", ["restart"]),
        ("off", "Destroy_Task", ["disk delete", "delete"]),
        ("off", "UnregisterVM", []),
        ("off", "MarkAsTemplate", []),
    ],
)
def test_power_and_deletion(rig: Rig, name: str, method: str, happened: list[str]) -> None:
    rig.lab.call(rig.vm(name), method)
    rig.lab.run_until_idle()
    assert [what for _, what, _ in diary(rig)] == happened
    assert {who for who, _, _ in diary(rig)} <= {name}


@pytest.mark.parametrize(
    ("name", "happened"),
    [("on-dv", ("move", "one.lab -> two.lab")), ("off", ("register", "one.lab -> two.lab")), ("afar", None)],
)
def test_a_vm_that_is_moved(rig: Rig, name: str, happened: tuple[str, str] | None) -> None:
    spec = vim.vm.RelocateSpec(host=vim.HostSystem(rig.host("two.lab").moid))
    rig.done(rig.vm(name), "RelocateVM_Task", spec=spec)
    assert diary(rig) == ([(name, *happened)] if happened else [])


def test_disks_that_move_to_another_datastore(rig: Rig) -> None:
    store = next(one for one in rig.lab.state.objects.values() if one.name == "nfs")
    for _ in range(2):
        spec = vim.vm.RelocateSpec(datastore=vim.Datastore(store.moid))
        rig.done(rig.vm("off"), "RelocateVM_Task", spec=spec)
    assert [(who, what) for who, what, _ in diary(rig)] == [("off", "disk move")]


def _deleted(device: Any) -> Any:
    made = change("remove", device)
    made.fileOperation = "destroy"
    return made


def _grown(device: Any) -> Any:
    return change("edit", vim.vm.device.VirtualDisk(key=device.key, capacityInKB=device.capacityInKB * 2))


@pytest.mark.parametrize(
    ("made", "happened"),
    [
        (_deleted, ["device detach", "disk delete"]),
        (lambda device: change("remove", device), ["device detach"]),
        (_grown, ["disk grow"]),
        (lambda device: change("edit", device), []),
    ],
)
def test_a_disk_in_a_spec(rig: Rig, made: Callable[[Any], Any], happened: list[str]) -> None:
    vm = rig.vm("off")
    device = disks_of(vm.devices)[0]
    rig.done(vm, "ReconfigVM_Task", spec=vim.vm.ConfigSpec(deviceChange=[made(device)]))
    assert [(what, about) for _, what, about in diary(rig)] == [
        ("reconfigure", ""),
        *((one, device.backing.fileName) for one in happened),
    ]


def test_a_disk_that_is_attached_and_a_new_name(rig: Rig) -> None:
    new = change("add", disk(1024))
    new.fileOperation = "create"
    spec = vim.vm.ConfigSpec(name="other", deviceChange=[new], extraConfig=options(a="b"))
    rig.done(rig.vm("off"), "ReconfigVM_Task", spec=spec)
    assert [what for _, what, _ in diary(rig)] == ["reconfigure", "rename", "device attach"]


# ------------------------------------------------------- hosts and clusters


def test_a_host_in_maintenance_and_whom_drs_moves_for_it(rig: Rig) -> None:
    host = rig.host("one.lab")
    rig.done(host, "EnterMaintenanceMode_Task", timeout=0)
    assert diary(rig) == [
        ("one.lab", "maintenance", "enter"),
        ("on-dv", "move", "one.lab -> two.lab"),
        ("on-std", "move", "one.lab -> two.lab"),
    ]
    assert rig.lab.state.diary[1].cause == "EnterMaintenanceMode_Task one.lab"
    rig.done(host, "RebootHost_Task", force=False)
    while rig.lab.state.leaving or rig.lab.state.booting:
        rig.lab.wait()
    rig.done(host, "ExitMaintenanceMode_Task", timeout=0)
    assert diary(rig, "one.lab")[1:] == [
        ("one.lab", "host down", ""),
        ("one.lab", "host up", ""),
        ("one.lab", "maintenance", "exit"),
    ]


def test_a_host_without_power_takes_its_vms_along(rig: Rig) -> None:
    rig.lab.at_server("two.lab", "fail")
    assert diary(rig)[:2] == [("two.lab", "host down", ""), ("afar", "power off", "")]


@pytest.mark.parametrize(("mig", "is_disturbed"), [("1", True), ("0", False)])
def test_a_gpu_whose_mode_changes_at_once(rig: Rig, mig: str, is_disturbed: bool) -> None:
    with rig.lab.transaction():
        run_nvidia_smi(rig.lab, rig.host("one.lab"), ["-i", "0", "-mig", mig])
    changed = [(name, "gpu mode", f"{GPU} mig True") for name in ("one.lab", "gpu-off")]
    assert diary(rig) == (changed if is_disturbed else [])


def test_what_waits_for_a_restart_is_felt_at_the_restart(rig: Rig) -> None:
    host = rig.host("one.lab")
    with rig.lab.transaction():
        run_nvidia_smi(rig.lab, host, ["-i", "0", "-e", "0"])
    assert diary(rig) == []
    rig.done(host, "RebootHost_Task", force=True)
    while rig.lab.state.leaving or rig.lab.state.booting:
        rig.lab.wait()
    assert ("one.lab", "gpu mode", f"{GPU} ecc False") in diary(rig)


@pytest.mark.parametrize(("is_on", "is_disturbed"), [(True, True), (False, False)])
def test_a_gpu_handed_through(rig: Rig, is_on: bool, is_disturbed: bool) -> None:
    entry = vim.host.PciPassthruConfig(id=GPU, passthruEnabled=is_on)
    at_host(rig, "HostPciPassthruSystem", "UpdatePassthruConfig", config=[entry])
    assert (("one.lab", "gpu mode", f"{GPU} passthrough True") in diary(rig)) == is_disturbed


@pytest.mark.parametrize(("level", "is_disturbed"), [("manual", True), ("fullyAutomated", False)])
def test_another_level_of_drs(rig: Rig, level: str, is_disturbed: bool) -> None:
    spec = vim.cluster.ConfigSpecEx(drsConfig=vim.cluster.DrsConfigInfo(defaultVmBehavior=level))
    rig.done(rig.find(Cluster), "ReconfigureComputeResource_Task", spec=spec, modify=True)
    assert diary(rig) == ([("gpu", "cluster settings", "drs_behavior")] if is_disturbed else [])


# --------------------------------------------------------------- the diary


def test_it_is_kept_with_the_state_and_bounded(tmp_path: Path) -> None:
    estate = estate_of(ESTATE, tmp_path)
    rig = Rig(estate, folder=tmp_path / "state")
    rig.done(rig.vm("on-dv"), "ResetVM_Task")
    again = open_lab(estate, folder=tmp_path / "state", clock=VirtualClock())
    again.settle()
    assert again.state.diary == rig.lab.state.diary != []
    with again.transaction():
        for _ in range(KEPT_ENTRIES):
            again.note(again.state.all(Host)[0], "host down")
    assert len(again.state.diary) == KEPT_ENTRIES
    assert {one.what for one in again.state.diary} == {"host down"}


def test_what_the_estate_powers_on_has_experienced_nothing(rig: Rig) -> None:
    assert diary(rig) == []
