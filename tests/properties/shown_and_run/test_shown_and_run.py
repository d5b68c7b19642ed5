"""Shown is run: what a run sends is what its plan showed, on each example and on cases of what they lack."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.cli import team
from tests.cli.command_line import ROOT, CommandLine
from tests.cli.test_guests import one
from tests.cli.test_host_groups import make_host_group
from tests.cli.test_training_ways import FUNCTIONS, VMKNICS, on_the_switch
from tests.extent import each
from tests.properties.shown_and_run.comparison import Run, faults_of
from tests.properties.shown_and_run.exemptions import EXEMPTIONS, Exemption
from tests.properties.shown_and_run.reviewed import run_reviewed
from vgpu_cfg.plan_loading import load_plan

if TYPE_CHECKING:
    from _pytest.mark import ParameterSet

EXAMPLES = sorted(path.name for path in (ROOT / "examples").glob("*.yaml"))
SECRETS = team.SECRETS | {"ESXI_PASSWORD": "lab", "LICENCE_KEY": "AB0C1-DE2F3-GH4I5-JK6L7-MN8O9"}

NETWORKS = """\
version: 1
name: rack-12
vcenter: lab:bare
networks: [{name: roce-111, switch: {name: dvs-roce, make: true}, vlan: VLAN, mtu: 9000}]
hosts:
- names: [esx-r12-01.lab, esx-r12-02.lab]
  nics: [{match: {vmnic: vmnic2}, use: host, switch: dvs-roce}]
  vmknics:
  - network: roce-111
    addresses: {esx-r12-01.lab: 10.111.0.21/24, esx-r12-02.lab: 10.111.0.22/24}
    mtu: MTU
"""
OPTIONS = """\
version: 1
name: rack-12
vcenter: lab:bare
secrets: {key: "env:LICENCE_KEY"}
hosts:
- cluster: gpu
  licence: {secret: key}
  nics: [{match: {vmnic: vmnic2}, use: host, switch: vSwitch0}]
  vmknics: [{network: Management Network, mtu: MTU}]
  cluster_options: {evacuate_vgpu: IS_ON, hot_migrate: IS_ON, drs: {TryBalanceVmsPerHost: "WORD"}}
"""
IMAGE = """\
version: 1
name: image
vcenter: lab:estates/image-2.yaml
hosts: [{cluster: gpu, driver: {kind: nvd-aie, version: "580.*", by: image}}]
"""
VMS = """\
version: 1
name: apart
vcenter: lab:two-a100
defaults: {template: ubuntu-22.04-efi, cluster: gpu, folder: training, cpus: 4, memory: 16GiB, numa: "off"}
vms:
- {name: "ch-{01..02}", gpus: grid_a100-10c, nics: [vm-network], place: PLACE}
"""
DEVICES = """\
version: 1
name: devices
vcenter: lab:two-a100
defaults: {template: ubuntu-22.04-efi, cluster: gpu, folder: training, cpus: 4, memory: 16GiB, numa: "off"}
vms:
- name: made
  template: {scratch: ubuntu64Guest}
  datastore: vsan
  secure_boot: true
  disks: [{size: 40GiB}, {size: 8GiB, controller: nvme}]
  power: false
- name: grown
  gpus: [{profile: grid_a100-40c, uvm: true}]
  disks: [{grow: GROWN}]
  nics: [NICS]
  extra_config: {sched.swap.vmxSwapEnabled: "FALSE"}
"""
TAGS = """\
version: 1
name: tags
vcenter: lab:mixed-fleet
defaults: {cluster: a100, folder: training, cpus: 4, memory: 16GiB, power: false}
vms:
- name: t-{01..02}
  template: {library: gold, item: ubuntu-22.04-nvidia}
  tags: {Backup: BACKUP, Team: TEAM}
