"""A VM that somebody made by hand becomes a plan's, and is given up again: as a user does both on the lab."""

from __future__ import annotations

import json
import re

import pytest

from tests.cli.command_line import CommandLine
from vgpu_cfg.cli import compose
from vgpu_cfg.lab.state.inventory import VirtualMachine
from vgpu_cfg.model.observed.vm import Vm
from vgpu_cfg.ports import ReadScope
from vgpu_cfg.settings.connection import resolve_connection
from vgpu_cfg.settings.flags import ConnectionFlags

ESTATE = "estates/full-but-one-move.yaml"
PLAN = f"""\
version: 1
name: taken
vcenter: lab:{ESTATE}
vms:
- {{name: "small-{{01..02}}", template: ubuntu-22.04-efi, cluster: gpu, gpus: grid_a100-10c}}
"""
LATER = PLAN.replace("grid_a100-10c}", "grid_a100-10c, boot_delay: 2}")


_VERSION = re.compile(r'"change_version": "[^"]*"')


def vms_of() -> dict[str, Vm]:
    """Return what a reader sees of each VM but for this tool's own keys, and what moves by itself."""
    with compose.connect_reader(resolve_connection(ConnectionFlags(server=f"lab:{ESTATE}"))) as reader:
        read = reader.read_inventory(ReadScope(everything=True))
    found = {}
    for vm in read.vms:
        assert vm.detail is not None
        own = {key: text for key, text in vm.detail.extra_config.items() if not key.startswith("vgpu_cfg.")}
        moving = {"extra_config": own, "change_version": "", "uptime_seconds": None}
        found[vm.name] = vm.model_copy(update={"mark": None, "detail": vm.detail.model_copy(update=moving)})
    return found


def marks_of(vgpu_cfg: CommandLine) -> dict[str, str]:
    return {
        vm.name: vm.extra_config["vgpu_cfg.plan"]
        for vm in vgpu_cfg.lab(ESTATE).state.all(VirtualMachine)
        if "vgpu_cfg.plan" in vm.extra_config
    }


def test_a_vm_made_by_hand_is_taken_in_changed_given_up_and_taken_back(vgpu_cfg: CommandLine) -> None:
    plan = vgpu_cfg.write("plan.yaml", PLAN)
    assert f"bring it under management with `vgpu-cfg import {plan}`" in vgpu_cfg("plan", plan).told
    told = " ".join(vgpu_cfg("plan", plan).told.split())
    assert f"import the existing VMs: small-{{01..02}} vgpu-cfg import {plan}" in told
    assert "--only" not in told
    before, tasks = vms_of(), len(vgpu_cfg.look(ESTATE).tasks)
    ran = vgpu_cfg.done("import", plan, "--yes")
    assert (vms_of(), len(vgpu_cfg.look(ESTATE).tasks) - tasks) == (before, 2)
    assert "plan.yaml.id: the plan's new ID" in ran.told
    assert all("imported=yes" in text for text in marks_of(vgpu_cfg).values())
    assert "in sync, 2 VMs, 0 changes" in vgpu_cfg.done("plan", plan, "--exit-code").told
    later = vgpu_cfg.write("plan.yaml", LATER)
    vgpu_cfg.done("apply", later, "--yes")
    assert "2 VMs, in sync" in vgpu_cfg.done("status", later, "--exit-code").told
    changed = vms_of()
    assert changed != before
    vgpu_cfg.done("forget", later, "--only", "small-01", "--yes")
    assert (vms_of(), {*marks_of(vgpu_cfg)}) == (changed, {"small-02"})
    assert vgpu_cfg("plan", later).code == 4
    vgpu_cfg.done("import", later, "--yes")
    vgpu_cfg.done("plan", later, "--exit-code")
    assert vms_of() == changed


def test_import_tells_what_plan_says_then(vgpu_cfg: CommandLine) -> None:
    plan = vgpu_cfg.write("plan.yaml", PLAN.replace("10c}", "10c, cpus: 8, memory: 24GiB}"))
    told = json.loads(vgpu_cfg.done("import", plan, "--dry-run", "--output", "json").out)
    assert (told["kind"], [one["id"] for one in told["plan"]["changes"]]) == (
        "import",
        ["import small-01", "import small-02"],
    )
    assert not marks_of(vgpu_cfg)
    vgpu_cfg.done("import", plan, "--yes")
    said = json.loads(vgpu_cfg("plan", plan, "--output", "json").out)["plan"]
    for key in ("changes", "diagnostics", "placements", "blocked"):
        before, after = (
            re.sub(r'"change_version": "[^"]*"', "", json.dumps(one[key])) for one in (told["then"], said)
        )
        assert before == after, key


def test_nobody_is_asked_and_nothing_is_changed(vgpu_cfg: CommandLine) -> None:
    plan = vgpu_cfg.write("plan.yaml", PLAN)
    for words in ((), ("--dry-run",)):
        vgpu_cfg("import", plan, *words)
        assert not marks_of(vgpu_cfg)
    assert [path.name for path in vgpu_cfg.folder.glob("*.id")] == []


@pytest.fixture
def taken(vgpu_cfg: CommandLine) -> CommandLine:
    """Return the command line with both VMs taken in."""
    vgpu_cfg.done("import", vgpu_cfg.write("plan.yaml", PLAN), "--yes")
    return vgpu_cfg


def test_what_was_taken_in_is_deleted_if_it_is_named(taken: CommandLine) -> None:
    refused = taken("destroy", "plan.yaml", "--only", "small-01", "--yes")
    assert (refused.code, "VG230" in refused.told) == (4, True)
    assert "vgpu-cfg destroy plan.yaml --only small-01 --yes --delete=small-01" in refused.told
    old = taken("import", "plan.yaml", "--may-destroy", "--only", "small-01", "--yes")
    assert (old.code, "is now `vgpu-cfg destroy PLAN --only NAME --delete NAME`" in old.told) == (2, True)
    taken.done("destroy", "plan.yaml", "--only", "small-01", "--yes", "--delete=small-01")
    assert {*vms_of()} == {"ubuntu-22.04-efi", "small-02"}
    assert taken("destroy", "plan.yaml", "--yes").code == 4


def test_another_plan_takes_in_only_what_was_given_up(taken: CommandLine) -> None:
    other = taken.write("other.yaml", PLAN.replace("name: taken", "name: other"))
    refused = taken("import", other, "--yes")
    assert (refused.code, "VG232" in refused.told) == (4, True)
    assert "the VM has the owner mark taken/small-01 with the ID" in refused.told
    taken.done("forget", "plan.yaml", "--only", "small-01", "--yes")
    taken.done("import", other, "--only", "small-01", "--yes")
    assert {name: text.split()[0] for name, text in marks_of(taken).items()} == {
        "small-01": "other",
        "small-02": "taken",
    }
