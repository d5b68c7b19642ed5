"""Device groups in a ConfigSpec: what is taken, what is refused, and how they read back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyVmomi import vim, vmodl

from tests.unit.lab.group_rig import (
    A100D,
    PAIR,
    GroupRig,
    config,
    group,
    hgx_group,
    member,
    members,
    named,
    of_groups,
    rig_of,
    single,
    taken_out,
)
from tests.unit.lab.rig import Rig, change
from vgpu_cfg.lab.state.inventory import Folder, Host, ResourcePool

TWO_KINDS = """
about: One host with bridges, one without.
clusters:
- name: gpu
  hosts:
  - name: plain.lab
    gpus: [{board: A100D, count: 2}]
  - name: joined.lab
    gpus:
    - {board: A100D, pci_id: "0000:4a:00.0", nvlink: ["0000:61:00.0"]}
    - {board: A100D, pci_id: "0000:61:00.0", nvlink: ["0000:4a:00.0"]}
"""


def groups_of(vm: Any) -> dict[int, str]:
    found = vm.config.deviceGroups
    return {each.groupInstanceKey: each.deviceGroupName for each in found.deviceGroup} if found else {}


def places_of(vm: Any) -> list[tuple[int, int] | None]:
    kind = vim.vm.device.VirtualPCIPassthrough
    infos = [device.deviceGroupInfo for device in vm.config.hardware.device if isinstance(device, kind)]
    return [(info.groupInstanceKey, info.sequenceId) if info else None for info in infos]


def test_a_group_reads_back_under_the_servers_key() -> None:
    rig = GroupRig()
    vm = rig.made("a", of_groups(PAIR))
    assert groups_of(vm) == {1: PAIR}
    assert places_of(vm) == [(1, 0), (1, 1)]
    assert {device.backing.vgpu for device in vm.config.hardware.device if device.deviceGroupInfo} == {A100D}


def test_vgpus_without_a_group_are_in_none() -> None:
    vm = GroupRig().made("a", config(single(A100D), single(A100D, -2)))
    assert groups_of(vm) == {}
    assert places_of(vm) == [None, None]


def test_two_groups_have_two_keys() -> None:
    vm = GroupRig().made("a", of_groups(PAIR, PAIR))
    assert groups_of(vm) == {1: PAIR, 2: PAIR}
    assert places_of(vm) == [(1, 0), (1, 1), (2, 0), (2, 1)]


def test_a_key_that_is_not_negative_is_kept() -> None:
    vm = GroupRig().made("a", config(*members(A100D, 2, 0), deviceGroups=named(group(PAIR, 0))))
    assert groups_of(vm) == {0: PAIR}


def test_the_members_may_come_in_any_order() -> None:
    devices = [member(A100D, -1, 1, -100), member(A100D, -1, 0, -101)]
    vm = GroupRig().made("a", config(*devices, deviceGroups=named(group(PAIR))))
    assert places_of(vm) == [(1, 1), (1, 0)]


BAD: list[tuple[str, list[Any], list[Any], type[Exception]]] = [
    ("unknown", members(A100D, 2), [group("Nvidia:4@grid_a100d-80c%NVLink")], vim.fault.InvalidVmConfig),
    ("too few", members(A100D, 1), [group(PAIR)], vim.fault.InvalidVmConfig),
    ("too many", members(A100D, 3), [group(PAIR)], vim.fault.InvalidVmConfig),
    ("none", [], [group(PAIR)], vim.fault.InvalidVmConfig),
    ("profile", members("grid_a100d-40c", 2), [group(PAIR)], vim.fault.InvalidVmConfig),
    ("one id", [member(A100D, -1, 0, at) for at in (-1, -2)], [group(PAIR)], vim.fault.InvalidVmConfig),
    ("ids", [member(A100D, -1, at, -at) for at in (1, 2)], [group(PAIR)], vim.fault.InvalidVmConfig),
    ("no group", members(A100D, 2), [], vim.fault.InvalidDeviceSpec),
    ("other key", members(A100D, 2, -7), [group(PAIR)], vim.fault.InvalidDeviceSpec),
    ("same key", members(A100D, 2), [group(PAIR), group(PAIR)], vim.fault.InvalidVmConfig),
]


@pytest.mark.parametrize(("devices", "groups", "fault"), [row[1:] for row in BAD], ids=[r[0] for r in BAD])
def test_a_group_that_the_host_does_not_offer_so_is_refused(
    devices: list[Any], groups: list[Any], fault: type[Exception]
) -> None:
    rig = GroupRig()
    info = rig.create("a", config(*devices, deviceGroups=named(*groups) if groups else None))
    assert isinstance(info.error, fault), info.error
    assert not any(vm.name == "a" for vm in rig.lab.state.objects.values())


def test_groups_need_hardware_version_20() -> None:
    rig = GroupRig()
    assert isinstance(rig.create("old", of_groups(PAIR), version=19).error, vim.fault.InvalidVmConfig)
    assert rig.create("new", of_groups(PAIR), version=20).error is None


def test_groups_need_a_vcenter_that_knows_them(tmp_path: Path) -> None:
    """An older client leaves the fields out without a word, so the call is made past the wire."""
    for release, fault in (("7.0 U3", vmodl.fault.NotSupported), ("8.0 U1", type(None))):
        path = tmp_path / f"{release}.yaml"
        path.write_text(f"{TWO_KINDS}vcenter: {{release: {release}}}\n", encoding="utf-8")
        rig = Rig(path)
        spec = of_groups(PAIR)
        spec.name, spec.version = "a", "vmx-20"
        spec.files = vim.vm.FileInfo(vmPathName="[vsan]")
        task = rig.run(
            rig.find(Folder, "vm"),
            "CreateVM_Task",
            config=spec,
            pool=vim.ResourcePool(rig.find(ResourcePool).moid),
            host=vim.HostSystem(rig.host("joined.lab").moid),
        )
        assert type(task.fault) is fault


def test_a_named_host_must_offer_the_group_itself(tmp_path: Path) -> None:
    rig = rig_of(TWO_KINDS, tmp_path)
    assert isinstance(rig.create("a", of_groups(PAIR), host="plain.lab").error, vim.fault.InvalidVmConfig)
    assert rig.create("b", of_groups(PAIR), host="joined.lab").error is None
    assert rig.create("c", of_groups(PAIR)).error is None, "any host of the cluster does"


def test_members_do_not_change() -> None:
    rig = GroupRig()
    vm = rig.made("a", of_groups(PAIR))
    one = rig.reconfigured(vm, deviceChange=taken_out(vm, 13000))
    assert isinstance(one, vim.fault.InvalidVmConfig)
    more = rig.reconfigured(vm, deviceChange=[member(A100D, 1, 2, -1)])
    assert isinstance(more, vim.fault.InvalidDeviceSpec)
    swapped = rig.reconfigured(vm, deviceChange=[*taken_out(vm, 13000), member(A100D, 1, 0, -1)])
    assert isinstance(swapped, vim.fault.InvalidDeviceSpec)
    renamed = rig.reconfigured(vm, deviceGroups=named(group("Nvidia:2@grid_a100-40c%NVLink", 1)))
    assert isinstance(renamed, vim.fault.InvalidVmConfig)
    assert (groups_of(vm), places_of(vm)) == ({1: PAIR}, [(1, 0), (1, 1)])


def test_a_device_beside_a_group_comes_and_goes() -> None:
    rig = GroupRig()
    vm = rig.made("a", of_groups(PAIR))
    assert rig.reconfigured(vm, deviceChange=[single(A100D)], deviceGroups=named(group(PAIR, 1))) is None
    assert places_of(vm) == [(1, 0), (1, 1), None]
    assert rig.reconfigured(vm, deviceChange=taken_out(vm, 13002)) is None
    assert groups_of(vm) == {1: PAIR}


def test_a_group_goes_with_its_devices() -> None:
    rig = GroupRig()
    vm = rig.made("a", of_groups(PAIR))
    assert rig.reconfigured(vm, deviceChange=taken_out(vm)) is None
    assert groups_of(vm) == {}
    assert places_of(vm) == []


def test_a_group_is_replaced_in_one_spec() -> None:
    rig = GroupRig()
    vm = rig.made("a", of_groups(PAIR))
    fault = rig.reconfigured(
        vm, deviceChange=[*taken_out(vm), *members(A100D, 2)], deviceGroups=named(group(PAIR))
    )
    assert fault is None
    assert groups_of(vm) == {2: PAIR}
    assert places_of(vm) == [(2, 0), (2, 1)]


def test_groups_do_not_change_while_the_vm_runs() -> None:
    rig = GroupRig()
    vm = rig.on("a", of_groups(PAIR))
    fault = rig.reconfigured(vm, deviceChange=taken_out(vm))
    assert isinstance(fault, vim.fault.InvalidPowerState)
    rig.done(vm.PowerOffVM_Task())
    assert rig.reconfigured(vm, deviceChange=taken_out(vm)) is None


def test_a_member_is_not_edited_into_another_group() -> None:
    rig = GroupRig()
    vm = rig.made("a", of_groups(PAIR, PAIR))
    device = next(device for device in vm.config.hardware.device if device.key == 13000)
    device.deviceGroupInfo.groupInstanceKey = 2
    fault = rig.reconfigured(vm, deviceChange=[change("edit", device)])
    assert isinstance(fault, vim.fault.InvalidDeviceSpec)
    device.deviceGroupInfo.groupInstanceKey = 1
    assert rig.reconfigured(vm, deviceChange=[change("edit", device)]) is None


def test_a_clone_has_the_groups_of_its_spec_and_of_its_source() -> None:
    rig = GroupRig("hgx-h100")
    template = rig.seen("ubuntu-22.04-efi")
    pool = rig.host("esx-hgx-01.lab").parent.resourcePool
    spec = vim.vm.CloneSpec(
        location=vim.vm.RelocateSpec(pool=pool), template=False, powerOn=False, config=of_groups(hgx_group(4))
    )
    info = rig.end(template.CloneVM_Task(template.parent, "a", spec))
    assert info.state == "success", info.error
    assert groups_of(info.result) == {1: hgx_group(4)}
    rig.done(info.result.PowerOnVM_Task())
    again = vim.vm.CloneSpec(location=vim.vm.RelocateSpec(pool=pool), template=False, powerOn=False)
    copied = rig.end(info.result.CloneVM_Task(template.parent, "b", again)).result
    assert groups_of(copied) == {1: hgx_group(4)}
    assert len(places_of(copied)) == 4


def test_a_host_names_a_vm_on_every_gpu_of_its_group() -> None:
    rig = GroupRig()
    vm = rig.on("a", of_groups(PAIR))
    shown = rig.host(rig.first().name).config.graphicsInfo
    assert sum(vm in list(gpu.vm) for gpu in shown) == 2
    assert [len(gpu.uses) for gpu in rig.lab.state.all(Host)[0].gpus].count(1) == 2
