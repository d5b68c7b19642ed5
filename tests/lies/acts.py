"""Short scenes for lies that a plan's usual life does not meet: each returns one word of the table.

A scene is played on an honest lab, too, where its word is `right`.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pyVmomi import vim

from tests.cli.colleague import Colleague
from tests.cli.host_watch import Watch, watch_labs
from tests.cli.roles import Given, as_account
from tests.lies.images import play_images
from tests.lies.judge import see_clean
from tests.lies.other_plans import CUSTOMIZING, OTHER_PLANS, READY
from tests.lies.stage import ESTATE, OWN, PLAN, SERVER, Stage, facts_of, is_left
from vgpu_cfg.lab.guest.system.creation import guest_of
from vgpu_cfg.lab.shell.shell import LabShell
from vgpu_cfg.lab.simulation.past_events import record
from vgpu_cfg.lab.state.devices import nics_of
from vgpu_cfg.lab.state.inventory import Cluster, Host, VirtualMachine
from vgpu_cfg.settings.connection import LAB_PASSWORD

if TYPE_CHECKING:
    import pytest

    from tests.cli.test_two_machines import Other

COLLEAGUE, ADMINISTRATOR = "Colleague@VSPHERE.LOCAL", "Administrator@VSPHERE.LOCAL"


_TIME_SLICED = """secrets: {esxi: env:ESXI_PASSWORD}
hosts:
- names: [esx-2.lab]
  graphics_type: sharedDirect
  gpus: {match: {numa: 1}, use: vgpu, sharing: time_sliced, ecc: true}
  access: {ssh: open-and-close, user: root, password: {secret: esxi}, host_keys: pin}
  disruption: {allow: [maintenance, reboot]}
"""
_ADDRESSES = """secrets: {pw: "env:GUEST_PASSWORD"}
vms:
- name: train-01
  template: ubuntu
  cluster: gpu
  cpus: 2
  memory: 4GiB
  nics: [{network: vm-network, ip: 10.0.0.5/24}, {network: prod, ip: 10.0.1.5/24}]
  guest: {spec: farm, by: guest-operations, login: {user: root, password: {secret: pw}}}
