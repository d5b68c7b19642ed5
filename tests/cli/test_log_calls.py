"""`--log-calls` lists every request that leaves the program, and none of its content."""

from __future__ import annotations

import json
import stat

import pytest

from tests.cli.command_line import CommandLine
from tests.cli.host_watch import Watch, watch_labs

ESTATE = ("--server", "lab:two-a100")


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Watch:
    return watch_labs(monkeypatch)


def test_every_request_is_listed_once(vgpu_cfg: CommandLine, watch: Watch) -> None:
    vgpu_cfg.done("apply", "--yes", "plans/pair.yaml", "--log-calls", "calls")
    file = vgpu_cfg.folder / "calls"
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert len(lines) == sum(watch.calls.values())
    assert {"CloneVM_Task", "CreateAlarm", "Logout"} <= {line["call"] for line in lines}
    assert all(line["status"] == 200 for line in lines)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert {key for line in lines for key in line} <= {
        "at", "to", "call", "on", "sent", "status", "received", "seconds",
    }  # fmt: skip


def test_a_second_command_adds_to_it(vgpu_cfg: CommandLine) -> None:
    vgpu_cfg.done("inventory", *ESTATE, "--log-calls", "calls")
    first = (vgpu_cfg.folder / "calls").read_text()
    vgpu_cfg.done("inventory", *ESTATE, "--log-calls", "calls")
    assert (vgpu_cfg.folder / "calls").read_text().startswith(first)


def test_nothing_is_sent_that_cannot_be_listed(vgpu_cfg: CommandLine, watch: Watch) -> None:
    ran = vgpu_cfg("inventory", *ESTATE, "--log-calls", "no-such-folder/calls")
    assert ran.code != 0
    assert "no-such-folder/calls" in ran.err
    assert not watch.calls
