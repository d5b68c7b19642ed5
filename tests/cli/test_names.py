"""Names that vCenter does not know: each is told before anything is touched, with the one that was meant."""

from __future__ import annotations

import pytest

from tests.cli.command_line import CommandLine
from vgpu_cfg.model.observed.inventory import Folder
from vgpu_cfg.planning.estate.site import find_named

RIGHT = {
    "template": "ubuntu-22.04-efi",
    "cluster": "gpu",
    "folder": "training",
    "datastore": "vsan",
    "nics": "[vm-network]",
}
WRONG = [
    ("template", "ubuntu-22.04-efy", "ubuntu-22.04-efi"),
    ("cluster", "gpus", "gpu"),
    ("folder", "train", "training"),
    ("datastore", "vsam", "vsan"),
    ("nics", "[vm-netwrk]", "vm-network"),
    ("place", "{hosts: [esx-a100-02.lab]}", "esx-a100-01.lab"),
]


def plan_of(**names: str) -> str:
    keys = "".join(f", {key}: {name}" for key, name in {**RIGHT, **names}.items())
    return (
        "version: 1\nname: names\nvcenter: lab:two-a100\nvms:\n"
        f"- {{name: a-01, cpus: 4, memory: 16GiB, gpus: grid_a100-10c{keys}}}\n"
    )


def test_with_the_right_names_it_fits(vgpu_cfg: CommandLine) -> None:
    vgpu_cfg.done("plan", vgpu_cfg.write("plan.yaml", plan_of()))


@pytest.mark.parametrize(("key", "name", "meant"), WRONG)
def test_a_name_that_is_not_there_is_told_with_the_one_that_was_meant(
    key: str, name: str, meant: str, vgpu_cfg: CommandLine
) -> None:
    before = vgpu_cfg.look("two-a100")
    ran = vgpu_cfg("apply", "--yes", vgpu_cfg.write("plan.yaml", plan_of(**{key: name})))
    assert ran.code == 4, ran.told
    assert name.strip("[]{}").removeprefix("hosts: [") in ran.told
    assert meant in ran.told
    assert vgpu_cfg.look("two-a100") == before


@pytest.mark.parametrize(
    "command", [["plan"], ["apply", "--yes"], ["destroy", "--yes"]], ids=lambda words: words[0]
)
def test_a_datacenter_that_is_not_there(command: list[str], vgpu_cfg: CommandLine) -> None:
    plan = vgpu_cfg.write("plan.yaml", plan_of())
    ran = vgpu_cfg(*command, plan, "--datacenter", "dc2")
    assert ran.code == 4, ran.told
    assert "'dc2'" in ran.told
    vgpu_cfg.done(*command, plan, "--datacenter", "dc1")


def test_nor_is_it_shown(vgpu_cfg: CommandLine) -> None:
    words = ["inventory", "--server", "lab:two-a100", "--datacenter"]
    ran = vgpu_cfg(*words, "dc2")
    assert ran.code == 5
    assert "DO     did you mean 'dc1'?" in ran.err
    vgpu_cfg.done(*words, "dc1")


@pytest.mark.parametrize(
    ("template", "code"),
    [("ubuntu-22.04-efi", 4), ("golden/ubuntu-22.04-efi", 0), ("/dc1/vm/older/ubuntu-22.04-efi", 0)],
)
def test_a_name_that_is_there_twice_needs_its_path(template: str, code: int, vgpu_cfg: CommandLine) -> None:
    plan = vgpu_cfg.write("plan.yaml", plan_of(template=template))
    ran = vgpu_cfg("plan", plan, "--server", "lab:estates/two-templates.yaml")
    assert ran.code == code, ran.told
    for path in ("/dc1/vm/golden/ubuntu-22.04-efi", "/dc1/vm/older/ubuntu-22.04-efi"):
        assert (path in ran.told) == (code == 4)


SLASHED = "lab:estates/slashed-names.yaml"


@pytest.mark.parametrize(
    ("folder", "network"),
    [
        ("students/ML/26", "vlan 10/20"),
        ("ML/26", "network/vlan 10/20"),
        ("students/ML%2f26", "vlan 10%2f20"),
        ("/dc1/vm/students/ML%2f26", "/dc1/network/vlan 10%2f20"),
        ("/dc1/vm/students/ML/26", "/DC1/network/VLAN 10/20"),
    ],
)
def test_a_slash_may_be_part_of_a_name(folder: str, network: str, vgpu_cfg: CommandLine) -> None:
    names = {"template": "ubuntu/efi", "cluster": "gpu/a100", "datastore": "ssd/01"}
    text = plan_of(**names, folder=folder, nics=f"[{network}]").replace("lab:two-a100", SLASHED)
    plan = vgpu_cfg.write("plan.yaml", text)
    vgpu_cfg.done("apply", "--yes", plan)
    assert "in sync" in vgpu_cfg.done("plan", plan).out
    assert vgpu_cfg.done("explain", "--vm", "ML/26/a-01", "--server", SLASHED).out.startswith(
        "NO FAILED TASK"
    )


def test_a_name_with_a_slash_and_a_path_alike_are_ambiguous_until_the_path_is_written() -> None:
    folders = [
        Folder(moid="group-1", name="ML/26", inventory_path="/dc1/vm/ML%2f26", datacenter="dc1"),
        Folder(moid="group-2", name="26", inventory_path="/dc1/vm/ML/26", datacenter="dc1"),
    ]
    assert [found.moid for found in find_named("ML/26", folders)] == ["group-2", "group-1"]
    assert [found.moid for found in find_named("/dc1/vm/ML/26", folders)] == ["group-2"]
    assert [found.moid for found in find_named("ml%2F26", folders)] == ["group-1"]
    assert [found.moid for found in find_named("/dc1/vm/ML%2f26/", folders)] == ["group-1"]
    assert find_named("L/26", folders) == []
