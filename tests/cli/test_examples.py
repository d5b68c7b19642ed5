"""Every example runs on its estate: applied, applied again with nothing to do, and taken away again."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.cli.command_line import ROOT, CommandLine
from tests.extent import each
from vgpu_cfg.lab.state.inventory import Host, LabState, VirtualMachine
from vgpu_cfg.plan_loading import load_plan

OF_HOSTS = "prepare-hosts.yaml"
"""It waits for a manual step on the way: test_hosts.py."""
EXAMPLES = sorted(path.name for path in (ROOT / "examples").glob("*.yaml") if path.name != OF_HOSTS)
SMALL = ("four-10c.yaml", "hgx-eight-gpu.yaml", "two-vgpus.yaml")
"""Examples whose cycle every run goes through; what is the others' alone has tests of its own."""
WHY = "the cycle of every example: tests/cli/test_examples.py"
WAYS = pytest.mark.exhaustive("every way in which a host may choose a GPU: tests/cli/test_examples.py")
GPU_CHOICES = (
    pytest.param("least_loaded", marks=WAYS),
    pytest.param("lowest", marks=WAYS),
    "random",
)


def estate_and_vms(example: str) -> tuple[str, frozenset[str]]:
    desired = load_plan(ROOT / "examples" / example).desired
    assert desired.vcenter is not None
    return desired.vcenter.removeprefix("lab:"), frozenset(vm.name for vm in desired.vms)


def vm_named(state: LabState, name: str) -> VirtualMachine:
    return next(vm for vm in state.all(VirtualMachine) if vm.name == name)


def gpus_of(state: LabState, vm: VirtualMachine) -> list[tuple[str, str, int | None]]:
    """Return address, profile and NUMA node of the GPUs on which a VM's vGPUs run."""
    return [
        (gpu.pci_id, use.profile, gpu.numa_node)
        for host in state.all(Host)
        for gpu in host.gpus
        for use in gpu.uses
        if use.vm == vm.moid
    ]


def test_there_is_an_example_of_each_kind() -> None:
    assert len(EXAMPLES) >= 6


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "example", each(((example,) for example in EXAMPLES), WHY, SMALL.__contains__, one_of=12)
)
def test_an_example_runs_and_goes_again(example: str, vgpu_cfg: CommandLine) -> None:
    plan = Path("examples", example)
    estate, names = estate_and_vms(example)
    before = vgpu_cfg.look(estate)

    planned = vgpu_cfg("plan", plan, "--exit-code")
    assert planned.code == 10
    assert vgpu_cfg.look(estate) == before

    vgpu_cfg.done("apply", "--yes", plan)
    applied = vgpu_cfg.look(estate)
    assert applied.vms - before.vms == names
    assert all(vm_named(vgpu_cfg.lab(estate).state, name).is_on for name in names)

    again = vgpu_cfg.done("apply", "--yes", plan)
    seen = vgpu_cfg.look(estate)
    if any(entry.access.ssh == "open-and-close" for entry in load_plan(plan).desired.hosts):
        # The service of a shell that was opened to be read was started and stopped: no more than that.
        seen = replace(seen, revision=applied.revision)
    assert seen == applied, again.out
    assert vgpu_cfg("plan", plan, "--exit-code").code == 0
    assert vgpu_cfg("status", plan, "--exit-code").code == 0
    if load_plan(plan).desired.training is not None:
        vgpu_cfg.done("verify", plan)  # it leaves nothing behind but what its guests wrote and removed
        assert vgpu_cfg("plan", plan, "--exit-code").code == 0

    vgpu_cfg.done("destroy", "--yes", "--allow-destroy", "20", plan)
    destroyed = vgpu_cfg.look(estate)
    assert (destroyed.vms, destroyed.rules) == (before.vms, before.rules)
    assert vgpu_cfg("status", plan, "--exit-code").code == 10

    vgpu_cfg.done("destroy", "--yes", plan)
    assert vgpu_cfg.look(estate) == destroyed


