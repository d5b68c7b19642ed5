"""Passed-through NICs of VMs are told from GPUs by what hosts list at their addresses and under their ids."""

from __future__ import annotations

from typing import Any

import pytest

from vgpu_cfg.model.observed.inventory import Host, PciDevice
from vgpu_cfg.model.observed.vm import PassthroughDevice, Vm, VmDetail
from vgpu_cfg.vsphere.reading.hosts import mark_nics

GPU_IDS, NIC_IDS = (0x10DE, 0x20F1), (0x15B3, 0x101D)


def function(pci_id: str, ids: tuple[int, int], class_id: int) -> PciDevice:
    return PciDevice(pci_id=pci_id, vendor_id=ids[0], device_id=ids[1], class_id=class_id)


ONE = Host(
    moid="host-1",
    name="esx-01",
    pci_devices=(function("0000:21:00.0", GPU_IDS, 0x0302), function("0000:24:00.0", NIC_IDS, 0x0200)),
)
OTHER = Host(moid="host-2", name="esx-02", pci_devices=(function("0000:24:00.0", GPU_IDS, 0x0302),))


@pytest.mark.parametrize(
    ("device", "is_nic"),
    [
        ({"pci_id": "0000:24:00.0"}, True),
        ({"pci_id": "0000:21:00.0"}, False),
        ({"pci_id": "0000:99:00.0"}, False),
        ({"allowed": (NIC_IDS,), "label": "rail"}, True),
        ({"allowed": (NIC_IDS,), "assigned_id": "0000:24:00.0"}, True),
        ({"allowed": (GPU_IDS,)}, False),
        ({"allowed": (NIC_IDS, GPU_IDS)}, False),
        ({"allowed": ((0x8086, 1),)}, False),
        ({}, False),
    ],
)
def test_what_is_a_nic(device: dict[str, Any], *, is_nic: bool) -> None:
    vm = Vm(
        moid="vm-1",
        name="a",
        host_moid="host-1",
        detail=VmDetail(passthrough=(PassthroughDevice(key=13000, **device),)),
    )
    told = mark_nics({"vm-1": vm}, [ONE, OTHER])["vm-1"]
    assert told.detail is not None
    assert [one.is_nic for one in told.detail.passthrough] == [is_nic]
    assert bool(told.detail.passthrough_nics) is is_nic
    assert bool(told.detail.passthrough_gpus) is not is_nic


def test_an_address_means_the_vms_own_host() -> None:
    detail = VmDetail(passthrough=(PassthroughDevice(key=13000, pci_id="0000:24:00.0"),))
    vm = Vm(moid="vm-1", name="a", host_moid="host-2", detail=detail)
    bare = Vm(moid="vm-2", name="b")
    told = mark_nics({"vm-1": vm, "vm-2": bare}, [ONE, OTHER])
    assert told["vm-1"].detail is not None
    assert not told["vm-1"].detail.passthrough_nics
    assert told["vm-2"] is bare