"""


@dataclass(frozen=True, slots=True)
class Act:
    """A scene: what it is about, for readers of the table, and the lies that it is for.

    If it `is_apart`, the commands of the table's other columns use nothing that these lies change.
    """

    about: str
    play: Callable[[Stage, pytest.MonkeyPatch, Path], str]
    beliefs: tuple[str, ...]
    is_apart: bool = False


def act_of(name: str, stage: Stage, patch: pytest.MonkeyPatch, folder: Path) -> str:
    word = ACTS[name].play(stage, patch, folder)
    for step, ran in stage.ran.items():
        see_clean(step, ran)
    return word


def _made(stage: Stage, first: str = "apply", again: str = "again") -> str:
    """Judge an apply and its repetition by the VMs that there are."""
    wanted = {"train-01", "train-02", "idle-1", "other-1", "other-2"}
    vms = [vm.name for vm in stage.look().all(VirtualMachine) if not vm.is_template]
    assert sorted(vms) == sorted(set(vms)), "a VM is there twice"
    if stage.ran[again].code:
        return f"stops {stage.ran[again].code}"
    assert set(vms) == wanted, vms
    assert facts_of(stage.look())["vms"]["train-01"]["power"] == "poweredOn"
    return "later" if stage.ran[first].code else "right"


def _history(stage: Stage, _patch: pytest.MonkeyPatch, _folder: Path) -> str:
    stage.vgpu_cfg.done("apply", "--yes", PLAN)
    lab = stage.vgpu_cfg.lab(ESTATE)
    with lab.transaction():
        for number in range(300):
            record(lab, lab.state.objects[lab.state.root], "GeneralUserEvent", message=f"of others {number}")
    shutil.rmtree(stage.vgpu_cfg.state_folder / "journals")
    ran = stage.type("history", "history", "--server", SERVER, "--output", "json")
    runs = json.loads(ran.out)["runs"]
    assert len(runs) <= 1
    return "right" if runs else "less"


def _authors(stage: Stage, _patch: pytest.MonkeyPatch, _folder: Path) -> str:
    stage.vgpu_cfg.done("apply", "--yes", PLAN)
    lab = stage.vgpu_cfg.lab(ESTATE)
    colleague = Colleague(lab)
    spec = vim.vm.ConfigSpec(numCPUs=8, numCoresPerSocket=4)
    colleague.reconfigures("idle-1", lambda _vm: spec)
    colleague.overrides("gpu", "train-02", drs="fullyAutomated", restart="high")
    colleague.does("train-01", "PowerOffVM_Task")
    colleague.does("train-01", "Destroy_Task")
    told = stage.type("status", "status", "--exit-code", "-v", PLAN).told
    assert ADMINISTRATOR not in told
    count = told.count(COLLEAGUE)
    return "right" if count >= AUTHORS else "less"


UNFOUND = {"clone-takes-customization-and-nics"}
"""Lies that an experiment is about, and cannot tell from another reason why vCenter rejects its request."""
AUTHORS = 3
"""So many differences the colleague made."""


def _creator(stage: Stage, _patch: pytest.MonkeyPatch, _folder: Path) -> str:
    stage.vgpu_cfg.done("apply", "--yes", PLAN)
    stage.edit(("idle-1", "idle-2"))
    told = stage.type("plan", "plan", "-v", PLAN).told
    return "right" if f"by {ADMINISTRATOR}" in told else "less"


def _account(stage: Stage, _patch: pytest.MonkeyPatch, _folder: Path) -> str:
    Given(stage.vgpu_cfg, PLAN).give(stage.vgpu_cfg, ESTATE)
    stage.type("apply", *as_account(["apply", "--yes", PLAN]))
    stage.type("again", *as_account(["apply", "--yes", PLAN]))
    return _made(stage)


def _short_of(privilege: str) -> Callable[[Stage, pytest.MonkeyPatch, Path], str]:
    def play(stage: Stage, _patch: pytest.MonkeyPatch, _folder: Path) -> str:
        given = Given(stage.vgpu_cfg, PLAN)
        without = {pair for pair in given.pairs() if pair[1] == privilege}
        assert without
        given.give(stage.vgpu_cfg, ESTATE, without)
        ran = stage.type("apply", *as_account(["apply", "--yes", PLAN]))
        assert ran.code in (5, 6)
        return "midway" if is_left(stage.look()) else "right"

    return play


def _with_other_plan(name: str) -> Callable[[Stage, pytest.MonkeyPatch, Path], str]:
    return lambda stage, _patch, _folder: OTHER_PLANS[name].word(stage, name)


def _lost_answer(stage: Stage, _patch: pytest.MonkeyPatch, _folder: Path) -> str:
    stage.vgpu_cfg.script(ESTATE, {"method": "CloneVM_Task", "nth": 2, "kind": "drop_after"})
    stage.type("apply", "apply", "--yes", PLAN)
    stage.vgpu_cfg.script(ESTATE)
    stage.type("again", "apply", "--yes", PLAN)
    return _made(stage)


def _other_machine(stage: Stage, folder: Path) -> Other:
    """Return a second machine with the same plan under the same ID."""
    from tests.cli.test_two_machines import Other

    other = folder / "other"
    other.mkdir()
    there = Other(stage.vgpu_cfg, other)
    for name in (ESTATE, PLAN):
        shutil.copy(stage.vgpu_cfg.folder / name, other)
    stage.vgpu_cfg.keep_id(PLAN)
    there.take_id(PLAN)
    return there


def _two_machines(stage: Stage, patch: pytest.MonkeyPatch, folder: Path) -> str:
    watch, there = watch_labs(patch), _other_machine(stage, folder)

    def meet(name: str) -> None:
        if name in ("CloneVM_Task", "PowerOnVM_Task"):
            watch.before_call = lambda _name: None
            ran = there("apply", "--yes", PLAN)
            see_clean("elsewhere", ran)
            assert ran.code == 6, f"the second run goes on beside the first: {ran.told}"

    watch.before_call = meet
    stage.type("apply", "apply", "--yes", PLAN)
    watch.before_call = lambda _name: None
    stage.type("again", "apply", "--yes", PLAN)
    return _made(stage)


def _at_once(stage: Stage, patch: pytest.MonkeyPatch, folder: Path) -> str:
    """Let the second machine begin right before the first one's lock is requested."""
    watch, there = watch_labs(patch), _other_machine(stage, folder)
    _interleave(stage, watch, there)
    stage.type("again", "apply", "--yes", PLAN)
    return _made(stage)


def _interleave(stage: Stage, watch: Watch, there: Other) -> None:
    def before(name: str) -> None:
        if name.startswith("lock "):
            watch.before_call = lambda _name: None
            there("apply", "--yes", PLAN)

    watch.before_call = before
    stage.type("apply", "apply", "--yes", PLAN)
    watch.before_call = lambda _name: None