@pytest.mark.parametrize("choice", GPU_CHOICES)
def test_the_guides_case_however_the_host_chooses_gpus(choice: str, vgpu_cfg: CommandLine) -> None:
    plan = Path("plans/pair.yaml")
    vgpu_cfg.done("apply", "--yes", plan, VGPU_CFG_LAB_GPU_CHOICE=choice)
    state = vgpu_cfg.lab("two-a100").state
    held = {}
    for name in ("hvd-01", "hvd-02"):
        vm = vm_named(state, name)
        assert (vm.is_on, vm.firmware, vm.memory_mib) == (True, "efi", 64 * 1024)
        assert vm.memory_reservation_locked
        assert vm.memory_reservation_mib == vm.memory_mib
        assert vm.extra_config["pciPassthru.use64bitMMIO"] == "TRUE"
        assert int(vm.extra_config["pciPassthru.64bitMMIOSizeGB"]) >= 128
        ((address, profile, node),) = gpus_of(state, vm)
        assert profile == "grid_a100-40c"
        assert vm.extra_config["numa.nodeAffinity"] == str(node)
        held[name] = address
    assert set(held.values()) == {"0000:21:00.0", "0000:e2:00.0"}

    before = vgpu_cfg.look("two-a100")
    vgpu_cfg.done("apply", "--yes", plan, VGPU_CFG_LAB_GPU_CHOICE=choice)
    assert vgpu_cfg.look("two-a100") == before
    vgpu_cfg.done("destroy", "--yes", plan)
    assert before.vms - vgpu_cfg.look("two-a100").vms == {"hvd-01", "hvd-02"}


@pytest.mark.parametrize("seed", range(4))
def test_a_host_that_chooses_at_random_is_followed(seed: int, vgpu_cfg: CommandLine) -> None:
    chance = {"VGPU_CFG_LAB_GPU_CHOICE": "random", "VGPU_CFG_LAB_SEED": str(seed)}
    vgpu_cfg.done("apply", "--yes", "examples/full-vgpu.yaml", **chance)
    state = vgpu_cfg.lab("two-a100").state
    vm = vm_named(state, "big-01")
    ((_, _, node),) = gpus_of(state, vm)
    assert vm.extra_config["numa.nodeAffinity"] == str(node)


def test_one_vm_with_two_gpus_gets_both_nodes(vgpu_cfg: CommandLine) -> None:
    vgpu_cfg.done("apply", "--yes", "examples/two-vgpus.yaml")
    state = vgpu_cfg.lab("two-a100").state
    vm = vm_named(state, "double-01")
    assert {node for _, _, node in gpus_of(state, vm)} == {0, 1}
    assert vm.extra_config["numa.nodeAffinity"] == "0,1"
    assert int(vm.extra_config["pciPassthru.64bitMMIOSizeGB"]) >= 256


@pytest.mark.parametrize("choice", GPU_CHOICES)
def test_two_vms_get_a_bridged_pair_each(choice: str, vgpu_cfg: CommandLine) -> None:
    vgpu_cfg.done("apply", "--yes", "examples/nvlink-pair.yaml", VGPU_CFG_LAB_GPU_CHOICE=choice)
    state = vgpu_cfg.lab("nvlink-4xa100").state
    peers = {gpu.pci_id: set(gpu.nvlink_peers) for host in state.all(Host) for gpu in host.gpus}
    for name in ("pair-01", "pair-02"):
        vm = vm_named(state, name)
        (one, _, node), (other, _, other_node) = gpus_of(state, vm)
        assert other in peers[one]
        assert node == other_node
        assert vm.extra_config["numa.nodeAffinity"] == str(node)
        assert list(vm.device_groups.values()) == ["Nvidia:2@grid_a100d-80c%NVLink"]
        assert int(vm.extra_config["pciPassthru.64bitMMIOSizeGB"]) >= 512


