"""Ansible's modules for vSphere, run against the lab: what works, in check mode and for good."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from tests.architecture.sources import ROOT
from tests.contract.conftest import Server
from tests.contract.test_govc import served
from vgpu_cfg.lab.simulation.clock import RealClock

PEERS = ROOT / ".cache" / "peers"
HERE = Path(__file__).parent
MODULES = HERE / "ansible.yaml"
MODES = ("check", "run")


def rows() -> list[dict[str, Any]]:
    """Return each module's name with what it is told, and how it ends: `check`, `run`."""
    told: Any = YAML(typ="safe").load(MODULES)
    return list(told)


def module_of(row: Mapping[str, Any]) -> str:
    (name,) = row.keys() - {*MODES}
    return str(name)


def modes_of(row: Mapping[str, Any]) -> tuple[str, ...]:
    """Return how a module is run: one that only reads is not asked in check mode."""
    return MODES[1:] if module_of(row).endswith(("_info", "_facts", "_find")) else MODES


def playbook(server: Server) -> str:
    """Write all modules as one play: each in check mode, then for good; none stops the others."""
    account = {
        "hostname": server.host, "port": server.port, "username": server.user, "password": server.password,
        "validate_certs": False,
    }  # fmt: skip
    tasks = [
        {
            "name": f"{at} {mode}",
            module_of(row): {**account, **row[module_of(row)]},
            "check_mode": mode == "check",
            "diff": mode == "check",
            "ignore_errors": True,
        }
        for at, row in enumerate(rows())
        for mode in modes_of(row)
    ]
    return json.dumps([{"hosts": "localhost", "gather_facts": False, "tasks": tasks}])


@pytest.fixture(scope="module")
def came_to(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """Run the play; return what each task returned, by its row and mode."""
    if not (PEERS / "ansible_collections").is_dir():
        pytest.skip("Ansible's VMware collections are not here: script/build-peers fetches them")
    home = tmp_path_factory.mktemp("ansible")
    with served(str(HERE / "estate.yaml"), RealClock(speed=100)) as server:
        book = home / "modules.json"
        book.write_text(playbook(server), encoding="utf-8")
        program = PEERS / "ansible" / "bin" / "ansible-playbook"
        done = subprocess.run(
            [str(program), "-i", "localhost,", "-c", "local", str(book)],
            env={
                "PATH": os.environ["PATH"],
                "HOME": str(home),
                "ANSIBLE_COLLECTIONS_PATH": str(PEERS),
                "ANSIBLE_PYTHON_INTERPRETER": str(PEERS / "ansible" / "bin" / "python"),
                "ANSIBLE_CALLBACK_PLUGINS": str(HERE.parent / "hand_over" / "callbacks"),
                "ANSIBLE_STDOUT_CALLBACK": "lines",
                "ANSIBLE_LOCALHOST_WARNING": "false",
                "LC_ALL": "C.UTF-8",
            },
            cwd=home, capture_output=True, text=True, timeout=1200, check=False,
        )  # fmt: skip
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("[")]
    assert len(lines) > len(rows()) / 2, done.stdout[-2000:] + done.stderr[-2000:]
    return dict(lines)


def ended(result: Mapping[str, Any] | None) -> str:
    """Say how a task ended; a module without a check mode is skipped in it."""
    if result is None:
        return "skipped"
    if result.get("failed"):
        return "failed"
    return "changed" if result.get("changed") else "ok"


@pytest.mark.long("Ansible's modules: tests/contract/clients")
@pytest.mark.timeout(1300)
def test_each_module_ends_as_the_table_says(came_to: dict[str, dict[str, Any]]) -> None:
    found = [
        {**row, **{mode: ended(came_to.get(f"{at} {mode}")) for mode in modes_of(row)}}
        for at, row in enumerate(rows())
    ]
    if os.environ.get("REWRITE_ANSIBLE"):
        rewrite(found)
    differ = {
        f"{at} {module_of(row)}": [came_to.get(f"{at} {mode}", {}).get("msg") for mode in MODES]
        for at, (row, now) in enumerate(zip(rows(), found, strict=True))
        if row != now
    }
    assert differ == {}


def rewrite(found: Sequence[Mapping[str, Any]]) -> None:
    """Write how modules end into the table."""
    begin = [line for line in MODULES.read_text(encoding="utf-8").splitlines() if line.startswith("#")]
    lines = [
        f"- {{{''.join(f'{mode}: {row[mode]}, ' for mode in modes_of(row))}"
        f"{module_of(row)}: {json.dumps(row[module_of(row)])}}}"
        for row in found
    ]
    MODULES.write_text("\n".join([*begin, *lines]) + "\n", encoding="utf-8")
