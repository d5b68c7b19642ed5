"""What a VmSpec looks like to vSphere, as it goes over the wire."""

from __future__ import annotations

from typing import Any

import pytest
from pyVmomi import VmomiSupport, vim

from tests.unit.vsphere.scripted import item, reading, session_on
from tests.unit.vsphere.soap_answers import serialized
from vgpu_cfg.changes.change import CreateVm
from vgpu_cfg.changes.kinds.create_vm import CloneFrom, Location, MakeFromScratch
from vgpu_cfg.changes.kinds.vm_spec import (
    DeviceEdit,
    EditNic,
    GrowDisk,
    NewDisk,
    NewDynamicPassthrough,
    NewNic,
    NewPassthrough,
    NewPvrdmaNic,
    NewSriovNic,
    NewVgpu,
    NicBacking,
    PolicyRef,
    RemoveDevice,
    SetDiskPolicy,
    VmSpec,
)
from vgpu_cfg.changes.values import Subject, VmRef
from vgpu_cfg.errors import NotFound, VCenterError
from vgpu_cfg.vsphere.writing.devices import device_specs, needs_current
from vgpu_cfg.vsphere.writing.specs import clone_spec, config_spec, needed_api, scratch_spec, with_system_ids

STANDARD = NicBacking(network_moid="network-1", network_name="vm-network")
DISTRIBUTED = NicBacking(
    network_moid="dvportgroup-2", network_name="roce", portgroup_key="dvportgroup-2", switch_uuid="50 1e"
)
GOLD = PolicyRef(id="gold-id", name="gold")
LOCATION = Location(
    folder_moid="group-v3",
    folder_path="/dc1/vm",
    host_moid="host-1",
    host_name="esx-01",
    resource_pool_moid="resgroup-1",
    datastore_moid="datastore-1",
    datastore_name="vsan",
)
SUBJECT = Subject(kind="vm", name="hvd-01")


def xml(value: Any) -> str:
    info = VmomiSupport.Object(name="spec", type=type(value), version="vim.version.v8_0_3_0", flags=0)
    return serialized(value, info)


def made(*edits: DeviceEdit, current: tuple[Any, ...] = ()) -> list[Any]:
    return device_specs(edits, current, "hvd-01")


def creation(spec: VmSpec, source: CloneFrom | MakeFromScratch, name: str = "hvd-01") -> CreateVm:
    return CreateVm(
        id="create hvd-01", subject=SUBJECT, vm=VmRef(name=name), source=source, location=LOCATION, spec=spec
    )


def scsi(key: int = 1000, bus: int = 0) -> Any:
    return vim.vm.device.ParaVirtualSCSIController(key=key, busNumber=bus, sharedBus="noSharing")


def disk(key: int, controller: int, unit: int) -> Any:
    return vim.vm.device.VirtualDisk(
        key=key, controllerKey=controller, unitNumber=unit, capacityInKB=1 << 20, capacityInBytes=1 << 30
    )


def test_every_new_device_has_a_negative_key_of_its_own() -> None:
    specs = made(
        NewVgpu(profile="grid_a100-40c"),
        NewVgpu(profile="grid_a100-40c"),
        NewNic(backing=STANDARD),
        NewDisk(size_mib=1024),
        NewPassthrough(pci_id="0000:3b:00.0", system_id="s", vendor_id=0x15B3, device_id=0x101D),
    )
    keys = [spec.device.key for spec in specs]
    assert len(keys) == 6
    assert len(set(keys)) == 6
    assert all(key < 0 for key in keys)
    assert {spec.operation for spec in specs} == {"add"}


def test_a_vgpu_is_a_backing_with_a_profile() -> None:
    (spec,) = made(NewVgpu(profile="grid_a100-40c"))
    text = xml(spec)
    assert 'xsi:type="VirtualPCIPassthroughVmiopBackingInfo"' in text
    assert "<vgpu>grid_a100-40c</vgpu>" in text


