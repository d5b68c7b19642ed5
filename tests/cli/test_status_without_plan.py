"""`status` without a plan file: everything of vgpu-cfg at a vCenter or several, on one screen."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyVmomi import vim

from tests.cli.command_line import CommandLine
from tests.cli.host_watch import watch_labs
from tests.cli.locks import ANNA, take_for_others
from vgpu_cfg.lab.simulation.clock import VirtualClock
from vgpu_cfg.lab.state.vm import VirtualMachine
from vgpu_cfg.model.locks import SILENT_AFTER, LockName

SERVER = ("--server", "lab:two-a100")
PLAN = """\
version: 1
name: depts
vcenter: lab:two-a100
defaults: {template: ubuntu-22.04-efi, cluster: gpu, folder: training, cpus: 4, memory: 16GiB}
vms:
- {name: vm-01, gpus: grid_a100-10c, expires: 2098-01-02}
- {name: vm-02, gpus: grid_a100-10c, expires: 2099-01-02}
"""
HOST = "host:esx-a100-01.lab"
LEFT = {"maintenance", "unfinished", "lock", "reservation", "cordon", "copied-mark"}


def seen(vgpu_cfg: CommandLine, *words: str | Path) -> dict[str, Any]:
    document = json.loads(vgpu_cfg.done("status", *words, "--output", "json").out)
    assert document["kind"] == "status-without-plan"
    return dict(document)


def kinds(document: dict[str, Any]) -> dict[str, str]:
    return {one["kind"]: one["subject"] for one in document["ailments"]}


def test_where_nothing_is_ours_it_says_so_and_what_to_type_next(vgpu_cfg: CommandLine) -> None:
    ran = vgpu_cfg.done("status", *SERVER, "--exit-code")
    assert "Nothing at lab:two-a100 belongs to vgpu-cfg" in ran.told
    assert ran.out.splitlines()[-1] == "NEXT    vgpu-cfg doctor --server lab:two-a100"


def test_all_of_a_week_is_on_one_screen(vgpu_cfg: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    vgpu_cfg.done("apply", "--yes", vgpu_cfg.write("depts.yaml", PLAN))
    alone = seen(vgpu_cfg, *SERVER)
    (row,) = alone["plans"]
    assert (row["name"], row["vms"], row["vms_on"]) == ("depts", 2, 2)
    assert (row["state"], row["level"], row["last_run"]["result"]) == ("no difference visible", None, "done")
    assert row["expires"] == {"vm-01": "2098-01-02", "vm-02": "2099-01-02"}
    assert (alone["ailments"], len(alone["runs"])) == ([], 1)

    vgpu_cfg.done("cordon", HOST, "--reason", "fans", *SERVER)
    take_for_others(vgpu_cfg.lab("two-a100"), LockName(kind="plan", key="demo"))
    found = seen(vgpu_cfg, *SERVER)
    assert kinds(found) == {"cordon": HOST, "running": "plan:demo"}
    assert vgpu_cfg("status", *SERVER, "--exit-code").code == 10
    shown = vgpu_cfg.done("status", *SERVER).told
    assert "fans (" in shown
    assert "apply by anna on ci-7 has locked plan demo" in shown

    watch = watch_labs(monkeypatch)
    vgpu_cfg.done("status", *SERVER, "-v", "--html", "page.html")
    assert watch.calls
    assert not watch.writes
    assert "<b>depts</b>" in Path("page.html").read_text(encoding="utf-8")


def test_a_device_that_was_taken_away_is_a_difference(vgpu_cfg: CommandLine) -> None:
    vgpu_cfg.done("apply", "--yes", vgpu_cfg.write("depts.yaml", PLAN))
    lab = vgpu_cfg.lab("two-a100")
    with lab.transaction():
        vm = next(one for one in lab.state.all(VirtualMachine) if one.name == "vm-01")
        gpu = vim.vm.device.VirtualPCIPassthrough
        vm.made_devices = {key: one for key, one in vm.devices.items() if not isinstance(one, gpu)}
        lab.state.touch(vm)
    found = seen(vgpu_cfg, *SERVER)
    assert kinds(found) == {"device-gone": "vm:vm-01"}
    assert found["plans"][0]["state"] == "differs"
    assert "removed: grid_a100-10c" in vgpu_cfg.done("status", *SERVER).told


def test_several_vcenters_are_one_screen_and_one_that_fails_hides_none(vgpu_cfg: CommandLine) -> None:
    vgpu_cfg.done("cordon", HOST, "--reason", "fans", *SERVER)
    both = (*SERVER, "--server", "lab:mig-a100")
    ran = vgpu_cfg.done("status", *both)
    assert ran.out.splitlines()[0].startswith("vgpu-cfg at 2 vCenters")
    assert "at lab:two-a100: fans" in ran.told
    document = json.loads(vgpu_cfg.done("status", *both, "--output", "json").out)
    assert [one["name"] for one in document["contexts"]] == ["lab:two-a100", "lab:mig-a100"]
    assert document["total"]["risk"] == 1
    failed = vgpu_cfg("status", *both, "--server", "lab:nosuch")
    assert failed.code == 3
    assert "at lab:two-a100: fans" in failed.told


@pytest.mark.parametrize(
    "words", [["--output", "junit"], ["--set", "a=b"], ["--html", "p.html", "--server", "lab:mig-a100"]]
)
def test_what_needs_a_plan_or_one_vcenter_is_refused(vgpu_cfg: CommandLine, words: list[str]) -> None:
    assert vgpu_cfg("status", *SERVER, *words).code == 2


def test_doctor_and_status_list_the_same_left_behind(vgpu_cfg: CommandLine) -> None:
    vgpu_cfg.done("apply", "--yes", vgpu_cfg.write("depts.yaml", PLAN))
    vgpu_cfg.done("cordon", HOST, "gpu:esx-a100-01.lab/0000:21:00.0", "--reason", "fans", *SERVER)
    clock = VirtualClock()
    take_for_others(vgpu_cfg.lab("two-a100", clock), LockName(kind="plan", key="demo"), holder=ANNA)
    clock.advance((SILENT_AFTER + timedelta(minutes=1)).total_seconds())
    doctor = json.loads(vgpu_cfg.done("doctor", *SERVER, "--output", "json").out)
    left = {(one["kind"], one["subject"]) for one in doctor["ailments"] if one["kind"] in LEFT}
    found = seen(vgpu_cfg, *SERVER)
    assert left == {(one["kind"], one["subject"]) for one in found["ailments"] if one["kind"] in LEFT}
    assert len(left) >= 2
