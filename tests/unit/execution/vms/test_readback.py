from __future__ import annotations

from typing import Any

import pytest

from vgpu_cfg.changes.kinds.vm_spec import (
    EditNic,
    GrowDisk,
    NewDisk,
    NewDynamicPassthrough,
    NewNic,
    NewPassthrough,
    NewPvrdmaNic,
    NewSriovNic,
    NewTpm,
    NewVgpu,
    NicBacking,
    PolicyRef,
    RemoveDevice,
    SetDiskPolicy,
    VmSpec,
)
from vgpu_cfg.execution import describe_spec, missing_from
from vgpu_cfg.model.observed.vm import PassthroughDevice, VgpuDevice, VirtualDisk, VirtualNic, Vm, VmDetail

C40 = "grid_a100-40c"
PAIR = "Nvidia:2@grid_a100-40c%NVLink"
MEMBERS = (NewVgpu(profile=C40, group=1, sequence=0), NewVgpu(profile=C40, group=1, sequence=1))
LAN = NicBacking(network_moid="network-1", network_name="vm-network")
DVS = NicBacking(network_moid="dvportgroup-1", network_name="roce", portgroup_key="key-1", switch_uuid="uuid")
GOLD = PolicyRef(id="gold-id", name="gold")


def disk_with(policy: str | None) -> VirtualDisk:
    return VirtualDisk(key=2000, capacity_mib=1024, controller_key=1000, policy=policy)


def test_a_new_disk_without_its_policy_is_given_it() -> None:
    spec = VmSpec(devices=(NewDisk(size_mib=1024, policy=GOLD),))
    assert missing_from(vm(disks=(disk_with("gold-id"),)), spec).is_empty
    found = missing_from(vm(disks=(disk_with(""),)), spec)
    assert found.devices == (SetDiskPolicy(key=2000, policy=GOLD),)
    assert describe_spec(found) == "storage policy gold for disk 2000"


def vm(**fields: Any) -> Vm:
    return Vm(moid="vm-1", name="hvd-01", detail=VmDetail(**fields))


