"""What a VM's properties mean: its mark, its hardware, and the devices in vSphere's many shapes."""

from __future__ import annotations

from typing import Any

import pytest
from pyVmomi import vim

from vgpu_cfg.model.observed.vm import GuestNicSeen, GuestSeen, OwnerMark, PowerState, Vm, VmDetail
from vgpu_cfg.vsphere.reading.places import Places
from vgpu_cfg.vsphere.reading.vms import hardware_version, make_detail, make_vm
from vgpu_cfg.vsphere.wire.collector import Item

device = vim.vm.device
passthrough = device.VirtualPCIPassthrough


def option(key: str, value: Any) -> Any:
    return vim.option.OptionValue(key=key, value=value)


def vm(**values: Any) -> Vm:
    return make_vm(Places([]), Item("VirtualMachine", "vm-1", values), None)


def detail(*devices: Any, keys: frozenset[str] = frozenset(), **values: Any) -> VmDetail:
    item = Item("VirtualMachine", "vm-1", {"config.hardware.device": list(devices), **values})
    made = make_detail(item, keys)
    assert made is not None
    return made


def test_an_inaccessible_vm_has_a_name_and_no_more() -> None:
    found = vm()
    assert (found.name, found.power_state, found.mark, found.host_moid) == (
        "vm-1",
        PowerState.OFF,
        None,
        None,
    )
    assert detail() == VmDetail()


@pytest.mark.parametrize(
    ("values", "has_detail"),
    [({"config.hardware.device": []}, True), ({"resourcePool": None}, False)],
)
def test_a_configuration_that_cannot_be_read_is_not_an_empty_one(
    values: dict[str, Any], *, has_detail: bool
) -> None:
    item = Item("VirtualMachine", "vm-1", values)
    assert (make_detail(item, frozenset()) is not None) is has_detail


@pytest.mark.parametrize(
    ("plan", "name", "expected"),
    [
        ("p", "a", OwnerMark(plan="p", vm="a")),
        ("p", None, OwnerMark(plan="p", vm="")),
        ("", "a", None),
        (None, "a", None),
    ],
)
def test_a_mark_needs_a_plan(plan: str | None, name: str | None, expected: OwnerMark | None) -> None:
    values = {}
    if plan is not None:
        values['config.extraConfig["vgpu_cfg.plan"]'] = option("vgpu_cfg.plan", plan)
    if name is not None:
        values['config.extraConfig["vgpu_cfg.vm"]'] = option("vgpu_cfg.vm", name)
    assert vm(**values).mark == expected


@pytest.mark.parametrize(
    ("text", "expected"), [("vmx-21", 21), ("vmx-09", 9), ("", None), (None, None), ("x", None)]
)
def test_hardware_versions_are_numbers(text: str | None, expected: int | None) -> None:
    assert hardware_version(text) == expected


def test_the_judged_keys_and_the_asked_ones_are_kept_of_extra_config() -> None:
    options = [
        option("numa.nodeAffinity", "0"),
        option("pciPassthru.use64bitMMIO", "TRUE"),
        option("pciPassthru0.cfg.enable_uvm", 1),
        option("vgpu_cfg.plan", "p"),
        option("guestinfo.userdata", "secret"),
        option("mine", "x"),
    ]
    found = detail(keys=frozenset({"mine"}), **{"config.extraConfig": options}).extra_config
    assert found == {
        "numa.nodeAffinity": "0",
        "pciPassthru.use64bitMMIO": "TRUE",
        "pciPassthru0.cfg.enable_uvm": "1",
        "vgpu_cfg.plan": "p",
        "guestinfo.userdata": "withheld",
        "mine": "x",
    }


