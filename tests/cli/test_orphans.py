"""VMs of a plan that the file at hand does not name: two files of one id leave each other's alone."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.command_line import CommandLine
from tests.cli.host_watch import put_state, state_file

ESTATE = "two-a100"
FIRST = """\
version: 1
name: shared
id: 6b1d7c20-8e4f-4a15-b3d9-27f0c5a91e03
vcenter: lab:two-a100
defaults: {template: ubuntu-22.04-efi, cluster: gpu, folder: training, cpus: 4, memory: 16GiB}
vms:
- {name: "vm-{01..02}", gpus: grid_a100-10c, place: {spread: hosts, must: false}}
"""
OTHER = FIRST.replace("vm-{01..02}", "bob-01").replace(", place: {spread: hosts, must: false}", "")


@pytest.fixture(scope="module")
def applied(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The lab's state with the first file applied, as a file."""
    folder = tmp_path_factory.mktemp("applied")
    with pytest.MonkeyPatch.context() as patch:
        vgpu_cfg = CommandLine(folder, patch)
        vgpu_cfg.done("apply", "--yes", vgpu_cfg.write("first.yaml", FIRST))
        yield state_file(vgpu_cfg, ESTATE).absolute()


@pytest.fixture
def first(applied: Path, vgpu_cfg: CommandLine) -> Path:
    """Return the first file, whose VMs stand."""
    put_state(vgpu_cfg, applied, ESTATE)
    return vgpu_cfg.write("first.yaml", FIRST)


@pytest.fixture
def other(first: Path, vgpu_cfg: CommandLine) -> Path:
    """Return a second file of the same name that names only `bob-01`; the VMs of the first one stand."""
    return vgpu_cfg.write("other.yaml", OTHER)


def test_destroy_leaves_the_vms_of_another_file_of_the_name(other: Path, vgpu_cfg: CommandLine) -> None:
    before = vgpu_cfg.look(ESTATE)
    ran = vgpu_cfg.done("destroy", "--yes", other)
    assert f"or delete it: `vgpu-cfg destroy {other.name} --delete=vm-01`" in ran.told
    assert re.search(r"created \d{4}-\d\d-\d\d \d\d:\d\d UTC by Administrator@VSPHERE.LOCAL", ran.told)
    assert vgpu_cfg.look(ESTATE) == before
    vgpu_cfg.done("apply", "--yes", other)
    assert vgpu_cfg.look(ESTATE).vms == {"vm-01", "vm-02", "bob-01"}
    vgpu_cfg.done("destroy", "--yes", other)
    assert vgpu_cfg.look(ESTATE).vms == {"vm-01", "vm-02"}
    assert vgpu_cfg.look(ESTATE).rules == before.rules
    vgpu_cfg.done("destroy", "--yes", "first.yaml")
    assert vgpu_cfg.look(ESTATE).vms == frozenset()


@pytest.mark.parametrize("command", ["apply", "destroy"])
def test_a_vm_that_is_named_is_deleted_and_no_other(command: str, other: Path, vgpu_cfg: CommandLine) -> None:
    rules = vgpu_cfg.look(ESTATE).rules
    ran = vgpu_cfg.done(command, "--yes", other, "--delete", "vm-02")
    assert vgpu_cfg.look(ESTATE).vms == {"vm-01"} | ({"bob-01"} if command == "apply" else set())
    assert vgpu_cfg.look(ESTATE).rules == rules
    # What is to be typed next leaves it out; typed again all the same, there is nothing to do.
    assert ran.out.partition("CHECK")[2].split()[-1] != "vm-02"
    assert "--delete" not in ran.out.partition("CHECK")[2]
    again = vgpu_cfg.done(command, "--yes", other, "--delete", "vm-02")
    assert "--delete vm-02: nothing to do, already deleted" in again.told


