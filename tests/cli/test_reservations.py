"""Reservations on the lab: written before a plan's time, kept from others, no lock, and given back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.cli.command_line import CommandLine

LAB = ("--server", "lab:two-a100")
TWO = "examples/two-vgpus.yaml"


def timed(run: CommandLine, begins: str, ends: str = "2099-01-31T18:00Z") -> Path:
    """Write a plan of one VM with its time."""
    text = (run.folder / "examples/full-vgpu.yaml").read_text(encoding="utf-8")
    return run.write("timed.yaml", text.replace("vms:", f"from: {begins}\nuntil: {ends}\nvms:"))


def reserved(run: CommandLine) -> list[dict[str, Any]]:
    found = json.loads(run.done("inventory", "--reservations", *LAB, "--output", "json").out)
    rows: list[dict[str, Any]] = found["reservations"]
    return rows


def test_a_plan_is_reserved_for_then_made_then_given_back(vgpu_cfg: CommandLine) -> None:
    plan = timed(vgpu_cfg, "2098-01-01T08:00+01:00")
    vgpu_cfg.done("plan", plan, "-o", "plan.json")
    saved = json.loads((vgpu_cfg.folder / "plan.json").read_text(encoding="utf-8"))
    assert [change["kind"] for change in saved["changes"]] == ["set_reservation"]
    vgpu_cfg.done("apply", "--yes", "plan.json")
    assert [(row["plan"], row["gpus"], row["state"], row["running"]) for row in reserved(vgpu_cfg)] == [
        ("full-vgpu", 1, "later", 0)
    ]
    assert vgpu_cfg("plan", plan, "--exit-code").code == 0
    waits = "reserved: starts 2098-01-01 07:00 UTC"
    told = [vgpu_cfg.done(word, plan).out for word in ("plan", "status")]
    assert [(waits in one, "in sync" in one) for one in told] == [(True, False)] * 2
    assert "no run holds locks" in vgpu_cfg.done("unlock", *LAB).out
    refused = vgpu_cfg("plan", TWO, COLUMNS="300")
    assert (refused.code, "plan full-vgpu" in refused.err) == (4, True)
    timed(vgpu_cfg, "2020-01-01T08:00Z")
    made = vgpu_cfg.done("apply", "--yes", plan)
    assert "reservation set" in made.out
    (row,) = reserved(vgpu_cfg)
    assert (row["state"], row["running"]) == ("now", 1)
    assert vgpu_cfg("plan", plan, "--exit-code").code == 0
    gone = vgpu_cfg.done("destroy", "--yes", plan)
    assert ("reservation released" in gone.out, "reservation set" in gone.out) == (True, False)
    assert reserved(vgpu_cfg) == []
    assert vgpu_cfg("plan", TWO).code == 0


def test_a_plan_that_is_forgotten_holds_nothing(vgpu_cfg: CommandLine) -> None:
    plan = timed(vgpu_cfg, "2020-01-01T08:00Z")
    vgpu_cfg.done("apply", "--yes", plan)
    vgpu_cfg.done("forget", "--yes", plan, "--only", "big-01")
    assert [row["plan"] for row in reserved(vgpu_cfg)] == ["full-vgpu"]
    assert "release the reservation" in vgpu_cfg.done("forget", "--yes", plan).out
    assert reserved(vgpu_cfg) == []


def test_what_is_reserved_is_written_as_a_page_too(vgpu_cfg: CommandLine) -> None:
    vgpu_cfg.done("apply", "--yes", timed(vgpu_cfg, "2098-01-01T08:00Z"))
    vgpu_cfg.done("inventory", "--reservations", *LAB, "--html", "reserved.html")
    page = (vgpu_cfg.folder / "reserved.html").read_text(encoding="utf-8")
    assert "1 of A100 in gpu" in page
    assert "2098-01-01 08:00" in page
    assert reserved(vgpu_cfg) != []


def test_what_does_not_go_together_is_told(vgpu_cfg: CommandLine) -> None:
    vgpu_cfg.done("inventory", "--record", "all.json", *LAB)
    for words, code, said in (
        (("--gpus", *LAB), 2, "cannot be combined with --gpus and --host"),
        (("--from", "all.json"), 5, "a recording does not contain reservations"),
    ):
        ran = vgpu_cfg("inventory", "--reservations", *words, COLUMNS="200")
        assert (ran.code, said in ran.err) == (code, True), ran.err


def test_a_time_is_whole_and_names_its_zone(vgpu_cfg: CommandLine) -> None:
    for begins, ends, said in (
        ("2098-01-01T08:00", "2099-01-01T08:00Z", "is not a valid time with a time zone"),
        ("2098-01-01T08:00Z", "2098-01-01T09:00+01:00", "`until` must be later than `from`"),
        ("tomorrow", "2099-01-01T08:00Z", "'tomorrow' is not a valid time with a time zone"),
    ):
        ran = vgpu_cfg("validate", timed(vgpu_cfg, begins, ends))
        assert (ran.code, said in ran.err) == (3, True), ran.err
    text = (vgpu_cfg.folder / "timed.yaml").read_text(encoding="utf-8")
    half = text.replace("until: 2099-01-01T08:00Z\n", "").replace("tomorrow", "2098-01-01T08:00Z")
    vgpu_cfg.write("half.yaml", half)
    assert "`from` is set without `until`" in vgpu_cfg("validate", "half.yaml").err


def test_fit_says_what_a_plan_is_refused_for(vgpu_cfg: CommandLine) -> None:
    free = vgpu_cfg.done("fit", "grid_a100-40c", *LAB)
    vgpu_cfg.done("apply", "--yes", timed(vgpu_cfg, "2098-01-01T08:00Z"))
    ran = vgpu_cfg("fit", "grid_a100-40c", *LAB, "--exit-code", COLUMNS="300")
    words = "for A100 in gpu, 1 of 2 is free at 2098-01-01 08:00 UTC: plan full-vgpu"
    assert f"RESERVED 1 from 2098-01-01 08:00 UTC: {words}" in ran.told
    assert (ran.code, "a plan without an end date may use 1 of them" in ran.told) == (0, True)
    assert "1 of 2 is free at 2098-01-01 08:00 UTC: plan full-vgpu" in vgpu_cfg("plan", TWO).told
    none = vgpu_cfg("fit", "--plan", TWO, "--exit-code", "--output", "json")
    answer = json.loads(none.out)
    assert (none.code, answer["total"], answer["allowed"]) == (10, 1, 0)
    (row,) = answer["reserved"]
    assert (row["fit"], row["cluster"], row["board"], row["free"]) == (0, "gpu", "A100", 1)
    assert [(one["plan"], one["gpus"]) for one in row["by"]] == [("full-vgpu", 1)]
    vgpu_cfg.done("destroy", "--yes", "timed.yaml")
    assert vgpu_cfg.done("fit", "grid_a100-40c", *LAB).out == free.out


def test_fit_asks_a_plan_in_its_own_time(vgpu_cfg: CommandLine) -> None:
    vgpu_cfg.done("apply", "--yes", timed(vgpu_cfg, "2098-01-01T08:00Z", "2098-01-02T08:00Z"))
    two = (vgpu_cfg.folder / TWO).read_text(encoding="utf-8")

    def allowed(begins: str, ends: str) -> int:
        when = f"from: {begins}\nuntil: {ends}\nvms:"
        answer = vgpu_cfg.done(
            "fit", "--plan", vgpu_cfg.write("two.yaml", two.replace("vms:", when)), "--output", "json"
        )
        found: int = json.loads(answer.out)["allowed"]
        return found

    assert allowed("2020-01-01T08:00Z", "2098-01-01T08:00Z") == 1
    assert allowed("2020-01-01T08:00Z", "2098-01-01T09:00Z") == 0
    assert allowed("2098-01-01T08:00Z", "2098-01-02T08:00Z") == 0
    assert allowed("2098-01-02T08:00Z", "2098-01-03T08:00Z") == 1
