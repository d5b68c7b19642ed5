"""`hand-over`: what it prints and writes of a plan on the lab, before and after the VMs are there."""

from __future__ import annotations

import json

import pytest

from tests.cli.command_line import CommandLine
from vgpu_cfg.cli.commands.export import ExportFormat
from vgpu_cfg.documents import read_document
from vgpu_cfg.staging.export import FORMATS

PLAN = """version: 1
name: pair
vcenter: lab:two-a100
vms:
- name: hvd-{01..02}
  template: ubuntu-22.04-efi
  cluster: gpu
  cpus: 16
  memory: 64GiB
  gpus: grid_a100-40c
  nics: [{network: vm-network, ip: "10.20.0.1{i}/24"}]
training: {workers: hvd-*, framework: none}
"""
BARE = """version: 1
name: bare
vcenter: lab:two-a100
vms: [{name: a, template: ubuntu-22.04-efi, cluster: gpu, gpus: grid_a100-40c, nics: [vm-network]}]
"""


def test_the_command_has_every_format_and_no_other() -> None:
    assert [one.value for one in ExportFormat] == list(FORMATS)


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_can_be_had_of_a_plan_that_is_not_carried_out_yet(
    name: str, vgpu_cfg: CommandLine
) -> None:
    path = vgpu_cfg.write("pair.yaml", PLAN)
    before = vgpu_cfg.look("two-a100")
    ran = vgpu_cfg.done("hand-over", path, "--format", name, "--identity-file", "~/.ssh/id")
    assert ran.out.strip()
    assert "NOTE not created yet; details are from the plan file: hvd-{01..02}" in ran.told
    assert vgpu_cfg.look("two-a100") == before


def test_a_host_file_can_be_piped(vgpu_cfg: CommandLine) -> None:
    path = vgpu_cfg.write("pair.yaml", PLAN)
    ran = vgpu_cfg.done("hand-over", path, "--format", "horovod")
    assert ran.out == "hvd-01 slots=1\nhvd-02 slots=1\n"


def test_several_files_are_printed_under_their_names_or_written_into_a_folder(
    vgpu_cfg: CommandLine,
) -> None:
    path = vgpu_cfg.write("pair.yaml", PLAN)
    printed = vgpu_cfg.done("hand-over", path, "--format", "tf-config", "--port", "2000").out
    assert printed.splitlines()[0] == "==> tf-config-hvd-01.json <=="
    told = vgpu_cfg.done("hand-over", path, "--format", "tf-config", "--to", "new/folder")
    assert told.out == ""
    folder = vgpu_cfg.folder / "new" / "folder"
    texts = [(folder / f"tf-config-hvd-0{n}.json").read_text(encoding="utf-8") for n in (1, 2)]
    assert [json.loads(text)["task"]["index"] for text in texts] == [0, 1]
    assert json.loads(texts[0])["cluster"] == {"worker": ["10.20.0.11:12345", "10.20.0.12:12345"]}


def test_an_inventory_takes_the_account_that_is_named(vgpu_cfg: CommandLine) -> None:
    path = vgpu_cfg.write("pair.yaml", PLAN)
    words = ("--login", "anna", "--identity-file", "~/.ssh/it's mine")
    vgpu_cfg.done("hand-over", path, "--format", "ansible", "--to", ".", *words)
    data = read_document(vgpu_cfg.folder / "inventory.yaml").data
    hosts = data["all"]["children"]["pair"]["children"]["pair_workers"]["hosts"]
    assert hosts["hvd-01"]["ansible_host"] == "10.20.0.11"
    assert hosts["hvd-01"]["ansible_user"] == "anna"
    assert hosts["hvd-01"]["ansible_ssh_private_key_file"] == "~/.ssh/it's mine"


def test_a_vm_whose_address_nobody_knows_cannot_be_logged_in_to(vgpu_cfg: CommandLine) -> None:
    path = vgpu_cfg.write("bare.yaml", BARE)
    ran = vgpu_cfg("hand-over", path, "--format", "ansible")
    assert (ran.code, ran.out) == (4, "")
    assert ran.err.splitlines() == [
        "ERROR  a's address is unknown",
        "WHERE  vm a",
        "DO     power it on and wait for VMware Tools, or set `ip` for its NIC in the plan file",
    ]
    assert vgpu_cfg.done("hand-over", path, "--format", "mpi").out == "a slots=1\n"


def test_a_plan_without_gpus_has_nobody_to_hand_over(vgpu_cfg: CommandLine) -> None:
    path = vgpu_cfg.write("bare.yaml", BARE.replace(" gpus: grid_a100-40c,", ""))
    ran = vgpu_cfg("hand-over", path, "--format", "slurm")
    assert ran.code == 4
    assert "the plan has no VM with GPUs and no `training`" in ran.told


def test_a_recording_is_as_good(vgpu_cfg: CommandLine) -> None:
    path = vgpu_cfg.write("pair.yaml", PLAN)
    words = ("hand-over", path, "--format", "dstack", "--identity-file", "~/.ssh/id")
    live = vgpu_cfg.done(*words).out
    vgpu_cfg.done("inventory", "--server", "lab:two-a100", "--record", "site.json")
    assert vgpu_cfg.done(*words, "--from", "site.json").out == live


def test_a_host_without_a_key_is_none_for_skypilot(vgpu_cfg: CommandLine) -> None:
    path = vgpu_cfg.write("pair.yaml", PLAN)
    ran = vgpu_cfg("hand-over", path, "--format", "skypilot")
    assert (ran.code, ran.out) == (4, "")
    assert ran.err.splitlines() == [
        "ERROR  no private key file is known for vgpu-cfg, and SkyPilot requires one for every host",
        "WHERE  vm hvd-01",
        "DO     specify an account and the path to its key: --login USER --identity-file PATH",
    ]


def test_files_of_a_vm_that_was_made_no_longer_mark_it(vgpu_cfg: CommandLine) -> None:
    path = vgpu_cfg.write("bare.yaml", BARE)
    before = vgpu_cfg.done("hand-over", path, "--format", "slurm").out
    assert "# a does not exist yet: it has no address." in before
    vgpu_cfg.done("apply", path, "--yes")
    after = vgpu_cfg.done("hand-over", path, "--format", "slurm").out
    assert "is not made yet" not in after
    assert "SwitchName=esx" in after


def test_a_port_is_of_those_formats_that_have_one(vgpu_cfg: CommandLine) -> None:
    path = vgpu_cfg.write("pair.yaml", PLAN)
    ran = vgpu_cfg("hand-over", path, "--format", "slurm", "--port", "5")
    assert ran.code == 2
    assert "--format torchrun or tf-config" in ran.told


def test_a_folder_that_cannot_be_made_is_told(vgpu_cfg: CommandLine) -> None:
    path = vgpu_cfg.write("pair.yaml", PLAN)
    vgpu_cfg.write("taken", "x")
    ran = vgpu_cfg("hand-over", path, "--format", "slurm", "--to", "taken/folder")
    assert ran.code == 3
    assert "taken" in ran.err


def test_a_file_is_no_folder_to_write_to(vgpu_cfg: CommandLine) -> None:
    path = vgpu_cfg.write("pair.yaml", PLAN)
    ran = vgpu_cfg("hand-over", path, "--format", "torchrun", "--to", path)
    assert ran.code == 2
    assert "is a file; specify a folder" in " ".join(ran.told.split())
    assert (vgpu_cfg.folder / "pair.yaml").read_text(encoding="utf-8") == PLAN