@pytest.mark.parametrize(
    ("vendor", "device", "vendor_out", "device_out"),
    [
        (0x10DE, 0x20F1, 4318, "20f1"),
        (0x15B3, 0x1016, 5555, "1016"),
        (0x8086, 0x0A1F, -32634, "a1f"),
        (-32634, -1, -32634, "ffff"),
    ],
)
def test_a_passed_through_function_is_named_as_vsphere_wants(
    vendor: int, device: int, vendor_out: int, device_out: str
) -> None:
    (spec,) = made(
        NewPassthrough(
            pci_id="0000:3b:00.0", system_id="5f3c-1", vendor_id=vendor, device_id=device, device_name="A100"
        )
    )
    backing = spec.device.backing
    assert (backing.id, backing.systemId, backing.deviceName) == ("0000:3b:00.0", "5f3c-1", "A100")
    assert (backing.vendorId, backing.deviceId) == (vendor_out, device_out)
    assert "<vendorId>" in xml(backing)


def test_a_dynamic_function_is_named_by_plain_ids_and_label() -> None:
    (spec,) = made(NewDynamicPassthrough(allowed=((0x10DE, 0x20F1), (0x15B3, 0x101D)), label="roce"))
    backing = spec.device.backing
    assert [(entry.vendorId, entry.deviceId) for entry in backing.allowedDevice] == [
        (0x10DE, 0x20F1),
        (0x15B3, 0x101D),
    ]
    assert backing.customLabel == "roce"


def test_what_narrows_a_dynamic_function_is_written() -> None:
    narrowed = ((None, None, None), (0x10DE, 0x14A9, 0xFFA1))
    edit = NewDynamicPassthrough(allowed=((0x10DE, 0x20F1), (0x10DE, 0x25B6)), sub_ids=narrowed)
    wide, narrow = device_specs([edit], (), "hvd-01")[0].device.backing.allowedDevice
    assert (wide.subVendorId, wide.subDeviceId, wide.revisionId) == (None, None, None)
    assert (narrow.subVendorId, narrow.subDeviceId, narrow.revisionId) == (0x10DE, 0x14A9, -95)


def test_a_dynamic_function_of_any_label_names_none() -> None:
    specs = device_specs([NewDynamicPassthrough(allowed=((0x10DE, 0x20F1),))], (), "hvd-01")
    assert specs[0].device.backing.customLabel is None


def test_a_nic_is_tied_to_a_standard_network_by_its_name_and_reference() -> None:
    (spec,) = made(NewNic(backing=STANDARD))
    assert spec.device.backing.deviceName == "vm-network"
    assert spec.device.backing.network._moId == "network-1"
    assert spec.device.addressType == "generated"


def test_a_nic_is_tied_to_a_distributed_network_by_key_and_switch() -> None:
    (spec,) = made(NewNic(backing=DISTRIBUTED, mac="00:50:56:00:00:01"))
    assert spec.device.backing.port.portgroupKey == "dvportgroup-2"
    assert spec.device.backing.port.switchUuid == "50 1e"
    assert (spec.device.addressType, spec.device.macAddress) == ("manual", "00:50:56:00:00:01")


def test_a_virtual_function_names_its_physical_one_by_the_address_alone() -> None:
    (spec,) = made(NewSriovNic(backing=DISTRIBUTED, function="0000:24:00.0", mac="00:50:56:00:00:01"))
    card: Any = spec.device
    assert card._wsdlName == "VirtualSriovEthernetCard"
    assert card.sriovBacking.physicalFunctionBacking.id == "0000:24:00.0"
    assert card.sriovBacking.virtualFunctionBacking is None
    assert card.backing.port.portgroupKey == "dvportgroup-2"
    assert (card.addressType, card.macAddress) == ("manual", "00:50:56:00:00:01")
    assert card.allowGuestOSMtuChange
    assert "<id>0000:24:00.0</id><deviceId></deviceId><systemId></systemId><vendorId>0</vendorId>" in xml(
        card.sriovBacking
    )


