"""What somebody changed by hand goes into the plan file, and then nothing differs any more."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyVmomi import vim

from tests.cli.colleague import Colleague
from tests.cli.command_line import CommandLine
from tests.extent import each

HEAD = """\
# What the whole team trains on.
version: 1
name: told
vcenter: lab:two-a100
vars: {many: 4}
defaults: {template: ubuntu-22.04-efi, cluster: gpu, folder: training, memory: 16GiB}  # all of them
vms:
"""
KEYS = """\
  cpus: 4  # as many as the GPU's driver asks for
  gpus: grid_a100-10c
  nics: [vm-network]
  disks: [{grow: 100GiB}, {size: 20GiB}]
  secure_boot: false
  boot_delay: 5
  cpu_hot_add: false
  memory_hot_add: false
  latency_sensitivity: normal
  drs: manual
  ha: {restart: high, monitoring: vm}
  extra_config: {sched.mem.pshare.enable: "FALSE"}
  attributes: {owner: ml-team}
"""
ONE = f"{HEAD}- name: vm-01\n{KEYS}"
MANY = f'{HEAD}- name: "vm-{{01..02}}"\n{KEYS}'

Spec: Any = vim.vm.ConfigSpec
Change = Callable[[Any], Any]


def _device(
    kind: Any, operation: str, change: Callable[[Any], None] | None = None, index: int = -1
) -> Change:
    def spec(vm: Any) -> Any:
        device = [one for one in vm.config.hardware.device if isinstance(one, kind)][index]
        if change is not None:
            change(device)
        return Spec(deviceChange=[vim.vm.device.VirtualDeviceSpec(operation=operation, device=device)])

    return spec


def _another_profile(vm: Any) -> Any:
    """Remove the vGPU and add a larger one, as the vSphere Client does."""
    made = vim.vm.device.VirtualPCIPassthrough(
        key=-1, backing=vim.vm.device.VirtualPCIPassthrough.VmiopBackingInfo(vgpu="grid_a100-20c")
    )
    spec = _device(vim.vm.device.VirtualPCIPassthrough, "remove")(vm)
    spec.deviceChange.append(vim.vm.device.VirtualDeviceSpec(operation="add", device=made))
    return spec


def _grown(device: Any) -> None:
    device.capacityInKB += 10 << 20


BY_HAND: dict[str, Change] = {
    "cpus": lambda _: Spec(numCPUs=8),
    "memory": lambda _: Spec(memoryMB=8192),
    "gpus": _device(vim.vm.device.VirtualPCIPassthrough, "remove"),
    "another profile": _another_profile,
    "nics": _device(vim.vm.device.VirtualVmxnet3, "remove"),
    "disks": _device(vim.vm.device.VirtualDisk, "remove"),
    "a larger disk": _device(vim.vm.device.VirtualDisk, "edit", _grown),
    "boot_delay": lambda _: Spec(bootOptions=vim.vm.BootOptions(bootDelay=9000)),
    "secure_boot": lambda _: Spec(bootOptions=vim.vm.BootOptions(efiSecureBootEnabled=True)),
    "cpu_hot_add": lambda _: Spec(cpuHotAddEnabled=True),
    "memory_hot_add": lambda _: Spec(memoryHotAddEnabled=True),
    "extra_config": lambda _: Spec(
        extraConfig=[vim.option.OptionValue(key="sched.mem.pshare.enable", value="TRUE")]
    ),
    "affinity": lambda _: Spec(extraConfig=[vim.option.OptionValue(key="numa.nodeAffinity", value="1")]),
}


@pytest.fixture
def made(vgpu_cfg: CommandLine) -> Callable[[str], Colleague]:
    def make(text: str) -> Colleague:
        vgpu_cfg.done("apply", "--yes", vgpu_cfg.write("plan.yaml", text))
        return Colleague(vgpu_cfg.lab("two-a100"))

    return make


def taken_in(vgpu_cfg: CommandLine, *names: str) -> str:
    vgpu_cfg.done("export", "--update", "plan.yaml", *(f"--vm={name}" for name in names), "--yes")
    ran = vgpu_cfg("plan", "plan.yaml", "--exit-code")
    assert ran.code == 0, ran.told
    return Path("plan.yaml").read_text(encoding="utf-8")


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "what", each(((one,) for one in BY_HAND), "each drift by itself", lambda _what: False, one_of=6)
)
@pytest.mark.parametrize("text", [ONE, MANY], ids=["one", "many"])
def test_after_each_drift_the_file_says_what_is_there(
    text: str, what: str, made: Callable[[str], Colleague], vgpu_cfg: CommandLine
) -> None:
    colleague = made(text)
    colleague.does("vm-01", "PowerOffVM_Task")
    colleague.reconfigures("vm-01", BY_HAND[what])
    taken_in(vgpu_cfg, "vm-01")


def test_all_of_it_at_once_and_nothing_else(made: Callable[[str], Colleague], vgpu_cfg: CommandLine) -> None:
    colleague = made(MANY)
    colleague.does("vm-01", "PowerOffVM_Task")
    for what, change in BY_HAND.items():
        if what not in ("another profile", "a larger disk"):
            colleague.reconfigures("vm-01", change)
    colleague.sets_attribute("vm-01", "owner", "eve")
    colleague.overrides("gpu", "vm-01", drs="fullyAutomated", restart="low")
    before = vgpu_cfg.look("two-a100")
    text = taken_in(vgpu_cfg, "vm-0*")
    assert text.startswith(MANY)
    assert "vm-02" not in text
    assert vgpu_cfg.look("two-a100") == before
    assert (
        "the selected VMs match the plan file" in vgpu_cfg("export", "--update", "plan.yaml", "--vm=*").told
    )


def test_a_vm_of_its_own_is_edited_in_its_line(
    made: Callable[[str], Colleague], vgpu_cfg: CommandLine
) -> None:
    colleague = made(ONE)
    colleague.does("vm-01", "PowerOffVM_Task")
    colleague.reconfigures("vm-01", BY_HAND["cpus"])
    shown = vgpu_cfg("export", "--update", "plan.yaml", "--vm=vm-01", "--dry-run")
    assert shown.code == 0
    assert "+   cpus: 8  # as many as the GPU's driver asks for" in shown.out
    assert Path("plan.yaml").read_text(encoding="utf-8") == ONE
    assert vgpu_cfg("export", "--update", "plan.yaml", "--vm=vm-01").code != 0  # nobody to ask
    assert Path("plan.yaml").read_text(encoding="utf-8") == ONE
    text = taken_in(vgpu_cfg, "vm-01")
    assert text == ONE.replace("cpus: 4 ", "cpus: 8 ") + "  power: false\n"


def test_what_all_vms_of_a_line_have_goes_into_the_line(
    made: Callable[[str], Colleague], vgpu_cfg: CommandLine
) -> None:
    colleague = made(MANY)
    for name in ("vm-01", "vm-02"):
        colleague.does(name, "PowerOffVM_Task")
        colleague.reconfigures(name, BY_HAND["cpus"])
    colleague.reconfigures("vm-02", BY_HAND["memory"])
    text = taken_in(vgpu_cfg, "vm-*")
    ending = "  power: false\n  except:\n    vm-02: {memory: 8GiB}\n"
    assert text == MANY.replace("cpus: 4 ", "cpus: 8 ") + ending


def test_what_cannot_be_written_is_told(made: Callable[[str], Colleague], vgpu_cfg: CommandLine) -> None:
    text = f'{HEAD}- {{name: vm-01, cpus: "${{many}}"}}\n- {{name: "vm-{{02..03}}", gpus: grid_a100-10c}}\n'
    colleague = made(text)
    colleague.does("vm-01", "PowerOffVM_Task")
    colleague.does("vm-03", "PowerOffVM_Task")
    colleague.does("vm-03", "Destroy_Task")
    colleague.reconfigures("vm-01", BY_HAND["cpus"])
    colleague.does("vm-02", "Rename_Task", "theirs")
    ran = vgpu_cfg("export", "--update", "plan.yaml", "--vm=*", "--yes")
    assert ran.code == 10
    assert "vm-02 name: `apply` restores the old name" in ran.told
    assert "vm-01 cpus: plan.yaml:8 uses ${many}: change the variable" in ran.told
    assert "vm-03 VM: the VM does not exist" in ran.told
    assert "power: false" in Path("plan.yaml").read_text(encoding="utf-8")


def test_a_link_that_somebody_put_beside_the_plan_file_leads_nowhere(
    made: Callable[[str], Colleague], vgpu_cfg: CommandLine
) -> None:
    colleague = made(ONE)
    colleague.does("vm-01", "PowerOffVM_Task")
    colleague.reconfigures("vm-01", BY_HAND["cpus"])
    Path("precious").write_text("mine\n", encoding="utf-8")
    Path(".plan.yaml.unfinished").symlink_to("precious")
    assert "cpus: 8" in taken_in(vgpu_cfg, "vm-01")
    assert Path("precious").read_text(encoding="utf-8") == "mine\n"


def test_a_name_that_is_none_is_refused(vgpu_cfg: CommandLine) -> None:
    vgpu_cfg.write("plan.yaml", ONE)
    ran = vgpu_cfg("export", "--update", "plan.yaml", "--vm=vm-1")
    assert "the plan file contains no VM named 'vm-1'" in ran.told
