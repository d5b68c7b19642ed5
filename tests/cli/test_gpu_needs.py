"""`gpus: 10GiB` in all commands that read a plan file, and a size without a board where people type one."""

from __future__ import annotations

import json

import pytest

from tests.cli.command_line import CommandLine

NEED = "plans/by-need.yaml"
LAB = ("--server", "lab:two-a100")


def test_what_a_need_got_is_kept_given_up_taken_in_exported_and_handed_over(vgpu_cfg: CommandLine) -> None:
    vgpu_cfg.done("apply", NEED, "--yes")
    for words in (("forget", NEED, "--yes"), ("import", NEED, "--yes"), ("plan", NEED, "--exit-code")):
        vgpu_cfg.done(*words)
    vgpu_cfg.done("export", "--vm", "n-*", *LAB, "-o", "there.yaml")
    assert "gpus: grid_a100-10c" in (vgpu_cfg.folder / "there.yaml").read_text(encoding="utf-8")
    assert "Gres=gpu:a100-10c:1" in vgpu_cfg.done("hand-over", NEED, "--format", "slurm").out


def test_a_share_counts_a_need(vgpu_cfg: CommandLine) -> None:
    for share, code in ((0.5, 0), (0.25, 4)):
        vgpu_cfg.write("quotas.yaml", f"{{version: 1, folders: {{training: {{A100: {share}}}}}}}")
        ran = vgpu_cfg("plan", NEED, "--quotas", "quotas.yaml")
        assert (ran.code, "VG260" in ran.told) == (code, code == 4)


@pytest.mark.parametrize("size", ["10c", "10GB", "10gb"])
def test_a_size_without_a_board_is_answered_with_what_is_free(size: str, vgpu_cfg: CommandLine) -> None:
    text = (vgpu_cfg.folder / NEED).read_text(encoding="utf-8")
    bare = vgpu_cfg.write("bare.yaml", text.replace("10GiB", size))
    refused = vgpu_cfg("plan", bare)
    assert (refused.code, "use 10GiB for any board" in refused.told) == (3, True)
    assert "free now: grid_a100-10c (8)" in refused.told
    assert f"`vgpu-cfg fit {size} --server ADDRESS` lists" in vgpu_cfg("validate", bare).told
    (host,) = json.loads(vgpu_cfg.done("fit", size, *LAB, "--output=json").out)["hosts"]
    (same,) = json.loads(vgpu_cfg.done("fit", "10GiB", *LAB, "--output=json").out)["hosts"]
    assert host == same


def test_a_size_of_mig_counts_mig_only(vgpu_cfg: CommandLine) -> None:
    for words, total in ((("3g.20gb", *LAB), 0), (("1g.5gb", "--server", "lab:mig-a100"), 14)):
        assert json.loads(vgpu_cfg.done("fit", *words, "--output=json").out)["total"] == total