def _rename(stage: Stage, _patch: pytest.MonkeyPatch, _folder: Path) -> str:
    stage.vgpu_cfg.done("apply", "--yes", PLAN)
    Colleague(stage.vgpu_cfg.lab(ESTATE)).does("train-01", "Rename_Task", "of-others")
    ran = stage.type("plan", "plan", PLAN)
    if ran.code:
        return f"stops {ran.code}"
    if "VM train-01 new on" in ran.told:
        assert "VG003" in ran.told
        return "a copy"
    return "right"


def _host_group(stage: Stage, _patch: pytest.MonkeyPatch, _folder: Path) -> str:
    stage.edit(("place: {spread: hosts}", "place: {host_group: live}"))
    stage.type("apply", "apply", "--yes", PLAN)
    stage.type("again", "apply", "--yes", PLAN)
    word = _made(stage)
    if not word.startswith("stops"):
        stage.type("destroy", "destroy", "--yes", PLAN)
        assert [group.name for cluster in stage.look().all(Cluster) for group in cluster.groups] == ["live"]
    return word


def _other_gpu(stage: Stage, patch: pytest.MonkeyPatch, _folder: Path) -> str:
    patch.setenv("VGPU_CFG_LAB_GPU_CHOICE", "lowest")
    stage.type("apply", "apply", "--yes", PLAN)
    stage.type("again", "apply", "--yes", PLAN)
    return _made(stage)


def _customized_gpu(stage: Stage, patch: pytest.MonkeyPatch, _folder: Path) -> str:
    patch.setenv("VGPU_CFG_LAB_GPU_CHOICE", "lowest")
    word = OTHER_PLANS["customized GPU"].word(stage, "customized GPU")
    state = stage.vgpu_cfg.lab("customized-GPU.yaml").state
    [vm] = [vm for vm in state.all(VirtualMachine) if vm.name == "train-01"]
    if guest_of(vm).host_name == "train-01":
        return word
    assert "customization failed" in stage.ran["again"].told
    return "less"


def _addresses(stage: Stage, patch: pytest.MonkeyPatch, _folder: Path) -> str:
    patch.setenv("GUEST_PASSWORD", "secret")
    account = "cloud_init: false, account: {user: root, password: secret}"
    there = stage.elsewhere("addresses", CUSTOMIZING.replace("cloud_init: false", account), _ADDRESSES)
    there.type("apply", "apply", "--yes", PLAN)
    assert there.ran["apply"].code == 0
    [vm] = [vm for vm in there.look().all(VirtualMachine) if not vm.is_template]
    found = [guest_of(vm).settings[nic.macAddress.lower()].addresses for nic in nics_of(vm.devices)]
    verified = there.type("verify", "verify", PLAN).code
    is_right = found == [("10.0.0.5/24",), ("10.0.1.5/24",)]
    assert is_right == (verified == 0)
    return "right" if is_right else "less"


def _changed_host(stage: Stage, patch: pytest.MonkeyPatch, _folder: Path) -> str:
    patch.setenv("ESXI_PASSWORD", LAB_PASSWORD)
    there = stage.elsewhere("changed host", READY, _TIME_SLICED)
    there.type("apply", "apply", "--yes", PLAN)
    assert there.ran["apply"].code == 0, there.ran["apply"].told
    lab = there.vgpu_cfg.lab(there.estate)
    [host] = [host for host in lab.state.all(Host) if host.name == "esx-2.lab"]
    for mode in ("-mig 1", "-e 0"):
        LabShell(lab, host).execute(f"nvidia-smi {mode}")
    told = there.type("status", "status", "--exit-code", PLAN).told
    there.type("again", "apply", "--yes", PLAN)
    [gpu] = next(host for host in there.look().all(Host) if host.name == "esx-2.lab").gpus
    assert not gpu.mig_enabled or there.ran["again"].code, "apply ends well with MIG mode on"
    return "right" if "in sync" not in told or not gpu.mig_enabled else "less"


def _lost_host(stage: Stage, _patch: pytest.MonkeyPatch, _folder: Path) -> str:
    stage.vgpu_cfg.done("apply", "--yes", PLAN)
    stage.vgpu_cfg.lab(ESTATE).at_server("esx-2.lab", "cut_off")
    before = stage.look().revision
    stage.type("apply", "apply", "--yes", PLAN)
    told = stage.type("status", "status", PLAN).told
    assert "in sync" not in told
    assert stage.look().revision - before < 20
    return "right" if "esx-2" in told else "less"


