"""`metrics` as it is typed: once, into a file, and by HTTP."""

from __future__ import annotations

import socket
import urllib.request
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.cli.command_line import CommandLine
from tests.cli.locks import ANNA, take_for_others
from vgpu_cfg.cli.flows import metrics_flow
from vgpu_cfg.cli.flows.metrics_flow import SiteCollector, listening
from vgpu_cfg.errors import DocumentError, Unreachable
from vgpu_cfg.model.locks import LockName
from vgpu_cfg.render.metrics import Site

PLAN = """\
version: 1
name: depts
vcenter: lab:two-a100
defaults: {template: ubuntu-22.04-efi, cluster: gpu, folder: training, cpus: 4, memory: 16GiB}
vms: [{name: vm-01, gpus: grid_a100-10c}]
"""
SERVER = ("--server", "lab:two-a100")


def lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if not line.startswith("#")]


def test_drift_and_the_last_run_of_a_plan(vgpu_cfg: CommandLine) -> None:
    plan = vgpu_cfg.write("depts.yaml", PLAN)
    before = lines(vgpu_cfg.done("metrics", plan, "--once", *SERVER).out)
    assert 'vgpu_cfg_plan_in_sync{plan="depts"} 0.0' in before
    assert not any(line.startswith("vgpu_cfg_last_run") for line in before)
    vgpu_cfg.done("apply", plan, "--yes")
    after = lines(vgpu_cfg.done("metrics", plan, "--once", *SERVER).out)
    assert 'vgpu_cfg_plan_in_sync{plan="depts"} 1.0' in after
    assert 'vgpu_cfg_plan_differences{plan="depts"} 0.0' in after
    (run,) = (line for line in after if line.startswith("vgpu_cfg_last_run"))
    assert 'command="apply",plan="depts",result="done"' in run
    (held,) = (line for line in after if line.startswith("vgpu_cfg_gpu_held"))
    assert 'plan="depts",profile="grid_a100-10c",vm="vm-01"' in held


def test_who_has_locked_a_plan_and_not_begun_is_not_its_last_run(vgpu_cfg: CommandLine) -> None:
    plan = vgpu_cfg.write("depts.yaml", PLAN)
    vgpu_cfg.done("apply", plan, "--yes")
    before = [line for line in lines(vgpu_cfg.done("metrics", "--once", *SERVER).out) if "last_run" in line]
    later = ANNA.model_copy(update={"plan": "depts", "since": datetime.now(UTC) + timedelta(hours=1)})
    take_for_others(vgpu_cfg.lab("two-a100"), LockName(kind="plan", key="depts"), holder=later)
    after = [line for line in lines(vgpu_cfg.done("metrics", "--once", *SERVER).out) if "last_run" in line]
    assert after == before
    assert 'result="done"' in after[0]


def test_licences_of_hosts_are_told_by_name(vgpu_cfg: CommandLine) -> None:
    text = vgpu_cfg.done("metrics", "--once", *SERVER).out
    told = [line for line in lines(text) if line.startswith("vgpu_cfg_host_licence")]
    assert told == ['vgpu_cfg_host_licence{host="esx-a100-01.lab",licence="Evaluation Mode"} 1.0']
    assert "00000-00000" not in text  # the key of the evaluation


@pytest.mark.parametrize("fault", ["NoPermission", "NotSupported"])
def test_licences_that_are_not_told_are_no_failure(fault: str, vgpu_cfg: CommandLine) -> None:
    vgpu_cfg.script("two-a100", {"method": "QueryAssignedLicenses", "kind": "call", "fault": fault})
    text = vgpu_cfg.done("metrics", "--once", *SERVER).out
    assert not [line for line in lines(text) if line.startswith("vgpu_cfg_host_licence")]
    assert "vgpu_cfg_up 1.0" in text


def test_a_text_file_collector_gets_a_whole_file(vgpu_cfg: CommandLine) -> None:
    ran = vgpu_cfg.done("metrics", "--once", "--to", "vgpu.prom", *SERVER)
    text = (vgpu_cfg.folder / "vgpu.prom").read_text()
    assert (ran.out, lines(text)[0]) == ("", "vgpu_cfg_up 1.0")
    assert "vgpu.prom: written" in ran.err
    assert [path.name for path in vgpu_cfg.folder.glob("*.prom*")] == ["vgpu.prom"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "specify either --once or --listen"),
        (["--once", "--listen", "1"], "specify either --once or --listen"),
        (["--listen", "here"], "'here' is neither a port such as 9478"),
        (["--listen", "10.0.0.1:99999"], "is neither a port such as 9478"),
        (["--listen", "9478", "--to", "x"], "requires --once"),
    ],
)
def test_what_is_mistyped_is_told(words: list[str], said: str, vgpu_cfg: CommandLine) -> None:
    ran = vgpu_cfg("metrics", *words, *SERVER, COLUMNS="200")
    assert ran.code == 2
    assert said in ran.err


def test_an_estate_that_is_not_there_leaves_no_file(vgpu_cfg: CommandLine) -> None:
    ran = vgpu_cfg("metrics", "--once", "--to", "vgpu.prom", "--server", "lab:two-a10")
    assert (ran.code, Path("vgpu.prom").exists()) == (3, False)


@pytest.mark.allow_hosts(["127.0.0.1"])
def test_slow_clients_are_let_go_and_no_more_than_some_are_served(monkeypatch: pytest.MonkeyPatch) -> None:
    def read() -> Site:
        raise Unreachable("nobody answers", subject="vc", remedy="")

    monkeypatch.setattr(metrics_flow, "REQUEST_SECONDS", 0.2)
    monkeypatch.setattr(metrics_flow._Handler, "timeout", 0.2)
    with listening(SiteCollector(read, every_seconds=60), "127.0.0.1", 0) as port, ExitStack() as closing:
        silent = [
            closing.enter_context(socket.create_connection(("127.0.0.1", port), timeout=120))
            for _ in range(metrics_flow.MOST_CLIENTS + 1)
        ]
        assert silent[-1].recv(1) == b""  # one too many: closed at once
        for one in silent:
            assert one.recv(1) == b""  # said nothing in time
        answer = closing.enter_context(
            urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=120)
        )
        assert answer.status == 200


@pytest.mark.allow_hosts(["127.0.0.1"])
def test_prometheus_is_answered_by_http() -> None:
    def read() -> Site:
        raise Unreachable("nobody answers", subject="vc", remedy="")

    collector = SiteCollector(read, every_seconds=60)
    with listening(collector, "127.0.0.1", 0) as port:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=120) as answer:
            assert answer.headers["Content-Type"].startswith("text/plain")
            assert lines(answer.read().decode()) == ["vgpu_cfg_up 0.0"]
        with (
            pytest.raises(DocumentError, match="cannot listen on this address"),
            listening(collector, "127.0.0.1", port),
        ):
            pass
