"""What can be read is read before the first disturbance: nothing moves for what cannot succeed."""

from __future__ import annotations

import pytest

from tests.cli.command_line import CommandLine
from vgpu_cfg.lab.state.host import Host

ESTATE = """\
about: hosts of one cluster, and VMs of others on the first of them
vcenter: {settings: {vgpu.hotmigrate.enabled: true}}
clusters:
- name: gpu
  drs: fullyAutomated
  drs_options: {VgpuMMAutomationTimeoutSecs: "-1"}
  hosts:
  - names: [e1.lab, e2.lab]
    gpus: [{board: A100, pci_id: "0000:21:00.0", numa: 0}, {board: A100, pci_id: "0000:e2:00.0", numa: 1}]
    bundles: [BUNDLE]
  - names: [e3.lab]
    gpus: [{board: A100, pci_id: "0000:21:00.0", numa: 0}]
    bundles: [BUNDLE_3]
datastores:
- {name: vsan, kind: vsan, capacity: 20TiB, free: 15TiB}
vms:
- {name: o1, host: e1.lab, gpus: [grid_a100-40c], cpus: 4, memory: 16GiB}
- {name: o2, host: e2.lab, cpus: 4, memory: 16GiB}
"""
ZIP = "/vmfs/volumes/vsan/NVD-AIE-800_595.71.03.zip"
BUNDLE = f"{{path: {ZIP}, driver: {{version: 595.71.03}}}}"
OLD = f"{{path: {ZIP}, driver: {{version: 570.10.01}}}}"
PLAN = f"""\
version: 1
name: drv
vcenter: lab:estate.yaml
secrets: {{esxi: "env:ESXI_PW"}}
hosts:
- cluster: gpu
  driver: {{kind: nvd-aie, version: "595.*", by: esxcli, depot: {ZIP}}}
  access: {{ssh: open-and-close, user: root, password: {{secret: esxi}}}}
  disruption: {{canary: 1, allow: [maintenance, reboot]}}
"""


def estate(run: CommandLine, first: str, last: str) -> None:
    run.write("estate.yaml", ESTATE.replace("BUNDLE_3", last).replace("BUNDLE", first))
    run.write("plan.yaml", PLAN)


def experienced(run: CommandLine) -> dict[str, tuple[bool, str]]:
    """Return of each host whether it is down, and its driver."""
    hosts = run.lab("estate.yaml").state.all(Host)
    return {host.name: (host.in_maintenance, host.driver.version if host.driver else "") for host in hosts}


@pytest.mark.parametrize("command", ["plan", "apply"])
@pytest.mark.parametrize(
    ("first", "last", "host", "words"),
    [
        ("", "", "e{1..3}.lab", f"it cannot read {ZIP}"),
        (BUNDLE, "", "e3.lab", f"it cannot read {ZIP}"),
        (BUNDLE, OLD, "e3.lab", f"{ZIP} holds nvd-aie 570.10.01"),
    ],
    ids=["nowhere", "on a datastore of others", "another release"],
)
def test_a_depot_is_looked_into_before_a_host_is_taken_down(
    vgpu_cfg: CommandLine, command: str, first: str, last: str, host: str, words: str
) -> None:
    estate(vgpu_cfg, first, last)
    before = experienced(vgpu_cfg)
    ran = vgpu_cfg(command, "plan.yaml", *(["--yes"] if command == "apply" else []), ESXI_PW="x")
    assert ran.code == 4, ran.told
    assert f"VG345 {host}: {words}" in ran.told
    assert experienced(vgpu_cfg) == before


def test_depots_that_hold_what_is_wanted_are_installed_from_and_the_emptiest_host_goes_first(
    vgpu_cfg: CommandLine,
) -> None:
    estate(vgpu_cfg, BUNDLE, BUNDLE)
    ran = vgpu_cfg.done("apply", "plan.yaml", "--yes", ESXI_PW="x")
    assert "CANARY e3.lab, then asks before e{1..2}.lab" in ran.told
    assert {driver for _, driver in experienced(vgpu_cfg).values()} == {"595.71.03"}
    assert "VG345" not in ran.told
