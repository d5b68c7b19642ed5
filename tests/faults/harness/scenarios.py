"""The runs that are broken: what each begins with, what is typed, and what is typed again afterwards."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.cli.command_line import ROOT
from tests.cli.team import ALONE, SECRETS
from tests.faults.harness.wires import VCENTER
from vgpu_cfg.settings.connection import LAB_PASSWORD

OURS, SECOND, THEIRS = "ours", "second", "theirs"
"""The names of the plan that is run, of one that is run beside it, and of one of which nothing may change."""
HEAD = f"version: 1\nvcenter: {VCENTER}\n"
PAIR = f"""\
{HEAD}name: {OURS}
vms:
- name: hvd-{{01..02}}
  template: ubuntu-22.04-efi
  cluster: gpu
  folder: training
  datastore: vsan
  cpus: 16
  memory: 64GiB
  gpus: grid_a100-20c
  nics: [vm-network]
  place: {{spread: gpus}}
"""
KNOWN = PAIR.replace("vms:", "id: 6b1d7c20-8e4f-4a15-b3d9-27f0c5a91e01\nvms:")
"""The same with an id, so that another file can be the same plan."""
CHANGED = (
    KNOWN.replace("cpus: 16", "cpus: 8")
    .replace("64GiB", "48GiB")
    .replace("[vm-network]", "[dv-train]")
    .replace("a100-20c", "a100-10c")
)
STRANGER = f"""\
{HEAD}name: {THEIRS}
vms:
- {{name: other, template: ubuntu-22.04-efi, cluster: gpu, folder: training, cpus: 2, memory: 8GiB}}
"""
ANOTHER: tuple[str, ...] = ("apply", "--yes", "theirs.yaml")
APPLY: tuple[str, ...] = ("apply", "--yes", "plan.yaml")
Words = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Scenario:
    """One run: `before` is done without disturbance, `run` is what is broken; the same mends it.

    `estate` is one that the lab has, a file, or its text. `files` are those of the folder that all of it
    runs in. `fails` is run last before, and ends with exit code 6 by the `faults`. `asks` is a command that
    must find nothing left to do, with exit code 0. `code` is what an undisturbed run ends with. `faults` are
    those that the lab plays in each run, `dead_run` is the id of a run whose locks are there.
    `are_places_told` says that the hosts of VMs are compared, too.
    """

    about: str
    estate: str
    files: Mapping[str, str]
    run: Words = APPLY
    before: tuple[Words, ...] = ()
    fails: Words = ()
    asks: Words | None = ("plan", "plan.yaml", "--exit-code")
    environment: Mapping[str, str] = field(default_factory=dict)
    code: int = 0
    faults: tuple[Mapping[str, Any], ...] = ()
    dead_run: str = ""
    are_places_told: bool = False


def of_the_lab(text: str) -> str:
    """Return a plan file of the tests, with this vCenter and this name in it."""
    text = re.sub(r"(?m)^vcenter: .*$", f"vcenter: {VCENTER}", text)
    return re.sub(r"(?m)^name: .*$", f"name: {OURS}", text)


TEAM = of_the_lab(ALONE.replace("hvd-01", "hvd-{01..02}"))
"""Two workers whose guests are set up, without RDMA."""
EXPOSING = "guest: {licence: {secret: token}, secrets: exposed}"
HOSTS = of_the_lab((ROOT / "tests/cli/plans/hosts-two.yaml").read_text(encoding="utf-8"))
ESTATES = ROOT / "tests/cli/estates"
IMAGE = f"""\
{HEAD}name: {OURS}
hosts:
- cluster: gpu
  driver: {{kind: nvd-aie, version: "580.*", by: image}}
  disruption: {{allow: [maintenance, reboot]}}
