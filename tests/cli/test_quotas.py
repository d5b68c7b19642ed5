"""Shares of the pool on the command line: every command that plans is held to them."""

from __future__ import annotations

import json

from tests.cli.command_line import CommandLine

FULL = "examples/full-vgpu.yaml"


def test_a_contexts_shares_hold_for_a_plan_that_was_reviewed_without_them(vgpu_cfg: CommandLine) -> None:
    vgpu_cfg.done("plan", FULL, "-o", "plan.json")
    vgpu_cfg.write("quotas.yaml", "{version: 1, folders: {training: {A100: 0.5}}}")
    config = vgpu_cfg.write("config.yaml", "contexts: {lab: {server: lab:two-a100, quotas: quotas.yaml}}")
    for words in (("apply", "--yes", "plan.json"), ("plan", FULL), ("runbook", FULL)):
        ran = vgpu_cfg(*words, VGPU_CFG_CONFIG=str(config))
        assert (ran.code, "VG260" in ran.err) == (4, True), words


def test_what_is_held_after_a_plan_is_what_the_pool_tells_then(vgpu_cfg: CommandLine) -> None:
    vgpu_cfg.write("quotas.yaml", "{version: 1, folders: {training: {A100: 1}}, others: {'*': 0}}")
    shares = ("--quotas", "quotas.yaml")
    made = vgpu_cfg.done("apply", "--yes", FULL, *shares, "--output", "json")
    assert json.loads(made.out)["kind"]
    pool = json.loads(
        vgpu_cfg.done("inventory", "--gpus", *shares, "--server", "lab:two-a100", "--output", "json").out
    )
    held = [(one["name"], one["held_gpus"], one["vms"]) for one in pool["shares"]]
    assert held == [("training", 1.0, ["big-01"]), ("", 0.0, [])]
    status = vgpu_cfg.done("status", FULL, *shares, "--output", "json").out
    assert "1 GPU of A100 held after this plan, of at most 1 GPU" in status
    refused = vgpu_cfg("inventory", *shares, "--server", "lab:two-a100")
    assert (refused.code, "it belongs to --gpus" in refused.err) == (2, True)