def test_a_paravirtual_rdma_nic_speaks_roce_version_2() -> None:
    (spec,) = made(NewPvrdmaNic(backing=DISTRIBUTED, mac="00:50:56:00:00:01"))
    card: Any = spec.device
    assert card._wsdlName == "VirtualVmxnet3Vrdma"
    assert (card.deviceProtocol, card.backing.port.portgroupKey) == ("rocev2", "dvportgroup-2")
    assert (card.addressType, card.macAddress) == ("manual", "00:50:56:00:00:01")
    assert "<deviceProtocol>rocev2</deviceProtocol>" in xml(card)


def test_whether_its_guest_may_change_the_mtu_can_be_told() -> None:
    (spec,) = made(NewSriovNic(backing=STANDARD, function="0000:24:00.0", allow_mtu_change=False))
    assert spec.device.allowGuestOSMtuChange is False
    assert spec.device.addressType == "generated"


def test_an_edited_nic_keeps_its_key_and_its_mac() -> None:
    card = vim.vm.device.VirtualVmxnet3(key=4000, macAddress="00:50:56:00:00:09", addressType="assigned")
    (spec,) = made(EditNic(key=4000, backing=DISTRIBUTED), current=(card,))
    assert spec.operation == "edit"
    assert (spec.device.key, spec.device.macAddress) == (4000, "00:50:56:00:00:09")
    assert spec.device.backing.port.portgroupKey == "dvportgroup-2"


def test_a_first_disk_brings_its_controller_before_it() -> None:
    controller, disk_spec = made(NewDisk(size_mib=1024))
    assert isinstance(controller.device, vim.vm.device.ParaVirtualSCSIController)
    assert disk_spec.device.controllerKey == controller.device.key
    assert disk_spec.device.unitNumber == 0
    assert disk_spec.device.capacityInKB == 1024 * 1024
    assert disk_spec.fileOperation == "create"
    assert disk_spec.device.backing.thinProvisioned


def test_a_further_disk_takes_the_next_free_unit_and_never_seven() -> None:
    taken = (scsi(), *[disk(2000 + unit, 1000, unit) for unit in range(7)])
    (spec,) = made(NewDisk(size_mib=1024), current=taken)
    assert (spec.device.controllerKey, spec.device.unitNumber) == (1000, 8)


def test_two_new_disks_do_not_share_a_unit() -> None:
    specs = made(NewDisk(size_mib=1), NewDisk(size_mib=1), NewDisk(size_mib=1, controller="nvme"))
    disks = [spec.device for spec in specs if isinstance(spec.device, vim.vm.device.VirtualDisk)]
    assert [found.unitNumber for found in disks] == [0, 1, 0]
    assert len({found.controllerKey for found in disks}) == 2
    assert any(isinstance(spec.device, vim.vm.device.VirtualNVMEController) for spec in specs)


def test_a_full_controller_gets_a_neighbour_and_four_are_enough() -> None:
    full = (scsi(), *[disk(2000 + unit, 1000, unit) for unit in range(16) if unit != 7])
    controller, spec = made(NewDisk(size_mib=1), current=full)
    assert controller.device.busNumber == 1
    assert spec.device.unitNumber == 0
    many = tuple(
        found
        for bus in range(4)
        for found in (
            scsi(1000 + bus, bus),
            *[disk(2000 + 16 * bus + unit, 1000 + bus, unit) for unit in range(16)],
        )
    )
    with pytest.raises(VCenterError, match="scsi"):
        made(NewDisk(size_mib=1), current=many)


def test_a_disk_grows_in_both_of_its_sizes() -> None:
    (spec,) = made(GrowDisk(key=2000, size_mib=4096), current=(disk(2000, 1000, 0),))
    assert spec.operation == "edit"
    assert spec.device.capacityInKB == 4096 << 10
    assert spec.device.capacityInBytes == 4096 << 20
    assert not spec.fileOperation


@pytest.mark.parametrize("turned", [False, True])
def test_a_disk_that_grows_and_gets_another_policy_is_named_once(turned: bool) -> None:
    edits = (GrowDisk(key=2000, size_mib=4096), SetDiskPolicy(key=2000, policy=GOLD))
    (spec,) = made(*(edits[::-1] if turned else edits), current=(disk(2000, 1000, 0),))
    assert (spec.device.capacityInKB, spec.profile[0].profileId) == (4096 << 10, "gold-id")


