"""What a fix does to VMs that are not the plan's, on a fleet: none is stranded, and acts come with edits."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pyVmomi import vim

from tests.cli.command_line import CommandLine
from vgpu_cfg.lab.state.inventory import Host, VirtualMachine

FLEET = "mixed-fleet"
ORDINARY = "template: ubuntu-22.04-efi, cluster: a100"
TRAINING = f"""\
version: 1
name: data-science
vcenter: lab:{FLEET}
defaults: {{{ORDINARY}, cpus: 4, memory: 32GiB, folder: training, place: {{pack: true}}}}
vms:
- {{name: "ds-{{1..3}}", gpus: grid_a100d-40c}}
- {{name: "ds-{{4..6}}", gpus: grid_a100d-10c}}
"""
WHOLE = f"""\
version: 1
name: big
vcenter: lab:{FLEET}
vms: [{{name: "big-{{1..2}}", {ORDINARY}, cpus: 8, memory: 64GiB, gpus: grid_a100d-80c}}]
"""
SLICES = f"""\
version: 1
name: chem-and-bio
vcenter: lab:{FLEET}
defaults: {{{ORDINARY}, cpus: 4, memory: 16GiB}}
vms:
- {{name: "bio-{{01..05}}", gpus: grid_a100d-1-10c}}
- {{name: "phys-{{01..03}}", gpus: grid_a100d-3-40c}}
- {{name: "chem-{{01..04}}", gpus: grid_a100d-2-20c}}
- {{name: geo, gpus: grid_a100d-40c}}
"""


def fixes(run: CommandLine, plan: str) -> list[dict[str, Any]]:
    refused = run("plan", plan, "--output", "json")
    assert refused.code == 4
    found: list[dict[str, Any]] = json.loads(refused.out)["fixes"]
    return found


@pytest.mark.exhaustive("longer runs of what the tests beside them try")
def test_no_fix_moves_a_vm_to_gpus_in_another_mode(vgpu_cfg: CommandLine) -> None:
    vgpu_cfg.write("ds.yaml", TRAINING)
    vgpu_cfg.done("apply", "--yes", "ds.yaml")
    for fix in fixes(vgpu_cfg, str(vgpu_cfg.write("big.yaml", WHOLE))):
        assert not [part for part in fix["parts"] if "esx-a100-04" in part["says"]]
        assert all(one["host"] for one in fix["others"])


@pytest.mark.exhaustive("longer runs of what the tests beside them try")
def test_an_edit_comes_with_the_move_of_what_is_in_its_way(vgpu_cfg: CommandLine) -> None:
    (fix,) = fixes(vgpu_cfg, str(vgpu_cfg.write("slices.yaml", SLICES)))
    (act,) = [part for part in fix["parts"] if part["kind"] == "outside"]
    assert act["says"] == "move plain-db from esx-a100-02.lab to esx-a100-01.lab"
    assert [(one["vm"], one["fate"], one["host"]) for one in fix["others"]] == [
        ("plain-db", "moved", "esx-a100-01.lab")
    ]
    assert "names: [esx-a100-02.lab]" in fix["text"]

    lab = vgpu_cfg.lab(FLEET)
    (db,) = [vm for vm in lab.state.all(VirtualMachine) if vm.name == "plain-db"]
    (host,) = [host for host in lab.state.all(Host) if host.name == "esx-a100-01.lab"]
    lab.call(db, "MigrateVM_Task", host=vim.HostSystem(host.moid), priority="defaultPriority")
    lab.run_until_idle()
    vgpu_cfg.write("fixed.yaml", fix["text"])
    assert "VG512" not in vgpu_cfg.done("plan", "fixed.yaml").told


def test_a_host_that_is_given_back_gets_its_vms_back_with_it(vgpu_cfg: CommandLine) -> None:
    """Its GPU is not free then: what a drain switched off for want of room comes home and starts."""
    host = "names: [esx-1.lab, esx-2.lab], gpus: [{board: A100}]"
    window = '{pciPassthru.use64bitMMIO: "TRUE", pciPassthru.64bitMMIOSizeGB: "512"}'
    vgpu_cfg.write(
        "two.yaml",
        f"""\
about: two hosts of a GPU each
clusters: [{{name: gpu, hosts: [{{{host}}}]}}]
templates: [{{name: ubuntu-22.04-efi, hardware_version: 21}}]
vms: [{{name: other, host: esx-2.lab, memory: 4GiB, gpus: [grid_a100-40c], extra_config: {window}}}]
""",
    )
    line = "template: ubuntu-22.04-efi, cluster: gpu, cpus: 2, memory: 8GiB, gpus: grid_a100-40c"
    for name in ("a", "b"):
        head = f"version: 1\nname: {name}\nvcenter: lab:./two.yaml\n"
        vgpu_cfg.write(f"{name}.yaml", f"{head}vms: [{{name: {name}, {line}}}]\n")
    vgpu_cfg.done("apply", "--yes", "a.yaml")
    vgpu_cfg.done("drain", "host:esx-1", "--power-off=a", "--server", "lab:./two.yaml", "--yes")
    for fix in fixes(vgpu_cfg, "b.yaml"):
        says = [part["says"] for part in fix["parts"]]
        assert says != ["have esx-1.lab uncordoned"]
        assert not any("uncordoned" in one for one in says) or "a" in {one["vm"] for one in fix["others"]}


def test_a_missing_driver_goes_before_switching_others_off(vgpu_cfg: CommandLine) -> None:
    window = '{pciPassthru.use64bitMMIO: "TRUE", pciPassthru.64bitMMIOSizeGB: "512"}'
    bare = "{name: esx-2.lab, driver: none, gpus: [{board: A100}]}"
    vgpu_cfg.write(
        "bare.yaml",
        f"""\
about: a host with NVIDIA's driver, and one without
clusters: [{{name: gpu, hosts: [{{name: esx-1.lab, gpus: [{{board: A100}}]}}, {bare}]}}]
templates: [{{name: ubuntu-22.04-efi, hardware_version: 21}}]
vms: [{{name: other, host: esx-1.lab, memory: 4GiB, gpus: [grid_a100-40c], extra_config: {window}}}]
""",
    )
    line = "template: ubuntu-22.04-efi, cluster: gpu, cpus: 2, memory: 8GiB, gpus: grid_a100-40c"
    plan = vgpu_cfg.write(
        "b.yaml", f"version: 1\nname: b\nvcenter: lab:./bare.yaml\nvms: [{{name: b, {line}}}]\n"
    )
    (fix,) = fixes(vgpu_cfg, str(plan))
    says = "install NVIDIA's host driver on esx-2.lab, with graphics type Shared Direct"
    assert [part["says"] for part in fix["parts"]] == [says]
    assert fix["others"] == []
