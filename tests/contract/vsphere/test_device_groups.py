"""Device groups on the lab's wire: a VM is made with one, is read back with it, and loses it as a whole."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.contract.vcenters import Desk, lab_vcenter
from tests.contract.vsphere.test_vms import SMALL, detail_of, place_of
from vgpu_cfg.changes.kinds.vm_spec import NewDynamicPassthrough, NewVgpu, RemoveDevice, VmSpec
from vgpu_cfg.execution import missing_from
from vgpu_cfg.ports import TaskState

PROFILE = "grid_a100d-80c"
GROUP = f"Nvidia:2@{PROFILE}%NVLink"
MEMBERS = tuple(NewVgpu(profile=PROFILE, group=1, sequence=number) for number in (0, 1))
VCENTER = "nvlink-4xa100"


@pytest.fixture
def desk() -> Iterator[Desk]:
    with lab_vcenter(VCENTER).desk() as desk:
        yield desk


GIVEN = SMALL.model_copy(
    update={"settings": {**SMALL.settings, "memory_reservation": 1024, "firmware": "efi"}}
)
"""Without the group; hardware version 20 is the first that can have one."""


def test_a_host_tells_what_its_device_groups_are_made_of(desk: Desk) -> None:
    (group,) = desk.inventory().hosts[0].device_groups
    assert (group.name, group.description, group.peers) == (GROUP, "2 GPUs joined by NVLink", (PROFILE, 2))
    assert [(part.vendor, part.name, part.sequence) for part in group.parts] == [
        ("NVIDIA", PROFILE, 0),
        ("NVIDIA", PROFILE, 1),
    ]


def test_a_vm_is_made_with_its_device_group(desk: Desk) -> None:
    place = place_of(lab_vcenter(VCENTER), desk)
    spec = GIVEN.model_copy(update={"devices": MEMBERS, "device_groups": {1: GROUP}})
    vm = desk.vm(desk.made(desk.writer.create_vm(place.from_scratch(spec))))
    detail = detail_of(vm)
    ((key, name),) = detail.device_groups.items()
    assert name == GROUP
    assert [(device.profile, device.group_key) for device in detail.vgpus] == [(PROFILE, key)] * 2
    assert missing_from(vm, spec).is_empty


def test_a_device_group_is_added_and_removed_by_one_reconfiguration_each(desk: Desk) -> None:
    place = place_of(lab_vcenter(VCENTER), desk)
    vm = desk.vm(desk.made(desk.writer.create_vm(place.from_scratch(GIVEN))))
    assert detail_of(vm).device_groups == {}
    added = VmSpec(devices=MEMBERS, device_groups={1: GROUP})
    assert desk.done(desk.writer.reconfigure_vm(vm.moid, added)).state is TaskState.SUCCESS
    with_group = desk.vm(vm.moid)
    assert missing_from(with_group, added, detail_of(vm)).is_empty
    gone = VmSpec(
        devices=tuple(RemoveDevice(key=one.key, was=one.profile) for one in detail_of(with_group).vgpus)
    )
    assert desk.done(desk.writer.reconfigure_vm(vm.moid, gone)).state is TaskState.SUCCESS
    without = detail_of(desk.vm(vm.moid))
    assert (without.vgpus, dict(without.device_groups)) == ((), {})


def test_a_group_of_a_gpu_and_a_nic_is_read_as_both() -> None:
    with lab_vcenter("nic-groups").desk() as desk:
        observed = desk.inventory()
    (group,) = observed.hosts[0].device_groups
    assert [(part.kind, part.profile, part.allowed) for part in group.parts] == [
        ("nvidiaVgpu", PROFILE, ()),
        ("pciPassthru", "", ((0x15B3, 0x1021),)),
    ]
    assert "ConnectX-7" in group.parts[1].name
    detail = detail_of(next(vm for vm in observed.vms if vm.name == "others-01"))
    ((key, name),) = detail.device_groups.items()
    ((gpu,), (nic,)) = (detail.vgpus, detail.passthrough_nics)
    assert (name, gpu.profile, nic.assigned_id) == (group.name, PROFILE, "0000:4c:00.0")
    assert (gpu.group_key, nic.group_key, detail.mixed_groups) == (key, key, (key,))


def test_the_lab_takes_a_group_of_a_gpu_and_a_nic_whole_only() -> None:
    with lab_vcenter("nic-groups").desk() as desk:
        place = place_of(lab_vcenter("nic-groups"), desk)
        nic = NewDynamicPassthrough(allowed=((0x15B3, 0x1021),))
        spec = GIVEN.model_copy(
            update={"devices": (MEMBERS[0], nic), "device_groups": {1: "lab group of GPU and NIC"}}
        )
        refused = desk.done(desk.writer.create_vm(place.from_scratch(spec)))
    assert refused.state is TaskState.ERROR
