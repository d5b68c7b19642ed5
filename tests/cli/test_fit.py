"""`fit` and `inventory --gpus`: what they count is what can be applied, and what they read is no more."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cli.command_line import CommandLine

STRANDED = "lab:estates/stranded.yaml"
SEVEN = "examples/mig-seven.yaml"


def told(vgpu_cfg: CommandLine, *words: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(vgpu_cfg.done(*words, "--output", "json").out)
    return document


def test_as_many_as_are_counted_can_be_made_and_then_there_are_no_more(vgpu_cfg: CommandLine) -> None:
    counted = ("fit", "--plan", SEVEN)
    assert told(vgpu_cfg, *counted)["total"] == 14
    vgpu_cfg.done("apply", "--yes", SEVEN)
    assert told(vgpu_cfg, *counted)["total"] == 7
    text = (vgpu_cfg.folder / SEVEN).read_text(encoding="utf-8")
    more = vgpu_cfg.write("more.yaml", text.replace("name: mig-seven", "name: more").replace("slice-", "m-"))
    vgpu_cfg.done("apply", "--yes", more)
    full = vgpu_cfg(*counted, "--exit-code")
    assert full.code == 10
    assert "nothing fits: 2 GPUs without free slices at a valid position for grid_a100-1-5c" in full.told


def test_without_exit_code_nothing_that_fits_is_an_answer_like_others(vgpu_cfg: CommandLine) -> None:
    answer = told(vgpu_cfg, "fit", "grid_a100-8c", "--server", STRANDED)
    assert (answer["total"], len(answer["hosts"])) == (0, 3)
    by_name = {host["name"]: host for host in answer["hosts"]}
    assert by_name["esx-same-01.lab"]["limits"][0] == {
        "code": "VG104",
        "text": "small-01, small-02 lock 2 GPUs to 4 GB",
        "gpus": 2,
        "vms": ["small-01", "small-02"],
    }
    assert by_name["esx-same-01.lab"]["gains"] == [
        {"vm": "small-01", "more": 5},
        {"vm": "small-02", "more": 5},
    ]


def test_both_work_on_a_recording_of_the_fixed_reads(vgpu_cfg: CommandLine) -> None:
    vgpu_cfg.done("inventory", "--record", "all.json", "--server", STRANDED)
    of_the_moment = {"read_at": "", "server": "", "use_unread": ""}
    for words in (["inventory", "--gpus"], ["fit", "grid_a100-4c"]):
        live = told(vgpu_cfg, *words, "--server", STRANDED)
        recorded = told(vgpu_cfg, *words, "--from", "all.json")
        assert {**live, **of_the_moment} == {**recorded, **of_the_moment}


def test_the_pool_tells_what_is_stranded_on_each_gpu(vgpu_cfg: CommandLine) -> None:
    answer = told(vgpu_cfg, "inventory", "--gpus", "--server", STRANDED)
    kinds = {(gpu["host"], gpu["pci_id"]): [one["kind"] for one in gpu["stranded"]] for gpu in answer["gpus"]}
    assert kinds == {
        ("esx-same-01.lab", "0000:21:00.0"): ["size_lock"],
        ("esx-same-01.lab", "0000:e2:00.0"): ["size_lock"],
        ("esx-mig-01.lab", "0000:21:00.0"): ["compute_slices"],
        ("esx-mig-01.lab", "0000:e2:00.0"): [],
        ("esx-mixed-01.lab", "0000:21:00.0"): ["placement"],
    }
    assert [holder["vm"] for holder in answer["off"]] == ["forgotten"]


def test_a_fleet_is_counted_and_its_hosts_are_not_listed_where_they_have_no_such_board(
    vgpu_cfg: CommandLine,
) -> None:
    done = vgpu_cfg.done("fit", "grid_a100-10c", "--server", "lab:fleet-12x8-100vms")
    assert "NOT ON 9 hosts without a matching board" in done.told
    answer = told(vgpu_cfg, "fit", "grid_a100-10c", "--server", "lab:fleet-12x8-100vms")
    pool = told(vgpu_cfg, "inventory", "--gpus", "--server", "lab:fleet-12x8-100vms")
    (row,) = [row for row in pool["pool"] if "grid_a100-10c" in row["room"]]
    assert answer["total"] == row["room"]["grid_a100-10c"] > 0


RESTING = """
about: "Two VMs with a vGPU, one of them at rest, and a busy one without."
clusters:
  - name: gpu
    hosts:
      - name: esx-01.lab
        gpus: [{board: A100}]
folders: [research]
vms:
  - {name: at-rest, folder: research, gpus: [grid_a100-20c], cpu_mhz: 30}
  - {name: at-work, folder: research, gpus: [grid_a100-20c]}
  - {name: plain, cpu_mhz: 0}