@pytest.mark.parametrize(
    ("value", "kept"), [("H4sIAAAA", "withheld"), ("---", "---"), ("", ""), (" ", "withheld")]
)
def test_of_user_data_only_its_state_is_kept(value: str, kept: str) -> None:
    options = [
        option("guestinfo.userdata", value),
        option("guestinfo.userdata.encoding", "gzip+base64"),
        option("guestinfo.metadata", "H4sIBBBB"),
        option("guestinfo.vgpu_cfg.report", '{"state":"done"}'),
        option("vgpu_cfg.guest", "driver:0123456789"),
        option("vgpu_cfg.addresses", "0=10.0.0.1/24"),
    ]
    values: dict[str, Any] = {"config.extraConfig": options}
    found = detail(**values).extra_config
    assert found == {
        "guestinfo.userdata": kept,
        "guestinfo.vgpu_cfg.report": '{"state":"done"}',
        "vgpu_cfg.guest": "driver:0123456789",
        "vgpu_cfg.addresses": "0=10.0.0.1/24",
    }


def test_user_data_that_the_plan_file_states_is_compared_like_any_key() -> None:
    options = [option("guestinfo.userdata", "x")]
    found = detail(keys=frozenset({"guestinfo.userdata"}), **{"config.extraConfig": options})
    assert found.extra_config == {"guestinfo.userdata": "x"}


def nic(mac: str | None, *addresses: str, network: str | None = "vm-network", **more: Any) -> Any:
    info = vim.vm.GuestInfo.NicInfo(
        network=network, macAddress=mac, ipAddress=list(addresses), connected=True, deviceConfigId=4000
    )
    for name, value in more.items():
        setattr(info, name, value)
    return info


def ip(address: str, prefix: int, state: str = "preferred") -> Any:
    return vim.net.IpConfigInfo.IpAddress(ipAddress=address, prefixLength=prefix, state=state)


def test_what_the_guests_tools_tell_is_kept() -> None:
    config = vim.net.IpConfigInfo(
        ipAddress=[ip("10.111.0.11", 24), ip("fe80::1", 64), ip("10.111.0.9", 24, "duplicate")]
    )
    values: dict[str, Any] = {
        "guest.toolsRunningStatus": "guestToolsRunning",
        "guest.hostName": "hvd-01",
        "guest.ipAddress": "10.0.0.5",
        "guest.net": [
            nic("00:50:56:AB:00:01", "10.0.0.5"),
            nic("B8:3F:D2:00:00:01", "10.111.0.11", network=None, ipConfig=config),
            nic(None, "172.17.0.1"),
        ],
    }
    found = detail(**values).guest
    assert found == GuestSeen(
        tools_running=True,
        host_name="hvd-01",
        address="10.0.0.5",
        nics=(
            GuestNicSeen(mac="00:50:56:ab:00:01", addresses=("10.0.0.5",), network="vm-network"),
            GuestNicSeen(mac="b8:3f:d2:00:00:01", addresses=("10.111.0.11/24", "fe80::1/64")),
        ),
    )


@pytest.mark.parametrize("status", ["guestToolsNotRunning", "guestToolsExecutingScripts"])
def test_tools_that_do_not_run_are_not_ready(status: str) -> None:
    values: dict[str, Any] = {"guest.toolsRunningStatus": status}
    assert detail(**values).guest == GuestSeen()


def test_a_vm_whose_guest_vcenter_knows_nothing_of_has_none() -> None:
    assert detail().guest is None


def test_passthrough_devices_are_told_apart_by_their_backing() -> None:
    found = detail(
        passthrough(key=13000, backing=passthrough.VmiopBackingInfo(vgpu="grid_a100-40c")),
        passthrough(key=13001, backing=passthrough.VmiopBackingInfo(vgpu="grid_a100-40c")),
        passthrough(
            key=13002,
            backing=passthrough.DeviceBackingInfo(
                id="0000:3B:00.0", systemId="s-1", deviceId="20f1", vendorId=4318, deviceName=""
            ),
        ),
        passthrough(
            key=13003,
            backing=passthrough.DynamicBackingInfo(
                deviceName="",
                allowedDevice=[passthrough.AllowedDevice(vendorId=5555, deviceId=4125)],
                customLabel="roce",
                assignedId="0000:AF:00.0",
            ),
        ),
        passthrough(key=13004),
    )
    assert [(entry.key, entry.profile) for entry in found.vgpus] == [
        (13000, "grid_a100-40c"),
        (13001, "grid_a100-40c"),
    ]
    fixed, dynamic = found.passthrough
    assert (fixed.is_fixed, fixed.pci_id, fixed.system_id) == (True, "0000:3b:00.0", "s-1")
    assert (dynamic.is_fixed, dynamic.allowed, dynamic.label, dynamic.assigned_id) == (
        False,
        ((5555, 4125),),
        "roce",
        "0000:af:00.0",
    )