@pytest.mark.parametrize(
    ("asked", "shown", "dropped"),
    [
        pytest.param(
            {"settings": {"hardware_version": 21}},
            {"hardware_version": 21},
            {"hardware_version": 19},
            id="hardware version",
        ),
        pytest.param(
            {"settings": {"hardware_version": 19}},
            {"hardware_version": 21},
            {},
            id="an older hardware version",
        ),
        pytest.param(
            {"settings": {"firmware": "efi"}}, {"firmware": "efi"}, {"firmware": "bios"}, id="firmware"
        ),
        pytest.param(
            {"settings": {"secure_boot": True}}, {"options": {"secure_boot": True}}, {}, id="secure boot"
        ),
        pytest.param({"settings": {"cpus": 16}}, {"cpus": 16}, {"cpus": 2}, id="CPUs"),
        pytest.param(
            {"settings": {"cores_per_socket": 8}},
            {"cores_per_socket": 8},
            {"cores_per_socket": 1},
            id="cores per socket",
        ),
        pytest.param(
            {"settings": {"memory": 65536}}, {"memory_mib": 65536}, {"memory_mib": 2048}, id="memory"
        ),
        pytest.param(
            {"settings": {"memory_reservation": 65536}},
            {"memory_reservation_locked": True},
            {},
            id="reservation of all memory",
        ),
        pytest.param(
            {"extra_config": {"a": "1"}}, {"extra_config": {"a": "1"}}, {"extra_config": {"a": "2"}}, id="key"
        ),
        pytest.param({"extra_config": {"a": ""}}, {}, {"extra_config": {"a": "2"}}, id="deletion of a key"),
        pytest.param(
            {"devices": (NewVgpu(profile=C40),)},
            {"vgpus": (VgpuDevice(key=13000, profile=C40),)},
            {},
            id="vGPU",
        ),
        pytest.param(
            {"devices": (NewVgpu(profile=C40), NewVgpu(profile=C40))},
            {"vgpus": (VgpuDevice(key=13000, profile=C40), VgpuDevice(key=13001, profile=C40))},
            {"vgpus": (VgpuDevice(key=13000, profile="grid_a100-20c"),)},
            id="two vGPUs of one profile",
        ),
        pytest.param(
            {"devices": MEMBERS, "device_groups": {1: PAIR}},
            {
                "vgpus": (
                    VgpuDevice(key=13000, profile=C40, group_key=7),
                    VgpuDevice(key=13001, profile=C40, group_key=7),
                ),
                "device_groups": {7: PAIR},
            },
            {},
            id="device group",
        ),
        pytest.param(
            {"settings": {"cores_per_numa_node": 16}},
            {"cores_per_numa_node": 16},
            {"cores_per_numa_node": 0},
            id="cores per virtual NUMA node",
        ),
        pytest.param(
            {"devices": (NewPassthrough(pci_id="0000:3c:00.0", system_id="s", vendor_id=1, device_id=2),)},
            {"passthrough": (PassthroughDevice(key=13000, pci_id="0000:3c:00.0"),)},
            {"passthrough": (PassthroughDevice(key=13000, pci_id="0000:3d:00.0"),)},
            id="fixed passthrough",
        ),
        pytest.param(
            {"devices": (NewDynamicPassthrough(allowed=((1, 2), (1, 3)), label="pt"),)},
            {"passthrough": (PassthroughDevice(key=13000, allowed=((1, 3), (1, 2)), label="pt"),)},
            {"passthrough": (PassthroughDevice(key=13000, allowed=((1, 3), (1, 2))),)},
            id="dynamic passthrough",
        ),
        pytest.param(
            {"devices": (NewNic(backing=LAN),)},
            {"nics": (VirtualNic(key=4000, kind="vmxnet3", network="network-1", mac="00:50:56:00:00:01"),)},
            {"nics": (VirtualNic(key=4000, kind="vmxnet3", network="network-2"),)},
            id="NIC on a standard portgroup",
        ),
        pytest.param(
            {"devices": (NewNic(backing=DVS, mac="00:50:56:AA:00:01"),)},
            {"nics": (VirtualNic(key=4000, kind="vmxnet3", network="key-1", mac="00:50:56:aa:00:01"),)},
            {"nics": (VirtualNic(key=4000, kind="vmxnet3", network="key-1", mac="00:50:56:aa:00:02"),)},
            id="NIC with a MAC on a distributed portgroup",
        ),
        pytest.param(
            {"devices": (NewSriovNic(backing=DVS, function="0000:24:00.0"),)},
            {"nics": (VirtualNic(key=13031, kind="sriov", network="key-1", function="0000:24:00.0"),)},
            {"nics": (VirtualNic(key=13031, kind="sriov", network="key-1", function="0000:e4:00.0"),)},
            id="virtual function",
        ),
        pytest.param(
            {"devices": (NewSriovNic(backing=DVS, function="0000:24:00.0"),)},
            {"nics": (VirtualNic(key=13031, kind="sriov", network="key-1"),)},
            {"nics": (VirtualNic(key=4000, kind="vmxnet3", network="key-1"),)},
            id="virtual function of which the server does not tell whose",
        ),
        pytest.param(
            {"devices": (NewPvrdmaNic(backing=DVS),)},
            {"nics": (VirtualNic(key=4000, kind="pvrdma", network="key-1"),)},
            {"nics": (VirtualNic(key=4000, kind="vmxnet3", network="key-1"),)},
            id="paravirtual RDMA NIC",
        ),
        pytest.param(
            {"devices": (EditNic(key=4000, backing=DVS),)},
            {"nics": (VirtualNic(key=4000, kind="vmxnet3", network="key-1"),)},
            {"nics": (VirtualNic(key=4000, kind="vmxnet3", network="network-1"),)},
            id="NIC tied elsewhere",
        ),
        pytest.param(
            {"devices": (NewDisk(size_mib=1024),)},
            {"disks": (VirtualDisk(key=2000, capacity_mib=1024, controller_key=1000),)},
            {},
            id="disk",
        ),
        pytest.param(
            {"devices": (GrowDisk(key=2000, size_mib=2048),)},
            {"disks": (VirtualDisk(key=2000, capacity_mib=2048, controller_key=1000),)},
            {"disks": (VirtualDisk(key=2000, capacity_mib=1024, controller_key=1000),)},
            id="larger disk",
        ),
        pytest.param(
            {"home_policy": GOLD, "devices": (SetDiskPolicy(key=2000, policy=GOLD),)},
            {"home_policy": "gold-id", "disks": (disk_with("gold-id"),)},
            {"home_policy": "", "disks": (disk_with("other"),)},
            id="storage policies",
        ),
        pytest.param(
            {"home_policy": GOLD, "devices": (SetDiskPolicy(key=2000, policy=GOLD),)},
            {"disks": (disk_with(None),)},
            {"home_policy": "other", "disks": (disk_with(""),)},
            id="storage policies that were not read are believed",
        ),
    ],
)
def test_it_is_missing_exactly_where_it_does_not_show(
    asked: dict[str, Any], shown: dict[str, Any], dropped: dict[str, Any]
) -> None:
    spec = VmSpec(**asked)
    assert missing_from(vm(**shown), spec).is_empty
    if dropped or not shown.get("hardware_version"):
        assert missing_from(vm(**dropped), spec) == spec


