"""Ansible's VMware modules against the lab: which uses work, and why others do not.

`ansible.txt` beside this file has the uses in their order; `run_modules.py` runs the modules of the two
collections by ansible-core's own code. Playbooks are in tests/contract/hand_over.
"""

from __future__ import annotations

import json
import os
import string
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.contract.clients.test_govc_commands import ESTATE, NAMES
from tests.contract.conftest import Server
from tests.contract.test_govc import served
from vgpu_cfg.lab.simulation.clock import RealClock

USES = Path(__file__).with_name("ansible.txt")
RUNNER = Path(__file__).with_name("run_modules.py")
ANSIBLE = Path(__file__).resolve().parents[3] / ".cache" / "ansible"
AT_ONCE = 100_000
"""The speed of a clock on which tasks have ended when they are first looked at: else modules sleep."""
SEPARATOR = " # "


@dataclass(frozen=True)
class Use:
    """A line of the table: what it comes to, the module with its arguments, and why it does not work."""

    comes_to: str
    words: str
    why: str = ""

    def __str__(self) -> str:
        return f"{self.comes_to} {self.words}" + (f"{SEPARATOR}{self.why}" if self.why else "")


def uses() -> list[Use]:
    """Return the uses of the table."""
    lines = USES.read_text(encoding="utf-8").splitlines()
    return [use_of(line) for line in lines if line and not line.startswith("#")]


def use_of(line: str) -> Use:
    """Read one line."""
    words, _, why = line.partition(SEPARATOR)
    comes_to, _, words = words.partition(" ")
    return Use(comes_to, words, why)


def task(words: str, names: Mapping[str, str]) -> str:
    """Return what the runner is told of a use."""
    name, _, arguments = string.Template(words).substitute(names).partition(" ")
    collection = "vmware.vmware" if name.startswith("vmware.") else "community.vmware"
    module = f"ansible_collections.{collection}.plugins.modules.{name.removeprefix('vmware.')}"
    return json.dumps([words, module, arguments])


def run_all(server: Server, home: Path) -> dict[str, dict[str, Any]]:
    """Run all uses; return what each came to."""
    note = home / "note.txt"
    note.write_text("hello\n", encoding="utf-8")
    names = {
        **NAMES["lab"],
        "tmp": str(home),
        "file": str(note),
        "server": f"{server.host}:{server.port}",
        "gpu": "0000:ca:00.0",
        "profile": "grid_a100d-20c",
    }
    done = subprocess.run(
        [str(ANSIBLE / "env" / "bin" / "python"), str(RUNNER)],
        input="\n".join(task(use.words, names) for use in uses()),
        capture_output=True,
        text=True,
        timeout=280,
        check=True,
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "PYTHONPATH": str(ANSIBLE),
            "VMWARE_HOST": server.host,
            "VMWARE_PORT": str(server.port),
            "VMWARE_USER": server.user,
            "VMWARE_PASSWORD": server.password,
            "VMWARE_VALIDATE_CERTS": "false",
        },
    )
    return dict(json.loads(line) for line in done.stdout.splitlines())


def has_failed(result: Mapping[str, Any]) -> bool:
    """Whether a module says so, or ended otherwise than with an answer."""
    return bool(result.get("failed")) or "exception" in result


@pytest.mark.exhaustive("the uses of Ansible's VMware modules on the lab: script/build-ansible fetches them")
def test_each_use_comes_to_what_the_table_says(tmp_path: Path) -> None:
    if not (ANSIBLE / "fetched").is_file():
        pytest.skip("Ansible's modules are not there: script/build-ansible fetches them")
    with served(str(ESTATE), RealClock(speed=AT_ONCE)) as server:
        came_to = run_all(server, tmp_path)
    found = {words: "no" if has_failed(result) else "ok" for words, result in came_to.items()}
    if os.environ.get("REWRITE_ANSIBLE"):
        rewrite(found)
    differ = {use.words: came_to[use.words] for use in uses() if use.comes_to != found[use.words]}
    assert differ == {}
    panics = [words for words, result in came_to.items() if "general system error" in json.dumps(result)]
    assert panics == []


def rewrite(found: Mapping[str, str]) -> None:
    """Write what uses came to into the table."""
    lines = []
    for line in USES.read_text(encoding="utf-8").splitlines():
        use = use_of(line) if line and not line.startswith("#") else None
        if use is None:
            lines.append(line)
        else:
            comes_to = found[use.words]
            lines.append(str(Use(comes_to, use.words, use.why if comes_to == "no" else "")))
    USES.write_text("\n".join(lines) + "\n", encoding="utf-8")


def test_the_table_says_why_a_use_does_not_work() -> None:
    rows = uses()
    assert len({use.words for use in rows}) == len(rows), "a use stands twice: word it otherwise"
    assert [str(use) for use in rows if bool(use.why) != (use.comes_to == "no")] == []
    assert len([use for use in rows if use.comes_to == "ok"]) >= 55