def test_what_narrows_a_dynamic_function_is_kept() -> None:
    wide = passthrough.AllowedDevice(vendorId=0x10DE, deviceId=0x20F1)
    narrow = passthrough.AllowedDevice(
        vendorId=0x10DE, deviceId=0x25B6, subVendorId=0x10DE, subDeviceId=0x14A9, revisionId=-95
    )
    plain, narrowed = detail(
        passthrough(key=13000, backing=passthrough.DynamicBackingInfo(deviceName="", allowedDevice=[wide])),
        passthrough(
            key=13001, backing=passthrough.DynamicBackingInfo(deviceName="", allowedDevice=[wide, narrow])
        ),
    ).passthrough
    assert plain.sub_ids == ()
    assert narrowed.allowed == ((0x10DE, 0x20F1), (0x10DE, 0x25B6))
    assert narrowed.sub_ids == ((None, None, None), (0x10DE, 0x14A9, 0xFFA1))


def test_a_dvx_device_is_kept_with_its_class_and_settings() -> None:
    option = vim.option.OptionValue(key="speed", value="200")
    found = detail(
        passthrough(
            key=13000,
            backing=passthrough.DvxBackingInfo(deviceClass="com.example.nic", configParams=[option]),
        ),
        vim.vm.device.VirtualSriovEthernetCard(
            key=4000, dvxBackingInfo=passthrough.DvxBackingInfo(deviceClass="com.example.vf")
        ),
    )
    (device,) = found.dvx
    assert (device.key, device.device_class, device.params) == (13000, "com.example.nic", {"speed": "200"})
    assert found.passthrough == ()
    assert [(nic.kind, nic.dvx_class) for nic in found.nics] == [("sriov", "com.example.vf")]
    assert found.own_nics == ()


def test_members_of_a_group_of_a_gpu_and_a_nic_belong_to_it() -> None:
    member: Any = vim.vm.device.VirtualDevice.DeviceGroupInfo
    found = detail(
        passthrough(
            key=13000,
            backing=passthrough.VmiopBackingInfo(vgpu="nvidia_h100xm-80c"),
            deviceGroupInfo=member(groupInstanceKey=7, sequenceId=0),
        ),
        passthrough(
            key=13001,
            backing=passthrough.DynamicBackingInfo(
                deviceName="", allowedDevice=[passthrough.AllowedDevice(vendorId=0x15B3, deviceId=0x1021)]
            ),
            deviceGroupInfo=member(groupInstanceKey=7, sequenceId=1),
        ),
        vim.vm.device.VirtualSriovEthernetCard(
            key=4000, deviceGroupInfo=member(groupInstanceKey=7, sequenceId=2)
        ),
    )
    assert [one.key for one in found.other_members(7)] == [13001, 4000]
    keys = [*(one.key for one in found.passthrough), *(one.key for one in found.own_nics)]
    assert keys == [13001, 4000]


def test_a_member_of_a_device_group_names_its_group() -> None:
    member = passthrough(
        key=13000,
        backing=passthrough.VmiopBackingInfo(vgpu="nvidia_h100xm-80c"),
        deviceGroupInfo=device.VirtualDevice.DeviceGroupInfo(groupInstanceKey=4, sequenceId=0),
    )
    assert detail(member).vgpus[0].group_key == 4


