"""A command with several requests on their way at once: how many, whatever is set, and Ctrl-C meanwhile."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from tests.bench.proxy import CountingProxy, proxy_to
from tests.cli.command_line import ROOT, CommandLine
from tests.cli.conftest import Serve
from tests.cli.test_process import end_of, started
from tests.contract.vsphere.test_flight import OF_A_HOST, PATIENCE, Gate
from vgpu_cfg.lab.soap.server import LabServer

pytestmark = pytest.mark.enable_socket

PLAN = str(ROOT / "examples" / "prepare-hosts.yaml")
SECRET = {"VGPU_CFG_PASSWORD": "lab", "ESXI_PASSWORD": "lab"}


@pytest.fixture
def server(serve: Serve) -> LabServer:
    return serve("bare")


@pytest.fixture
def proxy(server: LabServer) -> Iterator[CountingProxy]:
    with proxy_to(f"127.0.0.1:{server.port}") as running:
        yield running


def plan_at(proxy: CountingProxy, *more: str) -> list[str]:
    trust = ("--thumbprint", proxy.certificate.thumbprint)
    return ["plan", PLAN, "--server", proxy.address, "--user", "administrator@vsphere.local", *trust, *more]


def test_the_plan_is_the_same_with_one_request_at_a_time(proxy: CountingProxy, vgpu_cfg: CommandLine) -> None:
    proxy.passing = gate = Gate(OF_A_HOST, 4)
    told: list[Any] = []
    for in_flight, connections in (("4", 4), ("1", 1)):
        proxy.connections = 0
        ran = vgpu_cfg(*plan_at(proxy, "--output", "json"), VGPU_CFG_IN_FLIGHT=in_flight, **SECRET)
        document = json.loads(ran.out)
        told.append({**document, "plan": {**document["plan"], "read_at": ""}})
        assert proxy.connections == connections
    assert gate.most == 4
    assert told[0]["plan"]["changes"]
    assert told[0] == told[1]


def test_a_recording_is_made_one_request_at_a_time(proxy: CountingProxy, vgpu_cfg: CommandLine) -> None:
    _, _, *to = plan_at(proxy)
    vgpu_cfg.done("inventory", "--record", "vc.json", *to, **SECRET)
    assert proxy.connections == 1


def test_ctrl_c_ends_it_while_nothing_answers_and_logs_out(
    server: LabServer, proxy: CountingProxy, vgpu_cfg: CommandLine
) -> None:
    assert vgpu_cfg.folder.is_dir()
    proxy.passing = gate = Gate(OF_A_HOST, 5)  # so many never come
    with started(*plan_at(proxy), **SECRET) as process:
        with gate.changed:
            assert gate.changed.wait_for(lambda: gate.inside == 4, PATIENCE)
        process.send_signal(signal.SIGINT)
        code, told = end_of(process)
    assert code == 130, told
    assert "Traceback" not in told
    assert gate.inside == 4
    with gate.changed:
        gate.wanted = 0
        gate.changed.notify_all()
    assert server.lab.sessions.all() == []
