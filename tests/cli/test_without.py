"""`fit --without`: what becomes of a host's VMs is what `drain` would do, and nothing is done."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cli.command_line import CommandLine
from tests.cli.test_page_files import data_of

ESTATE = "estates/work-on-hosts.yaml"
SERVER = f"--server=lab:{ESTATE}"
PLAN = "plans/work-on-hosts.yaml"
FIRST, SECOND = "esx-01.lab", "esx-02.lab"


def thought_away(vgpu_cfg: CommandLine) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(
        vgpu_cfg.done("fit", "--without", f"host:{FIRST}", SERVER, "--output=json").out
    )
    return found


def drained(vgpu_cfg: CommandLine) -> dict[str, tuple[str, str, int | None]]:
    """Return how, whereto and for how long stopped `drain` would move each VM."""
    shown = vgpu_cfg("drain", FIRST, SERVER, "--others", "--dry-run", "--output=json")
    return {
        one["vm"]["name"]: (
            "vmotion" if one["is_running"] else "off",
            one["destination"]["host_name"],
            one["stun_ms"],
        )
        for one in json.loads(shown.out)["plan"]["changes"]
        if one["kind"] == "relocate_vm"
    }


@pytest.mark.parametrize("is_hot", [True, False])
def test_it_tells_what_drain_would_do(vgpu_cfg: CommandLine, *, is_hot: bool) -> None:
    vgpu_cfg.done("apply", PLAN, "--yes")
    lab = vgpu_cfg.lab(ESTATE)
    lab.state.settings["vgpu.hotmigrate.enabled"] = is_hot
    lab.state.touch()
    lab.save()
    revision = vgpu_cfg.look(ESTATE).revision
    found = thought_away(vgpu_cfg)
    told = {
        vm["name"]: (vm["drained"]["how"], vm["drained"]["to"], vm["drained"]["stun_ms"])
        for vm in found["vms"]
    }
    assert told == drained(vgpu_cfg) != {}
    assert {vm["name"] for vm in found["vms"] if vm["has_devices"]} == {"t1", "t2"}
    assert {vm["died"]["to"] for vm in found["vms"]} == {SECOND}
    assert {vm["drained"]["how"] for vm in found["vms"] if vm["has_devices"]} == {
        "vmotion" if is_hot else "off"
    }
    text = vgpu_cfg.done("fit", "--without", f"host:{FIRST}", SERVER).told
    assert f"starts on {SECOND}" in text
    assert ("vCenter setting vgpu.hotmigrate.enabled is off" in text) is not is_hot
    assert vgpu_cfg.look(ESTATE).revision == revision


def test_what_is_bound_to_the_host_starts_nowhere(vgpu_cfg: CommandLine) -> None:
    text = (vgpu_cfg.folder / PLAN).read_text("utf-8").partition("vms:")[0]
    pinned = f"{text}vms: [{{name: p, gpus: [{{pin: '0000:e3:00.0'}}], place: {{hosts: {FIRST}}}}}]\n"
    vgpu_cfg.done("apply", vgpu_cfg.write("pinned.yaml", pinned), "--yes")
    (bound,) = [vm for vm in thought_away(vgpu_cfg)["vms"] if vm["name"] == "p"]
    assert (bound["drained"]["how"], bound["drained"]["to"], bound["died"]["to"]) == ("off", None, None)
    assert bound["died"]["why"] == bound["drained"]["why"] != ""
    assert "cannot restart" in vgpu_cfg.done("fit", "--without", f"host:{FIRST}", SERVER).told


def test_a_page_has_the_json_and_is_told_before_anything_is_read_where_it_cannot_be_written(
    vgpu_cfg: CommandLine,
) -> None:
    vgpu_cfg.done("apply", PLAN, "--yes")
    word = f"--without=host:{FIRST}"
    told = json.loads(vgpu_cfg.done("fit", word, SERVER, "--html", "away.html", "--output=json").out)
    data = data_of(vgpu_cfg, "away.html")
    assert (data["kind"], data["told"] | {"read_at": ""}) == ("absence-page", told | {"read_at": ""})
    assert [turn["when"] for turn in data["turns"]] == ["In maintenance", "After a failure"]
    ran = vgpu_cfg("fit", word, "--server=lab:nowhere.yaml", "--html", "nowhere/away.html")
    assert (ran.code, "cannot write nowhere/away.html" in ran.told) == (2, True)
    ran = vgpu_cfg("fit", "grid_a100-4c", SERVER, "--html", "away.html")
    assert (ran.code, "requires --without" in ran.told) == (2, True)


def test_a_bare_name_means_the_host(vgpu_cfg: CommandLine) -> None:
    said = {vgpu_cfg.done("fit", "--without", word, SERVER).out for word in (FIRST, f"host:{FIRST}")}
    assert len(said) == 1


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--without", "host:esx-nowhere"], 5, "no host matches esx-nowhere"),
        (["--without", "esx-nowhere"], 5, "no host matches esx-nowhere"),
        (["--without", "gpu:esx-01/99:00.0"], 5, "no GPU on esx-01.lab matches 0000:99:00.0"),
        (["--without", "nic:esx-01/vmnic9"], 5, "NIC vmnic9 not found on esx-01.lab"),
        (["--without", "cluster:gqu"], 5, "did you mean 'gpu'?"),
        (["grid_a100-4c", "--without", f"host:{FIRST}"], 2, "can be combined only with --output and --html"),
    ],
)
def test_what_is_mistyped_is_told(vgpu_cfg: CommandLine, words: list[str], code: int, said: str) -> None:
    ran = vgpu_cfg("fit", *words, SERVER)
    assert (ran.code, said in ran.told) == (code, True)
