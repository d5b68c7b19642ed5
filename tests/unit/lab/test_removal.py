"""What is made empty and destroyed again: datacenters, clusters, switches, portgroups; hosts that leave."""

from __future__ import annotations

from typing import Any

import pytest
from pyVmomi import vim, vmodl

from tests.unit.lab.rig import Rig
from vgpu_cfg.lab.state.inventory import Cluster, Datacenter, DistributedSwitch, Folder, Host, Network


@pytest.fixture
def rig() -> Rig:
    return Rig("bridges-2xa100")


def test_a_datacenter_and_a_cluster_are_made_and_go(rig: Rig) -> None:
    root = rig.lab.state.get(rig.lab.state.root, Folder)
    center = rig.lab.call(root, "CreateDatacenter", name="dc2")
    hosts = rig.lab.state.get(center.host_folder, Folder)
    spec = vim.cluster.ConfigSpecEx(drsConfig=vim.cluster.DrsConfigInfo(enabled=True))
    cluster = rig.lab.call(hosts, "CreateClusterEx", name="new", spec=spec)
    assert (cluster.drs_enabled, cluster.ha_enabled, cluster.hosts) == (True, False, [])
    assert isinstance(rig.refused(center, "Destroy_Task"), vim.fault.ResourceInUse)
    rig.done(cluster, "Destroy_Task")
    rig.done(center, "Destroy_Task")
    assert len(rig.lab.state.all(Datacenter)) == len(rig.lab.state.all(Cluster)) == 1


def test_they_are_made_only_where_they_belong(rig: Rig) -> None:
    vms = rig.find(Folder, "training")
    with pytest.raises(vmodl.fault.NotSupported):
        rig.lab.call(vms, "CreateDatacenter", name="x")
    with pytest.raises(vmodl.fault.NotSupported):
        rig.lab.call(vms, "CreateClusterEx", name="x", spec=vim.cluster.ConfigSpecEx())
    hosts = rig.lab.state.get(rig.find(Datacenter).host_folder, Folder)
    with pytest.raises(vim.fault.DuplicateName):
        rig.lab.call(hosts, "CreateClusterEx", name=rig.find(Cluster).name, spec=vim.cluster.ConfigSpecEx())


def test_a_host_leaves_when_it_is_empty_or_disconnected(rig: Rig) -> None:
    idle, busy = (rig.host(f"esx-nvlink-0{number}.lab") for number in (2, 1))
    assert isinstance(rig.refused(idle, "Destroy_Task"), vim.fault.InvalidState)
    rig.done(idle, "EnterMaintenanceMode_Task", timeout=0)
    rig.done(idle, "Destroy_Task")
    assert rig.find(Cluster).hosts == [busy.moid]
    rig.done(busy, "DisconnectHost_Task")
    rig.done(busy, "Destroy_Task")
    assert not rig.lab.state.all(Host)
    assert not rig.has_vm("single")


def test_a_host_is_disconnected_once_and_comes_back(rig: Rig) -> None:
    host = rig.host("esx-nvlink-01.lab")
    assert isinstance(rig.refused(host, "ReconnectHost_Task"), vim.fault.InvalidState)
    rig.done(host, "DisconnectHost_Task")
    assert isinstance(rig.refused(host, "DisconnectHost_Task"), vim.fault.InvalidState)
    assert isinstance(rig.refused(rig.vm("single"), "PowerOffVM_Task"), vmodl.fault.HostNotConnected)
    rig.done(host, "ReconnectHost_Task")
    rig.done(rig.vm("single"), "PowerOffVM_Task")


@pytest.mark.parametrize("is_used", [False, True])
def test_switches_and_portgroups_go_where_nothing_is_on_them(rig: Rig, *, is_used: bool) -> None:
    folder = rig.lab.state.get(rig.find(Datacenter).network_folder, Folder)
    spec = vim.DistributedVirtualSwitch.CreateSpec(
        configSpec=vim.dvs.VmwareDistributedVirtualSwitch.ConfigSpec(name="dvs9")
    )
    switch = rig.lab.state.get(rig.done(folder, "CreateDVS_Task", spec=spec), DistributedSwitch)
    made: Any = rig.done(
        switch, "CreateDVPortgroup_Task", spec=vim.dvs.DistributedVirtualPortgroup.ConfigSpec(name="pg9")
    )
    portgroup = rig.lab.state.get(made, Network)
    if is_used:
        portgroup.vms[rig.vm("single").moid] = None
        assert isinstance(rig.refused(portgroup, "Destroy_Task"), vim.fault.ResourceInUse)
        assert isinstance(rig.refused(switch, "Destroy_Task"), vim.fault.ResourceInUse)
        return
    rig.done(portgroup, "Destroy_Task")
    rig.done(switch, "Destroy_Task")
    assert rig.lab.state.find(switch.uplink_portgroup, Network) is None
