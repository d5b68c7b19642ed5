"""What hosts and clusters tell of others' arrangements: opaque switches, and VMs that DRS treats apart."""

from __future__ import annotations

import pytest
from pyVmomi import vim

from tests.unit.vsphere.host_facts.test_properties import facts, host, ip, pnic, vmknic
from vgpu_cfg.model.observed.host_facts import HostSwitch, Vmknic
from vgpu_cfg.vsphere.host_facts.properties import cluster_facts
from vgpu_cfg.vsphere.wire.collector import Item


def test_an_opaque_switch_has_its_nics_and_its_tunnel_endpoints() -> None:
    named = vim.host.OpaqueSwitch(
        key="50 2f",
        name="nsx-overlay",
        pnic=["key-vim.host.PhysicalNic-vmnic4"],
        vtep=[vmknic("vmk10", ip=ip("172.16.0.7", "255.255.255.0"), mtu=1700), vmknic("vmk0")],
    )
    bare = vim.host.OpaqueSwitch(key="50 3a")
    item = host(
        config__network__pnic=[pnic("vmnic4")],
        config__network__vnic=[vmknic("vmk0", "Management Network")],
        config__network__opaqueSwitch=[named, bare],
    )
    found = facts(item)
    assert found.switches == (HostSwitch(name="nsx-overlay", uplinks=("vmnic4",)), HostSwitch(name="50 3a"))
    assert found.uplink_of("vmnic4") == "nsx-overlay"
    assert found.uplink_of("vmnic5") is None
    assert found.vmknics == (
        Vmknic(device="vmk0", network="Management Network"),
        Vmknic(device="vmk10", address="172.16.0.7/24", mtu=1700),
    )


@pytest.mark.parametrize("has_levels", [None, True, False])
def test_what_drs_does_with_single_vms_is_told(has_levels: bool | None) -> None:
    overrides = [
        vim.cluster.DrsVmConfigInfo(key=vim.VirtualMachine("vm-1"), enabled=False, behavior="fullyAutomated"),
        vim.cluster.DrsVmConfigInfo(key=vim.VirtualMachine("vm-2"), enabled=True, behavior="manual"),
        vim.cluster.DrsVmConfigInfo(key=vim.VirtualMachine("vm-3"), behavior="partiallyAutomated"),
        vim.cluster.DrsVmConfigInfo(key=vim.VirtualMachine("vm-4"), enabled=True),
    ]
    configuration = vim.cluster.ConfigInfoEx(
        dasConfig=vim.cluster.DasConfigInfo(),
        drsConfig=vim.cluster.DrsConfigInfo(enableVmBehaviorOverrides=has_levels),
        drsVmConfig=overrides,
    )
    found = cluster_facts(Item("ClusterComputeResource", "domain-c1", {"configurationEx": configuration}))
    levels = {} if has_levels is False else {"vm-2": "manual", "vm-3": "partiallyAutomated"}
    assert found.drs_overrides == {"vm-1": "disabled", **levels}
    bare = Item("ComputeResource", "domain-s1", {"configurationEx": vim.ComputeResource.ConfigInfo()})
    assert cluster_facts(bare).drs_overrides == {}
