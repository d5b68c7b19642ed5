"""`verify --target-branch` on the lab: what is found of hosts, guests and images, and what stays unknown."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command_line import CommandLine
from tests.cli.test_verify import PLAN, SECRETS, broken, vm_of
from vgpu_cfg.lab.guest.system.creation import guest_of


@pytest.fixture(scope="module")
def applied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("applied")
    with pytest.MonkeyPatch.context() as patch:
        CommandLine(folder, patch).done("apply", PLAN, "--yes", **SECRETS)
    return folder / "state"


@pytest.fixture
def trained(vgpu_cfg: CommandLine, applied: Path) -> CommandLine:
    shutil.copytree(applied, vgpu_cfg.state_folder)
    vgpu_cfg.keep_id(PLAN)
    return vgpu_cfg


def parts(run: CommandLine, vm: str, branch: str = "R595", code: int = 0) -> dict[str, dict[str, Any]]:
    ran = run("verify", PLAN, "--target-branch", branch, "--output", "json", **SECRETS)
    assert ran.code == code, ran.told
    (stack,) = [one for one in json.loads(ran.out)["stacks"] if one["vm"] == vm]
    return {part["name"]: part for part in stack["parts"]}


def test_what_host_guest_and_image_tell(trained: CommandLine) -> None:
    found = parts(trained, "hvd-01")
    assert found["host driver"]["found"] == "580.95.02"
    assert found["guest driver"]["found"] == "580.95.05"
    assert (found["guest driver"]["today"]["fits"], found["guest driver"]["target"]["fits"]) == ("yes", "yes")
    assert found["license server"]["today"]["fits"] == "yes"
    assert found["license server"]["target"]["fits"] == "unknown"
    names = ("image CUDA", "image NCCL", "framework")
    assert [found[name]["found"] for name in names] == ["11.4.0.031", "2.10.3", "Horovod 0.22.0"]
    assert {found[name]["target"]["fits"] for name in names} == {"yes"}


def test_a_guest_that_is_silent_is_unknown_and_why_is_told(trained: CommandLine) -> None:
    broken(trained, lambda lab: setattr(vm_of(lab, "hvd-02"), "power_state", "poweredOff"))
    ran = trained("verify", PLAN, "--target-branch", "R595", **SECRETS)
    assert ran.code == 0
    assert "guest not inspected: hvd-02 is powered off" in ran.out
    assert "Unknown does not mean supported." in ran.out


def test_a_guest_that_the_branch_shuts_out_ends_with_8(trained: CommandLine) -> None:
    broken(trained, lambda lab: setattr(guest_of(vm_of(lab, "hvd-01")), "driver", "570.133.20"))
    ran = trained("verify", PLAN, "--target-branch", "550", "--vm", "hvd-01", **SECRETS)
    assert ran.code == 8
    assert "Not compatible: hvd-01: guest driver" in " ".join(ran.out.split())


def test_the_page_says_the_same(trained: CommandLine, tmp_path: Path) -> None:
    page = tmp_path / "branch.html"
    trained.done("verify", PLAN, "--target-branch", "R595", "--report", str(page), **SECRETS)
    text = page.read_text(encoding="utf-8")
    assert "R595 is vGPU 20, a production branch" in text
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    assert found is not None
    told = trained.done("verify", PLAN, "--target-branch", "R595", "--output=json", **SECRETS).out
    assert {**json.loads(found[1]), "begun": ""} == {**json.loads(told), "begun": ""}


@pytest.mark.parametrize("word", ["R59", "vgpu20", "R5955", "\u0665\u0669\u0665"])
def test_what_is_no_branch_is_refused(vgpu_cfg: CommandLine, word: str) -> None:
    ran = vgpu_cfg("verify", PLAN, "--target-branch", word)
    assert ran.code == 2
    assert "is not a branch such as R595" in " ".join(ran.err.split())


def test_a_branch_of_which_no_document_says_anything_is_no_success(vgpu_cfg: CommandLine) -> None:
    vgpu_cfg.done("apply", "examples/two-vgpus.yaml", "--yes")
    nothing = vgpu_cfg("verify", "examples/two-vgpus.yaml", "--target-branch", "R999")
    assert (nothing.code, "R999 is not a documented branch" in nothing.out) == (9, True)
    nobody = vgpu_cfg("verify", "examples/two-vgpus.yaml", "--target-branch", "R595", "--vm", "nope")
    assert (nobody.code, "no VM with GPUs matches nope" in nobody.err) == (5, True)
