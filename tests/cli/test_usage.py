"""`inventory --hours` as it is typed, on the lab: power events of a run, and what was there before."""

from __future__ import annotations

import csv
import json

from tests.cli.command_line import CommandLine

SERVER = ("--server", "lab:mixed-fleet")


def test_text_json_and_csv_tell_the_same(vgpu_cfg: CommandLine) -> None:
    found = json.loads(
        vgpu_cfg.done("inventory", "--hours", "30d", *SERVER, "--by", "vm", "--output", "json").out
    )
    assert found["kind"] == "usage"
    rows = {row["name"]: row["gpu_hours"] for row in found["rows"]}
    assert rows["research-01"] == 360.0  # half of a GPU for 30 days
    table = list(
        csv.DictReader(
            vgpu_cfg.done("inventory", "--hours", "30d", *SERVER, "--by", "vm", "--csv").out.splitlines()
        )
    )
    assert {row["vm"]: float(row["gpu_hours"]) for row in table} == rows
    text = vgpu_cfg.done("inventory", "--hours", "30d", *SERVER, "--by", "vm").out
    assert f"{sum(rows.values()):,.1f} GPU-hours" in text


def test_hours_are_told_by_a_custom_attribute(vgpu_cfg: CommandLine) -> None:
    found = json.loads(
        vgpu_cfg.done(
            "inventory", "--hours", "30d", *SERVER, "--by", "attribute:owner", "--output", "json"
        ).out
    )
    assert [row["name"] for row in found["rows"]] == ["research", "desktops", ""]


def test_what_is_mistyped_is_told(vgpu_cfg: CommandLine) -> None:
    for words, said in (
        (["--by", "plans"], "'plans' is not one of plan, folder, vm, owner or attribute:NAME"),
        (["--by", "attribute:Ownr"], "no VM has the custom attribute 'Ownr'; did you mean 'owner'?"),
        (["--hours", "1y"], "neither a period such as 7d"),
        (["--csv", "--output", "json"], "specify either --csv or --output json"),
    ):
        ran = vgpu_cfg("inventory", "--hours", "30d", *SERVER, *words, COLUMNS="200")
        assert ran.code == 2
        assert said in ran.err + ran.out
