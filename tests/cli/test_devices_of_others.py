"""NICs and GPUs that others add to a plan's VMs: named, spared, and taken over once the file states them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from pyVmomi import vim

from tests.cli.colleague import Colleague
from tests.cli.command_line import CommandLine
from vgpu_cfg.lab.state.inventory import Network, VirtualMachine
from vgpu_cfg.model.observed.vm import MARK_PLAN_KEY

ESTATE = "two-a100"
PLAN = """\
version: 1
name: shared
id: 6b1d7c20-8e4f-4a15-b3d9-27f0c5a91e03
vcenter: lab:two-a100
defaults: {template: ubuntu-22.04-efi, cluster: gpu, folder: training, cpus: 4, memory: 16GiB, power: "off"}
vms:
- {name: vm-01, gpus: grid_a100-10c, nics: [vm-network]}
"""
DEVICE: Any = vim.vm.device
NIC, GPU = DEVICE.VirtualEthernetCard, DEVICE.VirtualPCIPassthrough


@pytest.fixture
def plan(vgpu_cfg: CommandLine) -> Path:
    """Return a plan file whose VM is there."""
    path = vgpu_cfg.write("plan.yaml", PLAN)
    vgpu_cfg.done("apply", "--yes", path)
    return path


def file(vgpu_cfg: CommandLine, old: str, new: str) -> Path:
    """Return the plan file with other words."""
    assert old in PLAN
    return vgpu_cfg.write("plan.yaml", PLAN.replace(old, new))


def vm_of(vgpu_cfg: CommandLine) -> VirtualMachine:
    return next(vm for vm in vgpu_cfg.lab(ESTATE).state.all(VirtualMachine) if vm.name == "vm-01")


def devices(vgpu_cfg: CommandLine, kind: Any) -> list[Any]:
    return [one for one in vm_of(vgpu_cfg).devices.values() if isinstance(one, kind)]


def macs(vgpu_cfg: CommandLine) -> list[str]:
    return [nic.macAddress for nic in devices(vgpu_cfg, NIC)]


def profiles(vgpu_cfg: CommandLine) -> list[str]:
    return sorted(gpu.backing.vgpu for gpu in devices(vgpu_cfg, GPU))


def mark_of(vgpu_cfg: CommandLine) -> str:
    return vm_of(vgpu_cfg).extra_config[MARK_PLAN_KEY]


def forget_devices(vgpu_cfg: CommandLine) -> None:
    """Write the mark as the release before did."""
    text = re.sub(r" (disks|nics|pci)=\S+", "", mark_of(vgpu_cfg))
    options = [vim.option.OptionValue(key=MARK_PLAN_KEY, value=text)]
    Colleague(vgpu_cfg.lab(ESTATE)).reconfigures("vm-01", lambda _vm: vim.vm.ConfigSpec(extraConfig=options))


def change(vgpu_cfg: CommandLine, operation: str, device: Any) -> None:
    spec: Any = vim.vm.ConfigSpec(deviceChange=[DEVICE.VirtualDeviceSpec(operation=operation, device=device)])
    Colleague(vgpu_cfg.lab(ESTATE)).reconfigures("vm-01", lambda _vm: spec)


def add_nic(vgpu_cfg: CommandLine, network: str = "vm-network") -> str:
    """Add a NIC as somebody else, and return its MAC."""
    before = macs(vgpu_cfg)
    moid = next(one.moid for one in vgpu_cfg.lab(ESTATE).state.all(Network) if one.name == network)
    backing = NIC.NetworkBackingInfo(deviceName=network, network=vim.Network(moid))
    change(vgpu_cfg, "add", DEVICE.VirtualVmxnet3(key=-1, backing=backing))
    (mac,) = set(macs(vgpu_cfg)) - set(before)
    return str(mac)


def add_vgpu(vgpu_cfg: CommandLine, profile: str = "grid_a100-10c") -> None:
    change(vgpu_cfg, "add", GPU(key=-1, backing=GPU.VmiopBackingInfo(vgpu=profile)))


def test_the_mark_of_a_new_vm_counts_its_nics_and_names_its_gpus(plan: Path, vgpu_cfg: CommandLine) -> None:
    assert " nics=+1 pci=grid_a100-10c " in mark_of(vgpu_cfg)
    assert "0 changes" in vgpu_cfg.done("plan", plan).out


@pytest.mark.parametrize("age", ["", "of before"])
def test_a_nic_and_a_vgpu_of_others_are_named_and_stay(age: str, plan: Path, vgpu_cfg: CommandLine) -> None:
    (own,) = macs(vgpu_cfg)
    mac = add_nic(vgpu_cfg)
    add_vgpu(vgpu_cfg)
    if age:
        forget_devices(vgpu_cfg)
    shown = vgpu_cfg.done("plan", plan).told
    assert (
        "VG273 vm-01: NICs that the plan did not add are kept: "
        f"vmxnet3 NIC on vm-network (MAC {mac})" in shown
    )
    assert "are kept and use capacity on the host: vGPU grid_a100-10c" in shown
    vgpu_cfg.done("apply", "--yes", plan)
    assert macs(vgpu_cfg) == [own, mac]
    assert profiles(vgpu_cfg) == ["grid_a100-10c"] * 2
    assert f" nics={own.replace(':', '')} pci=grid_a100-10c " in mark_of(vgpu_cfg)
    assert "0 changes" in vgpu_cfg.done("plan", plan).out
    assert "VG273" in vgpu_cfg("status", plan).out


def test_what_the_plan_file_drops_goes_and_what_others_added_stays(plan: Path, vgpu_cfg: CommandLine) -> None:
    mac = add_nic(vgpu_cfg)
    add_vgpu(vgpu_cfg, "grid_a100-20c")
    path = file(vgpu_cfg, "gpus: grid_a100-10c, nics: [vm-network]", "gpus: [], nics: []")
    vgpu_cfg.done("apply", "--yes", path)
    assert macs(vgpu_cfg) == [mac]
    assert profiles(vgpu_cfg) == ["grid_a100-20c"]
    assert " nics=- pci=- " in mark_of(vgpu_cfg)


@pytest.mark.parametrize(("count", "code"), [(1, 0), (3, 4)])
def test_a_vm_is_started_if_there_is_room_for_the_gpus_of_others_too(
    count: int, code: int, plan: Path, vgpu_cfg: CommandLine
) -> None:
    for _ in range(count):
        add_vgpu(vgpu_cfg, "grid_a100-40c")
    path = file(vgpu_cfg, "nics: [vm-network]", "nics: [vm-network], power: true")
    assert vgpu_cfg("apply", "--yes", path).code == code
    assert profiles(vgpu_cfg) == ["grid_a100-10c", *["grid_a100-40c"] * count]


def test_a_nic_that_the_plan_adds_beside_one_of_others_is_known(plan: Path, vgpu_cfg: CommandLine) -> None:
    (own,) = macs(vgpu_cfg)
    mac = add_nic(vgpu_cfg)
    path = file(
        vgpu_cfg, "nics: [vm-network]", "nics: [vm-network, {network: vm-network, mac: '00:50:56:00:00:09'}]"
    )
    vgpu_cfg.done("apply", "--yes", path)
    assert macs(vgpu_cfg) == [own, mac, "00:50:56:00:00:09"]
    vgpu_cfg.done("apply", "--yes", file(vgpu_cfg, "nics: [vm-network]", "nics: []"))
    assert macs(vgpu_cfg) == [mac]


def test_what_the_plan_file_states_is_taken_over(plan: Path, vgpu_cfg: CommandLine) -> None:
    add_nic(vgpu_cfg)
    add_vgpu(vgpu_cfg)
    before = [*macs(vgpu_cfg), *profiles(vgpu_cfg)]
    words = "gpus: [{profile: grid_a100-10c, count: 2}], nics: [{network: vm-network, count: 2}]"
    path = file(vgpu_cfg, "gpus: grid_a100-10c, nics: [vm-network]", words)
    vgpu_cfg.done("apply", "--yes", path)
    assert [*macs(vgpu_cfg), *profiles(vgpu_cfg)] == before
    assert " pci=2*grid_a100-10c " in mark_of(vgpu_cfg)
    shown = vgpu_cfg.done("plan", path)
    assert "0 changes" in shown.out
    assert "VG273" not in shown.told


def test_removed_in_the_client_it_is_named_no_more(plan: Path, vgpu_cfg: CommandLine) -> None:
    mac = add_nic(vgpu_cfg)
    vgpu_cfg.done("apply", "--yes", plan)
    change(vgpu_cfg, "remove", next(nic for nic in devices(vgpu_cfg, NIC) if nic.macAddress == mac))
    shown = vgpu_cfg.done("plan", plan)
    assert "0 changes" in shown.out
    assert "VG273" not in shown.told


def test_import_takes_all_in_and_export_leaves_those_of_others_out(plan: Path, vgpu_cfg: CommandLine) -> None:
    mac = add_nic(vgpu_cfg)
    vgpu_cfg.done("apply", "--yes", plan)
    ran = vgpu_cfg.done("export", "--server", f"lab:{ESTATE}", "--vm", "vm-01")
    assert f"vmxnet3 NIC on vm-network (MAC {mac}), which does not belong to the plan" in ran.told
    vgpu_cfg.done("forget", "--yes", plan)
    assert "own devices + all 3 NICs, GPUs and functions" in vgpu_cfg.done("import", plan, "--dry-run").told
    vgpu_cfg.done("import", "--yes", plan)
    assert mac.replace(":", "") in mark_of(vgpu_cfg)


def test_destroy_names_what_goes_with_the_vm(plan: Path, vgpu_cfg: CommandLine) -> None:
    add_vgpu(vgpu_cfg, "grid_a100-20c")
    shown = vgpu_cfg.done("destroy", plan, "--dry-run")
    assert "vGPU grid_a100-20c" in shown.told
    vgpu_cfg.done("destroy", "--yes", plan)
    assert vgpu_cfg.look(ESTATE).vms == frozenset()


def test_a_run_that_is_taken_back_spares_what_others_added(plan: Path, vgpu_cfg: CommandLine) -> None:
    mac = add_nic(vgpu_cfg)
    own = [one for one in macs(vgpu_cfg) if one != mac]
    path = file(vgpu_cfg, "nics: [vm-network]}", "nics: [{network: vm-network, count: 3}], power: true}")
    vgpu_cfg.script(ESTATE, {"method": "PowerOnVM_Task", "nth": 1, "message": "No GPU."})
    assert vgpu_cfg("apply", "--yes", "--rollback-on-failure", path).code == 6
    assert sorted(macs(vgpu_cfg)) == sorted([*own, mac])
