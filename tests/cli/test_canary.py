"""Hosts and VMs that go first: they are verified, then the others are begun or left alone."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cli.command_line import CommandLine
from vgpu_cfg.changes.report import CanaryResult
from vgpu_cfg.cli.flows.running.canary_flow import CanaryWatch
from vgpu_cfg.vsphere.writing.writer import VCenterWriter

PAIR = "plans/pair.yaml"
ESTATE = """\
about: Three servers with an A100 each, in a cluster that DRS can empty.
clusters:
- name: gpu
  drs: fullyAutomated
  hosts: [{names: [esx-01.lab, esx-02.lab, esx-03.lab], memory: 256GiB, gpus: [{board: A100}]}]
datastores: [{name: vsan}]
"""
HOSTS = """\
version: 1
name: hosts
vcenter: lab:three.yaml
hosts:
- {cluster: gpu, ats: false, disruption: {max_hosts_down: 3, canary: 1, allow: [maintenance, reboot]}}
"""
power_on, pass_canary = VCenterWriter.power_on_vm, CanaryWatch.pass_canary


@pytest.fixture
def hosts(vgpu_cfg: CommandLine) -> CommandLine:
    """Write an estate of three hosts, and a plan that prepares one of them first."""
    vgpu_cfg.write("three.yaml", ESTATE)
    vgpu_cfg.write("hosts.yaml", HOSTS)
    return vgpu_cfg


def test_hosts_go_on_behind_a_canary_that_is_as_planned(hosts: CommandLine) -> None:
    told = "esx-01.lab, then asks before esx-{02..03}.lab (8 changes)"
    assert f"CANARY {told}" in hosts.done("plan", "hosts.yaml").told
    assert f"**CANARY** {told}" in hosts.done("runbook", "hosts.yaml").told
    ran = hosts.done("apply", "--yes", "hosts.yaml")
    assert f"CANARY {told}" in ran.told
    assert "CANARY esx-01.lab: as planned; continued with esx-{02..03}.lab" in ran.told
    first, asked, second = (
        ran.out.index(words)
        for words in ("done    leave maintenance esx-01", "note    leave", "start   enter maintenance esx-02")
    )
    assert first < asked < second
    assert hosts("plan", "--exit-code", "hosts.yaml").code == 0


def test_a_canary_that_fails_leaves_the_other_hosts_alone(hosts: CommandLine) -> None:
    hosts.script("three.yaml", {"method": "EnterMaintenanceMode_Task", "fault": "Timedout"})
    ran = hosts("apply", "--yes", "hosts.yaml")
    assert ran.code == 6, ran.told
    assert "LEFT esx-{02..03}.lab: not started: the canary failed: esx-01.lab: " in ran.told
    assert "start enter maintenance esx-02" not in ran.told
    assert "CANARY esx-01.lab: as planned" not in ran.told


def test_vms_go_on_behind_a_canary_that_is_as_planned(vgpu_cfg: CommandLine) -> None:
    ran = vgpu_cfg.done("apply", "--yes", "--canary=1", PAIR, "--output=json")
    (canary,) = json.loads(ran.out)["canaries"]
    assert canary == {"names": ["hvd-01"], "others": ["hvd-02"], "problems": [], "notes": [], "goes_on": True}
    assert vgpu_cfg.look("two-a100").vms == {"hvd-01", "hvd-02"}


@pytest.mark.parametrize("words", [(), ("--canary=2",)])
def test_without_a_canary_nothing_is_held_back(words: tuple[str, ...], vgpu_cfg: CommandLine) -> None:
    ran = vgpu_cfg.done("apply", "--yes", *words, PAIR)
    assert "CANARY" not in ran.out


@pytest.mark.parametrize("words", [(), ("--rollback-on-failure",)])
def test_a_canary_that_is_not_as_planned_ends_the_run(
    words: tuple[str, ...], vgpu_cfg: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody switches the canary off before it is looked at."""
    started: list[tuple[VCenterWriter, str]] = []

    def noted(self: VCenterWriter, moid: str, host_moid: str | None = None) -> str:
        started.append((self, moid))
        return power_on(self, moid, host_moid)

    def switched_off(self: CanaryWatch, *others: Any) -> CanaryResult:
        ((writer, moid),) = started
        task = writer.power_off_vm(moid)
        while not any(update.state.is_over for update in writer.wait_for_tasks([task], 60)):
            continue
        return pass_canary(self, *others)

    with monkeypatch.context() as patched:
        patched.setattr(VCenterWriter, "power_on_vm", noted)
        patched.setattr(CanaryWatch, "pass_canary", switched_off)
        ran = vgpu_cfg("apply", "--yes", "--canary=1", *words, PAIR)
    assert ran.code == 6, ran.told
    assert "FAILED" in ran.told
    assert "CANARY hvd-01: does not match the plan: hvd-01: not running" in ran.told
    assert "LEFT hvd-02: not started: the canary hvd-01 does not match the plan" in ran.told
    assert f"NEXT vgpu-cfg apply {PAIR}{''.join(f' {word}' for word in words)} --canary=1" in ran.told
    assert vgpu_cfg.look("two-a100").vms == (frozenset() if words else {"hvd-01"})
    vgpu_cfg.done("apply", "--yes", PAIR)
    assert vgpu_cfg("plan", "--exit-code", PAIR).code == 0
