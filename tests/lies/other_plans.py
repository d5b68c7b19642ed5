"""Scenes of a plan on another estate: it is applied twice, changed, and applied again twice.

Each is compared with the same commands on an honest lab.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from tests.cli.command_line import ROOT, CommandLine
from tests.lies.judge import Played, Step, made
from tests.lies.stage import PLAN, Facts, Stage, facts_of, is_left
from vgpu_cfg.lab.state.inventory import Host, LabState, VirtualMachine
from vgpu_cfg.settings.connection import LAB_PASSWORD

LAB = ROOT / "vgpu_cfg/lab/estates"
CUSTOMIZING = """about: A specification, and a template whose guest it customizes.
vcenter: {customization_specs: [{name: farm}]}
clusters: [{name: gpu, hosts: [{name: esx-1.lab}]}]
networks: [{name: vm-network}, {name: prod}]
templates: [{name: ubuntu, guest: {cloud_init: false}}]
"""
_AS_INSTALLED = """about: A host as the installer leaves it, with GPUs of two kinds, and another one.
clusters:
- name: gpu
  drs: fullyAutomated
  hosts:
  - name: esx-1.lab
    memory: 512GiB
    driver: none
    ats: false
    graphics_type: {configured: shared, runtime: basic}
    bundles:
    - {path: /vmfs/volumes/vsan/NVD-AIE-800_580.95.02.zip}
    - {path: /vmfs/volumes/vsan/nvd-gpu-mgmt-daemon_580.95.02.zip, holds: daemon}
    - {path: /vmfs/volumes/vsan/mft.zip, holds: mft}
    - {path: /vmfs/volumes/vsan/nmst.zip, holds: nmst}
    gpus:
    - {board: A100, pci_id: "0000:21:00.0", numa: 0}
    - {board: A100, pci_id: "0000:e2:00.0", numa: 1}
    - {board: H100, pci_id: "0000:e6:00.0", numa: 1}
    nics:
    - {model: ConnectX-6 Lx, vmnic: vmnic0, pci_id: "0000:c1:00.0", numa: 1, switch: vSwitch0}
    - {model: ConnectX-6 Dx, vmnic: vmnic3, pci_id: "0000:e4:00.0", numa: 1}
  - {name: esx-2.lab, memory: 512GiB, driver: none}
datastores: [{name: vsan}]
vms: [{name: web-01, host: esx-1.lab, cpus: 2, memory: 4GiB}]
"""
READY = """about: A host with a GPU in MIG mode, and one whose graphics type does not offer vGPUs.
clusters:
- name: gpu
  drs: fullyAutomated
  hosts:
  - {name: esx-1.lab, memory: 256GiB, gpus: [{board: A100, pci_id: "0000:21:00.0", numa: 0, mode: mig}]}
  - name: esx-2.lab
    memory: 256GiB
    graphics_type: {configured: shared, runtime: shared}
    gpus: [{board: A100, pci_id: "0000:21:00.0", numa: 1}]
datastores: [{name: vsan}]
templates: [{name: ubuntu, cpus: 2, memory: 4GiB, disks: [8GiB]}]
vms: [{name: web-01, host: esx-1.lab, cpus: 2, memory: 4GiB, gpus: [grid_a100-3-20c]}]
"""
_IN_A_LIBRARY = """about: A VM template in a content library.
vcenter: {libraries: [{name: images, items: [{name: u, template: ubuntu}]}]}
clusters: [{name: gpu, hosts: [{name: esx-1.lab}]}]
datastores: [{name: vsan}]
templates: [{name: ubuntu, cpus: 2, memory: 4GiB, disks: [8GiB]}]
"""
_ON_THE_FIRST = "vms: [{name: other-1, host: esx-1.lab, cpus: 2, memory: 4GiB, gpus: [grid_a100-10c]}]\n"
_TWO_NODES = (
    '{name: esx-1.lab, memory: 256GiB, gpus: [{board: A100, pci_id: "0000:21:00.0", numa: 0}, '
    '{board: A100, pci_id: "0000:e2:00.0", numa: 1}]}'
)
_AT_ONCE = """about: Two hosts, and automated DRS with its option for vGPUs.
vcenter: {settings: {vgpu.hotmigrate.enabled: true}}
clusters:
- name: gpu
  hosts: [{names: [esx-1.lab, esx-2.lab], memory: 256GiB, gpus: [{board: A100, pci_id: "0000:21:00.0"}]}]