def test_a_new_nic_without_its_mac_gets_it_and_no_second_nic() -> None:
    def nic(key: int, mac: str) -> VirtualNic:
        return VirtualNic(key=key, kind="vmxnet3", network="key-1", mac=mac)

    spec = VmSpec(devices=(NewNic(backing=DVS, mac="00:50:56:00:00:01"),))
    old, made = nic(4000, "00:50:56:aa:00:01"), nic(4001, "00:50:56:aa:00:02")
    before = VmDetail(nics=(old,))
    missing = missing_from(vm(nics=(old, made)), spec, before)
    assert missing.devices == (EditNic(key=4001, backing=DVS, mac="00:50:56:00:00:01"),)
    assert missing_from(vm(nics=(old,)), spec, before).devices == spec.devices


def test_only_the_missing_part_is_asked_for_again_at_the_version_that_was_seen() -> None:
    spec = VmSpec(
        settings={"cpus": 16, "memory": 65536},
        devices=(NewVgpu(profile=C40), NewNic(backing=LAN)),
        change_version="v1",
    )
    found = vm(
        cpus=16,
        memory_mib=2048,
        change_version="v2",
        vgpus=(VgpuDevice(key=13000, profile=C40),),
    )
    assert missing_from(found, spec) == VmSpec(
        settings={"memory": 65536}, devices=(NewNic(backing=LAN),), change_version="v2"
    )


def test_a_device_that_stood_there_before_is_no_answer_to_an_addition() -> None:
    before = VmDetail(vgpus=(VgpuDevice(key=13000, profile=C40),))
    spec = VmSpec(devices=(NewVgpu(profile=C40),))
    assert missing_from(vm(vgpus=before.vgpus), spec, before) == spec
    both = (*before.vgpus, VgpuDevice(key=13001, profile=C40))
    assert missing_from(vm(vgpus=both), spec, before).is_empty


def test_an_addition_may_take_the_key_of_what_it_replaces() -> None:
    before = VmDetail(vgpus=(VgpuDevice(key=13000, profile="grid_a100-20c"),))
    spec = VmSpec(devices=(RemoveDevice(key=13000, was="vGPU grid_a100-20c"), NewVgpu(profile=C40)))
    assert missing_from(vm(vgpus=(VgpuDevice(key=13000, profile=C40),)), spec, before).is_empty
    assert missing_from(vm(vgpus=before.vgpus), spec, before) == spec