def test_a_clone_gets_its_policies_with_its_place() -> None:
    source = CloneFrom(template=VmRef(name="t", moid="vm-1"))
    asked = VmSpec(home_policy=GOLD, devices=(SetDiskPolicy(key=2000, policy=GOLD),))
    spec: Any = clone_spec(creation(asked, source), source, ())
    assert spec.location.profile[0].profileId == "gold-id"
    (copied,) = spec.location.disk
    assert (copied.diskId, copied.profile[0].profileId) == (2000, "gold-id")
    assert copied.datastore == spec.location.datastore
    assert (spec.config.vmProfile, spec.config.deviceChange) == ([], [])


def test_a_removed_device_goes_out_whole_and_first() -> None:
    vgpu = vim.vm.device.VirtualPCIPassthrough(key=13000)
    removal, addition = made(
        RemoveDevice(key=13000, was="grid_a100-40c"), NewVgpu(profile="grid_a100-20c"), current=(vgpu,)
    )
    assert removal.operation == "remove"
    assert removal.device is vgpu
    assert addition.operation == "add"


@pytest.mark.parametrize(
    "edit",
    [
        RemoveDevice(key=1, was="x"),
        EditNic(key=1, backing=STANDARD),
        GrowDisk(key=1, size_mib=1),
    ],
)
def test_a_device_that_is_gone_is_an_error(edit: DeviceEdit) -> None:
    with pytest.raises(NotFound, match="device 1"):
        made(edit, current=(disk(2, 1000, 0),))


@pytest.mark.parametrize(
    ("edit", "expected"),
    [
        (NewVgpu(profile="grid_a100-40c"), False),
        (NewNic(backing=STANDARD), False),
        (NewSriovNic(backing=STANDARD, function="0000:24:00.0"), False),
        (NewDisk(size_mib=1), True),
        (RemoveDevice(key=1, was="x"), True),
    ],
)
def test_only_some_edits_need_the_devices_of_now(edit: DeviceEdit, *, expected: bool) -> None:
    assert needs_current([edit]) is expected


def test_an_empty_spec_says_nothing() -> None:
    text = xml(config_spec(VmSpec(), (), "hvd-01"))
    assert "><" in text
    assert text.count("<") == 2


def test_a_whole_spec_is_one_config_spec() -> None:
    spec = VmSpec(
        settings={
            "firmware": "efi",
            "secure_boot": True,
            "cpus": 16,
            "cores_per_socket": 8,
            "memory": 65536,
            "memory_reservation": 65536,
        },
        extra_config={"numa.nodeAffinity": "0", "old": ""},
        devices=(NewVgpu(profile="grid_a100-40c"),),
        change_version="2026-11-20T00:00:00.1Z",
    )
    config: Any = config_spec(spec, (), "hvd-01")
    assert config.changeVersion == "2026-11-20T00:00:00.1Z"
    assert config.firmware == "efi"
    assert config.bootOptions.efiSecureBootEnabled is True
    assert (config.numCPUs, config.numCoresPerSocket, config.memoryMB) == (16, 8, 65536)
    assert config.memoryReservationLockedToMax is True
    assert config.memoryAllocation.reservation == 65536
    assert {option.key: option.value for option in config.extraConfig} == {
        "numa.nodeAffinity": "0",
        "old": "",
    }
    assert len(config.deviceChange) == 1
    assert config.cpuHotAddEnabled is None
    assert '<value xsi:type="xsd:string"></value>' in xml(config)