"""


def _filled(text: str, **values: str) -> str:
    for name, value in values.items():
        text = text.replace(name, value)
    return text


CASES: Mapping[str, Sequence[str | Path]] = {
    "networks": (
        _filled(NETWORKS, VLAN="111", MTU="1500"),
        _filled(NETWORKS, VLAN="222", MTU="9000"),
    ),
    "options": (
        _filled(OPTIONS, MTU="1500", IS_ON="true", WORD="1"),
        _filled(OPTIONS, MTU="1500", IS_ON="false", WORD=""),
    ),
    "image": (IMAGE,),
    "rules": (
        _filled(VMS, PLACE="{spread: hosts, must: false}"),
        _filled(VMS, PLACE="{host_group: a100-even}"),
        _filled(VMS, PLACE="{}"),
    ),
    "devices": (
        _filled(DEVICES, GROWN="80GiB", NICS="vm-network, {network: dv-train, mac: '00:50:56:3f:00:01'}"),
        _filled(DEVICES, GROWN="96GiB", NICS="dv-train"),
    ),
    "virtual functions": (
        on_the_switch("{network: roce-111, type: sriov, near: gpu, ip: pool, rdma: gpudirect}", FUNCTIONS),
    ),
    "pvrdma": (on_the_switch("{network: roce-111, type: pvrdma, ip: pool, rdma: host}", VMKNICS),),
    "guest by ssh": (one("ssh"),),
    "guest by guest operations": (one("guest-operations"),),
    "tags": (
        _filled(TAGS, BACKUP="daily", TEAM="[research, teaching]"),
        _filled(TAGS, BACKUP="weekly", TEAM="[teaching]"),
    ),
    "changed": (Path("plans/before.yaml"), Path("plans/after.yaml")),
    "prepare-hosts.yaml": (Path("examples/prepare-hosts.yaml"), Path("plans/hosts-off-first.yaml")),
}
"""Plan files that are applied one after the other, where no example has what they are about."""
NAMES = sorted({*EXAMPLES, *CASES})
WITHOUT_VMS = ("prepare-hosts.yaml", "image", "networks", "options")
FIRST = {
    "changed", "devices", "guest by guest operations", "guest by ssh", "image", "mig-mix.yaml", "networks",
    "options", "rules", "tags", "two-vgpus.yaml",
}  # fmt: skip
"""What every run tries: small cases, among them one of each kind of write."""
WHY = "shown is run, on all examples: tests/properties/shown_and_run"
OF_ALL = each(((name,) for name in NAMES), WHY, FIRST.__contains__, one_of=6)
"""Every function tries the same: what is run once is looked at by all."""


def runs(names: Iterable[str]) -> list[ParameterSet]:
    chosen = {name: row.marks for name, row in zip(NAMES, OF_ALL, strict=True)}
    return [pytest.param(name, marks=chosen[name]) for name in names]


Runs = Callable[[str], list[Run]]


@pytest.fixture(scope="module")
def runs_of(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    """Return what runs an example or a case, once."""
    known: dict[str, list[Run]] = {}

    def run(name: str) -> list[Run]:
        if name not in known:
            known[name] = list(_run(name, tmp_path_factory.mktemp("run")))
        return known[name]

    return run


def _run(name: str, folder: Path) -> Iterator[Run]:
    with pytest.MonkeyPatch.context() as patch:
        vgpu_cfg = CommandLine(folder, patch)
        for key, value in SECRETS.items():
            patch.setenv(key, value)
        if name == "rules":
            make_host_group(vgpu_cfg, "a100-even")
        for step in CASES.get(name, (Path("examples", name),)):
            plan = vgpu_cfg.write("plan.yaml", step) if isinstance(step, str) else step
            vcenter = load_plan(plan).desired.vcenter
            assert vcenter is not None
            ran = run_reviewed(vgpu_cfg, patch, plan, vcenter.removeprefix("lab:"), "--allow-power-cycle")
            assert ran is not None, f"{plan} has nothing to run"
            yield ran


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", runs(NAMES))
def test_what_is_sent_to_hosts_clusters_and_networks_was_shown(name: str, runs_of: Runs) -> None:
    for run in runs_of(name):
        faults = faults_of(run, of_vms=False)
        assert not faults, "\n".join(faults)


@pytest.mark.parametrize("name", runs(name for name in NAMES if name not in WITHOUT_VMS))
def test_what_is_sent_to_vms_was_shown(name: str, runs_of: Runs) -> None:
    for run in runs_of(name):
        faults = faults_of(run, of_vms=True)
        assert not faults, "\n".join(faults)


@pytest.mark.exhaustive(WHY)
def test_every_exemption_is_needed(runs_of: Runs) -> None:
    used: set[Exemption] = set()
    for name in NAMES:
        for run in runs_of(name):
            for of_vms in (False, True):
                faults_of(run, of_vms=of_vms, used=used)
    assert [(one.method, one.path) for one in EXEMPTIONS if one not in used] == []