def test_only_what_is_left_is_named_again_after_a_deletion_that_failed(
    other: Path, vgpu_cfg: CommandLine
) -> None:
    vgpu_cfg.script(ESTATE, {"method": "Destroy_Task", "nth": 2, "message": "The disk is locked."})
    ran = vgpu_cfg("destroy", "--yes", other, "--delete", "vm-01", "--delete", "vm-02")
    assert ran.code == 6
    (left,) = vgpu_cfg.look(ESTATE).vms
    command = ran.out.partition("NEXT   vgpu-cfg ")[2].splitlines()[0].split()
    assert command == ["destroy", "other.yaml", f"--delete={left}"]
    vgpu_cfg.script(ESTATE)
    vgpu_cfg.done(*command, "--yes")
    assert vgpu_cfg.look(ESTATE).vms == frozenset()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("command", ["plan", "apply", "destroy", "runbook"])
def test_a_mistyped_name_deletes_nothing(command: str, other: Path, vgpu_cfg: CommandLine) -> None:
    before = vgpu_cfg.look(ESTATE)
    for name in ("vm-1", "vm-*", "VM-01", "bob-01", ""):
        ran = vgpu_cfg(
            command, other, "--delete", name, *(["--yes"] if command in ("apply", "destroy") else [])
        )
        assert ran.code == 4, name
        assert "VG011" in ran.err, name
        assert vgpu_cfg.look(ESTATE) == before, name


@pytest.mark.parametrize("command", ["plan", "apply", "runbook"])
def test_prune_deletes_nothing_and_names_what_does(command: str, other: Path, vgpu_cfg: CommandLine) -> None:
    yes = ["--yes"] if command == "apply" else []
    before = vgpu_cfg.look(ESTATE).vms
    ran = vgpu_cfg.done(command, other, "--prune", *yes)
    assert "`--prune` is now `--delete NAME`" in ran.err
    assert vgpu_cfg.look(ESTATE).vms >= before
    vgpu_cfg.done(command, other, "--prune", "--delete", "vm-01", *yes)


# ---------------------------------------------------------------- destroy shows, and takes a part


def test_a_dry_run_of_destroy_asks_nothing_and_changes_nothing(first: Path, vgpu_cfg: CommandLine) -> None:
    before = vgpu_cfg.look(ESTATE)
    ran = vgpu_cfg.done("destroy", first, "--dry-run", "--only", "vm-01")
    assert "nothing was changed" in ran.out
    assert "2 - delete" in ran.out
    assert "still in the plan file: the next apply makes it again" in ran.told
    assert vgpu_cfg.look(ESTATE) == before
    shown = json.loads(vgpu_cfg.done("destroy", first, "--dry-run", "--output", "json").out)
    assert "still in the plan file" not in vgpu_cfg.done("destroy", first, "--dry-run").told
    kinds = [change["kind"] for change in shown["plan"]["changes"]]
    assert (shown["kind"], kinds.count("destroy_vm"), kinds.count("remove_rule")) == ("plan", 2, 1)
    assert vgpu_cfg.look(ESTATE) == before
    command = ran.out.rpartition("NEXT   vgpu-cfg ")[2].split()
    vgpu_cfg.done(*command, "--yes")
    assert vgpu_cfg.look(ESTATE).vms == {"vm-02"}


def test_destroy_takes_only_what_is_chosen(first: Path, vgpu_cfg: CommandLine) -> None:
    before = vgpu_cfg.look(ESTATE)
    assert vgpu_cfg("destroy", "--yes", first, "--only", "vm-3*").code == 4
    assert vgpu_cfg.look(ESTATE) == before
    vgpu_cfg.done("destroy", "--yes", first, "--only", "vm-02")
    assert vgpu_cfg.look(ESTATE).vms == {"vm-01"}
    assert vgpu_cfg.look(ESTATE).rules == before.rules
    vgpu_cfg.done("destroy", "--yes", first, "--only", "vm-02")  # it is gone, as was asked
    vgpu_cfg.done("destroy", "--yes", first, "--only", "host:esx-a100-01")
    assert (vgpu_cfg.look(ESTATE).vms, vgpu_cfg.look(ESTATE).rules) == (frozenset(), frozenset())