datastores: [{name: vsan}]
templates: [{name: ubuntu, cpus: 2, memory: 4GiB, disks: [8GiB]}]
"""


MOST_RESTARTS = 6
"""No command restarts hosts more often than this because a setting does not become active."""


def _no_more(_state: LabState) -> Facts:
    return {}


@dataclass(frozen=True, slots=True)
class OtherPlan:
    """An estate and a plan file, what is changed in it, and the options of `apply` with the change.

    `more` returns facts beyond VMs.
    """

    estate: str
    plan: str
    edit: tuple[str, str]
    options: tuple[str, ...] = ()
    more: Callable[[LabState], Facts] = _no_more

    def word(self, stage: Stage, name: str) -> str:
        """Play it, and return the word for it."""
        there = stage.elsewhere(name, self.estate, self.plan)
        played = self.play(there)
        _see_hosts_named(there, played)
        there.see_no_harm()
        words = list(self._words(played, _honest(name)))
        return next((one for one in words if one != "right"), "right")

    def play(self, stage: Stage) -> Played:
        played: dict[str, Step] = {}
        for first, again in (("apply", "again"), ("edit", "edit again")):
            if first == "edit":
                stage.edit(self.edit)
            for name in (first, again):
                ran = stage.type(f"{name}", "apply", "--yes", PLAN, *self.options)
                state = stage.look()
                facts = facts_of(state) | self.more(state)
                played[name] = Step(ran, facts, tuple(is_left(state)))
        return played

    @staticmethod
    def _words(played: Played, honest: Played) -> Iterator[str]:
        yield made(played, honest, "apply", "again")
        yield made(played, honest, "edit", "edit again")


def _see_hosts_named(stage: Stage, played: Played) -> None:
    """Check that hosts that stay down are named, that restarts are few, and that other VMs run."""
    state = stage.look()
    for host in state.all(Host):
        if host.in_maintenance:
            assert host.name.partition(".")[0] in played["edit again"].ran.told
            assert played["edit again"].ran.code
    assert sum(entry.what == "host down" for entry in state.diary) <= MOST_RESTARTS
    assert all(vm.is_on for vm in state.all(VirtualMachine) if vm.name.startswith("web"))


def _host_facts(state: LabState) -> Facts:
    """Return the active settings of hosts."""
    return {"hosts": {host.name: dict(_of_host(host)) for host in state.all(Host)}}


def _of_host(host: Host) -> Iterator[tuple[str, object]]:
    yield "driver", host.driver and (host.driver.version, host.driver.gpu_daemon)
    yield "down", host.in_maintenance
    yield "ssh", host.services["TSM-SSH"].running
    yield "ats", [setting.runtime for name, setting in host.kernel.items() if name.endswith("tsSupport")]
    yield "gpus", [(gpu.graphics_type, gpu.mig_enabled, gpu.vgpu_mode) for gpu in host.gpus]
    yield "passthrough", sorted(pci_id for pci_id in host.passthrough if host.is_passed_through(pci_id))
    yield "firmware", [nic.is_on("ATS_ENABLED") for nic in host.nics]
    yield "tools", "mft" in host.software


@cache
def _honest(name: str) -> Played:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", "200")
        patch.setenv("ESXI_PASSWORD", LAB_PASSWORD)
        one = OTHER_PLANS[name]
        stage = Stage(CommandLine(Path(folder), patch))
        return one.play(stage.elsewhere(name, one.estate, one.plan))


def _estate(name: str) -> str:
    return (LAB / f"{name}.yaml").read_text(encoding="utf-8")


OTHER_PLANS = {
    "groups": OtherPlan(
        _estate("nic-groups"),
        """vms:
- name: train-01
  template: ubuntu-22.04-efi
  cluster: gpu
  folder: training
  cpus: 16
  memory: 64GiB
  gpus: [{profile: grid_a100d-80c, group: lab group of GPU and NIC}]
  nics: [{type: passthrough, near: gpu}]
""",
        ("cpus: 16", "cpus: 8"),
        ("--allow-power-cycle",),
    ),
    "customized": OtherPlan(
        CUSTOMIZING,
        """vms:
- name: train-01
  template: ubuntu
  cluster: gpu
  cpus: 2
  memory: 4GiB
  nics: [{network: vm-network, ip: dhcp}, {network: prod, ip: dhcp}]
  guest: {spec: farm}
""",
        ("memory: 4GiB", "memory: 8GiB"),
        ("--allow-power-cycle",),
    ),
    "hosts": OtherPlan(
        _AS_INSTALLED,
        """secrets: {esxi: env:ESXI_PASSWORD}
hosts:
- names: [esx-1.lab]
  graphics_type: sharedDirect
  ats: true
  gpus:
  - {match: {numa: 0}, use: vgpu, sharing: mig}
  - {match: {pci_id: "0000:e2:00.0"}, use: vgpu, vgpu_mode: mixed_size}
  - {match: {pci_id: "0000:e6:00.0"}, use: vgpu, sharing: mig}
  nics: {match: {vmnic: vmnic3}, use: passthrough, label: rail, firmware: {ATS_ENABLED: true}}
  driver:
    kind: nvd-aie
    version: "580.*"
    by: esxcli
    depot:
    - /vmfs/volumes/vsan/NVD-AIE-800_580.95.02.zip
    - /vmfs/volumes/vsan/nvd-gpu-mgmt-daemon_580.95.02.zip
  firmware_tools: {by: esxcli, depot: [/vmfs/volumes/vsan/mft.zip, /vmfs/volumes/vsan/nmst.zip]}
  access: {ssh: open-and-close, user: root, password: {secret: esxi}, host_keys: pin}
  disruption: {allow: [maintenance, reboot]}
""",
        ("numa: 0}, use: vgpu, sharing: mig", "numa: 0}, use: vgpu, sharing: time_sliced"),
        more=_host_facts,
    ),
    "customized GPU": OtherPlan(
        f"{CUSTOMIZING.replace('{name: esx-1.lab}', _TWO_NODES)}{_ON_THE_FIRST}",
        """vms:
- name: train-01
  template: ubuntu
  cluster: gpu
  cpus: 2
  memory: 4GiB
  gpus: grid_a100-10c
  nics: [{network: vm-network, ip: dhcp}]
  guest: {spec: farm}
""",
        ("memory: 4GiB", "memory: 8GiB"),
        ("--allow-power-cycle",),
    ),
    "library": OtherPlan(
        _IN_A_LIBRARY,
        """vms:
- name: train-01
  template: {library: images, item: u}
  cluster: gpu
  datastore: vsan
  cpus: 4
  memory: 8GiB
  extra_config: {svga.vramSize: "16777216"}
""",
        ("memory: 8GiB", "memory: 16GiB"),
        ("--allow-power-cycle",),
    ),
    "MIG": OtherPlan(
        _estate("mig-a100"),
        """defaults: {template: ubuntu-22.04-efi, cluster: gpu, folder: training, cpus: 4, memory: 8GiB}
vms:
- {name: "small-{1..2}", gpus: grid_a100-3-20c}
- {name: "big-{1..2}", gpus: grid_a100-4-20c}
""",
        ('small-{1..2}", gpus: grid_a100-3-20c', 'small-{1..6}", gpus: grid_a100-1-5c'),
        ("--allow-power-cycle",),
    ),
    "ready hosts": OtherPlan(
        READY,
        """secrets: {esxi: env:ESXI_PASSWORD}
hosts:
- cluster: gpu
  graphics_type: sharedDirect
  access: {ssh: open-and-close, user: root, password: {secret: esxi}, host_keys: pin}
  disruption: {allow: [maintenance]}
vms:
- {name: train-01, template: ubuntu, cluster: gpu, cpus: 4, memory: 8GiB, gpus: grid_a100-4-20c}
""",
        ("grid_a100-4-20c", "grid_a100-2-10c"),
        ("--allow-power-cycle",),
        more=_host_facts,
    ),
    "moved": OtherPlan(
        _AT_ONCE,
        """vms:
- name: train-01
  template: ubuntu
  cluster: gpu
  datastore: vsan
  cpus: 4
  memory: 8GiB
  latency_sensitivity: high
  gpus: grid_a100-10c
  place: {hosts: [esx-1.lab]}
""",
        ("hosts: [esx-1.lab]", "hosts: [esx-2.lab]"),
        ("--allow-move",),
    ),
}
"""The plans by the names of their scenes."""