def test_a_device_group_and_its_members_are_one_spec() -> None:
    name = "Nvidia:2@grid_a100d-80c%NVLink"
    members = tuple(NewVgpu(profile="grid_a100d-80c", group=1, sequence=number) for number in (0, 1))
    config: Any = config_spec(VmSpec(devices=members, device_groups={1: name}), (), "hvd-01")
    (group,) = config.deviceGroups.deviceGroup
    assert isinstance(group, vim.vm.VirtualDeviceGroups.VendorDeviceGroup)
    assert (group.deviceGroupName, group.groupInstanceKey < 0) == (name, True)
    infos = [one.device.deviceGroupInfo for one in config.deviceChange]
    assert [info.groupInstanceKey for info in infos] == [group.groupInstanceKey] * 2
    assert [info.sequenceId for info in infos] == [0, 1]
    assert {one.device.backing.vgpu for one in config.deviceChange} == {"grid_a100d-80c"}
    assert "<deviceGroupName>Nvidia:2@grid_a100d-80c%NVLink</deviceGroupName>" in xml(config)


def test_a_vgpu_of_no_group_says_nothing_of_one() -> None:
    config: Any = config_spec(VmSpec(devices=(NewVgpu(profile="grid_a100-40c"),)), (), "hvd-01")
    assert config.deviceGroups is None
    assert config.virtualNuma is None
    assert (config.deviceChange[0].device.deviceGroupInfo, config.deviceChange[0].device.numaNode) == (
        None,
        None,
    )


def test_virtual_numa_nodes_are_shaped_and_told_to_devices() -> None:
    edits = (
        NewVgpu(profile="grid_a100-40c", numa_node=1),
        NewPassthrough(pci_id="0000:3b:00.0", system_id="s", vendor_id=0x10DE, device_id=1, numa_node=0),
        NewDynamicPassthrough(allowed=((1, 2),), numa_node=1),
    )
    config: Any = config_spec(VmSpec(settings={"cores_per_numa_node": 16}, devices=edits), (), "hvd-01")
    assert config.virtualNuma.coresPerNumaNode == 16
    assert [one.device.numaNode for one in config.deviceChange] == [1, 0, 1]


@pytest.mark.parametrize(
    ("spec", "needed"),
    [
        (VmSpec(device_groups={1: "g"}), "8.0.0.1"),
        (VmSpec(settings={"cores_per_numa_node": 0}), "8.0.0.1"),
        (VmSpec(devices=(NewVgpu(profile="grid_a100-40c", numa_node=0),)), "8.0.0.1"),
        (
            VmSpec(
                settings={"cpus": 2}, devices=(NewVgpu(profile="grid_a100-40c"), RemoveDevice(key=1, was="x"))
            ),
            "",
        ),
    ],
)
def test_what_an_old_api_would_drop_names_the_version_it_needs(spec: VmSpec, needed: str) -> None:
    assert needed_api(spec)[0] == needed


HOST_IS = reading(item(vim.VirtualMachine("vm-7"), {"runtime.host": vim.HostSystem("host-1")}))
BROWSER = vim.EnvironmentBrowser("envbrowser-1")
BROWSER_IS = reading(item(vim.ClusterComputeResource("domain-c1"), {"environmentBrowser": BROWSER}))
NAMED = VmSpec(
    devices=(
        NewVgpu(profile="grid_a100-40c"),
        NewPassthrough(pci_id="0000:3b:00.0", system_id="", vendor_id=0x10DE, device_id=1),
        NewPassthrough(pci_id="0000:4b:00.0", system_id="other", vendor_id=0x10DE, device_id=1),
    )
)


def target(system_id: str) -> Any:
    function = vim.host.PciDevice(id="0000:3b:00.0")
    info = vim.vm.PciPassthroughInfo(name="gpu", pciDevice=function, systemId=system_id)
    return vim.vm.ConfigTarget(pciPassthrough=[info])


@pytest.mark.parametrize(
    ("where", "readings"),
    [({"host_moid": "host-1"}, [BROWSER_IS]), ({"vm_moid": "vm-7"}, [HOST_IS, BROWSER_IS])],
    ids=["of a new VM", "of a VM that is there"],
)
def test_a_passthrough_device_names_its_host(where: dict[str, str], readings: list[Any]) -> None:
    answers = {"RetrievePropertiesEx": readings, "QueryConfigTarget": target("5d3a")}
    with session_on(answers) as (session, script):
        found = with_system_ids(session, NAMED, **where)
    assert [getattr(edit, "system_id", None) for edit in found.devices] == [None, "5d3a", "other"]
    assert found.model_copy(update={"devices": NAMED.devices}) == NAMED
    assert ">host-1</host>" in script.sent("QueryConfigTarget")
    assert ">envbrowser-1</_this>" in script.sent("QueryConfigTarget")


