from __future__ import annotations

import re
import shlex
from typing import Any, get_args

import pytest

from tests.unit.render import guest_samples, host_samples, samples
from tests.unit.render.settings_samples import VIEWS, lookup
from vgpu_cfg.changes.change import Change, RemoveRule, RemoveVmGroup, SetAttributes, SetOverrides
from vgpu_cfg.changes.kinds.change_host import (
    EsxcliWrite,
    GraphicsWrite,
    HostWrite,
    LicenceWrite,
    ModuleWrite,
    OptionWrite,
    RulesetWrite,
    ShellWrite,
)
from vgpu_cfg.changes.kinds.change_network import EditSwitch
from vgpu_cfg.changes.kinds.cluster import VmOverride
from vgpu_cfg.changes.kinds.create_vm import MakeFromScratch
from vgpu_cfg.changes.kinds.vm_spec import (
    EditNic,
    GrowDisk,
    NewDisk,
    NewDynamicPassthrough,
    NewNic,
    NewPassthrough,
    NewVgpu,
    NicBacking,
    RemoveDevice,
    VmSpec,
)
from vgpu_cfg.changes.plan import Plan
from vgpu_cfg.changes.values import Edit, SettingTarget, Subject, VmRef
from vgpu_cfg.model.observed.inventory import Datastore, Folder, Host
from vgpu_cfg.model.observed.vm import Vm
from vgpu_cfg.planning.host_settings.table import SETTINGS, setting
from vgpu_cfg.planning.upkeep.cordon import cordon_host
from vgpu_cfg.planning.vms.relocate import relocation, rename, to_folder
from vgpu_cfg.planning.vms.settings.table import rows_of
from vgpu_cfg.render.markdown.runbook import render_runbook, runbook_steps
from vgpu_cfg.render.text.plan.changes import change_lines

NET = NicBacking(network_moid="network-1", network_name="VM Network")
RULE = RemoveRule(
    id="remove rule old in gpu",
    subject=Subject(kind="cluster", name="gpu"),
    cluster_moid="domain-1",
    rule_name="old",
    rule_key=4,
)
GROUP = RemoveVmGroup(
    id="remove VM group old in gpu",
    subject=Subject(kind="cluster", name="gpu"),
    cluster_moid="domain-1",
    group_name="old",
)
ATTRIBUTES = SetAttributes(
    id="set attributes of hvd-01",
    subject=samples.vm_subject("hvd-01"),
    vm=VmRef(name="hvd-01"),
    values={"owner": "ml-team", "until": ""},
    edits=(Edit(key="owner", after="ml-team"), Edit(key="until", before="May")),
)
OVERRIDES = SetOverrides(
    id="set VM overrides in gpu",
    subject=Subject(kind="cluster", name="gpu"),
    cluster_moid="domain-1",
    overrides=(
        VmOverride(vm=VmRef(name="hvd-01"), settings={"drs": "manual", "ha_monitoring": "vm"}),
        VmOverride(vm=VmRef(name="hvd-02"), settings={"drs": "off"}),
    ),
    edits=(
        Edit(key="hvd-01 drs", after="manual"),
        Edit(key="hvd-01 ha_monitoring", after="vm"),
        Edit(key="hvd-02 drs", before="full", after="off"),
    ),
)
VM = Vm(moid="vm-7", name="other", host_moid="host-1")
HOSTS = [Host(moid=f"host-{n}", name=f"esx-{n:02}", compute_moid="domain-1") for n in (1, 2)]
STORE = Datastore(moid="datastore-2", name="nfs")
FOLDERS = [Folder(moid=f"group-{name}", name=name, inventory_path=f"/dc1/vm/{name}") for name in ("a", "b")]
MOVES = (
    rename(VM, "hvd-01"),
    to_folder(VM, "hvd-01", *FOLDERS),
    relocation(VM, "hvd-01", *HOSTS, datastore=("vsan", STORE), is_running=True, stun_ms=1200),
)
CORDON = cordon_host(HOSTS[0], [""], samples.estate(), "new DIMM")
assert CORDON is not None
PLANS = (
    samples.plan_of(*MOVES),
    samples.plan_of(CORDON),
    samples.plan_of(ATTRIBUTES, OVERRIDES),
    samples.everything(),
    host_samples.everything(),
    host_samples.with_cold_boot(),
    samples.plan_of(host_samples.by_its_bmc("esx-01")),
    samples.plan_of(*host_samples.by_image("esx-01")),
    samples.plan_of(RULE, GROUP),
    guest_samples.all_new(),
    guest_samples.one_added(),
    guest_samples.in_turn(),
)


