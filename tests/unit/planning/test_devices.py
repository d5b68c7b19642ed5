"""Every row that needs an edit has a twin that needs none: the same VM after the edit."""

from __future__ import annotations

import pytest

from tests.unit.planning.parts import parts
from vgpu_cfg.changes.kinds.vm_spec import (
    DeviceEdit,
    EditNic,
    GrowDisk,
    NewDisk,
    NewDynamicPassthrough,
    NewNic,
    NewPassthrough,
    NewVgpu,
    NicBacking,
    RemoveDevice,
)
from vgpu_cfg.model.desired import DesiredDisk, DesiredDiskGrowth, DesiredNewDisk, DesiredVm, TemplateSource
from vgpu_cfg.model.observed.vm import (
    DiskController,
    PassthroughDevice,
    VgpuDevice,
    VirtualDisk,
    VirtualNic,
    VmDetail,
)
from vgpu_cfg.model.plan_file import DeviceEntry, GpuEntry
from vgpu_cfg.model.vgpu import VgpuProfile
from vgpu_cfg.planning.vms.devices import compare_disks, compare_gpus, compare_nics
from vgpu_cfg.planning.vms.lookup.wanted import WantedGpu, WantedNic, effective_gpus, has_wanted_gpus


def vm(*profiles: str, passthrough: tuple[PassthroughDevice, ...] = (), **extra: str) -> VmDetail:
    return VmDetail(
        vgpus=tuple(VgpuDevice(key=13000 + number, profile=one) for number, one in enumerate(profiles)),
        passthrough=passthrough,
        extra_config={key.replace("__", "."): value for key, value in extra.items()},
    )


def fixed(pci_id: str) -> NewPassthrough:
    return NewPassthrough(pci_id=pci_id, system_id="s", vendor_id=0x10DE, device_id=0x20F1)


FULL, HALF = NewVgpu(profile="grid_a100-40c"), NewVgpu(profile="grid_a100-20c")
LABELLED = NewDynamicPassthrough(allowed=((0x10DE, 0x20F1),), label="a")


@pytest.mark.parametrize(
    ("wanted", "before", "removals", "additions"),
    [
        ([FULL], vm("grid_a100-40c"), [], []),
        ([FULL], vm(), [], [FULL]),
        ([], vm("grid_a100-40c"), ["grid_a100-40c"], []),
        ([HALF], vm("grid_a100-40c"), ["grid_a100-40c"], [HALF]),
        ([HALF, HALF], vm("grid_a100-20c", "grid_a100-20c"), [], []),
        ([HALF, HALF], vm("grid_a100-20c"), [], [HALF]),
        ([HALF], vm("grid_a100-20c", "grid_a100-20c"), ["grid_a100-20c"], []),
        ([FULL, HALF], vm("grid_a100-20c", "grid_a100-40c"), [], []),
        ([fixed("a")], vm(passthrough=(PassthroughDevice(key=13000, pci_id="a"),)), [], []),
        (
            [fixed("b")],
            vm(passthrough=(PassthroughDevice(key=13000, pci_id="a"),)),
            ["passthrough a"],
            [fixed("b")],
        ),
        (
            [LABELLED],
            vm(passthrough=(PassthroughDevice(key=1, allowed=((0x10DE, 0x20F1),), label="a"),)),
            [],
            [],
        ),
        (
            [LABELLED],
            vm(passthrough=(PassthroughDevice(key=1, allowed=((0x10DE, 0x20F1),), label="b"),)),
            ["passthrough of any 10de:20f1 with label b"],
            [LABELLED],
        ),
    ],
)
def test_gpus_are_a_multiset(
    wanted: list[WantedGpu], before: VmDetail, removals: list[str], additions: list[DeviceEdit]
) -> None:
    found = parts(compare_gpus(wanted, before))
    assert [edit.was for edit in found.removals if isinstance(edit, RemoveDevice)] == removals
    assert found.additions == additions
    assert found.is_empty is (not removals and not additions)
    assert len(found.edits) == max(len(removals), len(additions))


def test_unified_memory_is_turned_on_and_off_in_place() -> None:
    with_uvm = NewVgpu(profile="grid_a100-40c", uvm=True)
    off, on = vm("grid_a100-40c"), vm("grid_a100-40c", pciPassthru0__cfg__enable_uvm="1")
    assert parts(compare_gpus([with_uvm], off)).extra_config == {"pciPassthru0.cfg.enable_uvm": "1"}
    assert parts(compare_gpus([with_uvm], on)).is_empty
    assert parts(compare_gpus([FULL], on)).extra_config == {"pciPassthru0.cfg.enable_uvm": ""}
    assert parts(compare_gpus([FULL], off)).is_empty


def test_a_removed_vgpu_leaves_no_setting_for_the_next_with_its_number() -> None:
    found = parts(compare_gpus([HALF], vm("grid_a100-40c", pciPassthru0__cfg__enable_uvm="1")))
    assert found.extra_config == {"pciPassthru0.cfg.enable_uvm": ""}


def test_gpus_are_spelled() -> None:
    assert NewVgpu(profile="grid_a100-40c", uvm=True).text == "grid_a100-40c, unified memory"
    assert LABELLED.text == "passthrough of any 10de:20f1 with label a"


def vgpu(*names: str) -> GpuEntry:
    return GpuEntry(profile=tuple(VgpuProfile.parse(name) for name in names))


def desired(*gpus: GpuEntry, managed: bool = True) -> DesiredVm:
    return DesiredVm(
        name="a",
        line="a",
        source=TemplateSource(path_or_name="t"),
        gpus=gpus,
        managed=frozenset({"gpus"} if managed else ()),
    )


