"""What a refused plan suggests, followed to the letter on the lab until all is in sync."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyVmomi import vim

from tests.cli.command_line import CommandLine
from vgpu_cfg.documents import read_document
from vgpu_cfg.lab.state.inventory import Host, VirtualMachine

FLEET = "mixed-fleet"
TWELVE = """\
# MIG for three departments
version: 1
name: depts
vcenter: lab:mixed-fleet
defaults: {template: ubuntu-22.04-efi, cluster: a100, cpus: 4, memory: 16GiB}
vms:
  - {name: "bio-{01..07}", gpus: grid_a100d-1-10c}
  - {name: "phys-{01..02}", gpus: grid_a100d-2-20c}
  - {name: "chem-{01..02}", gpus: grid_a100d-3-40c}
  - {name: chem-big, gpus: grid_a100d-7-80c}   # the whole board
"""
MISSPELT = TWELVE.replace("cluster: a100", "cluster: a10")


@pytest.fixture
def twelve(vgpu_cfg: CommandLine) -> Path:
    return vgpu_cfg.write("depts.yaml", TWELVE)


@pytest.mark.exhaustive("longer runs of what the tests beside them try")
def test_twelve_mig_vms_come_from_a_refusal_to_in_sync_by_what_is_advised(
    vgpu_cfg: CommandLine, twelve: Path
) -> None:
    refused = vgpu_cfg("plan", twelve, "--suggest", "fixed.yaml")
    assert refused.code == 4
    assert "add" not in refused.told.partition("\nFIX")[2].partition("\nERROR")[0]
    assert "+   - names: [esx-a100-02.lab]" in refused.out
    assert "apply the validated fix shown under FIX" in refused.err
    fixed = vgpu_cfg.folder / "fixed.yaml"
    assert fixed.read_text(encoding="utf-8") == TWELVE + "hosts:\n  - names: [esx-a100-02.lab]\n"

    # Its steps by hand are left to apply, which opens the host's shell; DRS moves nothing away there.
    with fixed.open("a", encoding="utf-8") as file:
        file.write("    access: {ssh: open-and-close}\n")
    blocked = vgpu_cfg("plan", "fixed.yaml", "--open-shell", "--output", "json")
    assert blocked.code == 4
    (act,) = [part for fix in json.loads(blocked.out)["fixes"] for part in fix["parts"]]
    assert act["kind"] == "outside"
    assert act["command"].startswith("govc vm.migrate -host /dc1/host/a100/esx-a100-01.lab")
    lab = vgpu_cfg.lab(FLEET)
    (db,) = [vm for vm in lab.state.all(VirtualMachine) if vm.name == "plain-db"]
    (host,) = [host for host in lab.state.all(Host) if host.name == "esx-a100-01.lab"]
    lab.call(db, "MigrateVM_Task", host=vim.HostSystem(host.moid), priority="defaultPriority")
    lab.run_until_idle()

    vgpu_cfg.done("apply", "--yes", "fixed.yaml")
    assert "in sync" in vgpu_cfg.done("plan", "fixed.yaml", "--exit-code").out


def test_a_suggestion_is_planned_as_it_stands_and_changes_nothing_by_itself(
    vgpu_cfg: CommandLine, twelve: Path
) -> None:
    before = vgpu_cfg.look(FLEET)
    vgpu_cfg("plan", twelve, "--suggest", "fixed.yaml")
    assert vgpu_cfg.done("plan", "fixed.yaml").code == 0
    assert vgpu_cfg.look(FLEET) == before
    assert twelve.read_text(encoding="utf-8") == TWELVE


def test_a_plan_that_fits_has_nothing_to_be_suggested(vgpu_cfg: CommandLine) -> None:
    shown = vgpu_cfg.done("plan", "examples/full-vgpu.yaml", "--suggest", "fixed.yaml")
    assert "FIX" not in shown.told
    assert not (vgpu_cfg.folder / "fixed.yaml").exists()


@pytest.mark.exhaustive("longer runs of what the tests beside them try")
def test_the_plan_file_itself_is_never_written_over(vgpu_cfg: CommandLine) -> None:
    plan = vgpu_cfg.write("depts.yaml", MISSPELT)
    refused = vgpu_cfg("plan", plan, "--suggest", "./depts.yaml")
    assert refused.code == 2
    assert "this is the original plan file; specify a different file" in " ".join(refused.err.split())
    assert plan.read_text(encoding="utf-8") == MISSPELT


@pytest.mark.exhaustive("longer runs of what the tests beside them try")
def test_a_suggestion_that_cannot_be_written_says_where(vgpu_cfg: CommandLine) -> None:
    plan = vgpu_cfg.write("depts.yaml", MISSPELT)
    refused = vgpu_cfg("plan", plan, "--suggest", "nowhere/fixed.yaml")
    assert refused.code == 3
    assert "nowhere/fixed.yaml" in refused.err


def test_what_needs_leave_says_what_it_gives_up(vgpu_cfg: CommandLine) -> None:
    plan = vgpu_cfg.write(
        "large.yaml",
        """\
