"""The script that `privileges --output govc` writes, run by govc itself: on vcsim, and on the lab."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import pytest

from tests.contract.conftest import Govc, Server, built, govc_environment
from tests.contract.test_govc import served
from vgpu_cfg.cli.app import main

ACCOUNT = "vgpu-cfg@vsphere.local"
PLAIN = """
version: 1
name: plain
vcenter: vcsim.example.com
vms:
- name: plain
  template: {scratch: ubuntu64Guest}
  cluster: DC0_C0
  cpus: 2
  memory: 64MiB
  disks: [{size: 1GiB}]
  nics: [DC0_DVPG0]
"""
ON_LAB = """
version: 1
name: pair
vcenter: lab.example.com
vms:
- name: a
  template: ubuntu-22.04-efi
  cluster: gpu
  folder: /dc1/vm/training
  cpus: 2
  memory: 4GiB
  gpus: [{profile: grid_a100-4c}]
"""

MakeGovc = Callable[[Server], Govc]
Command = Callable[..., str]


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    """Return what runs a command at a server as somebody, and gives what it printed."""
    monkeypatch.setenv("VGPU_CFG_STATE_FOLDER", str(tmp_path / "state"))

    def run(server: Server, user: str, *words: str) -> str:
        monkeypatch.setenv("VGPU_CFG_SERVER", f"{server.host}:{server.port}")
        monkeypatch.setenv("VGPU_CFG_PASSWORD", server.password)
        monkeypatch.setenv("VGPU_CFG_THUMBPRINT", server.thumbprint)
        monkeypatch.setattr(sys, "argv", ["vgpu-cfg", *words, f"--user={user}"])
        with redirect_stdout(StringIO()) as out, pytest.raises(SystemExit) as ended:
            main()
        assert ended.value.code == 0, out.getvalue()
        return out.getvalue()

    return run


def make_roles(script: str, server: Server, home: Path) -> None:
    """Run a script as its head says, with govc on the PATH."""
    environment = govc_environment(server, home)
    environment["PATH"] = f"{built('govc').parent}:{environment['PATH']}"
    done = subprocess.run(
        ["/bin/sh", "-s", ACCOUNT],
        input=script,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_vcsim_takes_the_script_and_has_the_roles_then(
    command: Command, govc: MakeGovc, vcsim: Server, home: Path, tmp_path: Path
) -> None:
    plan = tmp_path / "plain.yaml"
    plan.write_text(PLAIN, encoding="utf-8")
    for_apply = ("privileges", str(plan), "--for=apply")
    script = command(vcsim, vcsim.user, *for_apply, "--output=govc")
    make_roles(script, vcsim, home)
    make_roles(script, vcsim, home)  # what is there is set right
    run = govc(vcsim)
    for role in json.loads(command(vcsim, vcsim.user, *for_apply, "--output=json"))["roles"]:
        if role["name"] is None:
            continue
        assert {one["id"] for one in role["privileges"]} <= set(run("role.ls", role["name"]).split())
        for target in role["objects"]:
            given = run("permissions.ls", "-a=false", target["path"])
            (line,) = (line for line in given.splitlines() if ACCOUNT in line)
            assert role["name"] in line
            assert ("Yes" in line) == target["propagates"], line


def test_an_account_with_what_the_script_gave_it_applies_and_destroys(
    command: Command, govc: MakeGovc, home: Path, tmp_path: Path
) -> None:
    plan = tmp_path / "pair.yaml"
    plan.write_text(ON_LAB, encoding="utf-8")
    with served("two-a100") as server:
        script = command(server, server.user, "privileges", str(plan), "--output=govc")
        make_roles(script, server, home)
        command(server, ACCOUNT, "privileges", str(plan), "--check")
        command(server, ACCOUNT, "apply", "--yes", str(plan))
        assert "/dc1/vm/training/a" in govc(server)("find", "/dc1/vm", "-type", "m")
        command(server, ACCOUNT, "destroy", "--yes", str(plan))
