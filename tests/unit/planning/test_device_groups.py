"""NVLink peers as device groups: whole groups come and go, and a VM that has its group needs nothing."""

from __future__ import annotations

from typing import Any

import pytest
from pyVmomi import vim

from tests.unit.planning.parts import parts
from vgpu_cfg.changes.kinds.vm_spec import NewVgpu, RemoveDevice
from vgpu_cfg.model.observed.vm import (
    DvxDevice,
    PassthroughDevice,
    SubIds,
    VgpuDevice,
    VirtualNic,
    VmDetail,
)
from vgpu_cfg.model.plan_file import GpuEntry
from vgpu_cfg.model.vgpu import VgpuProfile
from vgpu_cfg.planning.capacity.nic_needs import NicKind
from vgpu_cfg.planning.vms.devices import compare_functions, compare_gpus
from vgpu_cfg.planning.vms.lookup.guest_system import is_linux
from vgpu_cfg.planning.vms.lookup.moving import why_tied
from vgpu_cfg.planning.vms.lookup.wanted import (
    going_groups,
    has_wanted_functions,
    has_wanted_gpus,
    held_groups,
    nic_needs,
    own_gpus,
)

A80, A40 = "grid_a100d-80c", "grid_a100d-40c"
PAIR, QUAD = f"Nvidia:2@{A80}%NVLink", f"Nvidia:4@{A80}%NVLink"
UVM = "pciPassthru{}.cfg.enable_uvm"


def vm(*vgpus: tuple[str, int | None], groups: dict[int, str] | None = None, **extra: str) -> VmDetail:
    return VmDetail(
        vgpus=tuple(
            VgpuDevice(key=13000 + number, profile=profile, group_key=group)
            for number, (profile, group) in enumerate(vgpus)
        ),
        device_groups=groups or {},
        extra_config=extra,
    )


def members(count: int, group: int = 1, *, uvm: bool = False) -> list[NewVgpu]:
    return [NewVgpu(profile=A80, group=group, sequence=number, uvm=uvm) for number in range(count)]


def peers(count: int, number: int | None = 1) -> list[GpuEntry]:
    return [GpuEntry(profile=(VgpuProfile.parse(A80),), nvlink=number)] * count


IN_PAIR = vm((A80, 0), (A80, 0), groups={0: PAIR})
PLAIN = vm((A80, None), (A80, None))


def test_a_vm_with_its_group_needs_nothing() -> None:
    assert parts(compare_gpus(members(2), IN_PAIR, groups={1: PAIR})).is_empty
    assert has_wanted_gpus(peers(2), IN_PAIR, {})
    assert held_groups(peers(2), IN_PAIR) == {1: PAIR}


@pytest.mark.parametrize(
    ("before", "removed", "was"),
    [
        pytest.param(vm(), [], None, id="none"),
        pytest.param(PLAIN, [13000, 13001], A80, id="plain ones"),
        pytest.param(
            vm(*[(A80, 0)] * 4, groups={0: QUAD}),
            [13000, 13001, 13002, 13003],
            f"4 × {A80}, NVLink group {QUAD}",
            id="another group",
        ),
        pytest.param(
            vm((A80, 0), (A80, None), groups={0: PAIR}),
            [13000, 13001],
            f"1 × {A80}, device group {PAIR}",
            id="half a group",
        ),
    ],
)
def test_a_group_comes_as_a_whole_once_all_else_has_gone(
    before: VmDetail, removed: list[int], was: str | None
) -> None:
    found = parts(compare_gpus(members(2), before, notes=("on a, b", "on a, b"), groups={1: PAIR}))
    assert [edit.key for edit in found.removals if isinstance(edit, RemoveDevice)] == removed
    assert found.additions == members(2)
    assert found.device_groups == {1: PAIR}
    assert (found.edits[0].before, found.edits[0].after) == (was, f"2 × {A80}, NVLink group {PAIR}")
    assert found.edits[0].note == "on a, b"


def test_a_group_that_is_not_wanted_goes_as_a_whole() -> None:
    plain = [NewVgpu(profile=A80)] * 2
    found = parts(compare_gpus(plain, IN_PAIR))
    assert (len(found.removals), found.additions, found.device_groups) == (2, plain, {})
    assert not has_wanted_gpus(peers(2, None), IN_PAIR, {})
    assert parts(compare_gpus(plain, PLAIN)).is_empty


def gpu_with_nic(*other_vgpus: tuple[str, int | None]) -> VmDetail:
    nic = PassthroughDevice(key=13001, allowed=((0x15B3, 0x1021),), is_nic=True, group_key=0)
    dvx = DvxDevice(key=13002, device_class="com.example.nic", group_key=0)
    card = VirtualNic(key=4000, kind="sriov", group_key=0)
    return vm((A80, 0), *other_vgpus, groups={0: "Nvidia:1@x"}).model_copy(
        update={"passthrough": (nic,), "dvx": (dvx,), "nics": (card,)}
    )


