"""All that govc can do, against the lab and vcsim: what works, what is refused, and that nothing crashes it.

`govc.txt` beside this file has the commands, in their order, with what each comes to on the two servers.
A command that is refused says why: the lab answers a method that it does not have with a fault of vSphere,
and its REST side with a status.
"""

from __future__ import annotations

import os
import re
import shlex
import string
import subprocess
from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from tests.contract.conftest import Server, built, govc_environment, running_vcsim
from tests.contract.test_govc import served

COMMANDS = Path(__file__).with_name("govc.txt")
ESTATE = Path(__file__).with_name("estate.yaml")
CRASHES = ("panic:", "nil pointer", "goroutine ", "general system error")
SERVERS = ("lab", "vcsim")
NAMES = {
    "lab": {
        "dc": "dc1", "cluster": "gpu", "host": "esx-01.lab", "host2": "esx-02.lab", "ds": "nvme",
        "net": "vm-network", "template": "ubuntu-22.04-efi", "counter": "gpu.utilization.average",
    },
    "vcsim": {
        "dc": "DC0", "cluster": "DC0_C0", "host": "DC0_C0_H0", "host2": "DC0_C0_H1", "ds": "LocalDS_0",
        "net": "VM Network", "template": "DC0_C0_RP0_VM0", "counter": "cpu.usage.average",
    },
}  # fmt: skip
"""What stands where in a command's words."""

BEFORE = (
    "vm.clone -vm $template -on=false -host $host -ds $ds web",
    "vm.clone -vm $template -on=false -host $host -ds $ds spare",
)
NOT_RUN = {
    "vcsa.*": "the appliance's own settings",
    "sso.*": "accounts of the single sign-on, another service",
    "vlcm.*": "lifecycle images, another service",
    "cluster.vlcm.*": "lifecycle images, another service",
    "cluster.draft.*": "lifecycle images, another service",
    "namespace.*": "Kubernetes on vSphere",
    "kms.key.*": "keys of VMs' encryption",
    "import.*": "needs an OVA, and disks that are copied",
    "vsan.*": "vSAN's health service, another API",
    "guest.*": "tests/contract/test_govc.py works in a guest",
    "library.trust.create": "needs a certificate",
    "host.cert.import": "needs a certificate",
    "extension.setcert": "needs a certificate",
    "extension.register": "fetches a plug-in from its address",
    "folder.place": "asks DRS for a recommendation of where to put a VM: vSphere 8.0 U3",
    "datastore.cluster.*": "datastore clusters",
}
"""Commands that are not run, by glob, and why."""


def commands() -> list[tuple[str, str, str]]:
    """Return each command with what it comes to on the lab and on vcsim."""
    lines = COMMANDS.read_text(encoding="utf-8").splitlines()
    rows = (line.split(maxsplit=2) for line in lines if line and not line.startswith("#"))
    return [(lab, vcsim, words) for lab, vcsim, words in rows]


def run_all(server: Server, names: Mapping[str, str], home: Path) -> dict[str, tuple[int, str]]:
    """Run every command; return exit status and what it said, on both channels."""
    note = home / "note.txt"
    note.write_text("hello\n", encoding="utf-8")
    meant = {**names, "tmp": str(home), "file": str(note)}
    environment = {**govc_environment(server, home), "GOVC_DATACENTER": names["dc"]}

    def run(line: str) -> tuple[int, str]:
        words = shlex.split(string.Template(line).substitute(meant))
        done = subprocess.run(
            [str(built("govc")), *words],
            env=environment, input="", capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        return done.returncode, done.stdout + done.stderr

    for line in BEFORE:
        code, said = run(line)
        assert code == 0, said
    return {words: run(words) for _, _, words in commands()}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path


@pytest.mark.exhaustive("what all of govc's commands come to on the lab and on vcsim")
@pytest.mark.parametrize("kind", SERVERS)
def test_each_command_comes_to_what_the_table_says_and_none_crashes(kind: str, home: Path) -> None:
    built("govc")
    with running_vcsim() if kind == "vcsim" else served(str(ESTATE)) as server:
        came_to = run_all(server, NAMES[kind], home)
    if kind == "lab":
        crashed = {
            words: said for words, (_, said) in came_to.items() if any(word in said for word in CRASHES)
        }
        assert crashed == {}
        silent = [words for words, (code, said) in came_to.items() if code and not said.strip()]
        assert silent == []
    found = {words: "no" if code else "ok" for words, (code, _) in came_to.items()}
    if os.environ.get("REWRITE_GOVC"):
        rewrite(SERVERS.index(kind), found)
    rows = [(row[SERVERS.index(kind)], row[2]) for row in commands()]
    differ = {words: came_to[words] for was, words in rows if was not in (found[words], "any")}
    assert differ == {}


def rewrite(column: int, found: Mapping[str, str]) -> None:
    """Write what commands came to into the table."""
    lines = []
    for line in COMMANDS.read_text(encoding="utf-8").splitlines():
        row = line.split(maxsplit=2)
        if line and not line.startswith("#") and row[column] != "any":
            row[column] = found[row[2]]
        lines.append(" ".join(row))
    COMMANDS.write_text("\n".join(lines) + "\n", encoding="utf-8")


@pytest.mark.long("vcsim and govc, which Go builds: tests/contract")
def test_every_command_that_govc_has_is_run_or_has_a_reason() -> None:
    done = subprocess.run(
        [str(built("govc")), "-h"], capture_output=True, text=True, timeout=120, check=False
    )
    told = set(re.findall(r"^  ([a-z]+(?:\.[a-z]+)*)$", done.stdout + done.stderr, flags=re.MULTILINE))
    assert len(told) > 300
    run = {words.split()[0] for _, _, words in commands()}
    left = {name for name in told - run if not any(fnmatchcase(name, glob) for glob in NOT_RUN)}
    assert left == set()
    assert run - told <= {
        "collect",
        "object.collect",
        "find",
        "ls",
        "tree",
        "tasks",
        "events",
        "alarms",
        "logs",
    }


def test_the_table_counts_what_the_lab_has() -> None:
    rows = commands()
    assert len({words for _, _, words in rows}) == len(rows), "a command stands twice: name it otherwise"
    gaps = [words for lab, vcsim, words in rows if (lab, vcsim) == ("no", "ok")]
    assert len([row for row in rows if row[0] == "ok"]) > 2 * len(gaps)
