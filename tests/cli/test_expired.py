"""`apply --expired` on the lab: what is past its date is shut down, and stays off until it has another."""

from __future__ import annotations

from tests.cli.command_line import CommandLine

FULL = "examples/full-vgpu.yaml"


def test_what_is_past_its_date_is_shut_down_once_and_started_with_a_later_one(vgpu_cfg: CommandLine) -> None:
    text = (vgpu_cfg.folder / FULL).read_text(encoding="utf-8")
    past = text.replace("cpus:", "expires: 2020-01-31, cpus:")
    plan = vgpu_cfg.write("dated.yaml", past)
    nothing = vgpu_cfg.done("apply", "--yes", plan)
    assert ("VG010" in nothing.out, "clone" in nothing.out) == (True, False)
    assert "expired" in vgpu_cfg.done("status", plan).out
    vgpu_cfg.write("dated.yaml", text)
    vgpu_cfg.done("apply", "--yes", plan)
    vgpu_cfg.write("dated.yaml", past)
    ended = vgpu_cfg.done("apply", "--yes", "--expired", plan)
    assert "power off" in ended.out
    assert "clone" not in ended.out
    assert "0 changes" in vgpu_cfg.done("apply", "--yes", "--expired", plan).out
    assert vgpu_cfg("plan", plan, "--exit-code").code == 0
    vgpu_cfg.write("dated.yaml", text.replace("cpus:", "expires: 2120-01-31, cpus:"))
    assert "power on" in vgpu_cfg.done("apply", "--yes", plan).out


def test_it_stands_beside_nothing_that_changes_vms(vgpu_cfg: CommandLine) -> None:
    for words in (["--canary", "1"], ["--delete", "a"], ["--allow-move"]):
        ran = vgpu_cfg("apply", FULL, "--expired", *words)
        assert (ran.code, "only shuts VMs down" in ran.err) == (2, True), words