def test_one_vm_has_all_of_an_hgx_server(vgpu_cfg: CommandLine) -> None:
    vgpu_cfg.done("apply", "--yes", "examples/hgx-eight-gpu.yaml")
    state = vgpu_cfg.lab("hgx-h100").state
    vm = vm_named(state, "hgx-01")
    held = gpus_of(state, vm)
    assert len({address for address, _, _ in held}) == 8
    assert {node for _, _, node in held} == {0, 1}
    assert vm.extra_config["numa.nodeAffinity"] == "0,1"
    assert vm.extra_config["pciPassthru.64bitMMIOSizeGB"] == "2048"
    assert list(vm.device_groups.values()) == ["Nvidia:8@nvidia_h100xm-80c%NVLink"]


@pytest.mark.parametrize("choice", GPU_CHOICES)
def test_slices_of_four_sizes_fill_two_gpus(choice: str, vgpu_cfg: CommandLine) -> None:
    plan = "examples/mig-mix.yaml"
    vgpu_cfg.done("apply", "--yes", plan, VGPU_CFG_LAB_GPU_CHOICE=choice)
    state = vgpu_cfg.lab("mig-a100").state
    held = {
        gpu.pci_id: {use.profile.removeprefix("grid_a100-") for use in gpu.uses}
        for host in state.all(Host)
        for gpu in host.gpus
    }
    assert sorted(held.values(), key=len) == [{"4-20c", "3-20c"}, {"4-20c", "2-10c", "1-5c"}]
    assert vgpu_cfg("plan", plan, "--exit-code", VGPU_CFG_LAB_GPU_CHOICE=choice).code == 0


@pytest.mark.parametrize("choice", GPU_CHOICES)
def test_vgpus_of_three_sizes_share_gpus(choice: str, vgpu_cfg: CommandLine) -> None:
    plan = "examples/mixed-sizes.yaml"
    vgpu_cfg.done("apply", "--yes", plan, VGPU_CFG_LAB_GPU_CHOICE=choice)
    state = vgpu_cfg.lab("mixed-size-l40s").state
    _, names = estate_and_vms("mixed-sizes.yaml")
    assert all(vm_named(state, name).is_on for name in names)
    sizes = [{use.profile for use in gpu.uses} for host in state.all(Host) for gpu in host.gpus]
    assert any(len(profiles) > 1 for profiles in sizes)
    for name in names:
        vm = vm_named(state, name)
        ((_, _, node),) = gpus_of(state, vm)
        assert vm.extra_config["numa.nodeAffinity"] == str(node)
    assert vgpu_cfg("plan", plan, "--exit-code", VGPU_CFG_LAB_GPU_CHOICE=choice).code == 0


def test_seven_slices_fill_one_gpu(vgpu_cfg: CommandLine) -> None:
    vgpu_cfg.done("apply", "--yes", "examples/mig-seven.yaml")
    state = vgpu_cfg.lab("mig-a100").state
    vms = [vm_named(state, f"slice-0{number}") for number in range(1, 8)]
    assert len({gpus_of(state, vm)[0][0] for vm in vms}) == 1


@pytest.mark.parametrize(
    ("estate", "plan", "tasks"),
    [
        pytest.param("one-a100", "full-vgpu", 2, id="clone, power on"),
        pytest.param("estates/old-template.yaml", "two-vgpus", 4, id="clone, upgrade, reconfigure, power on"),
    ],
)
def test_a_vm_takes_as_few_tasks_as_the_server_allows(
    estate: str, plan: str, tasks: int, vgpu_cfg: CommandLine
) -> None:
    words = [f"examples/{plan}.yaml", "--server", f"lab:{estate}", "--output", "json"]
    report = json.loads(vgpu_cfg.done("apply", "--yes", *words).out)
    assert report["tasks"] == len(vgpu_cfg.look(estate).tasks) == tasks
