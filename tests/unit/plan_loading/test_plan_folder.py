"""Which files of a folder are plans, and what two plans of one folder may not both have."""

from __future__ import annotations

from pathlib import Path

import pytest

from vgpu_cfg.errors import DocumentError
from vgpu_cfg.plan_loading import load_plan
from vgpu_cfg.plan_loading.folder import find_clashes, find_plans

HEAD = "version: 1\nname: {name}\nvcenter: {vcenter}\n"
ID = "3f0c9a7e-52d1-4b86-9e24-000000000001"


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return folder


@pytest.mark.parametrize(
    ("files", "plans"),
    [
        ({"a.yaml": "version: 1\nname: a\n", "b.yml": "version: 1\nname: b\n"}, ["a.yaml", "b.yml"]),
        ({"a.yaml": "vms: []\n"}, ["a.yaml"]),
        ({"a.yaml": "training: {}\n"}, ["a.yaml"]),
        ({"a.yaml": "version: 1\nname: a\n", "site.yaml": "version: 1\ndefaults: {}\n"}, ["a.yaml"]),
        ({"a.yaml": "version: 1\nname: a\n", "ci.yaml": "name: build\njobs: {}\n"}, ["a.yaml"]),
        ({"a.yaml": "version: 1\nname: a\n", ".hidden.yaml": "vms: []\n", "a.json": "{}"}, ["a.yaml"]),
        ({"a.yaml": "version: 1\nname: a\n", "more/b.yaml": "vms: []\n"}, ["a.yaml"]),
        # what another file includes is told there, if anything is wrong with it
        ({"a.yaml": "vms: []\ninclude: b.yaml\n", "b.yaml": "vms: []\n"}, ["a.yaml"]),
        (
            {"a.yaml": "vms: []\ninclude: [b.yaml]\n", "b.yaml": "include: c.yaml\n", "c.yaml": "vms: ["},
            ["a.yaml"],
        ),
        # what cannot be read might be a plan
        ({"a.yaml": "version: 1\nname: a\n", "b.yaml": "name: [\n"}, ["a.yaml", "b.yaml"]),
        (
            {"a.yaml": "version: 1\nname: a\n", "b.yaml": "", "c.yaml": "[vms]"},
            ["a.yaml", "b.yaml", "c.yaml"],
        ),
    ],
)
def test_a_plan_is_known_by_its_top_level(files: dict[str, str], plans: list[str], tmp_path: Path) -> None:
    assert [path.name for path in find_plans(write(tmp_path, files))] == plans


@pytest.mark.parametrize("files", [{}, {"site.yaml": "defaults: {}\n"}])
def test_a_folder_without_a_plan_is_told(files: dict[str, str], tmp_path: Path) -> None:
    with pytest.raises(DocumentError, match="this folder contains no plan files"):
        find_plans(write(tmp_path, files))


def plans_of(tmp_path: Path, *texts: str) -> dict[str, DocumentError]:
    folder = write(tmp_path, {f"{letter}.yaml": text for letter, text in zip("abc", texts, strict=False)})
    clashes = find_clashes({path: load_plan(path).desired for path in find_plans(folder)})
    return {path.name: error for path, error in clashes.items()}


def plan(name: str, vm: str, vcenter: str = "prod", more: str = "") -> str:
    line = f"vms: [{{name: '{vm}', template: t, gpus: grid_a100-40c{more}}}]\n"
    return HEAD.format(name=name, vcenter=vcenter) + line


@pytest.mark.parametrize(
    "second",
    [
        plan("b", "x-02"),
        plan("b", "x-01", vcenter="campus"),
        plan("b", "x-01", vcenter="{server: prod, datacenter: dc2}"),
        plan("b", "x-01", more=", folder: other"),
    ],
)
def test_plans_with_vms_of_their_own_do_not_clash(second: str, tmp_path: Path) -> None:
    assert plans_of(tmp_path, plan("a", "x-01"), second) == {}


def test_a_vm_that_two_plans_name_is_a_fault_of_both_with_its_places(tmp_path: Path) -> None:
    clashes = plans_of(tmp_path, plan("a", "x-{01..03}"), plan("b", "x-03"), plan("c", "x-04"))
    assert clashes.keys() == {"a.yaml", "b.yaml"}
    (fault,) = clashes["b.yaml"].faults
    assert (Path(fault.file).name, fault.line) == ("b.yaml", 4)
    assert fault.message == f"the VM x-03 is also used by {tmp_path / 'a.yaml'}:4:7"


def test_two_plans_of_one_id_are_a_fault_of_both(tmp_path: Path) -> None:
    texts = [f"id: {ID}\n" + plan(name, f"{name}-01") for name in ("a", "b")]
    clashes = plans_of(tmp_path, *texts)
    assert clashes.keys() == {"a.yaml", "b.yaml"}
    assert f"the ID {ID} is also used by" in clashes["a.yaml"].message
    assert plans_of(tmp_path, plan("a", "a-01"), plan("b", "b-01")) == {}
