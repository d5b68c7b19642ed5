"""A NIC whose firmware wants a cold boot: with a BMC no hand is needed, without one the run waits."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.command_line import CommandLine

ESTATE = """
about: a server whose NIC loads its firmware's settings only when the power comes back
clusters:
- name: gpu
  hosts:
  - name: esx-1.lab
    mft: true
    memory: 512GiB
    nics:
    - {model: ConnectX-6 Lx, vmnic: vmnic0, pci_id: "0000:c1:00.0", numa: 1, switch: vSwitch0}
    - {model: ConnectX-6 Dx, vmnic: vmnic2, pci_id: "0000:24:00.0", numa: 0, cold_boot: true}
"""
PLAN = """\
version: 1
name: cold
vcenter: lab:cold.yaml
secrets: {bmc: "env:BMC_PASSWORD"}
hosts:
- names: [esx-1.lab]
  access: {ssh: open-and-closeBMC}
  disruption: {allow: [maintenance, reboot, cold_boot]}
  nics: [{match: {vmnic: vmnic2}, firmware: {ATS_ENABLED: true}}]
"""
BY_BMC = ", bmc: {addresses: {esx-1.lab: bmc-esx-1.lab}, password: {secret: bmc}}"


@pytest.fixture
def plan(vgpu_cfg: CommandLine, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Return what writes a plan; its host has been rebooted in vain, and boots cold next."""
    monkeypatch.setenv("BMC_PASSWORD", "lab")

    def rebooted(bmc: str) -> Path:
        vgpu_cfg.write("cold.yaml", ESTATE)
        path = vgpu_cfg.write("plan.yaml", PLAN.replace("BMC}", f"{bmc}}}"))
        assert vgpu_cfg("apply", path, "--yes").code == 7, "what remains is planned anew"
        return path

    return rebooted


def test_a_bmc_switches_it_on_and_no_hand_is_needed(
    vgpu_cfg: CommandLine, monkeypatch: pytest.MonkeyPatch, plan: Callable[[str], Path]
) -> None:
    path = plan(BY_BMC)
    assert "its BMC bmc-esx-1.lab powers it on" in vgpu_cfg("plan", path, "--open-shell").told
    monkeypatch.setenv("BMC_PASSWORD", "wrong-one")
    refused = vgpu_cfg("apply", path, "--yes")
    assert refused.code == 6
    assert "access denied for root: GET /redfish/v1/Systems returned 401" in refused.told
    assert "wrong-one" not in refused.told
    monkeypatch.setenv("BMC_PASSWORD", "lab")
    done = vgpu_cfg("apply", path, "--yes")
    assert done.code == 0, done.told
    assert "1 cold boot" in done.out
    assert "in sync" in vgpu_cfg("plan", path, "--open-shell").out


def test_without_a_bmc_the_run_waits_for_a_hand(vgpu_cfg: CommandLine, plan: Callable[[str], Path]) -> None:
    waits = vgpu_cfg("apply", plan(""), "--yes")
    assert waits.code == 7
    assert "power esx-1.lab on manually" in waits.told
