"""Secrets that a killed run left in a VM that is off are reported until its first boot."""

from __future__ import annotations

import pytest

from tests.cli.command_line import CommandLine

PLAN = """
version: 1
name: demo
vcenter: lab:two-a100
secrets: {{lic: "env:LIC"}}
vms:
- name: x-1
  template: ubuntu-22.04-efi
  gpus: grid_a100-40c
  memory: 16GiB
  nics: [{{network: vm-network, ip: dhcp}}]
  guest: {{by: cloud-init, licence: {{secret: lic}}{more}}}
"""


@pytest.mark.parametrize("is_exposed", [True, False])
def test_status_reports_them(vgpu_cfg: CommandLine, *, is_exposed: bool) -> None:
    vgpu_cfg.write("p.yaml", PLAN.format(more=", secrets: exposed" if is_exposed else ""))
    vgpu_cfg.script("two-a100", {"method": "PowerOnVM_Task", "message": "no"})
    vgpu_cfg("apply", "p.yaml", "--yes", LIC="abc")
    told = vgpu_cfg("status", "p.yaml", LIC="abc").told
    assert ("its configuration still contains the secrets for" in told) is is_exposed
