"""Scenes of a plan on another estate: it is applied twice, changed, and applied again twice.

Each is compared with the same commands on an honest lab.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from tests.cli.command_line import ROOT, CommandLine
from tests.lies.judge import Played, Step, made
from tests.lies.stage import PLAN, Stage, facts_of, is_left

LAB = ROOT / "vgpu_cfg/lab/estates"
_CUSTOMIZING = """about: A specification, and a template whose guest it customizes.
vcenter: {customization_specs: [{name: farm}]}
clusters: [{name: gpu, hosts: [{name: esx-1.lab}]}]
networks: [{name: vm-network}, {name: prod}]
templates: [{name: ubuntu, guest: {cloud_init: false}}]
"""
_AT_ONCE = """about: Two hosts, and automated DRS with its option for vGPUs.
vcenter: {settings: {vgpu.hotmigrate.enabled: true}}
clusters:
- name: gpu
  hosts: [{names: [esx-1.lab, esx-2.lab], memory: 256GiB, gpus: [{board: A100, pci_id: "0000:21:00.0"}]}]
datastores: [{name: vsan}]
templates: [{name: ubuntu, cpus: 2, memory: 4GiB, disks: [8GiB]}]
"""


@dataclass(frozen=True, slots=True)
class OtherPlan:
    """An estate and a plan file, what is changed in it, and the options of `apply` with the change."""

    estate: str
    plan: str
    edit: tuple[str, str]
    options: tuple[str, ...] = ()

    def word(self, stage: Stage, name: str) -> str:
        """Play it, and return the word for it."""
        there = stage.elsewhere(name, self.estate, self.plan)
        played = self.play(there)
        there.look()
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
                played[name] = Step(ran, facts_of(state), tuple(is_left(state)))
        return played

    @staticmethod
    def _words(played: Played, honest: Played) -> Iterator[str]:
        yield made(played, honest, "apply", "again")
        yield made(played, honest, "edit", "edit again")


@cache
def _honest(name: str) -> Played:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", "200")
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
        _CUSTOMIZING,
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