@pytest.mark.parametrize(
    ("shown", "removed"),
    [
        pytest.param(
            {"vgpus": (VgpuDevice(key=13000, profile=C40), VgpuDevice(key=13001, profile=C40))},
            [13000, 13001],
            id="members without their group",
        ),
        pytest.param(
            {
                "vgpus": (
                    VgpuDevice(key=13000, profile=C40, group_key=7),
                    VgpuDevice(key=13001, profile=C40, group_key=7),
                )
            },
            [13000, 13001],
            id="a group without a name",
        ),
        pytest.param(
            {
                "vgpus": (VgpuDevice(key=13000, profile=C40, group_key=7),),
                "device_groups": {7: PAIR},
            },
            [13000],
            id="half a group",
        ),
    ],
)
def test_a_group_that_was_dropped_is_added_again_as_a_whole(
    shown: dict[str, Any], removed: list[int]
) -> None:
    spec = VmSpec(devices=MEMBERS, device_groups={1: PAIR})
    missing = missing_from(vm(**shown), spec)
    assert missing.device_groups == {1: PAIR}
    assert [edit.key for edit in missing.devices if isinstance(edit, RemoveDevice)] == removed
    assert sorted(
        (edit for edit in missing.devices if isinstance(edit, NewVgpu)), key=lambda edit: edit.sequence or 0
    ) == list(MEMBERS)
    assert describe_spec(spec).startswith(f"device group {PAIR}, vGPU ")


def test_unified_memory_is_asked_for_once_the_key_of_the_vgpu_is_known() -> None:
    spec = VmSpec(devices=(NewVgpu(profile=C40), NewVgpu(profile=C40, uvm=True)))
    both = (VgpuDevice(key=13000, profile=C40), VgpuDevice(key=13001, profile=C40))
    assert missing_from(vm(vgpus=both), spec).extra_config == {"pciPassthru1.cfg.enable_uvm": "1"}
    for number in (0, 1):
        done = vm(vgpus=both, extra_config={f"pciPassthru{number}.cfg.enable_uvm": "1"})
        assert missing_from(done, spec).is_empty


def test_a_request_is_described_in_the_words_of_vsphere() -> None:
    spec = VmSpec(
        settings={"firmware": "efi", "memory": 1024},
        extra_config={"numa.nodeAffinity": "0"},
        devices=(NewVgpu(profile=C40),),
    )
    assert describe_spec(spec) == "firmware, memory, numa.nodeAffinity, vGPU grid_a100-40c"


def test_every_part_of_a_specification_is_named() -> None:
    new = VmSpec(
        settings={"firmware": "efi"},
        devices=(
            NewVgpu(profile=C40),
            NewPassthrough(pci_id="0000:3b:00.0", system_id="s", vendor_id=1, device_id=2),
            NewDynamicPassthrough(allowed=((1, 2),), label="big"),
            NewDynamicPassthrough(allowed=((1, 2),)),
            NewSriovNic(backing=DVS, function="0000:3c:00.2"),
            NewPvrdmaNic(backing=DVS),
            NewNic(backing=LAN),
            EditNic(key=4000, backing=DVS),
            NewDisk(size_mib=1024),
            GrowDisk(key=2000, size_mib=2048),
            SetDiskPolicy(key=2000, policy=GOLD),
            NewTpm(),
            RemoveDevice(key=13000, was="vGPU grid_a100-20c"),
        ),
    )
    assert describe_spec(new) == (
        "firmware, vGPU grid_a100-40c, passthrough 0000:3b:00.0, dynamic passthrough big, "
        "dynamic passthrough, virtual function on 0000:3c:00.2, PVRDMA NIC on roce, "
        "NIC on vm-network, NIC on roce, 1024 MiB disk, "
        "2048 MiB disk, storage policy gold for disk 2000, virtual TPM, removal of vGPU grid_a100-20c"
    )


def test_a_new_tpm_is_there_or_missing() -> None:
    spec = VmSpec(devices=(NewTpm(),))
    assert missing_from(vm(tpm_key=11000), spec).is_empty
    assert missing_from(vm(), spec) == spec
