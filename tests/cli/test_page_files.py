"""The pages that commands write beside their output: the values of `--output json`, and true afterwards."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from tests.cli.command_line import CommandLine

VMS = ("name", "plan", "power")


def data_of(vgpu_cfg: CommandLine, name: str) -> dict[str, Any]:
    page = (vgpu_cfg.folder / name).read_text(encoding="utf-8")
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    data: dict[str, Any] = json.loads(found[1])
    return data


def strips(clusters: list[Any]) -> dict[str, Any]:
    """Return by host and GPU what is drawn there: who, as what, where."""
    return {
        f"{host['about']['name']} {gpu['pci_id']}": (gpu["mode"], gpu["pieces"])
        for _, hosts in clusters
        for host in hosts
        for node in host["nodes"]
        for gpu in node["gpus"]
    }


@pytest.mark.parametrize(
    "words",
    [
        ("plan", "examples/two-vgpus.yaml", "--html"),
        ("inventory", "--server=lab:two-a100", "--html"),
        ("doctor", "--server=lab:two-a100", "--html"),
        ("status", "--server=lab:two-a100", "--html"),
        ("fit", "--without=host:esx-a100-01", "--server=lab:two-a100", "--html"),
        ("inventory", "--reservations", "--server=lab:two-a100", "--html"),
    ],
    ids=" ".join,
)
def test_a_page_that_is_written_is_named(words: tuple[str, ...], vgpu_cfg: CommandLine) -> None:
    ran = vgpu_cfg(*words, "page.html", "--output=json")
    assert "page.html: web page written" in ran.err
    json.loads(ran.out)
    assert (vgpu_cfg.folder / "page.html").is_file()


@pytest.mark.parametrize("plan", ["examples/hgx-eight-gpu.yaml", "examples/two-vgpus.yaml"])
def test_a_plans_page_has_its_json_and_its_after_is_what_apply_leaves(
    vgpu_cfg: CommandLine, plan: str
) -> None:
    told = json.loads(vgpu_cfg.done("plan", plan, "--html", "plan.html", "--output=json").out)
    data = data_of(vgpu_cfg, "plan.html")
    moment = {"read_at": ""}
    assert data["told"] | {"plan": data["told"]["plan"] | moment} == told | {"plan": told["plan"] | moment}
    after = data["after"]
    expected = strips(
        [
            (name, [after["hosts"].get(host["about"]["name"], host) for host in hosts])
            for name, hosts in data["before"]["clusters"]
        ]
    )
    assert expected != strips(data["before"]["clusters"])
    vgpu_cfg.done("apply", "--yes", plan)
    vgpu_cfg.done("plan", plan, "--html", "done.html")
    done = data_of(vgpu_cfg, "done.html")
    assert strips(done["before"]["clusters"]) == expected
    assert [[vm[key] for key in VMS] for vm in done["before"]["vms"]] == [
        [vm[key] for key in VMS] for vm in after["vms"]
    ]
    assert done["before"]["totals"] == after["totals"]
    assert (done["after"]["hosts"], done["marks"]) == ({}, [])


def test_a_refused_plan_has_a_page_too_with_what_was_tried(vgpu_cfg: CommandLine) -> None:
    plan = vgpu_cfg.write(
        "big.yaml",
        "version: 1\nname: big\nvcenter: lab:estates/full-but-one-move.yaml\nvms:\n- {name: big, template: "
        "ubuntu-22.04-efi, cluster: gpu, folder: training, cpus: 8, memory: 32GiB, gpus: grid_a100-40c}\n",
    )
    assert vgpu_cfg("plan", plan, "--html", "plan.html").code == 4
    told = json.loads(vgpu_cfg("plan", plan, "--output=json").out)
    assert data_of(vgpu_cfg, "plan.html")["told"]["fixes"] == told["fixes"] != []


def test_a_page_that_cannot_be_written_is_told_before_anything_is_read(vgpu_cfg: CommandLine) -> None:
    ran = vgpu_cfg("plan", "examples/two-vgpus.yaml", "--html", "nowhere/plan.html")
    assert ran.code == 2
    assert "cannot write nowhere/plan.html" in ran.told


def test_a_statuss_page_has_its_json_in_sync_and_not(vgpu_cfg: CommandLine) -> None:
    plan = "examples/two-vgpus.yaml"
    for is_applied in (False, True):
        told = json.loads(vgpu_cfg.done("status", plan, "--html", "status.html", "--output=json").out)
        data = data_of(vgpu_cfg, "status.html")
        assert (data["kind"], data["told"]) == ("status-page", told)
        assert bool(data["told"]["differences"]) != is_applied
        if not is_applied:
            vgpu_cfg.done("apply", "--yes", plan)


def test_a_runs_page_has_its_report_whether_it_fails_or_is_done_or_has_nothing_to_do(
    vgpu_cfg: CommandLine,
) -> None:
    plan = "examples/two-vgpus.yaml"
    words = ("apply", "--yes", plan, "--html", "run.html", "--output=json")
    vgpu_cfg.script("two-a100", {"method": "PowerOnVM_Task", "nth": 1, "message": "no power"})
    for code in (6, 0, 0):
        ran = vgpu_cfg(*words)
        assert ran.code == code
        data = data_of(vgpu_cfg, "run.html")
        told = json.loads(ran.out)
        assert (data["kind"], data["told"]) == ("run-page", told)
        assert [one["id"] for one in data["plan"]["changes"]] == [
            one["change_id"] for one in told["outcomes"]
        ]
        assert {one["change_id"] for one in data["events"]} <= {one["change_id"] for one in told["outcomes"]}
        vgpu_cfg.script("two-a100")
    assert told["outcomes"] == []


def test_a_refused_apply_began_nothing_and_has_no_page(vgpu_cfg: CommandLine) -> None:
    vgpu_cfg.script("two-a100", lacking=["VirtualMachine.Interact.PowerOn"])
    ran = vgpu_cfg("apply", "--yes", "examples/two-vgpus.yaml", "--html", "run.html")
    assert (ran.code, (vgpu_cfg.folder / "run.html").exists()) == (5, False)