def test_device_groups_have_a_key_and_a_name() -> None:
    groups: Any = vim.vm.VirtualDeviceGroups
    named = groups.VendorDeviceGroup(groupInstanceKey=4, deviceGroupName="Nvidia:2@grid_a100d-80c%NVLink")
    other = groups.DeviceGroup(groupInstanceKey=5)
    values: dict[str, Any] = {"config.deviceGroups": groups(deviceGroup=[named, other])}
    found = detail(**values)
    assert found.device_groups == {4: "Nvidia:2@grid_a100d-80c%NVLink", 5: ""}
    assert detail().device_groups == {}


@pytest.mark.parametrize(
    ("info", "expected"),
    [
        (None, None),
        (vim.vm.VirtualNumaInfo(coresPerNumaNode=16, autoCoresPerNumaNode=False), 16),
        (vim.vm.VirtualNumaInfo(coresPerNumaNode=16, autoCoresPerNumaNode=True), 0),
        (vim.vm.VirtualNumaInfo(), 0),
    ],
)
def test_virtual_numa_nodes_that_esxi_shapes_have_no_size(info: Any, expected: int | None) -> None:
    values = {} if info is None else {"config.numaInfo": info}
    assert detail(**values).cores_per_numa_node == expected


@pytest.mark.parametrize(("told", "expected"), [(None, None), (-1, None), (0, 0), (1, 1)])
def test_a_negative_virtual_node_is_none(told: int | None, expected: int | None) -> None:
    vgpu = passthrough(key=13000, backing=passthrough.VmiopBackingInfo(vgpu="grid_a100-40c"), numaNode=told)
    fixed = passthrough(
        key=13001, backing=passthrough.DeviceBackingInfo(id="0000:3b:00.0", systemId="s"), numaNode=told
    )
    found = detail(vgpu, fixed)
    assert (found.vgpus[0].numa_node, found.passthrough[0].numa_node) == (expected, expected)


@pytest.mark.parametrize("told", [None, True, False])
def test_whether_a_vgpu_migrates_is_vspheres_word(told: bool | None) -> None:
    backing = passthrough.VmiopBackingInfo(vgpu="grid_a100-40c", migrateSupported=told)
    assert detail(passthrough(key=13000, backing=backing)).vgpus[0].migrates is told


def test_nics_name_their_kind_and_their_network() -> None:
    card = device.VirtualEthernetCard
    found = detail(
        device.VirtualVmxnet3(
            key=4000,
            macAddress="00:50:56:00:00:01",
            backing=card.NetworkBackingInfo(deviceName="n", network=vim.Network("network-1")),
        ),
        device.VirtualE1000e(
            key=4001,
            backing=card.DistributedVirtualPortBackingInfo(
                port=vim.dvs.PortConnection(switchUuid="u", portgroupKey="dvportgroup-1")
            ),
        ),
        device.VirtualSriovEthernetCard(key=4002),
        device.VirtualVmxnet3Vrdma(key=4003, backing=card.NetworkBackingInfo(deviceName="gone")),
        device.VirtualVmxnet3(
            key=4004, backing=card.OpaqueNetworkBackingInfo(opaqueNetworkId="nsx-1", opaqueNetworkType="x")
        ),
    )
    assert [(nic.key, nic.kind, nic.network) for nic in found.nics] == [
        (4000, "vmxnet3", "network-1"),
        (4001, "e1000e", "dvportgroup-1"),
        (4002, "sriov", ""),
        (4003, "pvrdma", ""),
        (4004, "vmxnet3", "nsx-1"),
    ]


@pytest.mark.parametrize(
    ("address", "read"),
    [
        ("0000:24:00.0", "0000:24:00.0"),
        ("0000:E4:00.0", "0000:e4:00.0"),
        ("Automatic-0000:00:00.0", None),
        ("", None),
    ],
)
def test_a_virtual_function_tells_its_physical_one(address: str, read: str | None) -> None:
    sriov: Any = device.VirtualSriovEthernetCard
    physical = device.VirtualPCIPassthrough.DeviceBackingInfo(id=address)
    backing = sriov.SriovBackingInfo(physicalFunctionBacking=physical)
    found = detail(sriov(key=13031, sriovBacking=backing), sriov(key=13030), device.VirtualVmxnet3(key=4000))
    assert [nic.function for nic in found.nics] == [read, None, None]