def test_the_samples_hold_every_kind_of_change() -> None:
    kinds = {change.kind for plan in PLANS for change in plan.changes}
    union, _ = get_args(Change)
    without_runbook = {"mark_vm"}  # of import and forget
    assert kinds | without_runbook == {member.model_fields["kind"].default for member in get_args(union)}


@pytest.mark.parametrize("plan", PLANS)
def test_every_step_says_what_to_do_and_how_it_is_seen(plan: Plan) -> None:
    for step in runbook_steps(plan, lookup, VIEWS):
        for part in step.parts:
            assert part.what or part.rows
            assert part.commands or part.client or part.what or part.rows


@pytest.mark.parametrize("plan", PLANS)
def test_every_change_has_lines_and_a_sign_of_the_legend(plan: Plan) -> None:
    for number, change in enumerate(plan.changes, 1):
        assert change.sign in "+~-! "
        assert change_lines(number, change, None, 100)


@pytest.mark.parametrize("plan", PLANS)
def test_the_check_list_on_top_has_every_step_in_order(plan: Plan) -> None:
    text = render_runbook(plan, lookup, views=VIEWS)
    listed = [int(number) for number in re.findall(r"^- \[ \] (\d+)\. ", text, re.MULTILINE)]
    headed = [int(number) for number in re.findall(r"^## (\d+)\. ", text, re.MULTILINE)]
    assert listed == headed
    assert sorted(listed) == list(range(1, len(plan.changes) + 1))
    assert text.index("## Checklist") < text.index("## 1. ")


@pytest.mark.parametrize("plan", PLANS)
def test_what_a_step_needs_stands_before_it(plan: Plan) -> None:
    done: set[int] = set()
    for step in runbook_steps(plan, lookup, VIEWS):
        assert done >= set(step.after), step.title
        done.add(step.number)
    assert len(done) == len(plan.changes)


def test_a_plan_without_changes_says_so() -> None:
    assert "Nothing to do." in render_runbook(samples.plan_of(), lookup)


def test_a_step_by_hand_stands_in_its_place_with_how_to_acknowledge_it() -> None:
    plan = host_samples.with_cold_boot()
    steps = runbook_steps(plan, lookup, VIEWS, apply_command="vgpu-cfg apply plan.yaml")
    by_hand = [step for step in steps if step.is_by_hand]
    assert [step.number for step in by_hand] == [1, 13]
    assert by_hand[0].done == "vgpu-cfg apply plan.yaml --done 'by hand esx-01: bios_sriov'"
    assert by_hand[1].done == ""  # a reading proves it


def test_a_reboot_is_a_step_and_not_part_of_each_setting() -> None:
    text = render_runbook(host_samples.two_with_one_reboot(), lookup, views=VIEWS)
    assert "esxcli system shutdown" not in text
    assert text.count("govc host.shutdown -r esx-01") == 1


def test_a_setting_says_which_restart_brings_it_into_force() -> None:
    steps = runbook_steps(host_samples.with_cold_boot(), lookup, VIEWS)
    found = {step.title: [part.in_force for part in step.parts] for step in steps}
    assert found["set ats on esx-01"] == ["reboot"]
    assert found["set nic_passthrough 0000:3c:00.0 on esx-02"] == ["cold boot"]


def test_one_write_of_several_settings_is_typed_once() -> None:
    trust = SettingTarget(setting="ats", device="vmnic4", value="dscp")
    pfc = SettingTarget(setting="ats", device="vmnic5", value="0x08")
    write = ModuleWrite(module="nmlx5_core", options="pfctx=0x08 pfcrx=0x08 trust_state=2")
    change = host_samples.write("esx-01", trust, pfc, write=write)
    (step,) = runbook_steps(samples.plan_of(change), lookup, VIEWS)
    first, second = step.parts
    assert first.commands == (
        "esxcli system module parameters set -m nmlx5_core -p 'pfctx=0x08 pfcrx=0x08 trust_state=2'",
    )
    assert second.commands == ()
    assert "together" in second.heading


