"""A run that fails at any of its changes and takes itself back: what is not as before is told.

Each change fails after it was made, which leaves most: whatever was done counts as failed. Then nothing of
what was there before has gone, and `plan` shows the changes that it showed before the run, but for what the
rollback named.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import pytest

from tests.cli.command_line import CommandLine
from tests.cli.host_watch import is_tidy, settings_of, state_file
from vgpu_cfg.changes.change import Change
from vgpu_cfg.errors import NotConfirmed
from vgpu_cfg.execution import runner
from vgpu_cfg.execution.run.step import Step, StepResult
from vgpu_cfg.execution.steps import make_step
from vgpu_cfg.lab.state.inventory import Cluster, DistributedSwitch, LabState, VirtualMachine

EACH = pytest.mark.exhaustive("a run that fails at every change: tests/cli/test_rollback.py")
FAILED = 6

ESTATE = """\
about: Two clusters of servers with A100s, a switch, and a VM of somebody else.
vcenter: {settings: {vgpu.hotmigrate.enabled: false}}
clusters:
- name: gpu
  drs: fullyAutomated
  hosts:
  - {name: one.lab, memory: 256GiB, gpus: [{board: A100, count: 2}]}
  - {name: two.lab, memory: 256GiB, gpus: [{board: A100, count: 2}]}
- name: other
  hosts:
  - {name: far.lab, memory: 256GiB, gpus: [{board: A100, count: 2}]}
datastores: [{name: vsan}, {name: nfs, kind: NFS}]
switches: [{name: dvs-old}]
networks: [{name: vm-network}, {name: dv-train, switch: dvs-old, vlan: 12}]
folders: [training, old]
templates: [{name: ubuntu-22.04-efi, hardware_version: 19, cpus: 4, memory: 8GiB, disks: [64GiB]}]
vms:
- {name: theirs, host: one.lab, power: on, cpus: 2, memory: 4GiB}
"""
HEAD = """\
version: 1
name: changing
id: 6b1d7c20-8e4f-4a15-b3d9-27f0c5a91e01
vcenter: lab:site.yaml
defaults: {template: ubuntu-22.04-efi, cluster: gpu, datastore: vsan, memory: 16GiB}
"""
FIRST = (
    HEAD
    + """\
vms:
- {name: "vm-{01..02}", folder: training, cpus: 4, gpus: grid_a100-10c, nics: [vm-network], drs: manual,
   place: {spread: hosts, must: false}, attributes: {owner: jo}}
- {name: off-01, folder: training, cpus: 2, power: false}
"""
)
THEN = (
    HEAD
    + """\
networks: [{name: dv-train, switch: dvs-old, vlan: 13, mtu: 9000}]
hosts: [{cluster: gpu, cluster_options: {evacuate_vgpu: true, hot_migrate: true, drs: {AffinityMax: "3"}}}]
moved: [{from: "vm-{01..02}", to: "trn-{01..02}"}]
vms:
- {name: "trn-{01..02}", folder: old, cpus: 8, gpus: grid_a100-20c, nics: [dv-train], drs: full,
   attributes: {owner: ann, team: ml}, extra_config: {sched.swap.vmxSwapEnabled: "FALSE"}}
- {name: off-01, folder: training, cpus: 3, power: true}
- {name: new-01, folder: training, cpus: 2, gpus: grid_a100-10c, attributes: {owner: jo}, drs: manual}
"""
)
MOVED = (
    HEAD
    + """\
vms:
- {name: "vm-{01..02}", cluster: other, folder: training, datastore: nfs, cpus: 4, gpus: grid_a100-10c,
   nics: [vm-network], attributes: {owner: jo}}
"""
)


@dataclass(frozen=True)
class Scenario:
    """A plan that is applied after `first`; `kept` says how each thing begins that a rollback may name."""

    plan: str
    estate: str = "site.yaml"
    first: str = ""
    flags: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    files: Mapping[str, str] = field(default_factory=lambda: {"site.yaml": ESTATE})


NEW = (
    HEAD
    + """\