def _own_folder(stage: Stage, _patch: pytest.MonkeyPatch, _folder: Path) -> str:
    stage.vgpu_cfg.done("apply", "--yes", PLAN)
    stage.attach_foreign_disk("[vsan] train-01/data.vmdk")
    ran = stage.type("destroy", "destroy", "--yes", PLAN)
    assert ran.code == 4
    assert "VG270 train-01: " in ran.told
    assert is_left(stage.look()) == sorted(OWN)
    return "right"


def _cordon(stage: Stage, _patch: pytest.MonkeyPatch, _folder: Path) -> str:
    words = ("gpu:esx-1.lab/0000:21:00.0", "--server", SERVER, "--reason", "Replaced on Monday. " * 5)
    ran = stage.type("cordon", "cordon", *words)
    return "right" if ran.code == 0 else f"stops {ran.code}"


_OF_EVENTS = (
    "event-filter-by-type-id",
    "event-filter-takes-bare-names",
    "event-type-spelling",
    "event-collector-reads-backwards",
    "event-pages-go-forward",
    "event-pages-of-1000",
)
ACTS = {
    "history": Act(
        "`history` on a machine without journals, with 300 events of others",
        _history,
        (*_OF_EVENTS, "user-events"),
    ),
    "authors": Act(
        "`status` after a colleague changed a VM and an override, and deleted a VM",
        _authors,
        (
            *_OF_EVENTS,
            "event-filter-covers-a-folder",
            "event-filter-finds-removed-vms",
            "reconfigured-event-has-the-request",
            "cluster-event-names-the-override",
            "task-names-its-event-chain",
            "event-shares-its-tasks-chain",
            "reconfigured-event-is-readable",
        ),
    ),
    "creator": Act(
        "`plan` after a VM left the plan file",
        _creator,
        ("creation-events-name-the-creator", "clone-event-is-of-the-new-vm"),
    ),
    "account": Act(
        "`apply` with the roles that `privileges` prints",
        _account,
        (
            "privileges-asked-together",
            "effective-role-is-enough",
            "alarms-are-visible-to-readers",
            "privileges-suffice",
            "clone-privileges",
            "clone-privileges-of-devices",
            "policy-privilege",
            "effective-roles-add-up",
            "attachable-privilege-from-70",
        ),
    ),
    "no power-on": Act(
        "`apply` with roles that lack `VirtualMachine.Interact.PowerOn`",
        _short_of("VirtualMachine.Interact.PowerOn"),
        ("role-minus-one-is-administrator", "effective-roles-add-up"),
    ),
    "no lock": Act(
        "`apply` with roles that lack `Alarm.Create`", _short_of("Alarm.Create"), ("alarm-privileges",)
    ),
    "groups": Act(
        "`apply`, and `apply` with fewer CPUs, of a VM with a device group of a GPU and a NIC",
        _with_other_plan("groups"),
        (
            "group-in-one-config-spec",
            "clone-takes-device-groups",
            "group-sequence-from-zero",
            "groups-are-read-back",
            "group-members-show-as-devices",
            "group-nic-component-type",
            "group-nic-is-dynamic-directpath",
            "passthrough-reports-system-id",
        ),
    ),
    "customized": Act(
        "`apply`, and `apply` with more memory, of a VM with a customization specification",
        _with_other_plan("customized"),
        (
            "clone-takes-customization-and-nics",
            "customization-counts-new-nics",
            "spec-is-sent-back-as-read",
            "customization-spec-format",
            "deploy-pkg-means-pending",
        ),
    ),
    "hosts": Act(
        "`apply`, and `apply` without MIG mode, of a host without a driver",
        _with_other_plan("hosts"),
        (
            "reboot-activates-settings",
            "graphics-type-with-driver",
            "mig-mode-on-ampere",
            "mig-mode-from-hopper",
            "reboot-drops-mixed-size",
            "passthrough-rebinds",
            "ats-support-option",
            "esxcli-through-vcenter",
            "depot-list-in-a-shell",
            "depot-list-through-vcenter",
            "vib-install-through-vcenter",
            "vib-install-of-two-depots",
        ),
        is_apart=True,
    ),
    "ready hosts": Act(
        "`apply` of graphics types and a VM with a MIG profile, with access to the hosts' shells",
        _with_other_plan("ready hosts"),
        (
            "graphics-type-after-xorg-restart",
            "nvidia-smi-topo-on-esxi",
            "nvidia-smi-mig-on-esxi",
            "numa-info-counts-like-nvidia-smi",
        ),
        is_apart=True,
    ),
    "changed host": Act(
        "`status` and `apply` after a colleague changed a GPU's mode in a host's shell",
        _changed_host,
        ("settings-change-at-boot-only",),
        is_apart=True,
    ),
    "images": Act(
        "`apply` of a driver and an ESXi version by image, after an interruption and a failed validation",
        lambda stage, _patch, _folder: play_images(stage),
        (
            "base-image-ends-in-build",
            "image-compliance-fields",
            "one-draft-per-account",
            "image-task-in-result",
            "driver-component-names",
            "remediation-keeps-maintenance",
        ),
        is_apart=True,
    ),
    "customized GPU": Act(
        "`apply` of a VM with a vGPU and a customization specification if ESXi chooses another GPU",
        _customized_gpu,
        ("customization-survives-a-short-start",),
        is_apart=True,
    ),
    "addresses": Act(
        "`apply` and `verify` of a VM with two addresses by a customization specification",
        _addresses,
        ("customization-follows-pci-slots", "pci-slot-order"),
        is_apart=True,
    ),
    "library": Act(
        "`apply`, and `apply` with more memory, of a VM from a library's VM template",
        _with_other_plan("library"),
        ("library-template-is-in-the-inventory", "library-template-clones-alike"),
        is_apart=True,
    ),
    "MIG": Act(
        "`apply` of VMs that fill two GPUs in MIG mode, and of smaller ones instead of half of them",
        _with_other_plan("MIG"),
        ("first-3g-instance-at-slice-4", "mig-gpus-fill-one-by-one", "starts-within-a-gpu"),
        is_apart=True,
    ),
    "moved": Act(
        "`apply`, and `apply --allow-move` to another host, of a running VM with a vGPU",
        _with_other_plan("moved"),
        (
            "relocate-moves-like-migrate",
            "relocate-moves-running-vgpu-vms",
            "vmotion-cost-units",
            "latency-needs-cpu-and-memory",
            "core-clock-is-cpu-mhz",
            "numa-affinity-format",
            "drs-keeps-numa-affinity",
        ),
    ),
    "lost answer": Act(
        "`apply` that loses the answer to a clone",
        _lost_answer,
        ("recent-tasks", "task-reason-spells-the-account", "new-filter-reports-at-the-next-wait"),
    ),
    "two machines": Act(
        "`apply` on a second machine in the middle of the first one's",
        _two_machines,
        (
            "alarm-names-are-unique",
            "alarms-are-visible-at-once",
            "alarms-of-all-entities",
            "alarm-time-moves",
            "alarm-description-400",
        ),
    ),
    "at once": Act(
        "`apply` on two machines at once",
        _at_once,
        ("alarm-names-are-unique", "alarm-names-are-unique-at-once", "alarms-are-visible-at-once"),
    ),
    "rename": Act("`plan` after a colleague renamed a VM", _rename, ("identity-survives-rename-and-move",)),
    "host group": Act(
        "`apply` and `destroy` with a DRS host group",
        _host_group,
        (
            "group-and-rule-in-one-request",
            "stopped-vm-in-a-group",
            "deleted-vm-leaves-its-group",
            "must-rules-hold",
        ),
    ),
    "other GPU": Act(
        "`apply` where ESXi chooses another GPU than is likely",
        _other_gpu,
        (
            "graphics-info-shows-the-gpu",
            "graphics-info-forgets-stopped-vms",
            "power-on-moves-change-version",
            "power-off-moves-change-version",
            "edits-move-change-version",
            "esxi-chooses-the-gpu",
            "old-change-version-is-rejected",
            "filter-reports-new-change-version",
        ),
    ),
    "own folder": Act(
        "`destroy` with a colleague's disk in the folder of a VM",
        _own_folder,
        ("destroy-keeps-detached-files", "destroy-keeps-files-of-other-vms"),
    ),
    "cordon": Act("`cordon` of a GPU with a long reason", _cordon, ("custom-attribute-holds-255",)),
    "lost host": Act(
        "`apply` and `status` after a host stopped responding",
        _lost_host,
        ("lost-host-vm-states", "lost-host-rejects-calls"),
    ),
}
"""The scenes by the name of their column."""

APART = {lie for act in ACTS.values() if act.is_apart for lie in act.beliefs} - {"esxcli-through-vcenter"}
"""The lies that only scenes are for: other commands read a host's settings by esxcli, and install nothing."""
