"""Doctor on vcsim, of several API versions and sizes: it only reads, and finds nothing that is not there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.command_line import CommandLine
from tests.cli.host_watch import is_reading
from tests.contract.conftest import NEEDS_GO, running_vcsim

pytestmark = [pytest.mark.enable_socket, pytest.mark.long(NEEDS_GO)]

VERSIONS = ("6.7.3.0", "7.0.3.0", "8.0.1.0", "8.0.3.0", "9.0.0.0")
LARGE = ("-hosts=12", "-vms=12", "-datastores=3", "-portgroups=4", "-standalone-hosts=4")


@pytest.mark.parametrize(
    ("model", "hosts"),
    [*(((f"-api-version={one}",), 4) for one in VERSIONS), (LARGE, 16), (("-hosts=0", "-vms=0"), 1)],
)
def test_doctor_reads_vcsim_and_invents_nothing(
    model: tuple[str, ...], hosts: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    vgpu_cfg = CommandLine(tmp_path, monkeypatch)
    with running_vcsim(model) as vcsim:
        login = (
            f"--server={vcsim.host}:{vcsim.port}",
            f"--thumbprint={vcsim.thumbprint}",
            f"--user={vcsim.user}",
        )
        words = ("doctor", *login, "--save=.", "--output=json", "--log-calls=calls")
        done = vgpu_cfg.done(*words, VGPU_CFG_PASSWORD=vcsim.password)
    health = json.loads(done.out)
    assert (health["hosts"], health["gpus"], health["ailments"]) == (hosts, 0, [])
    tried = {one["id"] for one in health["beliefs"] if one["verdict"] != "not tried"}
    assert tried <= {"licenses-name-their-end"}  # vcsim's evaluation license has no end
    calls = [json.loads(line)["call"] for line in (vgpu_cfg.folder / "calls").read_text().splitlines()]
    assert calls
    assert all(is_reading(call) or call.startswith("GET ") for call in calls), calls