hosts: [{names: [far.lab], graphics_type: shared, disruption: {allow: [maintenance]}}]
vms:
- {name: "new-{01..02}", folder: training, cpus: 4, gpus: grid_a100-10c, drs: manual,
   place: {spread: hosts, must: false}}
"""
)

SCENARIOS = {
    "new VMs": Scenario("new.yaml", files={"site.yaml": ESTATE, "new.yaml": NEW}),
    "one host": Scenario(
        "plans/hosts-one.yaml",
        "bare",
        kept=(
            "NVIDIA host driver remains",
            "the previous value of MIG mode",
            "the previous value of vGPU mode",
        ),
        files={},
    ),
    "changed VMs": Scenario(
        "then.yaml",
        first="first.yaml",
        flags=("--allow-power-cycle",),
        files={"site.yaml": ESTATE, "first.yaml": FIRST, "then.yaml": THEN},
    ),
    "moved VMs": Scenario(
        "then.yaml",
        first="first.yaml",
        flags=("--allow-power-cycle", "--allow-move"),
        files={"site.yaml": ESTATE, "first.yaml": FIRST, "then.yaml": MOVED},
    ),
}


def _failing_at(change_id: str, patch: pytest.MonkeyPatch) -> None:
    """Let a change fail once it has been made."""
    failed: list[str] = []

    def step_of(change: Change, *others: Any) -> Step:
        step = make_step(change, *others)
        return step if change.id != change_id or failed else fail(step)

    def fail(step: Step) -> Step:
        failed.append(change_id)
        result: StepResult = yield from step
        raise NotConfirmed(f"scripted, after {result.message or 'it was made'}", subject=change_id)

    patch.setattr(runner, "make_step", step_of)


def _values(state: LabState) -> dict[str, Any]:
    """Return what a rollback must bring back, by what it is of."""
    vms = {vm.name for vm in state.all(VirtualMachine)}
    found: dict[str, Any] = {
        # A GPU that followed its host's graphics type may have that type as its own now.
        name: re.sub(r"configured_graphics_type=(None|'\w+')", "", str(value))
        for name, value in settings_of(state).items()
        if name not in vms
    }
    for vm in state.all(VirtualMachine):
        found[f"VM {vm.moid}"] = (
            (vm.name, vm.power_state, vm.parent, vm.cpus, vm.memory_mib, vm.resource_pool, vm.datastore),
            sorted((key, text) for key, text in vm.extra_config.items() if text),
            sorted(_device(device) for device in vm.devices.values()),
        )
    for cluster in state.all(Cluster):
        found[f"rules {cluster.name}"] = [(rule.name, sorted(rule.vms)) for rule in cluster.rules]
        found[f"groups {cluster.name}"] = [(group.name, sorted(group.members)) for group in cluster.groups]
        found[f"overrides {cluster.name}"] = sorted(
            (moid, repr(one)) for moid, one in cluster.overrides.items()
        )
    for switch in state.all(DistributedSwitch):
        found[f"switch {switch.name}"] = (switch.mtu, sorted(switch.portgroups))
    return found


def _device(device: Any) -> str:
    """Spell a device without its key, which is another for one that was taken away and given back."""
    backing = getattr(device, "backing", None)
    words = [getattr(backing, name, "") or "" for name in ("vgpu", "id", "deviceName")]
    port = getattr(getattr(backing, "port", None), "portgroupKey", "")
    return " ".join([type(device).__name__, *words, port, str(getattr(device, "capacityInKB", ""))])


@dataclass(frozen=True)
class Before:
    """A scenario right before the run that fails: the lab's file, and what a reader of the estate sees."""

    content: bytes
    planned: list[dict[str, Any]]
    values: dict[str, Any]
    vms: frozenset[str]