@pytest.mark.parametrize(
    "answers",
    [
        {"RetrievePropertiesEx": BROWSER_IS, "QueryConfigTarget": vim.vm.ConfigTarget()},
        {"RetrievePropertiesEx": reading()},
    ],
    ids=["its host names none", "its host has gone"],
)
def test_a_passthrough_device_without_a_host_is_refused(answers: dict[str, Any]) -> None:
    with (
        session_on(answers) as (session, _),
        pytest.raises(NotFound, match=r"no system ID for 0000:3b:00\.0, which fixed passthrough") as caught,
    ):
        with_system_ids(session, NAMED, host_moid="host-1")
    assert caught.value.subject == "host-1"


def test_nothing_is_asked_of_devices_that_name_their_host() -> None:
    spec = VmSpec(devices=(NAMED.devices[0], NAMED.devices[2]))
    with session_on({}) as (session, script):
        assert with_system_ids(session, spec, vm_moid="vm-7") is spec
    assert not script.calls


def test_a_reservation_says_its_amount_and_changes_no_memory() -> None:
    config: Any = config_spec(VmSpec(settings={"memory_reservation": 2048}), (), "hvd-01")
    assert config.memoryAllocation.reservation == 2048
    assert config.memoryMB is None


def test_a_reservation_can_be_given_up() -> None:
    config: Any = config_spec(VmSpec(settings={"memory_reservation": 0}), (), "hvd-01")
    assert config.memoryReservationLockedToMax is False
    assert config.memoryAllocation.reservation == 0


def test_a_clone_carries_everything_and_stays_off() -> None:
    change = creation(
        VmSpec(
            settings={"hardware_version": 21, "cpu_hot_add": False},
            devices=(NewVgpu(profile="grid_a100-40c"),),
        ),
        CloneFrom(template=VmRef(name="t", moid="vm-1")),
    )
    spec: Any = clone_spec(change, CloneFrom(template=VmRef(name="t", moid="vm-1")), ())
    assert (spec.powerOn, spec.template, spec.snapshot) == (False, False, None)
    assert spec.location.host._moId == "host-1"
    assert spec.location.pool._moId == "resgroup-1"
    assert spec.location.datastore._moId == "datastore-1"
    assert spec.location.diskMoveType is None
    assert spec.config.version == "vmx-21"
    assert spec.config.cpuHotAddEnabled is False
    assert xml(spec).count("<deviceChange>") == 1


def test_a_linked_clone_hangs_on_a_snapshot() -> None:
    source = CloneFrom(template=VmRef(name="t", moid="vm-1"), snapshot_moid="snapshot-5")
    spec: Any = clone_spec(creation(VmSpec(), source), source, ())
    assert spec.location.diskMoveType == "createNewChildDiskBacking"
    assert spec.snapshot._moId == "snapshot-5"


def test_a_full_clone_of_a_template_with_snapshots_has_no_chain_of_disks() -> None:
    source = CloneFrom(template=VmRef(name="t", moid="vm-1"), consolidates=True)
    spec: Any = clone_spec(creation(VmSpec(), source), source, ())
    assert (spec.location.diskMoveType, spec.snapshot) == ("moveAllDiskBackingsAndConsolidate", None)


def test_a_vm_from_scratch_is_efi_on_its_datastore() -> None:
    change = creation(
        VmSpec(settings={"cpus": 2, "firmware": "efi"}, devices=(NewDisk(size_mib=1024),)),
        MakeFromScratch(guest_id="ubuntu64Guest"),
        "a/b",
    )
    config: Any = scratch_spec(change, "ubuntu64Guest")
    assert config.name == "a%2fb"
    assert config.guestId == "ubuntu64Guest"
    assert config.firmware == "efi"
    assert config.files.vmPathName == "[vsan]"
    assert len(config.deviceChange) == 2
