"""The Ansible collection: built, installed and run by a real ansible-core, on a lab that is served."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from vgpu_cfg import __version__
from vgpu_cfg.lab import open_lab
from vgpu_cfg.lab.simulation.clock import VirtualClock
from vgpu_cfg.lab.simulation.sessions import Credentials
from vgpu_cfg.lab.soap.server import LabServer
from vgpu_cfg.settings.connection import LAB_USER

ROOT = Path(__file__).resolve().parents[3]
PASSWORD = "correct-horse"
ANSIBLE = ROOT / ".cache" / "ansible" / "env" / "bin"
pytestmark = pytest.mark.long("ansible-core: script/build-ansible fetches it")
BUILT = f"vgpu_cfg-vsphere-{__version__}.tar.gz"
MODULES = ("plan", "apply", "status", "inventory_info")
SPECIFICATION = """
import importlib, json, sys
from ansible.module_utils import basic

def told(argument_spec, **more):
    raise SystemExit(json.dumps(argument_spec))

basic.AnsibleModule = told
sys.path.insert(0, sys.argv[1])
importlib.import_module("ansible_collections.vgpu_cfg.vsphere.plugins.modules." + sys.argv[2]).main()
"""
PLAN = """
version: 1
name: quarter
vcenter: {server}
vms:
- {{name: quarter-01, template: ubuntu-22.04-efi, cpus: 4, memory: 16GiB, gpus: {profile}}}
"""

Results = Mapping[str, Mapping[str, Any]]
Play = Callable[..., Results]


@pytest.fixture(scope="module")
def collections(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the collection and install what was built."""
    if not (ANSIBLE / "ansible-galaxy").is_file():
        pytest.skip("ansible-core is not there: script/build-ansible fetches it")
    folder = tmp_path_factory.mktemp("collection")
    environment = os.environ | {"HOME": str(folder), "LC_ALL": "C.UTF-8"}
    for words in (
        ["build", str(ROOT / "ansible_collection"), "--output-path", str(folder)],
        [
            "install",
            str(folder / f"vgpu_cfg-vsphere-{__version__}.tar.gz"),
            "-p",
            str(folder / "installed"),
            "--offline",
        ],
    ):
        subprocess.run(
            [str(ANSIBLE / "ansible-galaxy"), "collection", *words],
            check=True,
            capture_output=True,
            env=environment,
            timeout=120,
        )
    return folder / "installed"


@pytest.fixture
def play(collections: Path, tmp_path: Path) -> Iterator[Play]:
    """Serve a lab with one A100; return what runs the collection's playbook on it, and each task's result."""
    lab = open_lab("one-a100", clock=VirtualClock())
    with LabServer(lab, credentials=Credentials(password=PASSWORD)) as server:
        assert server.certificate is not None
        address = f"127.0.0.1:{server.port}"
        trusted = tmp_path / "server.pem"
        trusted.write_bytes(server.certificate.certificate_pem)

        def run(*words: str, profile: str = "grid_a100-10c", **changed: str) -> Results:
            plan = tmp_path / "plan.yaml"
            plan.write_text(PLAN.format(server=address, profile=profile), encoding="utf-8")
            variables = {
                "plan": str(plan),
                "executable": str(Path(sys.executable).with_name("vgpu-cfg")),
                "server": address,
                "user": LAB_USER,
                "password": PASSWORD,
                "ca_file": str(trusted),
            } | changed
            done = subprocess.run(
                [
                    str(ANSIBLE / "ansible-playbook"),
                    "-i",
                    "localhost,",
                    str(ROOT / "ansible_collection" / "examples" / "site.yml"),
                    "-e",
                    json.dumps(variables),
                    *words,
                ],
                check=False,
                capture_output=True,
                text=True,
                timeout=200,
                env={
                    "PATH": os.environ["PATH"],
                    "HOME": str(tmp_path),
                    "LC_ALL": "C.UTF-8",
                    "ANSIBLE_COLLECTIONS_PATH": str(collections),
                    "ANSIBLE_CALLBACK_PLUGINS": str(Path(__file__).with_name("callbacks")),
                    "ANSIBLE_STDOUT_CALLBACK": "lines",
                    "ANSIBLE_PYTHON_INTERPRETER": str(ANSIBLE / "python"),
                    "ANSIBLE_LOCALHOST_WARNING": "false",
                    "ANSIBLE_LOCAL_TEMP": str(tmp_path / "local"),
                    "VGPU_CFG_STATE_FOLDER": str(tmp_path / "state"),
                },
            )
            return results_of(done.stdout)

        yield run


def results_of(printed: str) -> Results:
    """Read the result of each task, by its name without the play's."""
    lines = [json.loads(line) for line in printed.splitlines() if line.startswith("[")]
    assert lines, printed
    return {name.rpartition(" : ")[2]: result for name, result in lines}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("module", MODULES)
def test_what_is_documented_is_what_is_taken(module: str, collections: Path) -> None:
    environment = os.environ | {"ANSIBLE_COLLECTIONS_PATH": str(collections), "LC_ALL": "C.UTF-8"}
    words = [str(ANSIBLE / "ansible-doc"), "-j", "-t", "module", f"vgpu_cfg.vsphere.{module}"]
    printed = subprocess.run(
        words, check=True, capture_output=True, text=True, env=environment, timeout=120
    ).stdout
    documented = json.loads(printed)[f"vgpu_cfg.vsphere.{module}"]["doc"]["options"]
    words = [str(ANSIBLE / "python"), "-c", SPECIFICATION, str(collections), module]
    taken = json.loads(subprocess.run(words, check=False, capture_output=True, text=True, timeout=120).stderr)
    for key, missing in (("type", None), ("default", None), ("required", False), ("elements", None)):
        assert {name: option.get(key, missing) for name, option in documented.items()} == {
            name: option.get(key, missing) for name, option in taken.items()
        }


def test_it_is_shown_then_made_then_nothing(play: Play) -> None:
    shown = play("--check", "--diff")
    assert "told" in shown["What is free?"], shown
    assert "error" not in shown["What is free?"], shown["What is free?"]["msg"]
    assert shown["What is free?"]["told"]["kind"] == "pool"
    assert shown["Make it so"]["changed"] is True
    edits = shown["Make it so"]["diff"]
    assert edits == shown["What would change?"]["diff"]
    assert [one["before_header"] for one in edits] == ["create quarter-01", "power on quarter-01"]
    assert "gpu: grid_a100-10c" in edits[0]["after"]
    assert shown["Is it so?"]["is_in_sync"] is False

    made = play("--start-at-task", "*Make it so")
    assert made["Make it so"]["changed"] is True
    assert {one["status"] for one in made["Make it so"]["told"]["outcomes"]} == {"done"}
    assert made["Is it so?"]["is_in_sync"] is True

    again = play("--diff", "--start-at-task", "*Make it so")
    assert again["Make it so"]["changed"] is False
    assert again["Make it so"]["diff"] == []
    assert PASSWORD not in json.dumps([shown, made, again])


@pytest.mark.exhaustive("a playbook whose tasks are refused")
def test_what_is_refused_fails_with_the_words_of_the_command_line(play: Play) -> None:
    refused = play(profile="nvidia_l40s-12c")["What would change?"]
    assert refused["rc"] == 4
    assert refused["msg"].startswith(refused["error"]["message"])
    wrong = play(password="wrong")["What is free?"]
    assert wrong["rc"] == 5
    assert wrong["error"]["code"] == "LoginFailed"
