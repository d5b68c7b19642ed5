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
OWNERS = {
    "worker-1": "namespace ml",
    "vm-7c1e": "deployment cf",
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


def revisions(vgpu_cfg: CommandLine, estate: str = ESTATE) -> dict[str, tuple[str, str | None, bool]]:
    """Return of each VM what a change, a move, or a power operation would alter."""
    vms = vgpu_cfg.lab(estate).state.all(VirtualMachine)
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
        assert f"ask the owner, {OWNERS[name]}, to make the change" in ran.told
        return
    assert ran.code == 0, ran.told


MANY = "estates/many-neighbours.yaml"
NEIGHBOURS = ("worker-1", "tkc-1-pool-a-x7", "vm-7c1e", "desk-1")
POOL, HELD, RESERVED = 12, 5, 2
"""Units of grid_a100-20c on the estate's six GPUs: all, those of running VMs, those that vCenter reserves."""
FREE = POOL - HELD - RESERVED
TRAINING = """\
version: 1
name: training
id: 6b1d7c20-8e4f-4a15-b3d9-27f0c5a91e04
vcenter: lab:estates/many-neighbours.yaml
vms:
- {name: "t-{01..NN}", template: ubuntu-22.04-efi, cluster: gpu, cpus: 2, memory: 4GiB, gpus: grid_a100-20c}
"""
HOSTS = """\
version: 1
name: hosts
id: 6b1d7c20-8e4f-4a15-b3d9-27f0c5a91e05
vcenter: lab:estates/many-neighbours.yaml
hosts:
- cluster: gpu
  gpus: [{match: {numa: 0}, use: vgpu, sharing: mig}]
  disruption: {allow: [maintenance, reboot]}
"""
QUOTAS = """\
version: 1
owners:
  namespace ml: {A100: 1}
  namespace train: {A100: 1}
  deployment cf: {A100: 1}
  DirectPath profile inference: {A100: 1}
others: {A100: 4}
"""


def plan_of(vgpu_cfg: CommandLine, count: int) -> str:
    return str(vgpu_cfg.write("training.yaml", TRAINING.replace("NN", f"{count:02}")))


def test_room_quotas_and_placement_agree_on_what_neighbours_hold(vgpu_cfg: CommandLine) -> None:
    server = f"--server=lab:{MANY}"
    quotas = vgpu_cfg.write("quotas.yaml", QUOTAS)
    pool = json.loads(vgpu_cfg.done("inventory", "--gpus", server, "--quotas", quotas, "--output=json").out)
    assert {one["manager"]: one["devices"] for one in pool["managed"]} == {
        "BOSH, deployment cf": 1,
        "DirectPath profile inference": 2,
        "VM Operator, namespace ml": 1,
        "VM Operator, namespace train": 1,
        "the extension com.example.desktops": 1,
    }
    (row,) = pool["pool"]
    assert row["used"] == {"grid_a100-20c": HELD + RESERVED}
    assert row["room"]["grid_a100-20c"] == FREE
    held = {one["name"]: one["held_gpus"] for one in pool["shares"]}
    assert held.pop("DirectPath profile inference") == RESERVED / 2
    assert sum(held.values()) == HELD / 2
    fit = json.loads(vgpu_cfg.done("fit", "grid_a100-20c", server, "--output=json").out)
    assert (fit["total"], sum(one["count"] for one in fit["hosts"])) == (FREE, FREE)
    assert vgpu_cfg("plan", plan_of(vgpu_cfg, FREE)).code == 0
    refused = vgpu_cfg("plan", plan_of(vgpu_cfg, FREE + 1))
    assert refused.code == 4
    assert not [name for name in NEIGHBOURS if f"move {name}" in refused.told]


def test_no_run_touches_a_neighbour(vgpu_cfg: CommandLine) -> None:
    """The witness: each way to change an estate, with every approval that there is."""
    server = f"--server=lab:{MANY}"
    before = {name: revisions(vgpu_cfg, MANY)[name] for name in NEIGHBOURS}
    plan = plan_of(vgpu_cfg, FREE)
    approved = [f"--power-off={name}" for name in (*NEIGHBOURS, "free-1")]
    hosts = vgpu_cfg.write("hosts.yaml", HOSTS)
    vgpu_cfg.done("apply", plan, "--yes")
    for number in (1, 2):
        ran = vgpu_cfg("drain", f"host:esx-0{number}.lab", "--others", *approved, "--yes", server)
        assert ran.code == 4, ran.told
        assert "ask the owner, namespace" in ran.told
    ran = vgpu_cfg("apply", hosts, "--yes")
    assert ran.code == 7, ran.told
    assert (
        "worker-1 is running with a vGPU on the host and is managed by VM Operator, namespace ml" in ran.told
    )
    vgpu_cfg.done("upgrade", "--driver=595.71", server)
    vgpu_cfg.done("destroy", plan, "--yes")
    after = revisions(vgpu_cfg, MANY)
    assert {name: after[name] for name in NEIGHBOURS} == before
    assert set(after) == {*NEIGHBOURS, "free-1", "ubuntu-22.04-efi"}