"""
FIRST_OF_IMAGE, SECOND_OF_IMAGE = (
    IMAGE.replace(f"name: {OURS}", f"name: {name}").replace("gpu\n", f"gpu\n  names: [{host}]\n")
    for name, host in ((OURS, "esx-01.lab"), (SECOND, "esx-02.lab"))
)

SCENARIOS: dict[str, Scenario] = {
    "made": Scenario(
        about="two VMs are made",
        estate="two-a100",
        files={"plan.yaml": PAIR, "theirs.yaml": STRANGER},
        before=(ANOTHER,),
    ),
    "changed": Scenario(
        about="two running VMs get other CPUs, memory, GPUs and networks, with `--allow-power-cycle`",
        estate="two-a100",
        files={"first.yaml": KNOWN, "plan.yaml": CHANGED, "theirs.yaml": STRANGER},
        before=(ANOTHER, ("apply", "--yes", "first.yaml")),
        run=("apply", "--yes", "plan.yaml", "--allow-power-cycle"),
    ),
    "hosts": Scenario(
        about="two hosts get driver, MIG, vGPU mode, firmware and passthrough: maintenance, reboots, SSH",
        estate="bare",
        files={"plan.yaml": HOSTS},
        environment={"ESXI_PASSWORD": LAB_PASSWORD},
    ),
    "guests": Scenario(
        about="two workers are made and their guests set up",
        estate=str(ESTATES / "team.yaml"),
        files={"plan.yaml": TEAM},
        environment=SECRETS,
    ),
    "destroyed": Scenario(
        about="two workers are deleted",
        estate=str(ESTATES / "team.yaml"),
        files={"plan.yaml": TEAM},
        before=(APPLY,),
        run=("destroy", "--yes", "plan.yaml"),
        asks=None,
        environment=SECRETS,
    ),
}

EXPOSED = Scenario(
    about="as `guests`, but marked `secrets: exposed`: they are seen where they are said to be",
    estate=str(ESTATES / "team.yaml"),
    files={"plan.yaml": TEAM.replace("guest: {licence: {secret: token}}", EXPOSING)},
    environment=SECRETS,
)
SECOND_PAIR = (
    KNOWN.replace(f"name: {OURS}", f"name: {SECOND}")
    .replace("6b1d7c20", "7c2e8d31")
    .replace("hvd-{", "snd-{")
)
FIRST_HOST = HOSTS.replace(', "esx-r12-02.lab"', "").replace(", vgpu_mode: mixed_size", "")
"""Without what a restart drops: the other plan restarts the host, too."""
SECOND_HOST = f"""\
{HEAD}name: {SECOND}
secrets: {{esxi: env:ESXI_PASSWORD}}
hosts:
- names: [esx-r12-01.lab]
  ats: false
  access: {{ssh: open-and-close, user: root, password: {{secret: esxi}}, host_keys: pin}}
  disruption: {{allow: [maintenance, reboot]}}
"""
BOTH: tuple[Words, Words] = (APPLY, APPLY)


@dataclass(frozen=True, slots=True)
class Race:
    """Two machines that run at one time: a scenario, and what is typed on the first and on the second one."""

    scenario: Scenario
    typed: tuple[Words, Words] = BOTH


RACES: dict[str, Race] = {
    "one plan": Race(
        Scenario(
            about="two machines make the VMs of one plan",
            estate="two-a100",
            files={"plan.yaml": KNOWN, "theirs.yaml": STRANGER},
            before=(ANOTHER,),
        )
    ),
    "one plan's hosts": Race(SCENARIOS["hosts"]),
    "one image": Race(
        Scenario(
            about="two machines bring two hosts to one image by two plans",
            estate=str(ESTATES / "image-2.yaml"),
            files={"plan.yaml": FIRST_OF_IMAGE, "second.yaml": SECOND_OF_IMAGE},
        ),
        (APPLY, ("apply", "--yes", "second.yaml")),
    ),
    "two plans": Race(
        Scenario(
            about="two machines make VMs of two plans on one host",
            estate="two-a100",
            files={"plan.yaml": KNOWN, "second.yaml": SECOND_PAIR},
        ),
        (APPLY, ("apply", "--yes", "second.yaml")),
    ),
    "one host": Race(
        Scenario(
            about="two machines prepare one host by two plans",
            estate="bare",
            files={"plan.yaml": FIRST_HOST, "second.yaml": SECOND_HOST},
            environment={"ESXI_PASSWORD": LAB_PASSWORD},
        ),
        (APPLY, ("apply", "--yes", "second.yaml")),
    ),
}
