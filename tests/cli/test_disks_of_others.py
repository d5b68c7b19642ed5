"""Disks that others attach to a plan's VMs: named, detached, kept, and never taken for the plan's own."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from pyVmomi import vim

from tests.cli.colleague import Colleague
from tests.cli.command_line import CommandLine
from vgpu_cfg.lab.operations.files import listed
from vgpu_cfg.lab.state.devices import disks_of
from vgpu_cfg.lab.state.inventory import Datastore, VirtualMachine
from vgpu_cfg.model.observed.vm import MARK_PLAN_KEY

ESTATE = "two-a100"
FCD = "[vsan] fcd/pvc-1.vmdk"
HOME = "[vsan] vm-01/vm-01_1.vmdk"
PLAN = """\
version: 1
name: shared
id: 6b1d7c20-8e4f-4a15-b3d9-27f0c5a91e03
vcenter: lab:two-a100
defaults: {template: ubuntu-22.04-efi, cluster: gpu, folder: training, cpus: 4, memory: 16GiB, power: "off"}
vms:
- {name: vm-01, gpus: grid_a100-10c}
"""
FLAT: Any = vim.vm.device.VirtualDisk.FlatVer2BackingInfo
RAW: Any = vim.vm.device.VirtualDisk.RawDiskMappingVer1BackingInfo
KINDS = {
    "first-class": (FCD, FLAT(fileName=FCD, diskMode="independent_persistent")),
    "of another": ("[vsan] web/data.vmdk", FLAT(fileName="[vsan] web/data.vmdk", diskMode="persistent")),
    "in its folder": (HOME, FLAT(fileName="[vsan]", diskMode="persistent")),
    "raw": (HOME, RAW(fileName="[vsan]", lunUuid="0200", diskMode="independent_persistent")),
    "shared": (FCD, FLAT(fileName=FCD, diskMode="independent_persistent", sharing="sharingMultiWriter")),
}


@pytest.fixture
def plan(vgpu_cfg: CommandLine) -> Path:
    """Return a plan file whose VM stands."""
    path = vgpu_cfg.write("plan.yaml", PLAN)
    vgpu_cfg.done("apply", "--yes", path)
    return path


def attach(vgpu_cfg: CommandLine, kind: str = "first-class", vm: str = "vm-01") -> str:
    """Attach a disk as somebody else, and return its file."""
    file, backing = KINDS[kind]
    change(
        vgpu_cfg,
        "add",
        vim.vm.device.VirtualDisk(key=-1, controllerKey=1000, capacityInKB=1 << 20, backing=backing),
        vm,
    )
    return file


def change(vgpu_cfg: CommandLine, operation: str, disk: Any, vm: str = "vm-01") -> None:
    spec: Any = vim.vm.device.VirtualDeviceSpec(operation=operation, device=disk)
    if operation == "add" and disk.backing.fileName.endswith("]"):
        spec.fileOperation = "create"
    colleague = Colleague(vgpu_cfg.lab(ESTATE))
    colleague.reconfigures(vm, lambda _vm: vim.vm.ConfigSpec(deviceChange=[spec]))


def set_mark(vgpu_cfg: CommandLine, text: str) -> None:
    options = [vim.option.OptionValue(key=MARK_PLAN_KEY, value=text)]
    Colleague(vgpu_cfg.lab(ESTATE)).reconfigures("vm-01", lambda _vm: vim.vm.ConfigSpec(extraConfig=options))


def mark_of(vgpu_cfg: CommandLine, name: str = "vm-01") -> str:
    return vm_of(vgpu_cfg, name).extra_config[MARK_PLAN_KEY]


def vm_of(vgpu_cfg: CommandLine, name: str = "vm-01") -> VirtualMachine:
    return next(vm for vm in vgpu_cfg.lab(ESTATE).state.all(VirtualMachine) if vm.name == name)


def disks(vgpu_cfg: CommandLine) -> dict[str, int]:
    return {disk.backing.fileName: disk.capacityInKB >> 20 for disk in disks_of(vm_of(vgpu_cfg).devices)}


def is_there(vgpu_cfg: CommandLine, file: str) -> bool:
    state = vgpu_cfg.lab(ESTATE).state
    store = next(one for one in state.all(Datastore) if one.name == "vsan")
    return file.partition("] ")[2] in listed(state, store)


def of_before(text: str) -> str:
    """Return a mark as the release before wrote it."""
    return re.sub(r" disks=\S+", "", text)


def test_a_vm_still_takes_two_tasks_and_its_mark_says_what_disks_its_clone_made(
    plan: Path, vgpu_cfg: CommandLine
) -> None:
    assert " disks=+65536 " in mark_of(vgpu_cfg)
    assert "0 changes" in vgpu_cfg.done("plan", plan).out


def test_apply_records_the_uuids_of_its_disks_once_others_attached_one(
    plan: Path, vgpu_cfg: CommandLine
) -> None:
    attach(vgpu_cfg)
    assert "its disks are [vsan] vm-01/vm-01.vmdk" in vgpu_cfg.done("plan", plan, "-v").told
    vgpu_cfg.done("apply", "--yes", plan)
    (own, _) = disks_of(vm_of(vgpu_cfg).devices)
    assert f" disks={own.backing.uuid.lower()} " in mark_of(vgpu_cfg)
    assert "0 changes" in vgpu_cfg.done("plan", plan).out


@pytest.mark.sampled(3)
@pytest.mark.parametrize("age", ["", "of before"])
@pytest.mark.parametrize("kind", KINDS)
def test_destroy_names_a_disk_of_others_and_keeps_it(
    kind: str, age: str, plan: Path, vgpu_cfg: CommandLine
) -> None:
    file = attach(vgpu_cfg, kind)
    if age:
        set_mark(vgpu_cfg, of_before(mark_of(vgpu_cfg)))
    if file == HOME:
        ran = vgpu_cfg("destroy", "--yes", plan)
        assert (ran.code, f"vCenter may delete entirely: {file}" in ran.told) == (4, True)
        vgpu_cfg.write(plan.name, f"{PLAN}allow: [irreversible]\n")
    shown = vgpu_cfg.done("destroy", plan, "--dry-run")
    assert (
        f"VG269 vm-01: disks not created by the plan are detached and kept when the VM is deleted: {file}"
        in shown.told
    )
    assert f"disk detached {file}" in shown.told
    saved = json.loads(vgpu_cfg.done("destroy", plan, "--dry-run", "--output", "json").out)["plan"]
    assert [one["experience"] for one in saved["disturbed"] if one["subject"]["name"] == file] == [
        "disk detached"
    ]
    vgpu_cfg.done("destroy", "--yes", plan)
    assert vgpu_cfg.look(ESTATE).vms == frozenset()
    assert is_there(vgpu_cfg, file)
    assert not is_there(vgpu_cfg, "[vsan] vm-01/vm-01.vmdk")


def test_destroy_detaches_nothing_of_a_vm_without_disks_of_others(plan: Path, vgpu_cfg: CommandLine) -> None:
    shown = vgpu_cfg.done("destroy", plan, "--dry-run")
    assert "VG269" not in shown.told
    assert "detach" not in shown.told


def test_a_disk_of_others_is_deleted_only_by_its_name(plan: Path, vgpu_cfg: CommandLine) -> None:
    attach(vgpu_cfg)
    for wrong in ("[vsan] fcd/*", "[vsan] fcd/pvc-2.vmdk", "[vsan] vm-01/vm-01.vmdk"):
        ran = vgpu_cfg("destroy", "--yes", plan, "--delete", wrong)
        assert (ran.code, "VG272" in ran.err) == (4, True), wrong
    shown = vgpu_cfg.done("destroy", plan, "--dry-run", "--delete", FCD)
    assert f"disk deleted {FCD}" in shown.told
    vgpu_cfg.done("destroy", "--yes", plan, "--delete", FCD)
    assert not is_there(vgpu_cfg, FCD)


def test_a_disk_that_another_vm_has_is_not_deleted_by_name(plan: Path, vgpu_cfg: CommandLine) -> None:
    vgpu_cfg.write("other.yaml", PLAN.replace("vm-01", "web").replace("shared", "web").replace("e03", "e04"))
    vgpu_cfg.done("apply", "--yes", "other.yaml")
    for kind in ("shared", "of another"):
        files = {attach(vgpu_cfg, kind, vm) for vm in ("vm-01", "web")}
        ran = vgpu_cfg("destroy", "--yes", plan, "--delete", *files)
        assert (ran.code, "VG272" in ran.err) == (4, True)
        assert ("web also uses this disk" in ran.told) is (kind == "of another")
    vgpu_cfg.done("destroy", "--yes", plan)
    assert is_there(vgpu_cfg, FCD)
    assert is_there(vgpu_cfg, KINDS["of another"][0])


@pytest.mark.parametrize("is_after", [True, False])
def test_a_snapshot_that_would_take_a_disk_of_others_along_is_an_error(
    is_after: bool, plan: Path, vgpu_cfg: CommandLine
) -> None:
    if is_after:
        attach(vgpu_cfg)
    Colleague(vgpu_cfg.lab(ESTATE)).does("vm-01", "CreateSnapshot_Task", "s", None, False, False)
    ran = vgpu_cfg("destroy", "--yes", plan)
    assert (ran.code, "VG270" in ran.err) == ((4, True) if is_after else (0, False))
    assert is_there(vgpu_cfg, FCD) is is_after


def test_a_disk_in_the_place_of_the_plans_own_is_of_others(plan: Path, vgpu_cfg: CommandLine) -> None:
    path = vgpu_cfg.write("plan.yaml", f"{PLAN[:-2]}, disks: [{{size: 2GiB}}]}}\n")
    vgpu_cfg.done("apply", "--yes", "--allow-power-cycle", path)
    _, second = disks_of(vm_of(vgpu_cfg).devices)
    change(vgpu_cfg, "remove", second)
    attach(vgpu_cfg)
    assert disks(vgpu_cfg)[FCD] == 1
    assert vm_of(vgpu_cfg).devices[second.key].backing.fileName == FCD
    assert " disks=6000c29" in mark_of(vgpu_cfg)
    vgpu_cfg.done("apply", "--yes", path)
    assert disks(vgpu_cfg)[FCD] == 1
    assert len(disks(vgpu_cfg)) == 3
    vgpu_cfg.done("destroy", "--yes", path)
    assert is_there(vgpu_cfg, FCD)


@pytest.mark.parametrize("age", ["", "of before"])
def test_disks_of_the_plan_file_leave_those_of_others_alone(
    age: str, plan: Path, vgpu_cfg: CommandLine
) -> None:
    attach(vgpu_cfg)
    if age:
        set_mark(vgpu_cfg, of_before(mark_of(vgpu_cfg)))
    path = vgpu_cfg.write("plan.yaml", f"{PLAN[:-2]}, disks: [{{grow: 100GiB}}]}}\n")
    vgpu_cfg.done("apply", "--yes", path)
    assert disks(vgpu_cfg) == {"[vsan] vm-01/vm-01.vmdk": 100, FCD: 1}
    assert "0 changes" in vgpu_cfg.done("plan", path).out


def test_apply_records_the_disks_of_a_vm_of_before_once(plan: Path, vgpu_cfg: CommandLine) -> None:
    (own,) = disks_of(vm_of(vgpu_cfg).devices)
    set_mark(vgpu_cfg, of_before(mark_of(vgpu_cfg)))
    assert "its disks are [vsan] vm-01/vm-01.vmdk" in vgpu_cfg.done("plan", plan, "-v").told
    vgpu_cfg.done("apply", "--yes", plan)
    assert f" disks={own.backing.uuid.lower()} " in mark_of(vgpu_cfg)
    assert "0 changes" in vgpu_cfg.done("plan", plan).out


def test_a_deletion_that_was_refused_goes_on_after_the_disk_was_detached(
    plan: Path, vgpu_cfg: CommandLine
) -> None:
    attach(vgpu_cfg)
    vgpu_cfg.script(ESTATE, {"method": "Destroy_Task", "nth": 1, "message": "The disk is locked."})
    assert vgpu_cfg("destroy", "--yes", plan).code == 6
    vgpu_cfg.script(ESTATE)
    vgpu_cfg.done("destroy", "--yes", plan)
    assert is_there(vgpu_cfg, FCD)
    assert vgpu_cfg.look(ESTATE).vms == frozenset()


def test_a_renamed_vm_and_a_forgotten_one_keep_disks_of_others(plan: Path, vgpu_cfg: CommandLine) -> None:
    attach(vgpu_cfg)
    Colleague(vgpu_cfg.lab(ESTATE)).does("vm-01", "Rename_Task", "called-otherwise")
    vgpu_cfg.done("destroy", "--yes", plan)
    assert vgpu_cfg.look(ESTATE).vms == frozenset()
    assert is_there(vgpu_cfg, FCD)
    vgpu_cfg.done("apply", "--yes", plan)
    attach(vgpu_cfg)
    vgpu_cfg.done("forget", "--yes", plan)
    vgpu_cfg("destroy", "--yes", plan)
    assert vgpu_cfg.look(ESTATE).vms == {"vm-01"}


@pytest.mark.parametrize("command", ["apply", "destroy"])
def test_an_orphan_is_deleted_without_the_disks_of_others(
    command: str, plan: Path, vgpu_cfg: CommandLine
) -> None:
    attach(vgpu_cfg)
    other = vgpu_cfg.write("other.yaml", PLAN.replace("vm-01", "vm-02"))
    vgpu_cfg.done(command, "--yes", other, "--delete", "vm-01")
    assert "vm-01" not in vgpu_cfg.look(ESTATE).vms
    assert is_there(vgpu_cfg, FCD)


def test_import_and_export_say_which_disks_become_the_plans(plan: Path, vgpu_cfg: CommandLine) -> None:
    attach(vgpu_cfg)
    vgpu_cfg.done("forget", "--yes", plan)
    shown = vgpu_cfg.done("import", plan, "--dry-run")
    assert "own disks + [vsan] vm-01/vm-01.vmdk (64 GiB)" in shown.told
    assert f"unmanaged disks + {FCD} (1 GiB, first-class disk)" in shown.told
    vgpu_cfg.done("import", "--yes", plan)
    (own, _) = disks_of(vm_of(vgpu_cfg).devices)
    assert f" disks={own.backing.uuid.lower()} " in mark_of(vgpu_cfg)
    assert "0 changes" in vgpu_cfg.done("plan", plan).out
    ran = vgpu_cfg.done("export", "--server", f"lab:{ESTATE}", "--vm", "vm-01")
    assert f"disks: {FCD} (1 GiB, first-class disk) is not included in the plan" in ran.told
