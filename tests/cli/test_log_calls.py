"""`--log-calls` lists every request that leaves the program, and none of its content."""

from __future__ import annotations

import json
import stat
from collections import Counter

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


HOSTS = "plans/hosts-one.yaml"
GUESTS = "plans/to-verify.yaml"
TOKENS = {"LICENCE_TOKEN": "lic-secret-7f3a", "NGC_KEY": "ngc-secret-9c1e"}


def test_each_command_on_a_host_is_listed(vgpu_cfg: CommandLine, watch: Watch) -> None:
    vgpu_cfg.done("apply", "--yes", HOSTS, "--log-calls", "calls")
    lines = [json.loads(line) for line in (vgpu_cfg.folder / "calls").read_text().splitlines()]
    there = [line for line in lines if line["to"] == "esx-r12-01.lab"]
    asked = [line["call"].removeprefix("ssh ") for line in there if line["call"] != "ssh login"]
    assert Counter(asked) == Counter({name: n for name, n in watch.calls.items() if name.startswith("$ ")})
    assert any("nvidia-smi" in one for one in asked)
    assert "ssh login" in {line["call"] for line in there}
    assert all("status" in line for line in there if line["call"] != "ssh login")


@pytest.mark.sampled(2)
@pytest.mark.parametrize("way", ["ssh", "guest operations"])
def test_each_command_in_a_guest_is_listed_without_secrets(way: str, vgpu_cfg: CommandLine) -> None:
    secrets = TOKENS | {"ADMIN": "adm-secret-2b8d"}
    text = (vgpu_cfg.folder / GUESTS).read_text(encoding="utf-8")
    if way != "ssh":
        text = text.replace("by: cloud-init", "by: cloud-init, login: {user: admin, password: {secret: adm}}")
        text = text.replace("secrets: {", 'secrets: {adm: "env:ADMIN", ')
    vgpu_cfg.write(GUESTS, text)
    vgpu_cfg("apply", "--yes", GUESTS, "--log-calls", "calls", **secrets)
    listed = (vgpu_cfg.folder / "calls").read_text()
    lines = [json.loads(line) for line in listed.splitlines()]
    asked = {line["call"].partition("$")[0] for line in lines if line["to"].startswith("hvd-")}
    assert f"{way} login" in asked
    assert not any(secret in listed for secret in secrets.values())
    if way == "ssh":
        assert "ssh " in asked
        assert any(line.get("sent", 0) > 0 for line in lines if line["call"].startswith("ssh $"))


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
