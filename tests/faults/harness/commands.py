"""The commands that write, each as a scenario: refused once, stopped or killed, then typed again.

`scenarios.py` has the runs that are broken on the wire, too; these are tried with the mishaps of `AGAIN`.
"""

from __future__ import annotations

from tests.cli.command_line import ROOT
from tests.cli.team import SECRETS
from tests.faults.harness.scenarios import (
    APPLY,
    ESTATES,
    HEAD,
    KNOWN,
    OURS,
    PAIR,
    SCENARIOS,
    STRANGER,
    TEAM,
    Scenario,
    Words,
    of_the_lab,
)
from tests.faults.harness.wires import VCENTER

SERVER = f"--server={VCENTER}"
DEAD_RUN = "20260105-dead"
"""The id of a run that died on another machine."""
HOT = (ESTATES / "work-on-hosts.yaml").read_text(encoding="utf-8")
COLD = HOT.replace("enabled: true", "enabled: false")
WORK = of_the_lab((ROOT / "tests/cli/plans/work-on-hosts.yaml").read_text(encoding="utf-8"))
HOST = "esx-01.lab"
OFF: Words = ("--power-off=t1", "--power-off=t2")
DRAIN: Words = ("drain", HOST, "--yes", "--others", SERVER)
UNCORDON: Words = ("uncordon", f"host:{HOST}", "--yes", SERVER)
CORDON: Words = ("cordon", f"host:{HOST}", "gpu:esx-02.lab/21:00.0", "--reason", "DIMM", SERVER)

TIMED = KNOWN.replace("vms:", "from: 2020-01-01T08:00Z\nuntil: 2099-01-31T18:00Z\nvms:")
RULED = TIMED.replace("{spread: gpus}", "{spread: hosts, must: false}")
LATER = KNOWN.replace("vms:", "from: 2098-01-01T08:00Z\nuntil: 2099-01-31T18:00Z\nvms:")
DATED = KNOWN.replace("  cpus: 16", "  expires: 2020-01-31\n  cpus: 16")
SHRUNK = KNOWN.replace("hvd-{01..02}", "hvd-01")
TAKEN = f"""\
{HEAD}name: {OURS}
vms:
- {{name: "small-{{01..02}}", template: ubuntu-22.04-efi, cluster: gpu, gpus: grid_a100-10c}}
"""
SITE = """\
about: Two clusters of servers with A100s, and a switch.
vcenter: {settings: {vgpu.hotmigrate.enabled: true}}
clusters:
- name: gpu
  drs: fullyAutomated
  hosts:
  - {name: one.lab, memory: 256GiB, gpus: [{board: A100, count: 2}]}
  - {name: two.lab, memory: 256GiB, gpus: [{board: A100, count: 2}]}
- name: other
  hosts:
  - {name: far.lab, memory: 256GiB, gpus: [{board: A100, count: 2}]}
datastores: [{name: vsan}, {name: nfs, kind: NFS}]
switches: [{name: dvs-old}]
networks: [{name: vm-network}, {name: dv-train, switch: dvs-old, vlan: 12}]
folders: [training, old]
templates: [{name: ubuntu-22.04-efi, hardware_version: 19, cpus: 4, memory: 8GiB, disks: [64GiB]}]
"""
DEFAULTS = "defaults: {template: ubuntu-22.04-efi, cluster: gpu, datastore: vsan, memory: 16GiB}\n"
FIRST = f"""\
{HEAD}name: {OURS}
id: 6b1d7c20-8e4f-4a15-b3d9-27f0c5a91e01
{DEFAULTS}vms:
- {{name: "vm-{{01..02}}", folder: training, cpus: 4, gpus: grid_a100-10c, nics: [vm-network], drs: manual,
   place: {{spread: hosts, must: false}}, attributes: {{owner: jo}}}}
- {{name: off-01, folder: training, cpus: 2, power: false}}
"""
THEN = f"""\
{HEAD}name: {OURS}
id: 6b1d7c20-8e4f-4a15-b3d9-27f0c5a91e01
{DEFAULTS}networks: [{{name: dv-train, switch: dvs-old, vlan: 13}}]
hosts:
- {{cluster: gpu, cluster_options: {{evacuate_vgpu: true, hot_migrate: true, drs: {{AffinityMax: "3"}}}}}}
moved: [{{from: "vm-{{01..02}}", to: "trn-{{01..02}}"}}]
vms:
- {{name: "trn-{{01..02}}", folder: old, cpus: 8, gpus: grid_a100-20c, nics: [dv-train], drs: full,
   attributes: {{owner: ann, team: ml}}}}
- {{name: off-01, folder: training, cpus: 3, power: true}}
- {{name: new-01, folder: training, cpus: 2, gpus: grid_a100-10c, attributes: {{owner: jo}}, drs: manual}}
"""
MOVED = FIRST.replace("cluster: gpu", "cluster: other").replace("vsan", "nfs").replace(
    "place: {spread: hosts, must: false}, ", ""
)  # fmt: skip
REFUSED = ({"method": "PowerOnVM_Task", "nth": 0, "kind": "task", "message": "no"},)


def _work(about: str, estate: str, run: Words, *before: Words) -> Scenario:
    """Return work on a host on which two VMs of a plan run, and one of nobody's."""
    made = (APPLY, *before)
    files = {"plan.yaml": WORK}
    return Scenario(about, estate, files, run=run, before=made, asks=None, are_places_told=True)


