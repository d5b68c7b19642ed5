"""Plan files that are right: what they come to with ranges, defaults, includes and variables worked in."""

from __future__ import annotations

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.plan_loading.plan_files import HEADER, Loader, VmLoader, load_fixture, load_vm_fixture
from vgpu_cfg.errors import DocumentError
from vgpu_cfg.model.desired import (
    DesiredDiskGrowth,
    DesiredNewDisk,
    DesiredNic,
    DesiredPower,
    DesiredVm,
    ScratchSource,
    TemplateSource,
)
from vgpu_cfg.model.plan_file import DeviceEntry, GpuEntry, PlaceEntry
from vgpu_cfg.model.plan_values import DesiredNuma, NumaPolicy, Spread
from vgpu_cfg.model.ranges import read_members
from vgpu_cfg.model.vgpu import VgpuProfile

__all__ = ["load_fixture", "load_vm_fixture"]


def vgpu(name: str, *, uvm: bool = False) -> GpuEntry:
    return GpuEntry(profile=(VgpuProfile.parse(name),), uvm=uvm)


def test_the_smallest_plan_is_three_header_lines_and_one_vm_line(load: Loader) -> None:
    loaded = load(HEADER + "vms: [{name: a, template: t, gpus: grid_a100-40c}]\n")
    (vm,) = loaded.desired.vms
    assert (loaded.desired.name, loaded.desired.vcenter, loaded.desired.datacenter) == ("p", "prod", None)
    assert vm.source == TemplateSource(path_or_name="t")
    assert vm.gpus == (vgpu("grid_a100-40c"),)
    assert (vm.cpus, vm.memory_mib, vm.clusters, vm.folder, vm.datastore) == (None, None, (), None, None)
    assert (vm.numa.policy, vm.power, vm.lock, bool(vm.secure_boot)) == (
        "follow-gpu",
        DesiredPower.ON,
        False,
        False,
    )
    assert vm.managed == {"template", "gpus"}
    assert {"cpus", "memory", "numa", "nics", "power", "folder"} <= vm.defaulted
    assert vm.defaulted.isdisjoint(vm.managed | {"lock", "ignore", "expires"})
    assert vm.origin.endswith("plan.yaml:4:7")


def test_a_plan_without_vms_asks_for_none(load: Loader) -> None:
    assert load(HEADER).desired.vms == ()
    assert load(HEADER + "vms: []\n").desired.vms == ()


def test_students_by_range_and_except(load: Loader) -> None:
    vms = load(
        HEADER
        + """
vms:
- name: ml26-stu{01..14}
  template: ubuntu-24.04-efi-nvidia
  cluster: gpu
  folder: students/ml26
  cpus: 4
  memory: 16GiB
  gpus: grid_a100-1-5c
  nics: [lab-a]
  expires: 2027-03-31
  ignore: [power]
  except:
    ml26-stu{08..14}: {nics: [{network: lab-b}]}
    ml26-stu14: {cpus: 8, memory: 32GiB}
"""
    ).desired.vms
    assert [vm.name for vm in vms] == [f"ml26-stu{number:02}" for number in range(1, 15)]
    assert [vm.nics[0].network for vm in vms] == ["lab-a"] * 7 + ["lab-b"] * 7
    assert [vm.cpus for vm in vms] == [4] * 13 + [8]
    assert vms[13].memory_mib == 32 * 1024
    assert {vm.line for vm in vms} == {"ml26-stu{01..14}"}
    assert vms[0].expires == date(2027, 3, 31)
    assert vms[0].is_managed("cpus")
    assert not vms[0].is_managed("disks")
    ignoring = load(HEADER + "vms: [{name: a, template: t, power: true, ignore: [power]}]\n").desired.vms[0]
    assert not ignoring.is_managed("power")


def test_numbers_of_a_range_stand_in_any_text(load: Loader) -> None:
    vms = load(
        HEADER
        + """
vms:
- name: n{08..10}
  template: t
  folder: team-{n}
  datastore: ds{i}
  resource_pool: pool-{1..3}
  memory: "{i}GiB"
  nics: [{network: "rail-{k}-of-{n}", count: 2}]
  extra_config: {guestinfo.id: "{n}", json: '{"n": 1}'}
"""
    ).desired.vms
    assert [(vm.name, vm.folder, vm.datastore, vm.resource_pool) for vm in vms] == [
        ("n08", "team-08", "ds8", "pool-1"),
        ("n09", "team-09", "ds9", "pool-2"),
        ("n10", "team-10", "ds10", "pool-3"),
    ]
    assert [vm.memory_mib for vm in vms] == [8192, 9216, 10240]
    assert vms[0].nics == (DesiredNic(network="rail-1-of-08"), DesiredNic(network="rail-2-of-08"))
    assert vms[2].extra_config == {"guestinfo.id": "10", "json": '{"n": 1}'}


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("a", ["a"]),
        ("a{1..3}", ["a1", "a2", "a3"]),
        ("a{01..03}b", ["a01b", "a02b", "a03b"]),
        ("a{9..11}", ["a9", "a10", "a11"]),
        ("a{09..11}", ["a09", "a10", "a11"]),
        ("a{0..2}", ["a0", "a1", "a2"]),
        ("a{001..2}", ["a001", "a002"]),
        ("r{1..2}-a{05..06}", ["r1-a05", "r2-a06"]),
        ("a{01..01}", ["a01"]),
    ],
)
def test_ranges_of_a_name(text: str, names: list[str]) -> None:
    assert [member.name for member in read_members(text)] == names


