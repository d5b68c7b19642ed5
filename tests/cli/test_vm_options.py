"""Options of a VM by the command line on the lab: made, found in sync, changed by a colleague, fixed."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.cli.command_line import CommandLine, Ran
from tests.cli.team import kinds, vm_of
from vgpu_cfg.lab.state import tags
from vgpu_cfg.lab.state.cluster import VmOverride
from vgpu_cfg.lab.state.devices import has_tpm
from vgpu_cfg.lab.state.inventory import Cluster, LabState, Task, VirtualMachine

EVERY = pytest.mark.long("what a colleague changed, for every setting: tests/cli/test_vm_options.py")
ESTATE = "estates/options.yaml"
WITHOUT_KEYS = "estates/no-key-provider.yaml"
HEAD = """\
version: 1
name: told
vcenter: lab:{estate}
defaults: {{template: ubuntu-22.04-efi, cluster: gpu, folder: training, cpus: 4, memory: 16GiB}}
vms:
"""
OPTIONS = {
    "secure_boot": "true",
    "boot_delay": "5",
    "vtpm": "true",
    "cpu_hot_add": "true",
    "memory_hot_add": "false",
    "latency_sensitivity": "high",
    "drs": "manual",
    "ha": "{restart: high, monitoring: vm}",
    "attributes": "{owner: ml-team, cost: 12}",
}


def plan_of(vgpu_cfg: CommandLine, *names: str, estate: str = ESTATE, **options: str) -> str:
    """Write the plan of VMs that have a GPU and these options, and return its name."""
    keys = "".join(f"  {key}: {value}\n" for key, value in options.items())
    vms = "".join(f"- name: {name}\n  gpus: grid_a100-10c\n{keys}" for name in names or ("vm-01",))
    return str(vgpu_cfg.write("plan.yaml", HEAD.format(estate=estate) + vms))


def cluster_of(state: LabState) -> Cluster:
    return next(iter(state.all(Cluster)))


def override_of(state: LabState, name: str = "vm-01") -> VmOverride:
    return cluster_of(state).overrides[vm_of(state, name).moid]


def attributes_of(state: LabState, vm: VirtualMachine) -> dict[str, str]:
    names = {str(field["key"]): field["name"] for field in tags.fields_of(state)}
    return {names[key]: text for key, text in state.custom_values["values"][vm.moid].items()}


def test_a_vm_gets_what_is_asked_and_stays_so(vgpu_cfg: CommandLine) -> None:
    plan = plan_of(vgpu_cfg, **OPTIONS)
    vgpu_cfg.done("apply", "--yes", plan)
    state = vgpu_cfg.lab(ESTATE).state
    vm, own = vm_of(state, "vm-01"), override_of(state)
    assert vm.power_state == "poweredOn"
    assert (vm.secure_boot, vm.boot_delay_ms, vm.cpu_hot_add, vm.memory_hot_add) == (True, 5000, True, False)
    assert (vm.latency_sensitivity, vm.cpu_reservation_mhz) == ("high", 4 * 2794)
    assert has_tpm(vm.devices)
    assert (own.drs_enabled, own.drs_behavior) == (True, "manual")
    assert own.das_settings.restartPriority == "high"
    assert own.das_settings.vmToolsMonitoringSettings.vmMonitoring == "vmMonitoringOnly"
    assert attributes_of(state, vm) == {"owner": "ml-team", "cost": "12"}
    assert ": in sync, " in vgpu_cfg.done("plan", plan, "--exit-code").told
    before = vgpu_cfg.look(ESTATE)
    vgpu_cfg.done("apply", "--yes", plan)
    assert vgpu_cfg.look(ESTATE) == before


def test_overrides_are_the_third_task_and_come_before_the_power_on(vgpu_cfg: CommandLine) -> None:
    vgpu_cfg.done("apply", "--yes", plan_of(vgpu_cfg, **OPTIONS))
    assert [task.name for task in vgpu_cfg.lab(ESTATE).state.all(Task)] == [
        "CloneVM_Task",
        "ReconfigureComputeResource_Task",
        "PowerOnVM_Task",
    ]


def hot_add(state: LabState, vm: VirtualMachine) -> None:
    vm.cpu_hot_add = False


def memory_hot_add(state: LabState, vm: VirtualMachine) -> None:
    vm.memory_hot_add = True


def boot_delay(state: LabState, vm: VirtualMachine) -> None:
    vm.boot_delay_ms = 0


def latency(state: LabState, vm: VirtualMachine) -> None:
    vm.latency_sensitivity = "normal"


def reservation(state: LabState, vm: VirtualMachine) -> None:
    vm.cpu_reservation_mhz = 0


def drs(state: LabState, vm: VirtualMachine) -> None:
    cluster = cluster_of(state)
    cluster.overrides[vm.moid] = replace(cluster.overrides[vm.moid], drs_behavior="fullyAutomated")
    state.touch(cluster)


def no_override(state: LabState, vm: VirtualMachine) -> None:
    cluster = cluster_of(state)
    cluster.overrides.pop(vm.moid)
    state.touch(cluster)


def attribute(state: LabState, vm: VirtualMachine) -> None:
    tags.set_attribute(state, vm, "owner", "somebody")


def tpm(state: LabState, vm: VirtualMachine) -> None:
    kept = {key: device for key, device in vm.devices.items() if not has_tpm({key: device})}
    vm.made_devices = kept


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("hand", "keys", "is_live"),
    [
        pytest.param(hot_add, ["cpu_hot_add"], False, marks=EVERY),
        pytest.param(memory_hot_add, ["memory_hot_add"], False, marks=EVERY),
        (boot_delay, ["boot_delay"], True),
        pytest.param(latency, ["latency_sensitivity"], False, marks=EVERY),
        pytest.param(reservation, ["cpu_reservation"], False, marks=EVERY),
        (tpm, ["vtpm"], False),
        pytest.param(drs, ["vm-01 drs"], True, marks=EVERY),
        (no_override, ["vm-01 drs", "vm-01 ha_restart", "vm-01 ha_monitoring"], True),
        (attribute, ["owner"], True),
    ],
)
def test_what_a_colleague_changed_is_told_alike_everywhere_and_mended(
    hand: Callable[[LabState, VirtualMachine], None],
    keys: list[str],
    is_live: bool,
    vgpu_cfg: CommandLine,
) -> None:
    plan = plan_of(vgpu_cfg, **OPTIONS)
    vgpu_cfg.done("apply", "--yes", plan)
    lab = vgpu_cfg.lab(ESTATE)
    with lab.transaction():
        vm = vm_of(lab.state, "vm-01")
        hand(lab.state, vm)
        lab.state.touch(vm)
    told = json.loads(vgpu_cfg("plan", plan, "--allow-power-cycle", "--output", "json").out)["plan"]
    edits = [edit for change in told["changes"] for edit in change["edits"] if edit["key"] != "power"]
    assert [edit["key"] for edit in edits] == keys
    shown = vgpu_cfg.done("plan", plan, "-v", "--allow-power-cycle").told
    by_hand = vgpu_cfg.done("runbook", plan, "--allow-power-cycle").told
    status = vgpu_cfg.done("status", plan).told
    for edit in edits:
        assert edit["key"] in shown
        assert edit["key"] in by_hand
        assert edit["key"].removeprefix("vm-01 ") in status
    assert ", 1 differ" in status or ", 1 differs" in status
    if not is_live:
        refused = vgpu_cfg("apply", "--yes", plan)
        assert refused.code == 4
        assert "VG007" in refused.told
    vgpu_cfg.done("apply", "--yes", plan, *([] if is_live else ["--allow-power-cycle"]))
    assert ": in sync, " in vgpu_cfg.done("plan", plan, "--exit-code").told
    assert vm_of(vgpu_cfg.lab(ESTATE).state, "vm-01").power_state == "poweredOn"


def test_a_virtual_tpm_without_a_key_provider_is_refused_before_the_first_change(
    vgpu_cfg: CommandLine,
) -> None:
    before = vgpu_cfg.look(WITHOUT_KEYS)
    ran = vgpu_cfg("apply", "--yes", plan_of(vgpu_cfg, estate=WITHOUT_KEYS, vtpm="true"))
    assert ran.code == 4
    assert "VG216" in ran.told
    assert vgpu_cfg.look(WITHOUT_KEYS) == before
    vgpu_cfg.done("apply", "--yes", plan_of(vgpu_cfg, estate=WITHOUT_KEYS, vtpm="false"))


def test_normal_gives_back_what_high_had_reserved(vgpu_cfg: CommandLine) -> None:
    vgpu_cfg.done("apply", "--yes", plan_of(vgpu_cfg, latency_sensitivity="high"))
    plan = plan_of(vgpu_cfg, latency_sensitivity="normal")
    vgpu_cfg.done("apply", "--yes", "--allow-power-cycle", plan)
    vm = vm_of(vgpu_cfg.lab(ESTATE).state, "vm-01")
    assert (vm.latency_sensitivity, vm.cpu_reservation_mhz) == ("normal", 0)
    assert ": in sync, " in vgpu_cfg.done("plan", plan, "--exit-code").told


def test_a_virtual_tpm_is_taken_away(vgpu_cfg: CommandLine) -> None:
    vgpu_cfg.done("apply", "--yes", plan_of(vgpu_cfg, vtpm="true"))
    vgpu_cfg.done(
        "apply", "--yes", "--allow-power-cycle", "--allow", "irreversible", plan_of(vgpu_cfg, vtpm="false")
    )
    assert not has_tpm(vm_of(vgpu_cfg.lab(ESTATE).state, "vm-01").devices)


def test_a_vm_that_is_made_anew_gets_its_overrides_again(vgpu_cfg: CommandLine) -> None:
    plan = plan_of(vgpu_cfg, "vm-01", "vm-02", drs="manual", ha="{restart: low}")
    vgpu_cfg.done("apply", "--yes", plan)
    vgpu_cfg.done("destroy", "--yes", plan, "--only", "vm-02")
    ran = vgpu_cfg.done("plan", plan, "--output", "json")
    assert "set_overrides" in kinds(ran)
    vgpu_cfg.done("apply", "--yes", plan)
    state = vgpu_cfg.lab(ESTATE).state
    assert override_of(state, "vm-02").drs_behavior == "manual"
    assert override_of(state, "vm-02").das_settings.restartPriority == "low"


def warned(ran: Ran) -> bool:
    return any(one["code"] == "VG309" for one in json.loads(ran.out)["plan"]["diagnostics"])


def test_what_vg309_advises_ends_it(vgpu_cfg: CommandLine) -> None:
    ran = vgpu_cfg.done("plan", plan_of(vgpu_cfg), "--output", "json")
    assert warned(ran)
    (advice,) = {
        one["remedy"] for one in json.loads(ran.out)["plan"]["diagnostics"] if one["code"] == "VG309"
    }
    assert advice == "set `drs: manual`"
    plan = plan_of(vgpu_cfg, drs="manual")
    assert not warned(vgpu_cfg.done("plan", plan, "--output", "json"))
    vgpu_cfg.done("apply", "--yes", plan)
    lab = vgpu_cfg.lab(ESTATE)
    with lab.transaction():
        vm = vm_of(lab.state, "vm-01")
        vm.power_state = "poweredOff"
        lab.state.touch(vm)
    assert not warned(vgpu_cfg.done("plan", plan, "--output", "json"))
    assert not warned(vgpu_cfg.done("plan", plan_of(vgpu_cfg), "--output", "json"))


@pytest.mark.parametrize(
    ("privilege", "options"),
    [
        ("Host.Inventory.EditCluster", {"drs": "manual"}),
        ("Global.SetCustomField", {"attributes": "{owner: me}"}),
        ("InventoryService.Tagging.AttachTag", {"tags": "{Backup: daily}"}),
        ("Cryptographer.Encrypt", {"vtpm": "true"}),
        ("VirtualMachine.Config.Settings", {"boot_delay": "5"}),
    ],
)
def test_a_role_that_lacks_a_privilege_is_told_before_the_first_change(
    privilege: str, options: dict[str, str], vgpu_cfg: CommandLine
) -> None:
    before = vgpu_cfg.look(ESTATE)
    vgpu_cfg.script(ESTATE, lacking=[privilege])
    ran = vgpu_cfg("apply", "--yes", plan_of(vgpu_cfg, **options))
    assert ran.code == 5
    assert f"lacks {privilege}" in ran.told
    assert vgpu_cfg.look(ESTATE) == before


def test_a_role_needs_nothing_for_what_is_not_asked(vgpu_cfg: CommandLine) -> None:
    lacking = ["Host.Inventory.EditCluster", "Global.SetCustomField", "Cryptographer.Encrypt"]
    lacking.append("InventoryService.Tagging.AttachTag")
    vgpu_cfg.script(ESTATE, lacking=lacking)
    vgpu_cfg.done("apply", "--yes", plan_of(vgpu_cfg))


def test_only_one_of_two_is_told_to_the_cluster(vgpu_cfg: CommandLine) -> None:
    plan = plan_of(vgpu_cfg, "vm-01", "vm-02", drs="manual")
    vgpu_cfg.done("apply", "--yes", plan, "--only", "vm-02")
    assert [
        override.drs_behavior for override in cluster_of(vgpu_cfg.lab(ESTATE).state).overrides.values()
    ] == ["manual"]
    vgpu_cfg.done("apply", "--yes", plan)
    assert len(cluster_of(vgpu_cfg.lab(ESTATE).state).overrides) == 2


def test_a_delay_alone_is_told_as_one_that_a_running_vm_takes(vgpu_cfg: CommandLine) -> None:
    vgpu_cfg.done("apply", "--yes", plan_of(vgpu_cfg))
    told = vgpu_cfg.done("runbook", plan_of(vgpu_cfg, boot_delay="5")).told
    assert "Set the values below on vm-01. It may be running." in told
    told = vgpu_cfg.done("runbook", plan_of(vgpu_cfg, cpu_hot_add="true"), "--allow-power-cycle").told
    assert "Set the values below on vm-01. It must be off." in told


def test_by_hand_an_override_that_was_there_is_not_removed(vgpu_cfg: CommandLine) -> None:
    vgpu_cfg.done("apply", "--yes", plan_of(vgpu_cfg, drs="manual"))
    changed = vgpu_cfg.done("runbook", plan_of(vgpu_cfg, drs="full")).told
    assert "cluster.override.remove" not in changed
    assert "restore the values in the “before” column" in changed
    new = vgpu_cfg.done("runbook", plan_of(vgpu_cfg, "vm-01", "vm-02", drs="manual")).told
    assert "cluster.override.remove -cluster gpu -vm vm-02" in new


def test_by_hand_the_cluster_is_told_before_the_vms_are_powered_on(vgpu_cfg: CommandLine) -> None:
    told = vgpu_cfg.done("runbook", plan_of(vgpu_cfg, "vm-01", "vm-02", drs="manual")).told
    assert told.index(". set VM overrides in gpu") < told.index(". power on vm-01")


def test_attributes_and_pairs_are_shown_whatever_they_are_named(vgpu_cfg: CommandLine) -> None:
    """Those names are of edits that the line of another change tells: from what, where, and its power."""
    named = {"attributes": "{host: rack-7, folder: shelf-2, power: 2kW}", "extra_config": '{vm: "five"}'}
    plan = plan_of(vgpu_cfg, "vm-01", **named)
    told = vgpu_cfg.done("plan", "-v", plan).told
    assert [word for word in ("rack-7", "shelf-2", "2kW", "vm five") if word not in told] == []
    vgpu_cfg.done("apply", "--yes", plan)
    plan = plan_of(vgpu_cfg, "vm-01", attributes="{host: rack-8}", extra_config='{vm: "six"}')
    told = vgpu_cfg.done("plan", "-v", plan, "--allow-power-cycle").told
    assert [word for word in ("rack-7 -> rack-8", "five -> six") if word not in told] == []