def test_without_a_view_or_an_entry_the_values_are_told_all_the_same() -> None:
    unknown = SettingTarget(setting="later", device="vmnic4", value="on", before="off")
    change = host_samples.write("esx-01", unknown, write=GraphicsWrite(), edits=(), id="set later on esx-01")
    (step,) = runbook_steps(samples.plan_of(change), lookup, VIEWS)
    assert step.parts[0].rows == (("later vmnic4", "off", "on"),)


WRITES: tuple[tuple[HostWrite, tuple[str, ...]], ...] = (
    (
        EsxcliWrite(command="system.settings.kernel.set", arguments=(("setting", "a b"), ("value", "TRUE"))),
        ("esxcli system settings kernel set '--setting=a b' --value=TRUE",),
    ),
    (
        ShellWrite(commands=(("nvidia-smi", "-mig", "1"), ("echo", "a; b"))),
        ("nvidia-smi -mig 1", "echo 'a; b'"),
    ),
    (
        OptionWrite(options={"VMkernel.Boot.atsSupport": True, "Net.X": "a|b"}),
        (
            "govc host.option.set -host 'esx 01' VMkernel.Boot.atsSupport true",
            "govc host.option.set -host 'esx 01' Net.X 'a|b'",
        ),
    ),
    (
        RulesetWrite(ruleset="pvrdma", is_enabled=False),
        ("esxcli network firewall ruleset set --ruleset-id=pvrdma --enabled=false",),
    ),
    (GraphicsWrite(), ()),
    (LicenceWrite(secret="esxi"), ()),
)


@pytest.mark.parametrize(("write", "lines"), WRITES)
def test_a_write_is_typed_as_it_would_be_sent(write: HostWrite, lines: tuple[str, ...]) -> None:
    assert write.typed("esx 01") == lines


def test_a_request_to_a_vm_is_typed_in_the_order_in_which_it_must_come() -> None:
    spec = VmSpec(
        settings={
            "hardware_version": 21,
            "firmware": "efi",
            "secure_boot": False,
            "boot_delay": 5000,
            "cpus": 16,
            "memory": 65536,
            "memory_reservation": 65536,
            "cpu_hot_add": False,
            "latency_sensitivity": "high",
            "cpu_reservation": 41600,
        },
        extra_config={"pciPassthru.use64bitMMIO": "TRUE", "note": "a b|c", "gone": ""},
        devices=(
            RemoveDevice(key=13000, was="vGPU grid_a100-20c"),
            NewVgpu(profile="grid_a100-40c"),
            NewPassthrough(pci_id="0000:3c:00.0", system_id="s", vendor_id=5555, device_id=4125),
            NewDynamicPassthrough(allowed=((0x15B3, 0x101D),), label="roce"),
            NewNic(backing=NET, mac="00:50:56:00:00:01"),
            EditNic(key=4000, backing=NET),
            NewDisk(size_mib=10240),
            GrowDisk(key=2000, size_mib=20480),
        ),
    )
    assert list(spec.govc("hvd 01", rows_of)) == [
        "govc vm.upgrade -vm 'hvd 01' -version=21",
        "govc device.boot -vm 'hvd 01' -firmware efi -secure=false -delay 5000",
        "govc vm.change -vm 'hvd 01' -c 16 -m 65536 -memory-pin=true -cpu-hot-add-enabled=false"
        " -latency high -cpu.reservation 41600 -e pciPassthru.use64bitMMIO=TRUE -e 'note=a b|c' -e gone=",
        "govc gpu.vm.add -vm 'hvd 01' -profile grid_a100-40c",
        "govc device.pci.add -vm 'hvd 01' 0000:3c:00.0",
        "govc vm.network.add -vm 'hvd 01' -net 'VM Network' -net.adapter vmxnet3"
        " -net.address 00:50:56:00:00:01",
        "govc vm.disk.create -vm 'hvd 01' -name 'hvd 01/disk-7' -size 10240M",
        "govc vm.disk.change -vm 'hvd 01' -disk.key 2000 -size 20480M",
    ]
    change = samples.new_vm(1).model_copy(update={"spec": spec})
    (step,) = runbook_steps(samples.plan_of(change), lookup, VIEWS)
    left = step.parts[1].what
    assert "remove vGPU grid_a100-20c" in left
    assert "15b3:101d with the hardware label roce" in left
    assert "key 4000 to VM Network" in left