class Course:
    """A scenario that is played in a folder of its own."""

    def __init__(self, name: str, vgpu_cfg: CommandLine) -> None:
        self.scenario, self.vgpu_cfg = SCENARIOS[name], vgpu_cfg
        for file, text in self.scenario.files.items():
            vgpu_cfg.write(file, text)
        self.place = state_file(vgpu_cfg, self.scenario.estate)

    @property
    def state(self) -> LabState:
        return self.vgpu_cfg.lab(self.scenario.estate).state

    def vms(self) -> frozenset[str]:
        return frozenset(vm.moid for vm in self.state.all(VirtualMachine))

    def prepare(self) -> Before:
        if self.scenario.first:
            self.vgpu_cfg.done("apply", "--yes", self.scenario.first)
        planned = self.plan()
        values, vms = _values(self.state), self.vms()
        content = self.place.read_bytes() if self.place.exists() else b""
        return Before(content, planned, values, vms)

    def plan(self) -> list[dict[str, Any]]:
        """Return the changes that would be made now, but for what moves by itself.

        That is the versions of VMs, and who runs on a host: DRS leaves VMs where it moved them.
        """
        words = ("plan", "--open-shell", "--output", "json", *self.scenario.flags, self.scenario.plan)
        told = json.loads(self.vgpu_cfg.done(*words, ESXI_PASSWORD="lab").out)
        changes: list[dict[str, Any]] = told["plan"]["changes"]
        for change in changes:
            change.get("spec", {}).pop("change_version", None)
            change.pop("evacuates", None)
        return changes

    def fail_at(self, change_id: str) -> Any:
        """Apply with a failure at a change; return the report."""
        with pytest.MonkeyPatch.context() as patch:
            _failing_at(change_id, patch)
            words = ("apply", "--yes", "--rollback-on-failure", "--output", "json")
            ran = self.vgpu_cfg(*words, *self.scenario.flags, self.scenario.plan, ESXI_PASSWORD="lab")
        assert ran.code == FAILED, ran.told
        return json.loads(ran.out)

    def check(self, before: Before, change_id: str) -> None:
        """Fail at a change of the plan as it was before, and see what the rollback has left."""
        self.place.parent.mkdir(parents=True, exist_ok=True)
        self.place.unlink(missing_ok=True)
        if before.content:
            self.place.write_bytes(before.content)
        rollback = self.fail_at(change_id)["rollback"]
        assert not rollback["why_not"]
        assert [one for one in rollback["outcomes"] if one["status"] not in ("done", "not_needed")] == []
        told = [one["message"] for one in rollback["kept"] if one["code"] == "VG555"]
        assert len(told) == len(rollback["kept"])
        assert all(any(text.startswith(part) for part in self.scenario.kept) for text in told), told
        if not told:
            after = _values(self.state)
            assert {name for name in before.values if before.values[name] != after.get(name)} == set()
            assert self.plan() == before.planned
        assert self.vms() == before.vms
        assert is_tidy(self.state)


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Before]:
    """Prepare each scenario once, however often it fails."""

    @cache
    def prepared(name: str) -> Before:
        with pytest.MonkeyPatch.context() as patch:
            return Course(name, CommandLine(tmp_path_factory.mktemp("before"), patch)).prepare()

    return prepared


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("name", "nth"), [*((name, -1) for name in SCENARIOS), ("changed VMs", 8)])
def test_a_run_that_fails_takes_back_what_it_did(
    name: str, nth: int, before: Callable[[str], Before], vgpu_cfg: CommandLine
) -> None:
    found = before(name)
    Course(name, vgpu_cfg).check(found, found.planned[nth]["id"])


@EACH
@pytest.mark.parametrize("name", SCENARIOS)
def test_wherever_it_fails(name: str, before: Callable[[str], Before], vgpu_cfg: CommandLine) -> None:
    found, course = before(name), Course(name, vgpu_cfg)
    for change in found.planned:
        course.check(found, change["id"])