@given(st.integers(0, 10**6), st.integers(0, 200), st.integers(1, 8))
def test_a_range_counts_every_number_once_and_keeps_its_width(first: int, more: int, width: int) -> None:
    text = f"{first:0{width}}..{first + more:0{width}}"
    members = read_members(f"vm-{{{text}}}")
    assert [member.number for member in members] == list(range(first, first + more + 1))
    assert len({member.name for member in members}) == more + 1
    padded = {len(member.name) for member in members}
    assert len(padded) == 1 or not text.startswith("0") or first == 0


def test_defaults_are_merged_by_key_and_lists_replaced(load: Loader) -> None:
    vms = load(
        HEADER
        + """
defaults:
  template: t
  cpus: 4
  nics: [one, two]
  place: {spread: hosts, hosts: ["esx-*"]}
  extra_config: {a: "1", b: "2"}
vms:
- {name: plain}
- name: own-{1..2}
  cpus: 8
  nics: [three]
  place: {must: false}
  extra_config: {b: "3"}
  except: {own-2: {extra_config: {c: "4"}, place: {spread: gpus}, gpus: grid_t4-16c}}
"""
    ).desired.vms
    plain, first, second = vms
    assert (plain.cpus, len(plain.nics), plain.extra_config) == (4, 2, {"a": "1", "b": "2"})
    assert plain.place == PlaceEntry(spread=Spread.HOSTS, hosts=("esx-*",), must=True)
    assert (first.cpus, [nic.network for nic in first.nics]) == (8, ["three"])
    assert first.extra_config == {"a": "1", "b": "3"}
    assert first.place == PlaceEntry(spread=Spread.HOSTS, hosts=("esx-*",), must=False)
    assert second.extra_config == {"a": "1", "b": "3", "c": "4"}
    assert second.place == PlaceEntry(spread=Spread.GPUS, hosts=("esx-*",), must=False)
    assert "cpus" in plain.managed
    assert "cpus" not in plain.defaulted


def test_place_says_which_hosts_and_how_many_stay_free(load_vm: VmLoader) -> None:
    text = "gpus: grid_t4-16c\nplace: {spread: numa, pack: true, not_hosts: a-*, host_group: g, keep_free: 2}"
    assert load_vm(text).place == PlaceEntry(
        spread=Spread.NUMA, pack=True, not_hosts=("a-*",), host_group="g", keep_free=2
    )
    assert load_vm("numa: node\nplace: {spread: numa}").place == PlaceEntry(spread=Spread.NUMA)


@pytest.mark.parametrize(
    ("short", "long"),
    [
        ("gpus: grid_a100-40c", "gpus: [{profile: [grid_a100-40c]}]"),
        ("gpus: {profile: grid_a100-40c}", "gpus: [grid_a100-40c]"),
        ("gpus: [grid_a100-10c, grid_a100-10c]", "gpus: [{profile: grid_a100-10c, count: 2}]"),
        ("nics: vm-network", "nics: [{network: vm-network, type: vmxnet3, count: 1, mac: ''}]"),
        ("cluster: gpu", "cluster: [gpu]"),
        ("numa: 1", "numa: [1]"),
        ("place: {hosts: esx-1}", "place: {hosts: [esx-1]}"),
        ("memory: 1GiB", "memory: 1024 MiB"),
        ("memory: 1.5TiB", "memory: 1536GiB"),
        ("gpus: [{pin: '3b:00.0'}]", "gpus: [{pin: '0000:3B:00.0', device: {}}]"),
        ("power: on", "power: true"),
        ("extra_config: {a: true, b: 5}", "extra_config: {a: 'TRUE', b: '5'}"),
        ("folder: ''", ""),
        ("place: {}", "place: {must: true}"),
        ("place: {pack: false, keep_free: 0, host_group: '', not_hosts: []}", "place: {}"),
        ("place: {not_hosts: 'esx-*'}", "place: {not_hosts: ['esx-*']}"),
    ],
)
def test_short_forms(short: str, long: str, load_vm: VmLoader) -> None:
    assert load_vm(short).model_dump(exclude={"managed", "defaulted"}) == load_vm(long).model_dump(
        exclude={"managed", "defaulted"}
    )


