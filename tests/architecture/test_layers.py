"""The import contracts of pyproject.toml hold, and each of them catches what it is for."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.architecture.sources import ROOT

LINT = """
import sys
from importlinter.cli import lint_imports
sys.exit(lint_imports(limit_to_contracts=tuple(sys.argv[1:]), no_cache=True, no_logo=True))
"""

# A house with every room in it, and a legal import on each way down.
HOUSE = {
    "__init__.py": "",
    "__main__.py": "from vgpu_cfg.cli import app",
    "cli/__init__.py": "",
    "cli/app.py": "import typer, rich; from vgpu_cfg.cli import compose; import vgpu_cfg.planning",
    "cli/compose.py": "import vgpu_cfg.cli.labs, vgpu_cfg.vsphere",
    "cli/labs.py": "import vgpu_cfg.lab",
    "cli/commands/__init__.py": "import vgpu_cfg.cli.flows",
    "cli/flows/__init__.py": "",
    "testing/__init__.py": "import vgpu_cfg.testing.subjects",
    "testing/plugin.py": "import pytest, vgpu_cfg.testing.subjects",
    "testing/subjects.py": "import vgpu_cfg.cli.flows",
    "execution/__init__.py": "",
    "execution/hosts/__init__.py": "import vgpu_cfg.execution.run",
    "execution/run/__init__.py": "",
    "shells/__init__.py": "",
    "shells/esxi/__init__.py": "import paramiko, vgpu_cfg.shells.ssh",
    "shells/guest.py": "import vgpu_cfg.shells.ssh",
    "shells/ssh.py": "import paramiko",
    "vsphere/__init__.py": "",
    "vsphere/reading/__init__.py": "import vgpu_cfg.vsphere.wire",
    "vsphere/writing/__init__.py": "import vgpu_cfg.vsphere.reading",
    "vsphere/wire/__init__.py": "",
    "vsphere/wire/session.py": "import vgpu_cfg.ports, pyVmomi; from pyVim import connect",
    "render/__init__.py": "import rich.console, vgpu_cfg.planning",
    "render/text/__init__.py": "import vgpu_cfg.render.views",
    "render/data/__init__.py": "import vgpu_cfg.render.views",
    "render/views/__init__.py": "",
    "lab/__init__.py": "from vgpu_cfg.lab import state",
    "lab/guest/__init__.py": "import vgpu_cfg.lab.guest.system",
    "lab/guest/system/__init__.py": "import vgpu_cfg.lab.rules",
    "lab/guest/tools/__init__.py": "import vgpu_cfg.lab.guest.system",
    "lab/operations/__init__.py": "import vgpu_cfg.lab.guest",
    "lab/renderers/__init__.py": "import vgpu_cfg.lab.rules",
    "lab/rules/__init__.py": "from vgpu_cfg.lab import state",
    "lab/state.py": "import pyVmomi, vgpu_cfg.model.vgpu; from vgpu_cfg import errors",
    "lab/estates.py": "import vgpu_cfg.documents.text; from vgpu_cfg.catalog import boards",
    "planning/__init__.py": "import vgpu_cfg.ports, vgpu_cfg.knowledge",
    "ports.py": "import vgpu_cfg.catalog",
    "parsers/__init__.py": "import vgpu_cfg.changes",
    "knowledge/__init__.py": "",
    "catalog/__init__.py": "",
    "catalog/boards.py": "import vgpu_cfg.documents",
    "documents/__init__.py": "import vgpu_cfg.errors",
    "documents/text.py": "import ruamel.yaml, yaml",
    "model/__init__.py": "",
    "changes/__init__.py": "import vgpu_cfg.model.desired",
    "model/desired.py": "import vgpu_cfg.model.plan_file",
    "model/plan_file/__init__.py": "import vgpu_cfg.model.observed",
    "model/observed/__init__.py": "",
    "model/vgpu.py": "import vgpu_cfg.errors",
    "model/observed/inventory.py": "import vgpu_cfg.model.vgpu",
    "errors.py": "",
}

BROKEN = {
    "upwards": ("planning/__init__.py", "import vgpu_cfg.render", "house"),
    "upwards for types only": ("ports.py", "if 0:\n    import vgpu_cfg.planning", "house"),
    "a neighbour": ("parsers/__init__.py", "import vgpu_cfg.knowledge", "house"),
    "a room that is not in the plan": ("utils.py", "", "house"),
    "a circle": ("model/vgpu.py", "def later():\n    import vgpu_cfg.model.observed.inventory", "circles"),
    "a face takes from another": ("render/data/__init__.py", "import vgpu_cfg.render.text", "render"),
    "a flow knows a command": ("cli/flows/__init__.py", "import vgpu_cfg.cli.commands", "cli"),
    "a run knows hosts": ("execution/run/__init__.py", "import vgpu_cfg.execution.hosts", "execution"),
    "the shell of hosts knows guests": ("shells/esxi/__init__.py", "import vgpu_cfg.shells.guest", "shells"),
    "the model knows changes": ("model/vgpu.py", "import vgpu_cfg.changes", "house"),
    "what is observed knows what is desired": (
        "model/observed/__init__.py",
        "import vgpu_cfg.model.desired",
        "model",
    ),
    "a reader writes": ("vsphere/reading/__init__.py", "import vgpu_cfg.vsphere.writing", "vsphere"),
    "a room of vsphere that has no floor": ("vsphere/utils.py", "", "vsphere"),
    "a rule of the lab reads what is shown": (
        "lab/rules/__init__.py",
        "import vgpu_cfg.lab.renderers",
        "lab",
    ),
    "an operation reads what is shown": (
        "lab/operations/__init__.py",
        "import vgpu_cfg.lab.renderers",
        "lab",
    ),
    "a room of the lab that has no floor": ("lab/utils.py", "", "lab"),
    "a guest's system runs programs": (
        "lab/guest/system/__init__.py",
        "import vgpu_cfg.lab.guest.tools",
        "lab-guests",
    ),
    "the lab uses the planner": ("lab/state.py", "import vgpu_cfg.planning", "lab-imports"),
    "the lab uses the inventory": (
        "lab/estates.py",
        "import vgpu_cfg.model.observed.inventory",
        "lab-imports",
    ),
    "the lab uses the parsers": ("lab/__init__.py", "import vgpu_cfg.parsers", "lab-imports"),
    "a command uses the lab": ("cli/app.py", "import vgpu_cfg.lab.state", "lab-importers"),
    "pyvmomi leaves its room": ("planning/__init__.py", "from pyVmomi import vim", "pyvmomi"),
    "pyVim leaves its room": ("cli/app.py", "from pyVim.connect import SmartConnect", "pyvmomi"),
    "the planner draws": ("planning/__init__.py", "import rich.table", "rich"),
    "a renderer parses flags": ("render/__init__.py", "import typer", "typer"),
    "a command asserts": ("cli/app.py", "import vgpu_cfg.testing", "house"),
    "what is asserted of knows the plugin": (
        "testing/subjects.py",
        "import vgpu_cfg.testing.plugin",
        "testing",
    ),
    "pytest outside its plugin": ("testing/__init__.py", "import pytest", "pytest"),
    "SSH outside the shells": ("execution/__init__.py", "import paramiko", "ssh"),
    "YAML outside documents": ("catalog/__init__.py", "import yaml", "yaml"),
}


def lint(folder: Path, *contracts: str) -> tuple[int, str]:
    """Run import contracts in a folder, in a process of its own, where `vgpu_cfg` is that folder's."""
    command = [sys.executable, "-c", LINT, *contracts]
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=120
    )
    return done.returncode, done.stdout + done.stderr


