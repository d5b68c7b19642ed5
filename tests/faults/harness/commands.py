"""The commands that write, each as a scenario: refused once, stopped or killed, then typed again.

`scenarios.py` has the runs that are broken on the wire, too; these are tried with the mishaps of `AGAIN`.
"""

from __future__ import annotations

from tests.cli.command_line import ROOT
from tests.cli.team import SECRETS
from tests.faults.harness.scenarios import (
    APPLY,
    CHANGED,
    ESTATES,
    HEAD,
    HOSTS,
    IMAGE,
    KNOWN,
    OURS,
    PAIR,
    SCENARIOS,
    SECOND_HOST,
    STRANGER,
    TEAM,
    Scenario,
    Words,
    of_the_lab,
)
from tests.faults.harness.wires import VCENTER
from vgpu_cfg.settings.connection import LAB_PASSWORD

SERVER = f"--server={VCENTER}"
DEAD_RUN = "20260105-dead"
"""The id of a run that died on another machine."""
HOT = (ESTATES / "work-on-hosts.yaml").read_text(encoding="utf-8")
COLD = HOT.replace("enabled: true", "enabled: false")
WORK = of_the_lab((ROOT / "tests/cli/plans/work-on-hosts.yaml").read_text(encoding="utf-8"))
HOST = "esx-01.lab"
OFF: Words = ("--power-off=t1", "--power-off=t2")
DRAIN: Words = ("drain", HOST, "--yes", "--others", SERVER)
UNCORDON: Words = ("uncordon", f"host:{HOST}", "--restore", "--yes", SERVER)
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
NO_REBOOT = ({"method": "RebootHost_Task", "kind": "task", "message": "no"},)
DOWN_HOST = "esx-r12-01.lab"
SWITCH = """\
about: A switch that others use, too.
clusters:
- name: gpu
  drs: manual
  hosts: [{names: [esx-1.lab, esx-2.lab], gpus: [{board: A100}], nics: [{switch: dvs-prod}]}]
switches: [{name: dvs-prod, mtu: 1500}]
networks: [{name: prod, switch: dvs-prod}, {name: roce, switch: dvs-prod}]
templates: [{name: ubuntu}]
vms: [{names: [erp-1, erp-2], networks: [prod]}]
"""
JUMBO = f"{HEAD}name: {OURS}\nnetworks: [{{name: roce, switch: dvs-prod, mtu: 9000, vlan: 7}}]\n"
OWN_KEYS = TEAM.replace("  keys: {secret: seed}\n", "")
KNOWN_TEAM = TEAM.replace("vms:", "id: 6b1d7c20-8e4f-4a15-b3d9-27f0c5a91e01\nvms:")
MIRRORED = f"{KNOWN_TEAM}site: {{registry_mirrors: {{docker.io: https://mirror.example.com}}}}\n"
ODD = of_the_lab((ROOT / "tests/cli/plans/odd-templates.yaml").read_text(encoding="utf-8"))
STEP = "by hand esx-a100-01.lab: bios_sriov"
SEEN = f"""\
{HEAD}name: {OURS}
hosts: [{{names: [esx-a100-01.lab], bios: {{sriov: true}}}}]
"""
FLEET = """\
about: Three servers that DRS empties, two VMs of others on vGPUs, and a bundle with a newer driver.
clusters:
- name: gpu
  drs: fullyAutomated
  hosts:
  - names: [esx-01.lab, esx-02.lab, esx-03.lab]
    memory: 512GiB
    bundles: [{path: /vmfs/volumes/vsan/NVD-AIE-800_595.71.03.zip, driver: {version: 595.71.03}}]
    gpus: [{board: A100, pci_id: "0000:21:00.0", numa: 0}]
datastores: [{name: vsan, kind: vsan, capacity: 20TiB, free: 15TiB}]
networks: [{name: vm-network}]
folders: [training]
vms:
- {name: others-01, host: esx-01.lab, cpus: 4, memory: 16GiB, gpus: [grid_a100-20c]}
- {name: others-02, host: esx-02.lab, cpus: 4, memory: 16GiB, gpus: [grid_a100-20c]}
"""
WAVE = f"""\
{HEAD}name: {OURS}
hosts:
- cluster: gpu
  names: ["esx-{{01..03}}.lab"]
  driver:
    kind: nvd-aie
    version: 595.71.*
    by: esxcli
    depot: [/vmfs/volumes/vsan/NVD-AIE-800_595.71.03.zip]
  cluster_options: {{evacuate_vgpu: true, hot_migrate: true}}
  disruption: {{max_hosts_down: 1, canary: 1, allow: [maintenance, reboot]}}
"""
"""A wave as `upgrade --write` writes it."""
SAVE: Words = ("plan", "plan.yaml", "-o", "plan.json")
REFUSED = ({"method": "PowerOnVM_Task", "nth": 0, "kind": "task", "message": "no"},)


def _work(about: str, estate: str, run: Words, *before: Words) -> Scenario:
    """Return work on a host on which two VMs of a plan run, and one of nobody's."""
    made = (APPLY, *before)
    files = {"plan.yaml": WORK}
    return Scenario(about, estate, files, run=run, before=made, asks=None, are_places_told=True)


def _left_down(about: str, *run: str) -> Scenario:
    """Return a run on a host that a plan has taken into maintenance mode, and could not reboot."""
    return Scenario(
        about,
        estate="bare",
        files={"second.yaml": SECOND_HOST},
        run=run,
        fails=("apply", "--yes", "second.yaml"),
        faults=NO_REBOOT,
        asks=None,
        environment={"ESXI_PASSWORD": LAB_PASSWORD},
    )


