"""Which hosts a recording holds facts of, and what is told when less is asked."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from vgpu_cfg.model.observed.host_facts import (
    ClusterFacts,
    EstateFacts,
    FactGroup,
    HostFacts,
    KernelSetting,
    SoftwarePackage,
)
from vgpu_cfg.model.observed.inventory import Gpu, Host, Inventory, PciDevice, VCenter
from vgpu_cfg.vsphere.host_facts.passes import narrowed, preparable
from vgpu_cfg.vsphere.host_facts.reader import ALL_GROUPS

A100 = PciDevice(pci_id="0000:3b:00.0", vendor_id=0x10DE, device_id=0x20F1)
CONNECTX = PciDevice(pci_id="0000:3c:00.0", vendor_id=0x15B3, device_id=0x101D)
INTEL = PciDevice(pci_id="0000:3d:00.0", vendor_id=0x8086, device_id=0x1563)


def host(number: int, *devices: PciDevice, gpu: bool = False) -> Host:
    return Host(
        moid=f"host-{number}",
        name=f"esx-{number}",
        inventory_path=f"/dc/host/c/esx-{number}",
        compute_moid=f"domain-c{number}",
        pci_devices=devices,
        gpus=(Gpu(pci=A100, name="A100"),) if gpu else (),
    )


INVENTORY = Inventory(
    vcenter=VCenter(address="vc01"),
    read_at=datetime(2026, 11, 20, 12, 0, tzinfo=UTC),
    hosts=(host(1, A100, gpu=True), host(2, CONNECTX), host(3, INTEL), host(4)),
)
WHOLE = HostFacts(
    groups=ALL_GROUPS - {FactGroup.OWNERS},
    lockdown="lockdownDisabled",
    options={"a": 1},
    modules={"nvidia": ""},
    kernel={"atsSupport": KernelSetting(configured="TRUE", runtime="TRUE")},
    software=(SoftwarePackage(name="x", version="1"),),
    licence="vSphere 8",
    unread={FactGroup.OWNERS: "refused"},
)
RECORDED = EstateFacts(
    hosts={"host-1": WHOLE, "host-2": WHOLE},
    clusters={"domain-c1": ClusterFacts(image_managed=True), "domain-c2": ClusterFacts()},
    vcenter_options={"vgpu.hotmigrate.enabled": "true"},
)


def test_hosts_with_nvidia_gpus_or_mellanox_nics_can_be_prepared() -> None:
    assert preparable(INVENTORY) == ("host-1", "host-2")


def test_what_is_asked_whole_is_told_whole() -> None:
    assert narrowed(RECORDED, INVENTORY, ["host-1", "host-2"], ALL_GROUPS) == RECORDED


def test_only_the_hosts_that_are_asked_and_their_clusters_are_told() -> None:
    found = narrowed(RECORDED, INVENTORY, ["host-2"], ALL_GROUPS)
    assert found.hosts == {"host-2": WHOLE}
    assert found.clusters.keys() == {"domain-c2"}
    assert found.vcenter_options == RECORDED.vcenter_options


@pytest.mark.parametrize("group", sorted(ALL_GROUPS - {FactGroup.BASE}))
def test_a_group_that_is_not_asked_stays_empty(group: FactGroup) -> None:
    found = narrowed(RECORDED, INVENTORY, ["host-1"], ALL_GROUPS - {group}).hosts["host-1"]
    field = group.value
    assert getattr(found, field) == getattr(HostFacts(), field)
    assert group not in found.groups
    assert group not in found.unread
    others = {name: value for name, value in WHOLE if name not in (field, "groups", "unread")}
    assert {name: value for name, value in found if name in others} == others


def test_the_bulk_reading_is_told_always() -> None:
    found = narrowed(RECORDED, INVENTORY, ["host-1"], frozenset()).hosts["host-1"]
    assert found == HostFacts(groups=frozenset({FactGroup.BASE}), lockdown="lockdownDisabled")


def test_a_host_that_was_left_out_says_so() -> None:
    asked = frozenset({FactGroup.OPTIONS, FactGroup.SHELL_GPUS})
    found = narrowed(RECORDED, INVENTORY, ["host-3"], asked).hosts["host-3"]
    assert set(found.unread) == {FactGroup.BASE, FactGroup.OPTIONS}
    assert set(found.unread.values()) == {"the recording contains no data about this host"}
    assert found.groups == frozenset()