def test_a_group_of_a_gpu_and_a_nic_counts_as_both() -> None:
    held, plain = gpu_with_nic(), [NewVgpu(profile=A80)]
    assert parts(compare_gpus(plain, held)).is_empty
    assert has_wanted_gpus(peers(1, None), held, {})
    assert own_gpus(held) == tuple(peers(1, None))
    (need, function) = nic_needs(None, held, None)
    assert (need.kind, need.allowed, function.kind) == (
        NicKind.PASSTHROUGH,
        ((0x15B3, 0x1021),),
        NicKind.SRIOV,
    )
    assert has_wanted_functions([], held, None)
    assert not list(compare_functions([], held, {}))
    assert why_tied(held) == "it is unknown whether another host can provide its device group"
    assert not why_tied(IN_PAIR)


def test_a_group_of_a_gpu_and_a_nic_is_no_nvlink_peer() -> None:
    assert not has_wanted_gpus(peers(1), gpu_with_nic(), {})
    assert held_groups(peers(1), gpu_with_nic()) == {}
    assert held_groups(peers(2), IN_PAIR) == {1: PAIR}


def test_of_two_vgpus_the_one_in_a_group_stays() -> None:
    found = parts(compare_gpus([NewVgpu(profile=A80)], gpu_with_nic((A80, None))))
    assert [edit.key for edit in found.removals if isinstance(edit, RemoveDevice)] == [13001]


def test_what_a_group_takes_along_is_not_kept() -> None:
    assert going_groups(peers(1, None), gpu_with_nic()) == frozenset()
    going = going_groups([GpuEntry(profile=(VgpuProfile.parse(A40),))], gpu_with_nic())
    left = gpu_with_nic((A80, None)).without_groups(going)
    assert (len(left.vgpus), left.passthrough, left.dvx, left.nics, left.device_groups) == (1, (), (), (), {})


def test_a_group_of_a_gpu_and_a_nic_goes_with_all_that_it_has() -> None:
    found = parts(compare_gpus([NewVgpu(profile=A40)], gpu_with_nic()))
    assert [edit.key for edit in found.removals if isinstance(edit, RemoveDevice)] == [
        13000,
        13001,
        13002,
        4000,
    ]
    assert found.edits[0].before == (
        f"1 × {A80}, device group Nvidia:1@x with passthrough of any 15b3:1021, DVX device com.example.nic, "
        "sriov NIC"
    )


def test_a_dvx_device_of_its_own_stays() -> None:
    before = vm((A80, None)).model_copy(
        update={"dvx": (DvxDevice(key=13009, device_class="com.example.gpu"),)}
    )
    assert parts(compare_gpus([NewVgpu(profile=A80)], before)).is_empty
    assert [
        edit.key for edit in parts(compare_gpus([], before)).removals if isinstance(edit, RemoveDevice)
    ] == [13000]


@pytest.mark.parametrize(
    ("sub_ids", "words"),
    [
        ((), "10de:20f1"),
        (((0x10DE, 0x145F, None),), "10de:20f1 (subsystem 10de:145f)"),
        (((None, 0x145F, 0xA1),), "10de:20f1 (subsystem any:145f) (revision a1)"),
    ],
)
def test_what_narrows_a_device_is_spelled(sub_ids: tuple[SubIds, ...], words: str) -> None:
    device = PassthroughDevice(key=1, allowed=((0x10DE, 0x20F1),), sub_ids=sub_ids)
    assert device.text == f"passthrough of any {words}"


def test_two_groups_of_one_name_are_two_groups() -> None:
    wanted = [*members(2, 1), *members(2, 3)]
    names = {1: PAIR, 3: PAIR}
    both = vm((A80, 0), (A80, 4), (A80, 4), (A80, 0), groups={0: PAIR, 4: PAIR})
    assert parts(compare_gpus(wanted, both, groups=names)).is_empty
    assert held_groups([*peers(2, 1), *peers(2, 3)], both) == {1: PAIR, 3: PAIR}
    one = parts(compare_gpus(wanted, IN_PAIR, groups=names))
    assert (one.removals, len(one.additions), one.device_groups) == ([], 2, {3: PAIR})


def test_unified_memory_of_members_changes_in_place() -> None:
    found = parts(compare_gpus(members(2, uvm=True), IN_PAIR, groups={1: PAIR}))
    assert found.extra_config == {UVM.format(0): "1", UVM.format(1): "1"}
    assert not found.removals


def test_before_vsphere_8_several_plain_vgpus_are_the_group() -> None:
    assert has_wanted_gpus(peers(2), PLAIN, {}, has_device_groups=False)
    assert not has_wanted_gpus(peers(2), PLAIN, {})
    assert not has_wanted_gpus(peers(2), vm((A40, None), (A80, None)), {}, has_device_groups=False)
    assert held_groups(peers(2), PLAIN) == {}


def test_every_guest_that_vsphere_knows_is_linux_or_is_not() -> None:
    words: Any = vim.vm.GuestOsDescriptor.GuestOsIdentifier
    known = words.values
    assert {guest for guest in known if is_linux(guest) is None} == {"otherGuest", "otherGuest64"}
    assert is_linux("") is None
    assert is_linux("ubuntu64Guest")
    assert is_linux("other6xLinux64Guest")
    assert is_linux("windows2022srvNext_64Guest") is False
    assert is_linux("freebsd14_64Guest") is False
