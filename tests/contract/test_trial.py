"""A trial on vcsim: it finds where vcsim differs from what is assumed of vCenter, and leaves nothing."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.architecture.sources import ROOT
from tests.cli.command_line import CommandLine
from tests.contract.conftest import Govc, Server, running_vcsim
from tests.contract.vsphere.test_locks import WithoutEmptyObject
from vgpu_cfg.cli import compose

pytestmark = pytest.mark.enable_socket

PAGE = ROOT / "docs/explanation/outside-judges.md"
PLACE = ("--in=training", "--datastore=LocalDS_0", "--cluster=DC0_C0", "--network=VM Network")
DIFFERS = {
    "user-events": "it has no LogUserEvent",
    "nic-keys-are-lowest-free": "it counts the keys of all devices",
    "extra-config-is-copied": "a clone has none of it",
    "old-change-version-is-rejected": "it ignores the change version",
    "power-on-moves-change-version": "only a reconfiguration moves it",
    "power-off-moves-change-version": "only a reconfiguration moves it",
    "task-reason-spells-the-account": "all tasks are of the user `vcsim`",
    "power-events": "ReadPreviousEvents leaves out the newest event, the VmPoweredOffEvent",
    "alarm-time-moves": "ReconfigureAlarm leaves the time alone",
}
"""Beliefs that vcsim contradicts, looked into: each is vcsim's own."""


def test_the_page_names_what_vcsim_does_otherwise() -> None:
    table = PAGE.read_text(encoding="utf-8").partition("<!-- vcsim -->")[2].partition("<!-- /vcsim -->")[0]
    named = re.findall(r"^\| \[`([a-z-]+)`\]", table, re.MULTILINE)
    assert sorted(named) == sorted(DIFFERS)


def test_a_trial_finds_what_vcsim_does_otherwise(
    govc: Callable[[Server], Govc], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compose.SystemClock, "pause", lambda _self, _seconds: None)
    make = compose.make_transport
    monkeypatch.setattr(compose, "make_transport", lambda connection: WithoutEmptyObject(make(connection)))
    with running_vcsim() as vcsim:
        _try_on(vcsim, govc(vcsim), CommandLine(tmp_path, monkeypatch))


def _try_on(vcsim: Server, run: Govc, vgpu_cfg: CommandLine) -> None:
    run("folder.create", "/DC0/vm/training")
    before = sorted(run("find", "/DC0/vm").split())
    login = (f"--server={vcsim.host}:{vcsim.port}", f"--thumbprint={vcsim.thumbprint}")
    words = ("trial", *login, f"--user={vcsim.user}", "--yes", "--steps=objects,vm", *PLACE)
    done = vgpu_cfg.done(*words, "--output=json", VGPU_CFG_PASSWORD=vcsim.password)
    document = json.loads(done.out)
    false = {one["id"] for one in document["beliefs"] if one["verdict"] == "does not hold"}
    assert false == DIFFERS.keys()
    assert document["left"] == []
    assert sorted(run("find", "/DC0/vm").split()) == before
