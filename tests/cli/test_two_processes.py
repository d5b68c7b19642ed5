"""Two processes with one plan, each with a state folder of its own, against one served lab, started together.

Whichever comes first, and however much later the second one starts: one of them does it all.
"""

from __future__ import annotations

import json
import shutil
import threading
from pathlib import Path

import pytest

from tests.cli.command_line import CommandLine
from tests.cli.host_watch import is_tidy
from tests.cli.test_process import end_of, read_until, started
from vgpu_cfg.lab import open_lab
from vgpu_cfg.lab.simulation.clock import VirtualClock

pytestmark = pytest.mark.enable_socket
WHY = "two processes, started 0 to 10 s apart: tests/cli/test_two_processes.py"
ONE = "plans/hosts-one.yaml"


@pytest.mark.exhaustive(WHY)
@pytest.mark.parametrize("tenths", range(0, 101, 5))
def test_two_hosts_runs_at_once_leave_one_host_that_is_ready(
    tenths: int, vgpu_cfg: CommandLine, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    (home / ".ssh").mkdir(parents=True)
    serve = ("lab", "serve", "bare", "--port", "0", "--ssh", "--output", "json")
    with started(*serve, VGPU_CFG_LAB_SPEED="30") as server:
        told = json.loads(read_until(server, "}"))
        shutil.copy(told["ssh_config"], home / ".ssh" / "config")
        common = {
            "HOME": str(home),
            "VGPU_CFG_SERVER": told["url"].removeprefix("https://").removesuffix("/sdk"),
            "VGPU_CFG_USER": told["user"],
            "VGPU_CFG_PASSWORD": told["password"],
            "VGPU_CFG_THUMBPRINT": told["thumbprint"],
            "ESXI_PASSWORD": told["password"],
        }
        places = []
        for name in ("a", "b"):
            shutil.copytree(vgpu_cfg.folder / "plans", tmp_path / name / "plans")
            places.append(tmp_path / name)
        first, second = places
        with started(
            "apply", "--yes", str(first / ONE), **common, VGPU_CFG_STATE_FOLDER=str(first / "s")
        ) as one:
            threading.Event().wait(tenths / 10)
            with started(
                "apply", "--yes", str(second / ONE), **common, VGPU_CFG_STATE_FOLDER=str(second / "s")
            ) as two:
                ends = [end_of(one), end_of(two)]
    codes = sorted(code for code, _ in ends)
    assert codes in ([0, 6], [0, 4], [0, 0]), ends
    if codes == [0, 6]:
        assert any("another run has locked plan one" in words for _, words in ends)
    lab = open_lab("bare", folder=vgpu_cfg.state_folder / "lab" / "bare", clock=VirtualClock())
    assert is_tidy(lab.state)