@pytest.fixture
def house(tmp_path: Path) -> Path:
    folder = tmp_path / "house"
    for name, source in HOUSE.items():
        write(folder, name, source)
    write_floors(folder)
    shutil.copy(ROOT / "pyproject.toml", folder)
    return folder


def write(folder: Path, name: str, source: str) -> None:
    path = folder / "vgpu_cfg" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(source + "\n", encoding="utf-8")


def write_floors(folder: Path) -> None:
    """Write the rooms that have floors of their own: a contract about floors wants its room to be there."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    for contract in contracts["contracts"]:
        for container in contract.get("containers", ()):
            name = "/".join([*container.split(".")[1:], "__init__.py"])
            if not (folder / "vgpu_cfg" / name).exists():
                write(folder, name, "")


def test_this_house_keeps_its_contracts() -> None:
    code, output = lint(ROOT)
    assert code == 0, output


def test_a_house_with_every_room_keeps_them(house: Path) -> None:
    code, output = lint(house)
    assert code == 0, output


def test_a_room_that_is_not_built_yet_breaks_nothing(tmp_path: Path) -> None:
    for name in HOUSE:
        if name.split("/")[0] in {"__init__.py", "cli", "lab", "model", "errors.py"}:
            write(tmp_path, name, "")
    write_floors(tmp_path)
    write(tmp_path, "cli/labs.py", "import vgpu_cfg.lab")
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    code, output = lint(tmp_path)
    assert code == 0, output


@pytest.mark.sampled(3)
@pytest.mark.parametrize("what", BROKEN)
def test_a_contract_catches(what: str, house: Path) -> None:
    name, source, contract = BROKEN[what]
    write(house, name, source)
    code, output = lint(house, contract)
    assert code == 1
    assert "BROKEN" in output, output
