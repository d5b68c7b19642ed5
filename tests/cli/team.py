"""A plan of VMs that train together, its secrets, and what the lab shows of them afterwards."""

from __future__ import annotations

import json
from collections.abc import Mapping

from tests.cli.command_line import CommandLine, Ran
from vgpu_cfg.lab.guest.system.creation import guest_of
from vgpu_cfg.lab.state.guest import Guest
from vgpu_cfg.lab.state.inventory import LabState, VirtualMachine
from vgpu_cfg.settings.connection import LAB_PASSWORD

ESTATE = "estates/team.yaml"
IMAGE = "nvcr.io/nvidia/tensorflow:21.07-tf1-py3"
SECRETS = {
    "TOKEN": "tok-SECRET-licence",
    "NGC": "ngc-SECRET-registry",
    "SEED": "seed-SECRET-of-the-plans-keys-0123456789",
    "ADMIN": "the-admins-SECRET",
    "ESXI": LAB_PASSWORD,
}
WORKERS = f"""\
version: 1
name: demo
vcenter: lab:{ESTATE}
secrets: {{token: "env:TOKEN", ngc: "env:NGC", seed: "env:SEED", admin: "env:ADMIN", esxi: "env:ESXI"}}
networks:
- {{name: vm-network, subnet: 10.20.0.0/24, pool: 10.20.0.11-10.20.0.99, gateway: 10.20.0.1}}
- {{name: roce-111, physical: true, mtu: 9000, subnet: 10.111.0.0/24, pool: 10.111.0.11-10.111.0.20}}
vms:
- name: hvd-{{01..02}}
  template: good
  cluster: gpu
  folder: training
  datastore: vsan
  gpus: grid_a100-40c
  nics:
  - {{network: vm-network, ip: pool}}
  - {{network: roce-111, type: passthrough, near: gpu, ip: pool, rdma: gpudirect}}
  place: {{spread: hosts}}
  guest: {{licence: {{secret: token}}}}
training:
  workers: hvd-*
  image: {IMAGE}
  rdma_network: roce-111
  registry: {{secret: ngc}}
  keys: {{secret: seed}}
"""

ALONE = (
    WORKERS.replace("{01..02}", "01")
    .replace("  - {network: roce-111, type: passthrough, near: gpu, ip: pool, rdma: gpudirect}\n", "")
    .replace("  rdma_network: roce-111\n", "")
)
"""One worker without RDMA: what stages sooner."""


def vm_of(state: LabState, name: str) -> VirtualMachine:
    """Return the VM of a name."""
    return next(vm for vm in state.all(VirtualMachine) if vm.name == name)


def guest_in(run: CommandLine, name: str, estate: str = ESTATE) -> Guest:
    """Return what the lab keeps of a VM's guest."""
    return guest_of(vm_of(run.lab(estate).state, name))


def boots(run: CommandLine, estate: str = ESTATE) -> Mapping[str, tuple[int, float | None]]:
    """Return how often each VM's guest has booted, and when the VM was powered on."""
    state = run.lab(estate).state
    return {
        vm.name: (guest_of(vm).boots, vm.boot_time) for vm in state.all(VirtualMachine) if not vm.is_template
    }


def staged_modules(run: CommandLine, plan: object, *words: str, **environment: str) -> dict[str, set[str]]:
    """Return what `plan` would stage: the modules by VM."""
    ran = run("plan", str(plan), "--output", "json", *words, **{**SECRETS, **environment})
    assert ran.code == 0, ran.told
    return {
        change["vm"]["name"]: set(change["modules"])
        for change in json.loads(ran.out)["plan"]["changes"]
        if change["kind"] == "stage_guest"
    }


def kinds(ran: Ran) -> set[str]:
    """Return the kinds of the changes that `plan --output json` printed."""
    return {change["kind"] for change in json.loads(ran.out)["plan"]["changes"]}


def codes(ran: Ran) -> set[str]:
    """Return the codes of errors and warnings that `plan --output json` printed."""
    return {
        one["code"]
        for one in json.loads(ran.out)["plan"]["diagnostics"]
        if one["severity"] in ("error", "warning")
    }