def test_every_kind_of_gpu(load_vm: VmLoader) -> None:
    vm = load_vm(
        "gpus:\n"
        "- {profile: [nvidia_l40s-48c, grid_a100d-40c], uvm: true}\n"
        "- {device: {label: 'pt-{k}', model: A100, device_id: '10DE:20f1'}, count: 2}\n"
        "- {pin: 'af:00.0'}\n"
    )
    profiles = (VgpuProfile.parse("nvidia_l40s-48c"), VgpuProfile.parse("grid_a100d-40c"))
    assert vm.gpus == (
        GpuEntry(profile=profiles, uvm=True),
        GpuEntry(device=DeviceEntry(label="pt-1", model="A100", device_id=(0x10DE, 0x20F1))),
        GpuEntry(device=DeviceEntry(label="pt-2", model="A100", device_id=(0x10DE, 0x20F1))),
        GpuEntry(pin="0000:af:00.0"),
    )
    assert [gpu.kind for gpu in vm.gpus] == [
        "vgpu",
        "dynamic_passthrough",
        "dynamic_passthrough",
        "passthrough",
    ]
    assert DesiredVm.model_validate_json(vm.model_dump_json()) == vm
    assert load_vm("gpus: []").gpus == ()
    assert "gpus" in load_vm("gpus: []").managed
    assert "gpus" not in load_vm("cpus: 4").managed


def test_peers_have_the_number_of_their_item(load_vm: VmLoader) -> None:
    vm = load_vm(
        "gpus:\n"
        "- {profile: grid_a100-40c, count: 2, nvlink: true}\n"
        "- {profile: grid_a100-40c, nvlink: false}\n"
        "- {profile: grid_a100-40c, count: 2, nvlink: true}\n"
    )
    assert [(gpu.count, gpu.nvlink) for gpu in vm.gpus] == [(1, 1), (1, 1), (1, None), (1, 3), (1, 3)]
    assert DesiredVm.model_validate_json(vm.model_dump_json()) == vm


@pytest.mark.parametrize("nvlink", ["2", "null", "[1]"])
def test_a_person_writes_true_or_false_for_nvlink(load_vm: VmLoader, nvlink: str) -> None:
    with pytest.raises(DocumentError, match=r"nvlink.* must be true or false"):
        load_vm(f"gpus: {{profile: grid_a100-40c, count: 2, nvlink: {nvlink}}}")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("numa: follow-gpu", DesiredNuma()),
        ("numa: node", DesiredNuma(policy=NumaPolicy.NODE)),
        ("numa: off", DesiredNuma(policy=NumaPolicy.OFF)),
        ("numa: 0", DesiredNuma(policy=NumaPolicy.NODE, nodes=(0,))),
        ("numa: [1, 0, 1]", DesiredNuma(policy=NumaPolicy.NODE, nodes=(0, 1))),
        ("cpus: 4", DesiredNuma()),
    ],
)
def test_numa(text: str, expected: DesiredNuma, load_vm: VmLoader) -> None:
    assert load_vm(text).numa == expected


def test_disks_power_and_the_rest(load_vm: VmLoader) -> None:
    vm = load_vm(
        "clone: linked\nsecure_boot: true\nlock: true\npower: leave\n"
        "disks: [{grow: 200GiB}, {size: 1TiB, controller: nvme}, {size: 512MiB}]\n"
        "nics: [{network: n, mac: '00:50:56:0A:0b:0c'}]\n"
    )
    assert vm.source == TemplateSource(path_or_name="t", linked=True)
    assert (vm.secure_boot, vm.lock, vm.power) == (True, True, DesiredPower.LEAVE)
    assert vm.disks == (
        DesiredDiskGrowth(size_mib=200 * 1024),
        DesiredNewDisk(size_mib=1024 * 1024, controller="nvme"),
        DesiredNewDisk(size_mib=512),
    )
    assert vm.nics == (DesiredNic(network="n", mac="00:50:56:0a:0b:0c"),)
    assert load_vm("power: false").power is DesiredPower.OFF


def test_a_vm_from_scratch(load: Loader) -> None:
    (vm,) = load(
        HEADER
        + "defaults: {template: t}\n"
        + "vms:\n"
        + "- {name: a, template: {scratch: ubuntu64Guest}, cpus: 4, memory: 4GiB, disks: [{size: 40GiB}]}\n"
    ).desired.vms
    assert vm.source == ScratchSource(guest_id="ubuntu64Guest")
    assert (vm.cpus, vm.memory_mib, vm.disks) == (4, 4096, (DesiredNewDisk(size_mib=40 * 1024),))
