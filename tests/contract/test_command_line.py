"""The command line, end to end, on somebody else's vCenter: vcsim over verified HTTPS.

vcsim has no GPUs and drops most of what a clone is given, so this is the plain vSphere part of
the main job: make, read back, prove, take away.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.contract.conftest import Govc, Server
from vgpu_cfg.cli.app import main

PLAN = """
version: 1
name: plain
vcenter: {server}
vms:
- name: plain-{{01..02}}
  template: {{scratch: ubuntu64Guest}}
  cluster: DC0_C0
  cpus: 2
  memory: 64MiB
  disks: [{{size: 1GiB}}]
  nics: [DC0_DVPG0]
  extra_config: {{guestinfo.role: worker}}
  place: {{spread: hosts}}
"""
CLONES = """
version: 1
name: clones
vcenter: {server}
vms:
- {{name: "copy-{{1..2}}", template: plain-01, cluster: DC0_C0, cpus: 1, memory: 128MiB}}
"""

Command = Callable[..., int]


@pytest.fixture
def command(vcsim: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    """Return what runs a command and gives its exit code; vcsim's certificate is pinned."""
    monkeypatch.setenv("VGPU_CFG_USER", vcsim.user)
    monkeypatch.setenv("VGPU_CFG_PASSWORD", vcsim.password)
    monkeypatch.setenv("VGPU_CFG_THUMBPRINT", vcsim.thumbprint)
    monkeypatch.setenv("VGPU_CFG_STATE_FOLDER", str(tmp_path / "state"))

    def run(*words: str) -> int:
        monkeypatch.setattr(sys, "argv", ["vgpu-cfg", *words])
        with pytest.raises(SystemExit) as ended:
            main()
        assert isinstance(ended.value.code, int)
        return ended.value.code

    return run


def written(path: Path, text: str, server: Server) -> str:
    path.write_text(text.format(server=f"{server.host}:{server.port}"), encoding="utf-8")
    return str(path)


def test_what_is_made_is_kept_and_taken_away_again(
    command: Command,
    vcsim: Server,
    govc: Callable[[Server], Govc],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    before = sorted(govc(vcsim)("find", "/", "-type", "m").split())
    plain = written(tmp_path / "plain.yaml", PLAN, vcsim)
    clones = written(tmp_path / "clones.yaml", CLONES, vcsim)

    assert command("apply", "--yes", plain) == 0
    assert "5 tasks" in capsys.readouterr().out
    assert command("plan", "--exit-code", plain) == 0

    assert command("apply", "--yes", clones) == 0
    assert command("apply", "--yes", clones) == 0
    assert "in sync" in capsys.readouterr().out
    assert "CPU:          1 vCPU(s)" in govc(vcsim)("vm.info", "copy-1")

    assert command("destroy", "--yes", clones) == 0
    assert command("destroy", "--yes", plain) == 0
    assert sorted(govc(vcsim)("find", "/", "-type", "m").split()) == before
