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
    assert "1 GPU of A100 in use after this plan; the limit is 1 GPU" in status
    refused = vgpu_cfg("inventory", *shares, "--server", "lab:two-a100")
    assert (refused.code, "requires --gpus" in refused.err) == (2, True)


def test_fit_says_how_many_a_share_still_allows_and_plan_keeps_to_it(vgpu_cfg: CommandLine) -> None:
    vgpu_cfg.write("quotas.yaml", "{version: 1, folders: {training: {A100: 1}}, owners: {ml: {A100: 2}}}")
    shares = ("--quotas", "quotas.yaml")
    asked = ("fit", "--plan", FULL, "--output", "json")
    assert json.loads(vgpu_cfg.done(*asked).out)["allowed"] == 2
    answer = json.loads(vgpu_cfg.done(*asked, *shares).out)
    assert [(one["name"], one["fit"]) for one in answer["shares"]] == [("training", 1)]
    assert (answer["total"], answer["allowed"]) == (2, 1)
    vgpu_cfg.done("apply", "--yes", FULL, *shares)
    none = vgpu_cfg("fit", "--plan", FULL, *shares, "--exit-code", COLUMNS="300")
    assert none.code == 10
    held = "folder training: 1 GPU of A100 already in use by big-01; the limit is 1 GPU (quotas.yaml:1)"
    assert f"SHARE 0 for {held}" in none.told
    assert "1 more fits on 1 host; a plan may use 0 of them; not enforced by vCenter" in none.told
    whoever = vgpu_cfg.done("fit", "grid_a100-40c", "--server", "lab:two-a100", *shares, "--exit-code").told
    assert "0 for folder training" in whoever
    assert "1 for owner ml: 0 GPUs of A100 already in use; the limit is 2 GPUs" in whoever


def test_shares_of_one_context_are_told_beside_one_without(vgpu_cfg: CommandLine) -> None:
    vgpu_cfg.write("quotas.yaml", "{version: 1, folders: {training: {A100: 0}}}")
    a, b = "a: {server: lab:two-a100, quotas: quotas.yaml}", "b: {server: lab:mig-a100}"
    config = str(vgpu_cfg.write("config.yaml", f"contexts: {{{a}, {b}}}"))
    asked = ("fit", "--plan", FULL, "--context", "*", "--output", "json")
    total = json.loads(vgpu_cfg.done(*asked, VGPU_CFG_CONFIG=config).out)["total"]
    assert (total["fit"], total["allowed"]) == (2, 0)


def test_doctor_counts_licenses(vgpu_cfg: CommandLine) -> None:
    vgpu_cfg.done("apply", "--yes", "plans/pair.yaml")
    words = ("doctor", "--quotas", "quotas.yaml", "--server", "lab:two-a100")
    vgpu_cfg.write("quotas.yaml", "{version: 1, licences: {nvaie: 2}}")
    assert "LICENSES nvaie 2 of 2 needed" in vgpu_cfg.done(*words).out
    vgpu_cfg.write("quotas.yaml", "{version: 1, licences: {nvaie: 1}}")
    assert "2 nvaie licenses needed by hvd-{01..02}" in vgpu_cfg.done(*words).told
    health = json.loads(vgpu_cfg.done(*words, "--output", "json").out)
    assert "licenses" in {one["kind"] for one in health["ailments"]}
    (pool,) = health["licences"]
    assert (pool["product"], pool["count"], pool["needed"], pool["per"]) == ("nvaie", 1, 2, "vgpu")
    assert pool["vms"] == ["hvd-01", "hvd-02"]