def _rotated(about: str, what: str, text: str = TEAM) -> Scenario:
    """Return a run that replaces something in two guests."""
    estate, files = str(ESTATES / "team.yaml"), {"plan.yaml": text}
    run = ("apply", "--yes", f"--rotate={what}", "plan.yaml")
    return Scenario(about, estate, files, run, (APPLY,), environment=SECRETS)


def _pair(about: str, plan: str, *words: str, first: str = KNOWN) -> Scenario:
    """Return a run on two VMs that were made by a first file."""
    files = {"plan.yaml": plan, "first.yaml": first}
    return Scenario(
        about, "two-a100", files, (*words, "plan.yaml"), (("apply", "--yes", "first.yaml"),), asks=None
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
    "wave": Scenario(
        about="a wave of an upgrade: three hosts with VMs of others get a newer driver, one after the other",
        estate=FLEET,
        files={"plan.yaml": WAVE},
    ),
    "image": Scenario(
        about="the image of two hosts gets another driver, and vCenter brings the hosts to it",
        estate=str(ESTATES / "image-2.yaml"),
        files={"plan.yaml": IMAGE},
    ),
    "imported": Scenario(
        about="`import` of two VMs",
        estate=str(ESTATES / "full-but-one-move.yaml"),
        files={"plan.yaml": TAKEN},
        run=("import", "--yes", "plan.yaml"),
        asks=None,
    ),
    "imported and deleted": Scenario(
        about="`destroy` of two imported VMs that are named",
        estate=str(ESTATES / "full-but-one-move.yaml"),
        files={"plan.yaml": TAKEN},
        before=(("import", "--yes", "plan.yaml"),),
        run=("destroy", "--yes", "--delete=small-01", "--delete=small-02", "plan.yaml"),
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
    "rotated": _rotated("`apply --rotate` of licence tokens", "licence"),
    "rotated keys": _rotated("`apply --rotate` of the plan's keys", "keys", OWN_KEYS),
    "rotated password": _rotated("`apply --rotate` of the registry's password", "registry"),
    "allowed network": Scenario(
        about="`apply --allow network`: a switch that other VMs use gets another MTU",
        estate=SWITCH,
        files={"plan.yaml": JUMBO},
        run=("apply", "--yes", "--allow=network", "plan.yaml"),
    ),
    "allowed training": Scenario(
        about="`apply --allow training`: docker restarts in two guests",
        estate=str(ESTATES / "team.yaml"),
        files={"first.yaml": KNOWN_TEAM, "plan.yaml": MIRRORED},
        before=(("apply", "--yes", "first.yaml"),),
        run=("apply", "--yes", "--allow=training", "plan.yaml"),
        environment=SECRETS,
    ),
    "confirmed": Scenario(
        about="`apply --done` of a step that nothing shows",
        estate="two-a100",
        files={"plan.yaml": SEEN},
        run=("apply", "--yes", f"--done={STEP}", "plan.yaml"),
    ),
    "saved": Scenario(
        about="`apply` of a plan that `plan -o` has saved",
        estate="two-a100",
        files={"plan.yaml": PAIR},
        before=(SAVE,),
        run=("apply", "--yes", "plan.json"),
    ),
    "saved changes": Scenario(
        about="`apply` of a saved plan that changes two running VMs",
        estate="two-a100",
        files={"first.yaml": KNOWN, "plan.yaml": CHANGED},
        before=(("apply", "--yes", "first.yaml"), (*SAVE, "--allow-power-cycle")),
        run=("apply", "--yes", "--allow-power-cycle", "plan.json"),
    ),
    "saved hosts": Scenario(
        about="`apply` of a saved plan that prepares two hosts",
        estate="bare",
        files={"plan.yaml": HOSTS},
        before=((*SAVE, "--open-shell"),),
        run=("apply", "--yes", "plan.json"),
        environment={"ESXI_PASSWORD": LAB_PASSWORD},
    ),
    "left down": _left_down("`uncordon` of a host that a failed run has left in maintenance mode",
                            "uncordon", f"host:{DOWN_HOST}", "--restore", "--yes", SERVER),
    "left down, destroyed": _left_down("`destroy` of a plan that has left a host in maintenance mode",
                                       "destroy", "--yes", "second.yaml"),
    "left down, forgotten": _left_down("`forget` of a plan that has left a host in maintenance mode",
                                       "forget", "--yes", "second.yaml"),
    "taken back": Scenario(
        about="`apply --rollback-on-failure`: what is refused once is taken back, and done the next time",
        estate=SITE,
        files={"first.yaml": FIRST, "plan.yaml": THEN},
        before=(("apply", "--yes", "first.yaml"),),
        run=("apply", "--yes", "--allow-power-cycle", "--rollback-on-failure", "plan.yaml"),
    ),
    "rolled back": Scenario(
        about="`apply --rollback-on-failure` where no VM can be started",
        estate="two-a100",
        files={"plan.yaml": PAIR},
        run=("apply", "--yes", "--rollback-on-failure", "plan.yaml"),
        asks=None,
        code=6,
        faults=REFUSED,
    ),
    "looked at": Scenario(
        about="`verify --template`: a clone is made, looked into and deleted",
        estate=str(ESTATES / "odd-templates.yaml"),
        files={"plan.yaml": ODD},
        run=("verify", "plan.yaml", "--template", "whole", "--yes"),
        asks=None,
        environment={"LICENCE_TOKEN": "token", "PASSWORD": LAB_PASSWORD},
        code=0,
    ),
    "shells opened": Scenario(
        about="`plan --open-shell`: SSH of two hosts is opened and closed",
        estate="bare",
        files={"plan.yaml": HOSTS},
        run=("plan", "plan.yaml", "--open-shell"),
        asks=None,
        environment={"ESXI_PASSWORD": LAB_PASSWORD},
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