def _pair(about: str, plan: str, *words: str, first: str = KNOWN) -> Scenario:
    """Return a run on two VMs that were made by a first file."""
    files = {"plan.yaml": plan, "first.yaml": first}
    return Scenario(
        about, "two-a100", files, (*words, "plan.yaml"), (("apply", "--yes", "first.yaml"),), None
    )


COMMANDS: dict[str, Scenario] = {
    **SCENARIOS,
    "cordoned": _work("`cordon` of a host and of another's GPU", HOT, CORDON),
    "drained": _work("`drain` of a host whose VMs move as they run", HOT, DRAIN),
    "drained off": _work("`drain --power-off`: VMs move while they are off", COLD, (*DRAIN, *OFF)),
    "uncordoned": _work("`uncordon` of a host whose VMs come home as they run", HOT, UNCORDON, DRAIN),
    "uncordoned off": _work(
        "`uncordon --power-off`: VMs come home while they are off", COLD, (*UNCORDON, *OFF), (*DRAIN, *OFF)
    ),
    "stayed": _work("`uncordon --stay`", HOT, (*UNCORDON, "--stay"), DRAIN),
    "imported": Scenario(
        about="`import` of two VMs",
        estate=str(ESTATES / "full-but-one-move.yaml"),
        files={"plan.yaml": TAKEN},
        run=("import", "--yes", "plan.yaml"),
        asks=None,
    ),
    "may be deleted": Scenario(
        about="`import --may-destroy` of two VMs",
        estate=str(ESTATES / "full-but-one-move.yaml"),
        files={"plan.yaml": TAKEN},
        before=(("import", "--yes", "plan.yaml"),),
        run=("import", "--may-destroy", "--yes", "plan.yaml"),
        asks=None,
    ),
    "forgotten": _pair("`forget` of VMs, a rule and a reservation", RULED, "forget", "--yes", first=RULED),
    "forgotten by name": _pair(
        "`forget --only` of a VM that the file no longer names", SHRUNK, "forget", "--yes", "--only=hvd-02"
    ),
    "deleted by name": _pair("`apply --delete` of a VM that the file no longer names", SHRUNK,
                             "apply", "--yes", "--delete=hvd-02"),
    "destroyed by name": _pair("`destroy --only --delete`, the plan's VMs one by one", SHRUNK,
                               "destroy", "--yes", "--only=hvd-01", "--delete=hvd-02"),
    "expired": _pair("`apply --expired`: two VMs past their date", DATED, "apply", "--yes", "--expired"),
    "reserved": _pair("a reservation for later", LATER, "apply", "--yes", first=STRANGER),
    "given back": _pair("`destroy` of VMs, a rule and a reservation", RULED, "destroy", "--yes", first=RULED),
    "canary": Scenario(
        about="`apply --canary 1 --parallel 1`",
        estate="two-a100",
        files={"plan.yaml": PAIR},
        run=("apply", "--yes", "--canary=1", "--parallel=1", "plan.yaml"),
    ),
    "only": Scenario(
        about="`apply --only --stop-on-failure` of one of two VMs",
        estate="two-a100",
        files={"plan.yaml": PAIR},
        run=("apply", "--yes", "--only=hvd-02", "--stop-on-failure", "plan.yaml"),
        asks=None,
    ),
    "renamed": Scenario(
        about="a portgroup, cluster options, rules, overrides; VMs renamed, put into a folder, changed",
        estate=SITE,
        files={"first.yaml": FIRST, "plan.yaml": THEN},
        before=(("apply", "--yes", "first.yaml"),),
        run=("apply", "--yes", "--allow-power-cycle", "plan.yaml"),
    ),
    "moved": Scenario(
        about="`apply --allow-move` to another cluster and datastore",
        estate=SITE,
        files={"first.yaml": FIRST, "plan.yaml": MOVED},
        before=(("apply", "--yes", "first.yaml"),),
        run=("apply", "--yes", "--allow-move", "plan.yaml"),
        are_places_told=True,
    ),
    "rotated": Scenario(
        about="`apply --rotate` of licence tokens",
        estate=str(ESTATES / "team.yaml"),
        files={"plan.yaml": TEAM},
        before=(APPLY,),
        run=("apply", "--yes", "--rotate=licence", "plan.yaml"),
        environment=SECRETS,
    ),
    "taken back": Scenario(
        about="`apply --rollback-on-failure`: what is refused once is taken back, and done the next time",
        estate=SITE,
        files={"first.yaml": FIRST, "plan.yaml": THEN},
        before=(("apply", "--yes", "first.yaml"),),
        run=("apply", "--yes", "--allow-power-cycle", "--rollback-on-failure", "plan.yaml"),
    ),
    "rolled back": Scenario(
        # A run that is stopped takes nothing back: the next one goes forward, and `destroy` removes all.
        about="`apply --rollback-on-failure` where no VM can be started; then `destroy`",
        estate="two-a100",
        files={"plan.yaml": PAIR},
        run=("apply", "--yes", "--rollback-on-failure", "plan.yaml"),
        asks=("destroy", "--yes", "plan.yaml"),
        code=6,
        faults=REFUSED,
    ),
    "unlocked": Scenario(
        about="`unlock` of a run that died on another machine",
        estate="two-a100",
        files={"plan.yaml": PAIR},
        run=("unlock", DEAD_RUN, "--force", "--yes", SERVER),
        asks=None,
        dead_run=DEAD_RUN,
    ),
}  # fmt: skip
"""Each command that writes, with the options that change what it writes."""
