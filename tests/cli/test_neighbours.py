"""VMs of other products are named as holders of GPUs, and neither moved, nor switched off, nor taken over."""

from __future__ import annotations

import json

import pytest

from tests.cli.command_line import CommandLine
from vgpu_cfg.lab.state.inventory import VirtualMachine

ESTATE = "estates/neighbours.yaml"
SERVER = f"--server=lab:{ESTATE}"
MANAGED = {
    "worker-1": "VM Operator, namespace ml",
    "vm-7c1e": "BOSH, deployment cf",
    "desk-1": "the extension com.example.desktops",
}
PLAN = """\
version: 1
name: course
id: 6b1d7c20-8e4f-4a15-b3d9-27f0c5a91e03
vcenter: lab:estates/neighbours.yaml
vms:
- {name: NAME, template: ubuntu-22.04-efi, cluster: gpu, cpus: 4, memory: 8GiB, gpus: grid_a100-20c}
"""


def revisions(vgpu_cfg: CommandLine) -> dict[str, tuple[str, str | None, bool]]:
    """Return of each VM what a change, a move, or a power operation would alter."""
    vms = vgpu_cfg.lab(ESTATE).state.all(VirtualMachine)
    return {vm.name: (vm.change_version, vm.host, vm.is_on) for vm in vms}


def test_the_pool_names_each_product_that_holds_gpus(vgpu_cfg: CommandLine) -> None:
    told = vgpu_cfg.done("inventory", "--gpus", SERVER)
    for words in MANAGED.values():
        assert f"{words}: 1 VM with 1 GPU device" in told.told
    answer = json.loads(vgpu_cfg.done("inventory", "--gpus", SERVER, "--output=json").out)
    found = {row["manager"]: (row["vms"], row["devices"]) for row in answer["managed"]}
    assert found == {words: ([name], 1) for name, words in MANAGED.items()}


def test_draining_leaves_them_whatever_is_approved_and_agents_to_vcenter(vgpu_cfg: CommandLine) -> None:
    before = revisions(vgpu_cfg)
    approved = [f"--power-off={name}" for name in MANAGED]
    ran = vgpu_cfg("drain", "host:esx-01.lab", "--others", *approved, "--yes", SERVER)
    assert ran.code == 4, ran.told
    for name, words in MANAGED.items():
        assert f"{name}: the VM is managed by {words}" in ran.told
    assert "agent-1" not in ran.told
    assert revisions(vgpu_cfg) == before


def test_a_host_without_them_is_emptied(vgpu_cfg: CommandLine) -> None:
    estate = (vgpu_cfg.folder / ESTATE).read_text()
    vgpu_cfg.write(ESTATE, estate.replace("name: free-1, host: esx-01", "name: free-1, host: esx-02"))
    vgpu_cfg.done("drain", "host:esx-02.lab", "--others", "--yes", SERVER)
    host = revisions(vgpu_cfg)["free-1"][1]
    assert host == revisions(vgpu_cfg)["desk-1"][1]


@pytest.mark.parametrize("name", [*MANAGED, "free-1"])
def test_only_what_nobody_manages_is_taken_over(vgpu_cfg: CommandLine, name: str) -> None:
    plan = vgpu_cfg.write("plan.yaml", PLAN.replace("NAME", name))
    ran = vgpu_cfg("import", plan, "--yes")
    if words := MANAGED.get(name):
        assert ran.code == 4, ran.told
        assert f"VG004 {name}: the VM is managed by {words}" in ran.told
        return
    assert ran.code == 0, ran.told