@pytest.mark.parametrize(
    ("gpus", "before", "is_wanted"),
    [
        ([vgpu("grid_a100-40c", "grid_a100-20c")], vm("grid_a100-20c"), True),
        ([vgpu("grid_a100-40c", "grid_a100-20c")], vm("grid_a100-10c"), False),
        (
            [vgpu("grid_a100-40c", "grid_a100-20c"), vgpu("grid_a100-40c")],
            vm("grid_a100-40c", "grid_a100-20c"),
            True,
        ),
        ([vgpu("grid_a100-40c")] * 2, vm("grid_a100-40c"), False),
        (
            [GpuEntry(pin="a")],
            vm(passthrough=(PassthroughDevice(key=1, pci_id="a"),)),
            True,
        ),
        (
            [GpuEntry(device=DeviceEntry(label="x"))],
            vm(passthrough=(PassthroughDevice(key=1, allowed=((1, 2),), label="x"),)),
            True,
        ),
        (
            [GpuEntry(device=DeviceEntry(model="a100"))],
            vm(passthrough=(PassthroughDevice(key=1, allowed=((1, 2),)),)),
            True,
        ),
        (
            [GpuEntry(device=DeviceEntry(model="L40S"))],
            vm(passthrough=(PassthroughDevice(key=1, allowed=((1, 2),)),)),
            False,
        ),
        (
            [GpuEntry(device=DeviceEntry(device_id=(1, 3)))],
            vm(passthrough=(PassthroughDevice(key=1, allowed=((1, 2),)),)),
            False,
        ),
    ],
)
def test_any_accepted_device_is_right(gpus: list[GpuEntry], before: VmDetail, is_wanted: bool) -> None:
    names = {(1, 2): ("GA100 [A100 PCIe 40GB]",)}
    assert has_wanted_gpus(effective_gpus(desired(*gpus), before), before, names) is is_wanted


def test_gpus_that_the_plan_does_not_manage_stay_what_they_are() -> None:
    before = vm("grid_a100-20c", "not a profile", passthrough=(PassthroughDevice(key=1, pci_id="a"),))
    found = effective_gpus(desired(managed=False), before)
    assert [gpu.kind for gpu in found] == ["vgpu", "passthrough"]


def nic(network: str, mac: str | None = None) -> WantedNic:
    return WantedNic(NicBacking(network_moid=network, network_name=network), mac)


def has_nics(*networks: str) -> VmDetail:
    return VmDetail(
        nics=tuple(
            VirtualNic(key=4000 + number, kind="vmxnet3", network=network, mac="00:50:56:00:00:01")
            for number, network in enumerate(networks)
        )
    )


@pytest.mark.parametrize(
    ("wanted", "before", "kinds"),
    [
        ([nic("a")], has_nics("a"), []),
        ([nic("b"), nic("a")], has_nics("a", "b"), []),
        ([nic("a")], has_nics(), [NewNic]),
        ([], has_nics("a"), [RemoveDevice]),
        ([nic("b")], has_nics("a"), [EditNic]),
        ([nic("a"), nic("b")], has_nics("c", "a"), [EditNic]),
        ([nic("a", "00:50:56:00:00:01")], has_nics("a"), []),
        ([nic("a", "00:50:56:00:00:02")], has_nics("a"), [EditNic]),
        ([nic("a"), nic("a")], has_nics("a"), [NewNic]),
    ],
)
def test_nics_are_matched_by_network(wanted: list[WantedNic], before: VmDetail, kinds: list[type]) -> None:
    found = parts(compare_nics(wanted, before, {"a": "net a"}))
    assert [type(edit) for edit in (*found.removals, *found.additions)] == kinds
    assert len(found.edits) == len(kinds)


def test_a_nic_of_another_kind_is_replaced() -> None:
    before = VmDetail(nics=(VirtualNic(key=4000, kind="e1000", network="a"),))
    found = parts(compare_nics([nic("a")], before, {}))
    assert [type(edit) for edit in (*found.removals, *found.additions)] == [RemoveDevice, NewNic]


def has_disks(*sizes_gib: int) -> VmDetail:
    return VmDetail(
        disks=tuple(
            VirtualDisk(key=2000 + number, capacity_mib=size << 10, controller_key=1000)
            for number, size in enumerate(sizes_gib)
        ),
        controllers=(DiskController(key=1000, kind="scsi"),),
    )


@pytest.mark.parametrize(
    ("wanted", "before", "kinds", "shrinking"),
    [
        ([DesiredDiskGrowth(size_mib=64 << 10)], has_disks(64), [], 0),
        ([DesiredDiskGrowth(size_mib=65 << 10)], has_disks(64), [GrowDisk], 0),
        ([DesiredDiskGrowth(size_mib=10 << 10)], has_disks(64), [], 0),
        ([DesiredNewDisk(size_mib=10 << 10)], has_disks(64), [NewDisk], 0),
        ([DesiredNewDisk(size_mib=10 << 10)], has_disks(64, 10), [], 0),
        ([DesiredNewDisk(size_mib=20 << 10)], has_disks(64, 10), [GrowDisk], 0),
        ([DesiredNewDisk(size_mib=5 << 10)], has_disks(64, 10), [], 1),
        ([DesiredNewDisk(size_mib=10 << 10, controller="nvme")], has_disks(64, 10), [NewDisk], 0),
        ([], has_disks(64, 10), [], 0),
    ],
)
def test_disks_grow_and_are_added(
    wanted: list[DesiredDisk], before: VmDetail, kinds: list[type], shrinking: int
) -> None:
    found = compare_disks(wanted, before, frozenset({2000}))
    assert [type(edit) for edit in parts(found.edits).additions] == kinds
    assert len(found.shrinking) == shrinking