def test_disks_and_their_controllers() -> None:
    found = detail(
        device.ParaVirtualSCSIController(key=1000, busNumber=0),
        device.VirtualNVMEController(key=31000, busNumber=0),
        device.VirtualAHCIController(key=15000, busNumber=0),
        device.VirtualIDEController(key=200, busNumber=0),
        device.VirtualDisk(key=2000, controllerKey=1000, unitNumber=0, capacityInKB=64 << 20),
        device.VirtualCdrom(key=3000),
    )
    assert [(entry.key, entry.kind) for entry in found.controllers] == [
        (1000, "scsi"),
        (31000, "nvme"),
        (15000, "sata"),
        (200, "ide"),
    ]
    (disk,) = found.disks
    assert (disk.key, disk.capacity_mib, disk.controller_key) == (2000, 65536, 1000)


def test_disks_are_known_by_what_identifies_them() -> None:
    kind: Any = device.VirtualDisk
    flat, store = kind.FlatVer2BackingInfo, vim.Datastore("datastore-7")
    found = detail(
        kind(
            key=2000,
            capacityInKB=1 << 20,
            backing=flat(
                fileName="[vsan] a/a.vmdk",
                datastore=store,
                uuid="6000C29A-1",
                parent=flat(fileName="[vsan] t"),
            ),
        ),
        kind(
            key=2001,
            capacityInKB=1 << 20,
            vDiskId=vim.vslm.ID(id="fcd-1"),
            backing=flat(fileName="[vsan] fcd/b.vmdk", sharing="sharingMultiWriter"),
        ),
        kind(
            key=2002,
            capacityInKB=1 << 20,
            backing=kind.RawDiskMappingVer1BackingInfo(fileName="[vsan] a/r.vmdk", lunUuid="02000"),
        ),
        kind(key=2003, capacityInKB=1 << 20, backing=flat(fileName="", sharing="sharingNone")),
    )
    own, first_class, raw, unknown = found.disks
    assert (own.uuid, own.file, own.datastore_moid) == ("6000c29a-1", "[vsan] a/a.vmdk", "datastore-7")
    assert (own.has_parent, first_class.has_parent) == (True, False)
    assert (first_class.first_class_id, first_class.is_shared, unknown.is_shared) == ("fcd-1", True, False)
    assert (raw.lun_uuid, raw.uuid, unknown.lun_uuid) == ("02000", "", "")


def test_usb_devices_and_connected_images_are_named() -> None:
    cd: Any = device.VirtualCdrom
    image = cd.IsoBackingInfo(fileName="[vsan] iso/a.iso")
    connected, idle = (
        device.VirtualDevice.ConnectInfo(connected=state, startConnected=state, allowGuestControl=True)
        for state in (True, False)
    )
    usb: Any = device.VirtualUSB
    found = detail(
        cd(key=3000, backing=image, connectable=connected),
        cd(key=3001, backing=image, connectable=idle),
        usb(key=8000, connected=True, backing=usb.USBBackingInfo(deviceName="path:1/0/2")),
    )
    assert found.media == ("CD/DVD [vsan] iso/a.iso", "USB device path:1/0/2")


def test_the_use_of_cpus_is_told_or_unknown() -> None:
    told: dict[str, Any] = {
        "summary.quickStats.overallCpuUsage": 12,
        "summary.quickStats.uptimeSeconds": 86_400,
        "runtime.maxCpuUsage": 44_704,
    }
    found = detail(**told)
    assert (found.cpu_mhz, found.uptime_seconds, found.max_cpu_mhz) == (12, 86_400, 44_704)
    silent = detail()
    assert (silent.cpu_mhz, silent.uptime_seconds, silent.max_cpu_mhz) == (None, None, None)
