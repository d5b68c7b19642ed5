"""Recorded vCenters, named by what is odd about them: looked at and planned with, sockets closed."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command_line import ROOT, CommandLine, Ran
from tests.decodings import judge

HERE = Path(__file__).resolve().parent
RECORDINGS = sorted((HERE / "recordings").iterdir())
PLANS = HERE / "plans"


@pytest.fixture
def vgpu_cfg(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    folder = tmp_path / "work"
    folder.mkdir()
    return CommandLine(folder, monkeypatch)


def of(name: str) -> list[str]:
    return ["--from", str(HERE / "recordings" / f"{name}.json.gz")]


def inventory(vgpu_cfg: CommandLine, name: str) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(vgpu_cfg.done("inventory", "--output", "json", *of(name)).out)
    return data


def plan(vgpu_cfg: CommandLine, plan_name: str, recording: str, *more: str) -> Ran:
    return vgpu_cfg("plan", PLANS / f"{plan_name}.yaml", *of(recording), *more)


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.name)
def test_it_can_be_looked_at_in_text_and_as_json(path: Path, vgpu_cfg: CommandLine) -> None:
    text = vgpu_cfg.done("inventory", "-v", "--from", path)
    data = json.loads(vgpu_cfg.done("inventory", "--output", "json", "--from", path).out)
    assert data["kind"] == "inventory"
    assert all(host["name"] in text.out for host in data["hosts"])


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.name)
def test_its_answers_are_decoded_as_pyvmomi_decodes_them(
    path: Path, vgpu_cfg: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    judged = judge(monkeypatch)
    vgpu_cfg.done("inventory", "--from", path)
    assert judged.answers > 5


# ---------------------------------------------------------------- a full pool


def test_a_full_pool_is_as_its_file_says_but_for_marks_that_hold_no_id(vgpu_cfg: CommandLine) -> None:
    example = ROOT / "tests/cli/plans/pair.yaml"
    status = vgpu_cfg("status", "--exit-code", example, *of("lab-full-pool"))
    assert status.code == 10
    differing = [" ".join(line.split()) for line in status.out.splitlines() if "owner_mark" in line]
    assert differing == ["owner_mark horovod-a100 horovod-a100, without an ID unknown"] * 2
    assert vgpu_cfg("plan", "--exit-code", example, *of("lab-full-pool")).code == 10


def test_a_full_pool_takes_no_more_and_says_who_holds_it(vgpu_cfg: CommandLine) -> None:
    ran = plan(vgpu_cfg, "one-more", "lab-full-pool")
    assert ran.code == 4
    assert "VG103" in ran.err
    assert "hvd-01" in ran.told
    assert "hvd-02" in ran.told


# ---------------------------------------------------------------- an old API


def test_an_old_api_does_what_it_can(vgpu_cfg: CommandLine) -> None:
    assert inventory(vgpu_cfg, "lab-old-api")["api_version"] == "7.0.2.0"
    assert plan(vgpu_cfg, "one-more", "lab-old-api", "--exit-code").code == 10


# ---------------------------------------------------------------- hosts that are lost


def test_lost_hosts_are_shown_and_never_planned_on(vgpu_cfg: CommandLine) -> None:
    shown = {host["name"]: host["state"] for host in inventory(vgpu_cfg, "lab-hosts-lost")["hosts"]}
    assert shown == {
        "esx-away-01.lab": "disconnected",
        "esx-dead-01.lab": "notResponding",
        "esx-rest-01.lab": "maintenance",
        "esx-busy-01.lab": "ok",
    }
    ran = plan(vgpu_cfg, "one-more", "lab-hosts-lost")
    assert ran.code == 4
    assert "0000:21:00.0 is full (1 × grid_a100-40c: somebodys)" in ran.told


@pytest.mark.parametrize(
    ("host", "words"),
    [("away", "is disconnected"), ("dead", "is not responding"), ("rest", "is in maintenance mode")],
)
def test_a_lost_host_that_a_plan_names_is_told(host: str, words: str, vgpu_cfg: CommandLine) -> None:
    asked = (PLANS / "one-more.yaml").read_text(encoding="utf-8")
    named = asked.replace("cluster: gpu,", f"cluster: gpu, place: {{hosts: [esx-{host}-01.lab]}},")
    vgpu_cfg.write("named.yaml", named)
    ran = vgpu_cfg("plan", "named.yaml", *of("lab-hosts-lost"))
    assert ran.code == 4
    assert f"esx-{host}-01.lab {words}" in ran.told


# ---------------------------------------------------------------- a BIOS that does not say


def test_where_the_bios_does_not_say_the_node_it_is_told(vgpu_cfg: CommandLine) -> None:
    assert {gpu["numa_node"] for gpu in inventory(vgpu_cfg, "lab-silent-numa")["gpus"]} == {None}
    ran = plan(vgpu_cfg, "one-more", "lab-silent-numa", "--exit-code")
    assert ran.code == 10
    assert "VG304 more-01: esx-silent-01.lab does not report the NUMA nodes of its GPUs" in ran.told


# ---------------------------------------------------------------- others' desktops


def test_among_others_desktops_the_plan_finds_its_places(vgpu_cfg: CommandLine) -> None:
    ran = plan(vgpu_cfg, "desktops", "lab-others-desktops", "--output", "json")
    assert ran.code == 0, ran.told
    placed = {found["vm"]: found["host_name"] for found in json.loads(ran.out)["plan"]["placements"]}
    assert placed == {
        "beside-01": "esx-l40s-01.lab",
        "mig-01": "esx-a100-04.lab",
        "mixed-01": "esx-l40s-03.lab",
    }


def test_others_desktops_are_counted(vgpu_cfg: CommandLine) -> None:
    profiles = {row["profile"]: row for row in inventory(vgpu_cfg, "lab-others-desktops")["profiles"]}
    assert profiles["nvidia_l40s-12q"]["running"] == 5
    assert profiles["nvidia_l40s-12q"]["off"] == 1


# ---------------------------------------------------------------- no GPU


def test_without_a_gpu_there_is_no_place(vgpu_cfg: CommandLine) -> None:
    shown = inventory(vgpu_cfg, "vcsim-no-gpu")
    assert len(shown["hosts"]) == 4
    assert shown["gpus"] == []
    ran = plan(vgpu_cfg, "no-gpu", "vcsim-no-gpu")
    assert ran.code == 4
    assert "DC0_C0_H0" in ran.told


# ---------------------------------------------------------------- what is not in a recording


def edited(vgpu_cfg: CommandLine, name: str, edit: Any) -> str:
    content = json.loads(gzip.decompress((HERE / "recordings" / f"{name}.json.gz").read_bytes()))
    edit(content)
    vgpu_cfg.write("edited.json", json.dumps(content))
    return "edited.json"


def test_an_answer_that_is_missing_is_named(vgpu_cfg: CommandLine) -> None:
    def forget(content: dict[str, Any]) -> None:
        content["exchanges"] = [
            each for each in content["exchanges"] if "RetrieveVgpuProfileInfo" not in each["call"]
        ]

    ran = vgpu_cfg("inventory", "--from", edited(vgpu_cfg, "lab-full-pool", forget))
    assert ran.code == 5
    assert "contains no response to HostGraphicsManager.RetrieveVgpuProfileInfo" in ran.told


def test_a_recording_of_another_format_is_refused(vgpu_cfg: CommandLine) -> None:
    ran = vgpu_cfg(
        "inventory", "--from", edited(vgpu_cfg, "lab-full-pool", lambda content: content.update(format=1))
    )
    assert ran.code == 3
    assert "the recording uses format 1; this version reads format 5" in ran.told


def test_a_recording_that_breaks_off_is_refused(vgpu_cfg: CommandLine) -> None:
    whole = (HERE / "recordings" / "lab-full-pool.json.gz").read_bytes()
    for length in (0, 5, 100, len(whole) - 4):
        (vgpu_cfg.folder / "cut.json.gz").write_bytes(whole[:length])
        ran = vgpu_cfg("inventory", "--from", "cut.json.gz")
        assert ran.code == 3, f"{length}: {ran.told}"
        assert ran.err.startswith("cut.json.gz:1:1: ")


def test_a_broken_answer_inside_is_no_traceback(vgpu_cfg: CommandLine) -> None:
    def garble(content: dict[str, Any]) -> None:
        for each in content["exchanges"]:
            each["answer"] = each["answer"][: len(each["answer"]) // 2]

    ran = vgpu_cfg("inventory", "--from", edited(vgpu_cfg, "lab-full-pool", garble))
    assert ran.code in (3, 5), ran.told


def test_nothing_is_written_to_a_recording(vgpu_cfg: CommandLine) -> None:
    for command in ("apply", "destroy"):
        assert vgpu_cfg(command, "--yes", PLANS / "one-more.yaml", *of("lab-full-pool")).code == 2