version: 1
name: large
vcenter: lab:one-a100
vms: [{name: a, template: ubuntu-22.04-efi, cpus: 400, memory: 16GiB, gpus: grid_a100-40c}]
""",
    )
    refused = vgpu_cfg("plan", plan)
    assert refused.code == 4
    told = " ".join(refused.out.partition("\nFIX")[2].split())
    assert told.startswith("Edit the plan file (requires approval")
    assert "accept a with" in told


def test_an_included_file_is_not_edited(vgpu_cfg: CommandLine) -> None:
    vgpu_cfg.write("site.yaml", "version: 1\nvcenter: lab:one-a100\ndefaults: {cluster: gpuu}\n")
    plan = vgpu_cfg.write(
        "plan.yaml",
        """\
version: 1
name: split
include: site.yaml
vms: [{name: a, template: ubuntu-22.04-efi, gpus: grid_a100-40c, cpus: 4, memory: 8GiB}]
""",
    )
    refused = vgpu_cfg("plan", plan, "--suggest", "fixed.yaml", "--output", "json")
    assert refused.code == 4
    for fix in json.loads(refused.out)["fixes"]:
        assert "gpuu" not in fix["text"]
    assert read_document(vgpu_cfg.folder / "site.yaml").data["defaults"] == {"cluster": "gpuu"}


@pytest.mark.parametrize(
    ("vms", "told"),
    [
        pytest.param(5, "add 1 host like esx-one-01.lab", id="one more than fits"),
        pytest.param(99, "No automatic fix found", id="far more than fit"),
    ],
)
def test_no_fix_is_looked_for_where_far_more_vms_are_left_than_fixes_place(
    vgpu_cfg: CommandLine, vms: int, told: str
) -> None:
    line = f"{{name: 'v-{{01..{vms:02}}}', template: ubuntu-22.04-efi, gpus: grid_a100-10c}}"
    vgpu_cfg.write("many.yaml", f"version: 1\nname: many\nvcenter: lab:one-a100\nvms: [{line}]\n")
    refused = vgpu_cfg("plan", "many.yaml")
    assert refused.code == 4
    assert told in refused.out


def test_hosts_are_asked_for_profiles_where_a_vm_keeps_gpus_that_the_plan_does_not_state(
    vgpu_cfg: CommandLine,
) -> None:
    def plan(name: str, vm: str) -> str:
        whole = f"{vm}, template: ubuntu-22.04-efi, cpus: 4, memory: 16GiB"
        text = f"version: 1\nname: {name}\nvcenter: lab:two-a100\nvms: [{{{whole}}}]\n"
        return str(vgpu_cfg.write(f"{name}.yaml", text))

    vgpu_cfg.done("apply", "--yes", plan("one", "name: a, gpus: grid_a100-10c, power: off"))
    vgpu_cfg.done("apply", "--yes", plan("full", "name: 'f-{1..2}', gpus: grid_a100-40c"))
    stated, kept = (
        vgpu_cfg("plan", plan("one", f"name: a, power: on{gpus}")).out.partition("\nFIX")[2]
        for gpus in (", gpus: grid_a100-10c", "")
    )
    assert "have the owner power off f-1" in stated
    assert kept == stated


GROWN = """\
version: 1
name: grow
vcenter: lab:estates/work-on-hosts.yaml
defaults: {template: ubuntu-22.04-efi, folder: training, datastore: vsan, cpus: 4, memory: 16GiB}
vms:
- {name: a, gpus: grid_a100-20c, place: {hosts: esx-01.lab}}
- {name: "b-{1..3}", gpus: grid_a100-20c, place: {hosts: esx-01.lab}}
"""


def test_a_vm_that_outgrows_its_host_moves_to_an_idle_one(vgpu_cfg: CommandLine) -> None:
    """An edit that helps only with options is tried with them."""
    vgpu_cfg.write("grow.yaml", GROWN)
    vgpu_cfg.done("apply", "grow.yaml", "--yes")
    vgpu_cfg.write(
        "grow.yaml",
        GROWN.replace("a, gpus: grid_a100-20c, place: {hosts: esx-01.lab}", "a, gpus: grid_a100-40c"),
    )
    refused = vgpu_cfg("plan", "grow.yaml", "--suggest", "fixed.yaml", "--output", "json")
    first = json.loads(refused.out)["fixes"][0]
    assert {part["kind"] for part in first["parts"]} == {"flag"}
    assert "place: {hosts: [esx-02.lab]}" in first["text"]
    flags = [part["command"] for part in first["parts"]]
    assert sorted(flags) == ["--allow-move", "--allow-power-cycle"]
    vgpu_cfg.done("apply", "fixed.yaml", "--yes", *flags)
    assert vgpu_cfg.done("plan", "fixed.yaml", "--exit-code").code == 0


def test_hosts_to_add_are_counted_once_and_are_enough(vgpu_cfg: CommandLine) -> None:
    vgpu_cfg.write(
        "many.yaml",
        """\
version: 1
name: many
vcenter: lab:two-a100
vms:
- {name: 'v{1..9}', template: ubuntu-22.04-efi, gpus: grid_a100-40c}
- {name: 'w{1..4}', template: ubuntu-22.04-efi, gpus: grid_a100-20c}
""",
    )
    refused = vgpu_cfg("plan", "many.yaml", "--output", "json")
    (fix,) = json.loads(refused.out)["fixes"]
    assert [part["says"] for part in fix["parts"]] == ["add 5 hosts like esx-a100-01.lab, without VMs"]
