"""What can be read is read before the first disturbance: nothing moves for what cannot succeed."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime

import pytest

from tests.cli.command_line import CommandLine
from vgpu_cfg.lab.state.host import Host
from vgpu_cfg.lab.state.inventory import VirtualMachine

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
        ("", "", "e{1..3}.lab", f"the host cannot read {ZIP}"),
        (BUNDLE, "", "e3.lab", f"the host cannot read {ZIP}"),
        (BUNDLE, OLD, "e3.lab", f"{ZIP} contains nvd-aie 570.10.01"),
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


GUESTS = """\
version: 1
name: keys
vcenter: lab:estates/guests.yaml
secrets: {token: "env:TOKEN"}
networks: [{name: vm-network, subnet: 10.20.0.0/24, pool: 10.20.0.11-10.20.0.99, gateway: 10.20.0.1}]
vms:
- name: one
  template: with-cloud-init
  cluster: gpu
  folder: training
  datastore: vsan
  gpus: grid_a100-10c
  nics: [{network: vm-network, ip: pool}]
  guest: {licence: {secret: token}}
"""


def token(year: int) -> str:
    claims = json.dumps(
        {"iss": "NLS Service Instance", "exp": int(datetime(year, 1, 1, tzinfo=UTC).timestamp())}
    )
    parts = (base64.urlsafe_b64encode(text.encode()).decode().rstrip("=") for text in ("{}", claims, "s"))
    return ".".join(parts)


@pytest.mark.parametrize("command", ["plan", "apply"])
def test_a_token_that_has_expired_is_refused_before_a_vm_is_made(vgpu_cfg: CommandLine, command: str) -> None:
    vgpu_cfg.write("plan.yaml", GUESTS)
    yes = ["--yes"] if command == "apply" else []
    ran = vgpu_cfg(command, "plan.yaml", *yes, TOKEN=token(2025))
    assert ran.code == 4
    assert "VG346 one: the token in the secret `token` expired on 2025-01-01" in ran.told
    assert "VG346" not in vgpu_cfg("plan", "plan.yaml", TOKEN=token(2099)).told
    assert "VG346" not in vgpu_cfg("plan", "plan.yaml", TOKEN="a.b.c").told


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("key", "code"), [("not-a-key", 6), ("AB0C1-DE2F3-GH4I5-JK6L7-MN8O9", 0)])
def test_a_licence_key_is_tried_before_the_host_is_taken_down(
    vgpu_cfg: CommandLine, key: str, code: int
) -> None:
    estate(vgpu_cfg, BUNDLE, BUNDLE)
    licensed = PLAN.replace("secrets: {", 'secrets: {lic: "env:LIC", ').replace(
        "- cluster: gpu\n", "- cluster: gpu\n  licence: {secret: lic}\n"
    )
    vgpu_cfg.write("plan.yaml", licensed)
    ran = vgpu_cfg("apply", "plan.yaml", "--yes", ESXI_PW="x", LIC=key)
    assert ran.code == code, ran.told
    assert not any(is_down for is_down, _ in experienced(vgpu_cfg).values())
    assert key not in ran.told


def test_a_privilege_of_the_last_step_is_looked_for_first(vgpu_cfg: CommandLine) -> None:
    vgpu_cfg.write("plan.yaml", GUESTS)
    vgpu_cfg.script("estates/guests.yaml", lacking=["VirtualMachine.Interact.PowerOn"])
    ran = vgpu_cfg("apply", "plan.yaml", "--yes", TOKEN="x")
    assert ran.code == 5, ran.told
    assert "VirtualMachine.Interact.PowerOn" in ran.told
    assert not any(vm.name == "one" for vm in vgpu_cfg.lab("estates/guests.yaml").state.all(VirtualMachine))