def test_a_cluster_is_told_of_vms_one_by_one() -> None:
    (step,) = runbook_steps(samples.plan_of(OVERRIDES), lookup, VIEWS)
    (part,) = step.parts
    assert part.commands == (
        "govc cluster.override.change -cluster gpu -vm hvd-01 -drs-enabled=true -drs-mode=manual",
        "govc cluster.override.change -cluster gpu -vm hvd-02 -drs-enabled=false",
    )
    assert "hvd-01: VM Overrides > vSphere HA - VM Monitoring: vm" in part.what
    assert part.undo == (
        "govc cluster.override.remove -cluster gpu -vm hvd-01",
        "if no command is listed, restore the values in the “before” column",
    )


def test_a_vm_is_cloned_linked_or_made_empty() -> None:
    linked = samples.new_vm(1)
    source = linked.source.model_copy(update={"snapshot_moid": "snapshot-1"})
    empty = samples.new_vm(2).model_copy(update={"source": MakeFromScratch(guest_id="ubuntu64Guest")})
    plan = samples.plan_of(linked, linked.model_copy(update={"source": source}), empty)
    commands = [step.parts[0].commands[0] for step in runbook_steps(plan, lookup, VIEWS)]
    where = "-host esx-01 -ds vsan -folder /dc1/vm/training"
    assert commands == [
        f"govc vm.clone -vm ubuntu-22.04-efi -on=false {where} hvd-01",
        f"govc vm.clone -vm ubuntu-22.04-efi -on=false {where} -link hvd-01",
        f"govc vm.create -on=false -g ubuntu64Guest -firmware efi {where} hvd-02",
    ]


def test_members_of_a_switch_are_named_as_the_plan_knows_them() -> None:
    change = host_samples.everything().changes[3]
    spec = EditSwitch(
        switch_name="dvs roce", mtu=9000, members={"host-esx-01": ("vmnic4", "vmnic5"), "host-9": ()}
    )
    (step,) = runbook_steps(samples.plan_of(change.model_copy(update={"network": spec})), lookup, VIEWS)
    assert step.parts[0].commands == (
        "govc dvs.change -mtu 9000 'dvs roce'",
        "govc dvs.add -dvs 'dvs roce' -pnic vmnic4 esx-01",
    )
    assert "one uplink" in step.parts[0].what


HOSTILE = "x'; rm -rf / | `id` <b> *a* [l](u)"


def renamed(plan: Plan, name: str) -> Plan:
    """Call everything in a plan by a name that no shell and no Markdown may take for its own."""
    text = plan.model_dump_json().replace("esx-01", "ESX_NAME").replace("hvd-03", "VM_NAME")
    data: Any = Plan.model_validate_json(text).model_dump(mode="json")

    def put(value: Any) -> Any:
        if isinstance(value, dict):
            return {put(key): put(item) for key, item in value.items()}
        if isinstance(value, list):
            return [put(item) for item in value]
        if isinstance(value, str):
            return value.replace("ESX_NAME", name).replace("VM_NAME", name)
        return value

    return Plan.model_validate(put(data))


@pytest.mark.parametrize("plan", PLANS[:3])
def test_hostile_names_stay_names(plan: Plan) -> None:
    text = render_runbook(renamed(plan, HOSTILE), lookup, apply_command="vgpu-cfg apply plan.yaml")
    prose = re.sub(r"^(`{3,})sh\n.*?\n\1$", "", text, flags=re.DOTALL | re.MULTILINE)
    assert "<b>" not in prose.replace("\\<b>", "")
    assert "[l](u)" not in prose.replace("\\[l\\](u)", "")
    for typed in re.findall(r"^(?:govc|vgpu-cfg) .*", text, re.MULTILINE):
        words = shlex.split(typed, comments=True)
        assert not {"rm", "|", "-rf"} & set(words)


@pytest.mark.parametrize("key", [one.key for one in SETTINGS])
def test_every_setting_of_the_table_can_be_told(key: str) -> None:
    target = SettingTarget(setting=key, value="x")
    change = host_samples.write("esx-01", target, write=GraphicsWrite(), edits=(), id=f"set {key} on esx-01")
    assert setting(key).title in render_runbook(samples.plan_of(change), setting).replace("\\", "")
