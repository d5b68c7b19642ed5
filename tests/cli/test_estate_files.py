"""Estate files of one name: each has a state of its own, and the one of an earlier release is still found."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.command_line import CommandLine

TEXT = """\
about: {about}
clusters: [{{name: gpu, hosts: [{{name: esx.lab, gpus: [{{board: A100}}]}}]}}]
datastores: [{{name: ds, capacity: 4TiB, free: 3TiB}}]
templates: [{{name: ubuntu-22.04-efi, hardware_version: 19, cpus: 4, memory: 8GiB, disks: [64GiB]}}]
"""


def plan(run: CommandLine, estate: str, name: str) -> Path:
    """Write an estate file, and a plan of one VM there; return the plan file."""
    path = run.folder / estate
    path.parent.mkdir(exist_ok=True)
    path.write_text(TEXT.format(about=name), encoding="utf-8")
    vm = f"{{name: {name}-1, template: ubuntu-22.04-efi, gpus: grid_a100-40c}}"
    return run.write(f"{name}.yaml", f"version: 1\nname: {name}\nvcenter: lab:{estate}\nvms: [{vm}]\n")


@pytest.mark.parametrize("second", ["b/estate.yaml", "a/estate.yml"])
def test_two_estate_files_of_one_name_have_two_states(second: str, vgpu_cfg: CommandLine) -> None:
    plans = plan(vgpu_cfg, "a/estate.yaml", "first"), plan(vgpu_cfg, second, "second")
    for one in plans:
        vgpu_cfg.done("apply", "--yes", one)
    for one in plans:
        assert vgpu_cfg("plan", one, "--exit-code").code == 0
    vgpu_cfg.done("lab", "reset", second)
    assert [vgpu_cfg("plan", one, "--exit-code").code for one in plans] == [0, 10]


def test_a_file_with_the_name_of_a_built_in_estate_takes_nothing_of_it(vgpu_cfg: CommandLine) -> None:
    own = plan(vgpu_cfg, "one-a100.yaml", "first")
    vgpu_cfg.done("apply", "--yes", own)
    vgpu_cfg.done("apply", "--yes", "plans/small.yaml")
    assert vgpu_cfg("plan", own, "--exit-code").code == 0
    assert vgpu_cfg("plan", "plans/small.yaml", "--exit-code").code == 0
    vgpu_cfg.done("lab", "reset")
    assert vgpu_cfg("plan", own, "--exit-code").code == 10


def test_an_estate_file_that_was_edited_says_how_to_start_over(vgpu_cfg: CommandLine) -> None:
    own = plan(vgpu_cfg, "a/estate.yaml", "first")
    vgpu_cfg.done("apply", "--yes", own)
    (vgpu_cfg.folder / "a/estate.yaml").write_text(TEXT.format(about="edited"), encoding="utf-8")
    ran = vgpu_cfg("plan", own)
    assert ran.code == 3
    assert "`vgpu-cfg lab reset a/estate.yaml`" in ran.told
    vgpu_cfg.done("lab", "reset", "a/estate.yaml")
    assert vgpu_cfg("plan", own, "--exit-code").code == 10