"""


def test_vms_with_gpus_that_use_almost_no_cpu_are_named_with_the_doubt(vgpu_cfg: CommandLine) -> None:
    server = f"lab:{vgpu_cfg.write('resting.yaml', RESTING)}"
    answer = told(vgpu_cfg, "inventory", "--gpus", "--server", server)
    (idle,) = answer["idle"]
    assert idle == {
        "vm": "at-rest",
        "host": "esx-01.lab",
        "folder": "/dc1/vm/research",
        "devices": ["grid_a100-20c"],
        "cpu_percent": 0.27,
        "uptime_seconds": 30 * 86_400,
        "plan": "",
        "owner": "",
        "past": None,
    }
    assert (answer["idle_below"], answer["cpu_untold"]) == (1, [])
    told_of = vgpu_cfg.done("inventory", "--gpus", "--server", server).told
    assert "WITH GPU DEVICES, USING LESS THAN 1 % OF THEIR CPUS" in told_of
    assert "1×20c" in told_of
    assert "30 days" in told_of
    assert "CPU usage is only a hint" in told_of
    busy = vgpu_cfg.done("inventory", "--gpus", "--server", server, "--idle-below", "0").told
    assert "OF THEIR CPUS" not in busy
    everyone = told(vgpu_cfg, "inventory", "--gpus", "--server", server, "--idle-below", "30")
    assert [one["vm"] for one in everyone["idle"]] == ["at-rest", "at-work"]


def test_the_limit_of_idleness_belongs_to_the_pool(vgpu_cfg: CommandLine) -> None:
    assert vgpu_cfg("inventory", "--idle-below", "3", "--server", "lab:two-a100").code == 2
    assert vgpu_cfg("inventory", "--gpus", "--idle-below", "300", "--server", "lab:two-a100").code == 2


def test_hosts_that_are_thought_of_take_as_many_as_the_ones_they_are_like(vgpu_cfg: CommandLine) -> None:
    fleet = ("--server", "lab:mixed-fleet")
    as_it_is = told(vgpu_cfg, "fit", "nvidia_l40s-12c", *fleet)
    assert (as_it_is["added"], as_it_is["total_as_it_is"]) == ([], as_it_is["total"])
    words = ("2 x esx-l40s-02", "1 x esx-a100-01 with 2 x L40S, mixed size")
    grown = told(
        vgpu_cfg, "fit", "nvidia_l40s-12c", *fleet, *(part for one in words for part in ("--add", one))
    )
    names = [["esx-l40s-02-new1.lab", "esx-l40s-02-new2.lab"], ["esx-a100-01-new3.lab"]]
    assert grown["added"] == [
        {"asked": asked, "hosts": hosts} for asked, hosts in zip(words, names, strict=True)
    ]
    counts = {host["name"]: host["count"] for host in grown["hosts"]}
    assert [counts[name] for made in names for name in made] == [16, 16, 8]
    assert grown["total_as_it_is"] == as_it_is["total"] == grown["total"] - 40
    text = vgpu_cfg.done("fit", "nvidia_l40s-12c", *fleet, "--add", words[0]).told
    assert "ADDED 2 x esx-l40s-02: esx-l40s-02-new{1..2}, hypothetical" in text


def test_a_vm_of_a_plan_starts_on_a_host_that_is_thought_of(vgpu_cfg: CommandLine) -> None:
    asked = ("fit", "--plan", SEVEN)
    before = told(vgpu_cfg, *asked)
    host = before["hosts"][0]["name"]
    after = told(vgpu_cfg, *asked, "--add", f"3 x {host}")
    assert after["total"] == before["total"] + 3 * before["hosts"][0]["count"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("two hosts", "does not match COUNT x HOST"),
        ("2 x esx-nowhere-01", "host 'esx-nowhere-01' not found"),
        ("0 x esx-l40s-01", "requests 0 hosts; specify 1 to 1000"),
        ("99999999999 x esx-l40s-01", "requests 99999999999 hosts; specify 1 to 1000"),
        ("2 x esx-l40s-01 with 4 x L40Z", "board 'L40Z' is not in the catalog"),
        ("esx-l40s-01, MIG", "L40S does not support MIG mode"),
    ],
)
def test_a_host_that_cannot_be_thought_of_is_told(vgpu_cfg: CommandLine, words: str, said: str) -> None:
    ran = vgpu_cfg("fit", "nvidia_l40s-12c", "--server", "lab:mixed-fleet", "--add", words)
    assert ran.code == 2
    assert said in " ".join(ran.err.replace("│", " ").split())
