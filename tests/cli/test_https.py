"""A vCenter behind HTTPS: who is believed, who may log in, and what is said where that goes wrong."""

from __future__ import annotations

import re
import socket
from pathlib import Path

import pytest

from tests.cli.command_line import CommandLine, Seen
from tests.cli.conftest import Serve
from tests.contract.vsphere.test_session import token_of
from vgpu_cfg.cli import compose
from vgpu_cfg.lab.soap.server import LabServer

pytestmark = pytest.mark.enable_socket

USER = ("--user", "administrator@vsphere.local")
HUNTER = "hunter2"


@pytest.fixture(autouse=True)
def _hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no time pass between the attempts to connect, and let nobody wait for a server that is away."""
    monkeypatch.setattr(compose.SystemClock, "pause", lambda _self, _seconds: None)
    monkeypatch.setenv("VGPU_CFG_OUTAGE_SECONDS", "0")


def at(server: LabServer, *more: str) -> list[str]:
    return ["--server", f"127.0.0.1:{server.port}", *USER, *more]


def pinned(server: LabServer) -> list[str]:
    return at(server, "--thumbprint", server.thumbprint)


# ---------------------------------------------------------------- the certificate


def test_an_untrusted_certificate_is_refused_with_its_thumbprint_and_what_to_do(
    serve: Serve, vgpu_cfg: CommandLine
) -> None:
    server = serve("two-a100")
    ran = vgpu_cfg("inventory", *at(server), VGPU_CFG_PASSWORD="lab")
    assert ran.code == 5
    assert "not trusted" in ran.told
    assert server.thumbprint in ran.told
    assert "--thumbprint" in ran.told
    assert "--ca-file" in ran.told
    assert server.lab.counters["calls"] == 0


@pytest.mark.parametrize("spelling", [str, str.lower, lambda text: text.replace(":", "")])
def test_a_pinned_certificate_is_trusted_however_it_is_spelled(
    spelling: type[str], serve: Serve, vgpu_cfg: CommandLine
) -> None:
    server = serve("two-a100")
    done = vgpu_cfg.done(
        "inventory", *at(server, "--thumbprint", spelling(server.thumbprint)), VGPU_CFG_PASSWORD="lab"
    )
    assert "esx-a100-01.lab" in done.out


def test_another_certificate_than_the_pinned_one_is_refused(serve: Serve, vgpu_cfg: CommandLine) -> None:
    server = serve("two-a100")
    wrong = re.sub("[0-9A-F]", "0", server.thumbprint)
    ran = vgpu_cfg("inventory", *at(server, "--thumbprint", wrong), VGPU_CFG_PASSWORD="lab")
    assert ran.code == 5
    assert server.thumbprint in ran.told
    assert server.lab.counters["calls"] == 0


def test_its_authority_can_be_named(serve: Serve, vgpu_cfg: CommandLine) -> None:
    server = serve("two-a100")
    assert server.certificate is not None
    vgpu_cfg.write("ca.pem", server.certificate.certificate_pem.decode())
    vgpu_cfg.done("inventory", *at(server, "--ca-file", "ca.pem"), VGPU_CFG_PASSWORD="lab")
    vgpu_cfg.done("inventory", *at(server), VGPU_CFG_PASSWORD="lab", VGPU_CFG_CA_FILE="ca.pem")


def test_a_file_that_holds_no_authority_is_named(vgpu_cfg: CommandLine) -> None:
    vgpu_cfg.write("ca.pem", "nothing of the kind")
    ran = vgpu_cfg("inventory", "--server", "vc01.example.com", *USER, "--ca-file", "ca.pem")
    assert ran.code == 5
    assert "WHERE  ca.pem" in ran.err


def test_verification_can_be_turned_off(serve: Serve, vgpu_cfg: CommandLine) -> None:
    vgpu_cfg.done("inventory", *at(serve("two-a100"), "--insecure"), VGPU_CFG_PASSWORD="lab")


# ---------------------------------------------------------------- the login


@pytest.mark.parametrize("source", ["environment", "file", "stdin"])
@pytest.mark.parametrize(("password", "code"), [("lab", 0), (HUNTER, 5)])
def test_the_password(
    source: str, password: str, code: int, serve: Serve, vgpu_cfg: CommandLine, tmp_path: Path
) -> None:
    words = ["inventory", *pinned(serve("two-a100"))]
    match source:
        case "environment":
            ran = vgpu_cfg(*words, VGPU_CFG_PASSWORD=password)
        case "file":
            vgpu_cfg.write("password", f"{password}\n")
            ran = vgpu_cfg(*words, "--password-file", "password")
        case _:
            ran = vgpu_cfg(*words, "--password-file", "-", stdin=f"{password}\n")
    assert ran.code == code
    assert ("wrong user or password for administrator@vsphere.local" in ran.told) == (code == 5)
    assert HUNTER not in ran.told


@pytest.mark.parametrize("source", ["environment", "file", "context"])
def test_a_token_of_single_sign_on_takes_the_passwords_place(
    source: str, serve: Serve, vgpu_cfg: CommandLine
) -> None:
    server = serve("two-a100")
    token = token_of("colleague@vsphere.local")
    vgpu_cfg.write("token", token)
    host = server.url.removeprefix("https://").removesuffix("/sdk")
    vgpu_cfg.write("config.yaml", f"contexts: {{sso: {{server: '{host}', token: 'file:token'}}}}\n")
    to = ("--server", host, "--thumbprint", server.thumbprint)
    match source:
        case "environment":
            ran = vgpu_cfg("inventory", *to, VGPU_CFG_TOKEN=token)
        case "file":
            ran = vgpu_cfg("inventory", *to, "--token-file", "token")
        case _:
            ran = vgpu_cfg("inventory", "--context", "sso", "--thumbprint", server.thumbprint)
    assert ran.code == 0, ran.told
    assert server.lab.counters["LoginByToken"] == 1
    assert server.lab.counters["Login"] == 0
    assert "Assertion" not in ran.told


def test_no_password_at_all_is_told_before_anything_is_asked(serve: Serve, vgpu_cfg: CommandLine) -> None:
    server = serve("two-a100")
    ran = vgpu_cfg("inventory", *pinned(server))
    assert ran.code == 5
    assert "VGPU_CFG_PASSWORD" in ran.told
    assert server.lab.counters["Login"] == 0


def test_a_wrong_password_touches_nothing(serve: Serve, vgpu_cfg: CommandLine) -> None:
    server = serve("two-a100")
    before = Seen.of(server.lab.state)
    ran = vgpu_cfg("apply", "--yes", "examples/full-vgpu.yaml", *pinned(server), VGPU_CFG_PASSWORD=HUNTER)
    assert ran.code == 5
    assert Seen.of(server.lab.state) == before


@pytest.mark.parametrize("reference", ["env:LAB_KEY", "file:key", "command:cat key"])
def test_a_context_says_all_of_it(reference: str, serve: Serve, vgpu_cfg: CommandLine) -> None:
    server = serve("two-a100")
    vgpu_cfg.write("key", "lab\n")
    vgpu_cfg.write(
        "config.yaml",
        f"contexts:\n  prod: {{server: '127.0.0.1:{server.port}', user: {USER[1]}, "
        f"password: {reference!r}, thumbprint: '{server.thumbprint}'}}\n",
    )
    vgpu_cfg.done("inventory", "--context", "prod", LAB_KEY="lab")


# ---------------------------------------------------------------- the way there


def test_a_server_that_is_not_there(vgpu_cfg: CommandLine) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: nobody else gets it, and nobody answers
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        ran = vgpu_cfg("inventory", "--server", address, *USER, "--insecure", VGPU_CFG_PASSWORD="lab")
    assert ran.code == 5
    assert f"no connection to {address}" in ran.told
    assert f"WHERE  {address}" in ran.err


def test_a_server_that_says_nothing_is_asked_once(vgpu_cfg: CommandLine) -> None:
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen()
        address = f"127.0.0.1:{deaf.getsockname()[1]}"
        words = ("inventory", "--server", address, *USER, "--insecure", "--timeout", "1")
        ran = vgpu_cfg(*words, VGPU_CFG_PASSWORD="lab")
        deaf.settimeout(0)
        deaf.accept()[0].close()
        with pytest.raises(BlockingIOError):
            deaf.accept()
    assert ran.code == 5
    assert f"no connection to {address}: no response within 1 s" in ran.told


def test_a_port_without_tls(vgpu_cfg: CommandLine, serve: Serve) -> None:
    with LabServer(serve("two-a100").lab, is_https=False) as plain:
        ran = vgpu_cfg("inventory", *at(plain), VGPU_CFG_PASSWORD="lab")
    assert ran.code == 5
    assert "check that this is vCenter's HTTPS port" in ran.told


def test_a_connection_that_breaks(serve: Serve, vgpu_cfg: CommandLine) -> None:
    server = serve("two-a100")
    server.lab.faults.add("RetrievePropertiesEx", nth=0, kind="drop_before")
    ran = vgpu_cfg("inventory", *pinned(server), VGPU_CFG_PASSWORD="lab")
    assert ran.code == 5
    assert "was interrupted" in ran.told


def test_a_session_that_ends_is_renewed(serve: Serve, vgpu_cfg: CommandLine) -> None:
    server = serve("two-a100")
    server.lab.faults.add("RetrievePropertiesEx", nth=2, kind="session_expired")
    vgpu_cfg.done("inventory", *pinned(server), VGPU_CFG_PASSWORD="lab")
    assert server.lab.counters["Login"] == 2


# ---------------------------------------------------------------- the main job


def test_the_main_job_over_https(serve: Serve, vgpu_cfg: CommandLine) -> None:
    server = serve("two-a100")
    plan = "plans/pair.yaml"
    vgpu_cfg.done("apply", "--yes", plan, *pinned(server), VGPU_CFG_PASSWORD="lab")
    applied = Seen.of(server.lab.state)
    assert applied.vms == {"hvd-01", "hvd-02"}
    vgpu_cfg.done("apply", "--yes", plan, *pinned(server), VGPU_CFG_PASSWORD="lab")
    assert Seen.of(server.lab.state) == applied
    vgpu_cfg.done("destroy", "--yes", plan, *pinned(server), VGPU_CFG_PASSWORD="lab")
    assert Seen.of(server.lab.state).vms == frozenset()
    assert server.lab.sessions.all() == []


def test_a_recording_of_it_holds_no_way_in(serve: Serve, vgpu_cfg: CommandLine) -> None:
    server = serve("two-a100")
    words = ["inventory", "--record", "vc.json", *pinned(server)]
    vgpu_cfg.done(*words, VGPU_CFG_PASSWORD="lab")
    text = (vgpu_cfg.folder / "vc.json").read_text(encoding="utf-8")
    assert "vmware_soap_session" not in text
    assert "session[" not in text
    done = vgpu_cfg.done("inventory", "--from", "vc.json")
    assert f"127.0.0.1:{server.port}  vCenter 8.0.3" in done.out
    assert vgpu_cfg(*words, VGPU_CFG_PASSWORD="lab").code == 2
    vgpu_cfg.done(*words, "--force", VGPU_CFG_PASSWORD="lab")


def test_a_served_address_that_is_taken(vgpu_cfg: CommandLine, serve: Serve) -> None:
    ran = vgpu_cfg("lab", "serve", "--port", str(serve("two-a100").port))
    assert ran.code == 5
    assert "--port" in ran.told
