"""Names and paths, whatever characters they hold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from pyVmomi import vim

from vgpu_cfg.model.observed.drs import HostGroup, VmGroup, VmHostRule
from vgpu_cfg.model.observed.inventory import Cluster, NetworkKind
from vgpu_cfg.vsphere.reading import places as reader_places
from vgpu_cfg.vsphere.reading.places import Places
from vgpu_cfg.vsphere.wire.collector import Item


def thing(
    type_name: str,
    moid: str,
    name: str | None,
    parent: str | None = None,
    more: Mapping[str, Any] | None = None,
) -> Item:
    values = dict(more or {})
    if name is not None:
        values["name"] = name
    if parent is not None:
        values["parent"] = vim.Folder(parent)
    return Item(type_name, moid, values)


PLACES = Places(
    [
        thing("Folder", "group-d9", "west", "group-d1"),
        thing("Datacenter", "datacenter-1", "dc1", "group-d9", {"vmFolder": vim.Folder("group-v1")}),
        thing("Folder", "group-v1", "vm", "datacenter-1"),
        thing("Folder", "group-v2", "a%2fb", "group-v1"),
        thing("Folder", "group-h1", "host", "datacenter-1"),
        thing("ClusterComputeResource", "domain-c1", "gpu", "group-h1"),
        thing("HostSystem", "host-1", "esx-01", "domain-c1"),
        thing("VirtualMachine", "vm-1", "x%25y", "group-v2"),
        thing("VirtualMachine", "vm-2", None, None),
    ]
)


@pytest.mark.parametrize(
    ("moid", "expected"),
    [
        ("datacenter-1", "/west/dc1"),
        ("group-v2", "/west/dc1/vm/a%2fb"),
        ("host-1", "/west/dc1/host/gpu/esx-01"),
        ("vm-1", "/west/dc1/vm/a%2fb/x%25y"),
        ("vm-2", "/vm-2"),
        ("vm-3", ""),
        (None, ""),
    ],
)
def test_a_path_keeps_what_a_slash_in_a_name_is_written_as(moid: str | None, expected: str) -> None:
    assert PLACES.path(moid) == expected


@pytest.mark.parametrize(("moid", "expected"), [("vm-1", "dc1"), ("host-1", "dc1"), ("vm-2", ""), ("x", "")])
def test_everything_has_its_datacenter(moid: str, expected: str) -> None:
    assert PLACES.datacenter(moid) == expected


def test_only_folders_of_vms_are_listed() -> None:
    found = reader_places.folders(PLACES)
    assert [(folder.name, folder.is_root) for folder in found] == [("vm", True), ("a/b", False)]


def test_networks_know_their_switch_and_uplinks_are_marked() -> None:
    switch = vim.DistributedVirtualSwitch("dvs-1")
    found = reader_places.networks(
        Places(
            [
                thing("Network", "network-1", "VM Network"),
                thing("OpaqueNetwork", "network-2", "nsx"),
                thing(
                    "VmwareDistributedVirtualSwitch",
                    "dvs-1",
                    "dvs",
                    more={"uuid": "50 1e", "config.uplinkPortgroup": [vim.Network("dvportgroup-2")]},
                ),
                *[
                    thing(
                        "DistributedVirtualPortgroup",
                        f"dvportgroup-{number}",
                        f"pg{number}",
                        more={
                            "key": f"dvportgroup-{number}",
                            "config.distributedVirtualSwitch": switch,
                        },
                    )
                    for number in (1, 2)
                ],
            ]
        )
    )
    assert [(net.moid, net.kind, net.switch_uuid, net.is_uplink) for net in found] == [
        ("network-1", NetworkKind.STANDARD, None, False),
        ("network-2", NetworkKind.OPAQUE, None, False),
        ("dvportgroup-1", NetworkKind.DISTRIBUTED, "50 1e", False),
        ("dvportgroup-2", NetworkKind.DISTRIBUTED, "50 1e", True),
    ]


def test_rules_and_groups_of_a_cluster_are_read() -> None:
    config = vim.cluster.ConfigInfoEx(
        drsConfig=vim.cluster.DrsConfigInfo(enabled=True, defaultVmBehavior="manual"),
        dasConfig=vim.cluster.DasConfigInfo(enabled=False),
        rule=[
            vim.cluster.AntiAffinityRuleSpec(
                key=1, name="apart", enabled=True, mandatory=True, vm=[vim.VirtualMachine("vm-1")]
            ),
            vim.cluster.AffinityRuleSpec(
                key=2, name="together", enabled=False, vm=[vim.VirtualMachine("vm-2")]
            ),
            vim.cluster.VmHostRuleInfo(
                key=3,
                name="here",
                enabled=True,
                mandatory=True,
                vmGroupName="pets",
                affineHostGroupName="even",
            ),
            vim.cluster.VmHostRuleInfo(key=4, name="away", vmGroupName="pets", antiAffineHostGroupName="odd"),
            vim.cluster.DependencyRuleInfo(key=5, name="after", vmGroup="pets", dependsOnVmGroup="pets"),
        ],
        group=[
            vim.cluster.VmGroup(name="pets", vm=[vim.VirtualMachine("vm-1")]),
            vim.cluster.HostGroup(name="even", host=[vim.HostSystem("host-2")]),
            vim.cluster.HostGroup(name="odd"),
        ],
    )
    (cluster,) = reader_places.clusters(
        Places([thing("ClusterComputeResource", "domain-c1", "gpu", more={"configurationEx": config})])
    )
    assert [
        (rule.key, rule.kind, rule.is_enabled, rule.is_mandatory, rule.vm_moids) for rule in cluster.rules
    ] == [
        (1, "anti_affinity", True, True, ("vm-1",)),
        (2, "affinity", False, False, ("vm-2",)),
    ]
    assert cluster.host_rules == (
        VmHostRule(
            key=3, name="here", is_enabled=True, is_mandatory=True, vm_group="pets", host_group="even"
        ),
        VmHostRule(
            key=4, name="away", is_enabled=False, is_mandatory=False, vm_group="pets", avoided_group="odd"
        ),
    )
    assert cluster.vm_groups == (VmGroup(name="pets", vm_moids=("vm-1",)),)
    assert cluster.host_groups == (
        HostGroup(name="even", host_moids=("host-2",)),
        HostGroup(name="odd", host_moids=()),
    )
    assert (cluster.drs_enabled, cluster.drs_behavior, cluster.ha_enabled) == (True, "manual", False)
    assert not cluster.is_standalone


@pytest.mark.parametrize(
    ("names", "wanted", "found"),
    [
        (["Even"], "Even", "Even"),
        (["Even"], "even", "Even"),
        (["Even", "even"], "even", "even"),
        (["Even", "EVEN"], "even", None),
        (["odd"], "even", None),
    ],
)
def test_a_host_group_is_found_by_its_name(names: list[str], wanted: str, found: str | None) -> None:
    cluster = Cluster(moid="c", name="gpu", host_groups=tuple(HostGroup(name=name) for name in names))
    group = cluster.host_group(wanted)
    assert (group.name if group else None) == found


def test_a_single_host_stands_as_a_cluster_of_its_own() -> None:
    (cluster,) = reader_places.clusters(Places([thing("ComputeResource", "domain-s1", "esx-09")]))
    assert cluster.is_standalone
    assert not cluster.drs_enabled


@pytest.mark.parametrize(("told", "heeds"), [(None, True), (True, True), (False, False)])
def test_whether_drs_heeds_levels_of_single_vms_is_read(told: bool | None, heeds: bool) -> None:
    config = vim.cluster.ConfigInfoEx(drsConfig=vim.cluster.DrsConfigInfo(enableVmBehaviorOverrides=told))
    (cluster,) = reader_places.clusters(
        Places([thing("ClusterComputeResource", "domain-c1", "gpu", more={"configurationEx": config})])
    )
    assert cluster.uses_vm_levels is heeds
