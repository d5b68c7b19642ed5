"""Logging in to a host over real SSH: passwords, keys, host keys, and hosts that cannot be reached."""

from __future__ import annotations

import io
import socket
import stat
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import paramiko
import pytest
from cryptography.hazmat.primitives.asymmetric import ed25519
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from tests.contract.ssh_server import PASSWORD, SshServer, running_ssh_server
from tests.contract.ssh_user import ACCESS, Desk
from vgpu_cfg.errors import HostShellError
from vgpu_cfg.model.plan_file import AccessEntry
from vgpu_cfg.shells.esxi.logins import ATTEMPTS, EsxiShells
from vgpu_cfg.shells.esxi.ssh import ChangedHostKey, UnknownHostKey
from vgpu_cfg.shells.ssh import fingerprint


@pytest.fixture
def server() -> Iterator[SshServer]:
    with running_ssh_server() as running:
        yield running


@pytest.fixture
def desk(server: SshServer, tmp_path: Path) -> Desk:
    desk = Desk(tmp_path, server)
    desk.trust()
    return desk


# ---------------------------------------------------------------- logging in


def test_a_password_by_keyboard_interactive_as_esxi_wants_it(desk: Desk, server: SshServer) -> None:
    server.methods = "keyboard-interactive"
    desk.connect().close()
    # paramiko learns what is offered by asking for the other way first.
    assert server.tries[-1] == "keyboard-interactive root"


def text_of(key: paramiko.PKey, passphrase: str | None = None) -> str:
    written = io.StringIO()
    key.write_private_key(written, password=passphrase)
    return written.getvalue()


def private_key(kind: str) -> str:
    match kind:
        case "ecdsa":
            return text_of(paramiko.ECDSAKey.generate())
        case "rsa":
            return text_of(paramiko.RSAKey.generate(2048))
        case _:
            secret = ed25519.Ed25519PrivateKey.generate()
            return secret.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()).decode("ascii")


@pytest.mark.parametrize("kind", ["ecdsa", "rsa", "ed25519"])
def test_a_private_key_from_a_secret(desk: Desk, server: SshServer, tmp_path: Path, kind: str) -> None:
    server.methods = "publickey"
    text = private_key(kind)
    path = tmp_path / "key"
    path.write_text(text, encoding="ascii")
    server.user_key = paramiko.PKey.from_path(path)
    # A secret from a file or a key store often comes without its last newline.
    desk.secrets["KEY"] = text.rstrip("\n")
    desk.connect(AccessEntry(ssh="on", key="KEY")).close()
    assert {entry.split()[0] for entry in server.tries} == {"publickey"}


@pytest.mark.parametrize(
    ("text", "said"),
    [("not a key", "does not contain a private key"), (None, "has a passphrase")],
)
def test_a_secret_that_is_no_usable_key(desk: Desk, server: SshServer, text: str | None, said: str) -> None:
    key = text if text is not None else text_of(paramiko.ECDSAKey.generate(), "secret")
    desk.secrets["KEY"] = key
    with pytest.raises(HostShellError, match=said):
        desk.connect(AccessEntry(ssh="on", key="KEY"))
    assert server.tries == []


def test_a_key_file_of_the_ssh_configuration(desk: Desk, server: SshServer, tmp_path: Path) -> None:
    server.methods = "publickey"
    server.user_key = paramiko.ECDSAKey.generate()
    path = tmp_path / "id_lab"
    path.write_text(text_of(server.user_key), encoding="ascii")
    desk.options = f"  IdentityFile {path}\n"
    desk.connect(AccessEntry(ssh="on")).close()


def test_the_plan_files_user_counts_before_the_ssh_configurations(desk: Desk, server: SshServer) -> None:
    desk.options = "  User somebody\n"
    for access in (ACCESS, ACCESS.model_copy(update={"user": "svc"})):
        with pytest.raises(HostShellError):
            desk.connect(access)
    assert server.tries == ["password somebody", "password svc"]


def test_a_wrong_password_is_tried_once_and_never_shown(desk: Desk, server: SshServer) -> None:
    desk.secrets["ROOT"] = "battery staple"
    with pytest.raises(HostShellError, match="rejected root's login") as caught:
        desk.connect(ACCESS.model_copy(update={"ssh": "open-and-close"}))
    assert "locked" in caught.value.remedy
    assert "battery" not in f"{caught.value.message} {caught.value.subject} {caught.value.remedy}"
    assert (server.tries, desk.slept) == (["password root"], [])


def test_nothing_to_log_in_with(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    with pytest.raises(HostShellError, match="no credentials for login"):
        desk.connect(AccessEntry(ssh="on"))


def test_a_secret_without_a_value(desk: Desk, server: SshServer) -> None:
    with pytest.raises(HostShellError, match="the secret OTHER has no value"):
        desk.connect(AccessEntry(ssh="on", password="OTHER"))
    assert server.tries == []


def test_a_plan_file_that_allows_no_shell(desk: Desk) -> None:
    with pytest.raises(HostShellError, match="does not allow") as caught:
        desk.connect(ACCESS.model_copy(update={"ssh": "off"}))
    assert "manually" in caught.value.remedy


# ---------------------------------------------------------------- host keys


def test_an_unknown_key_is_refused_with_its_fingerprint(desk: Desk, server: SshServer) -> None:
    desk.known_hosts.unlink()
    with pytest.raises(UnknownHostKey, match=fingerprint(server.host_key).replace("+", r"\+")) as caught:
        desk.connect()
    assert "-lf /etc/ssh/ssh_host_ecdsa_key.pub" in caught.value.remedy
    assert "host_keys: pin" in caught.value.remedy
    assert str(desk.known_hosts) in caught.value.remedy
    assert server.tries == []
    assert not desk.pinned.exists()


def test_a_first_key_is_pinned_where_the_plan_file_says_so(desk: Desk, server: SshServer) -> None:
    desk.known_hosts.unlink()
    desk.connect(ACCESS.model_copy(update={"host_keys": "pin"})).close()
    assert desk.pinned.read_text(encoding="ascii") == server.known_hosts_line
    assert stat.S_IMODE(desk.pinned.stat().st_mode) == 0o600
    assert not desk.known_hosts.exists()
    desk.connect().close()
    desk.connect(ACCESS.model_copy(update={"host_keys": "pin"})).close()
    assert desk.pinned.read_text(encoding="ascii") == server.known_hosts_line


def test_a_known_key_is_not_pinned_again(desk: Desk) -> None:
    desk.connect(ACCESS.model_copy(update={"host_keys": "pin"})).close()
    assert not desk.pinned.exists()


def test_the_users_own_file_is_read_and_names_in_it_may_be_hashed(home: Path, server: SshServer) -> None:
    line = server.known_hosts_line
    hashed = paramiko.HostKeys.hash_host(line.split()[0])
    (home / ".ssh").mkdir()
    (home / ".ssh" / "known_hosts").write_text(line.replace(line.split()[0], hashed), encoding="ascii")
    config = home / "config"
    config.write_text(f"Host *\n  Port {server.port}\n", encoding="ascii")
    shells = EsxiShells({"ROOT": PASSWORD}, home / "state" / "known_hosts", ssh_config=config)
    shells.connect("127.0.0.1", ACCESS).close()


@pytest.mark.parametrize("policy", ["known", "pin"])
@pytest.mark.parametrize("kind", ["ecdsa", "rsa"])
def test_a_changed_key_is_always_refused(desk: Desk, server: SshServer, policy: str, kind: str) -> None:
    before = fingerprint(server.host_key)
    server.host_key = paramiko.RSAKey.generate(2048) if kind == "rsa" else paramiko.ECDSAKey.generate()
    with pytest.raises(ChangedHostKey, match="has changed") as caught:
        desk.connect(ACCESS.model_copy(update={"host_keys": policy}))
    assert before in caught.value.message
    assert fingerprint(server.host_key) in caught.value.message
    assert server.tries == []


def test_a_file_of_known_hosts_that_cannot_be_read(desk: Desk) -> None:
    desk.known_hosts.unlink()
    desk.known_hosts.mkdir()
    with pytest.raises(HostShellError, match="cannot be read") as caught:
        desk.connect()
    assert caught.value.subject == str(desk.known_hosts)


def test_a_state_folder_that_cannot_be_written(desk: Desk) -> None:
    desk.known_hosts.unlink()
    desk.pinned.parent.touch()
    with pytest.raises(HostShellError, match="cannot save the host's key"):
        desk.connect(ACCESS.model_copy(update={"host_keys": "pin"}))


# ---------------------------------------------------------------- reaching it


@pytest.fixture
def closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def test_a_host_that_refuses_is_tried_once(desk: Desk, closed_port: int) -> None:
    desk.server.port = closed_port
    with pytest.raises(HostShellError, match="no SSH service is listening") as caught:
        desk.connect()
    assert "open-and-close" in caught.value.remedy
    assert desk.slept == []


def test_a_service_that_was_just_started_is_waited_for(desk: Desk, closed_port: int) -> None:
    desk.server.port = closed_port
    with pytest.raises(HostShellError, match="no SSH service is listening"):
        desk.connect(ACCESS.model_copy(update={"ssh": "open-and-close"}))
    assert desk.slept == [0.5, 1, 2, 4, 5]
    assert len(desk.slept) == ATTEMPTS - 1


def test_a_service_that_begins_to_listen_is_reached(desk: Desk, closed_port: int) -> None:
    desk.server.port = closed_port
    with ExitStack() as stack:

        def start(seconds: float) -> None:
            desk.slept.append(seconds)
            if len(desk.slept) == 2:
                desk.server = stack.enter_context(running_ssh_server(closed_port))
                desk.trust()

        desk.sleep = start
        desk.connect(ACCESS.model_copy(update={"ssh": "open-and-close", "host_keys": "pin"})).close()
        assert desk.slept == [0.5, 1]
        assert desk.server.tries == ["password root"]


def test_a_name_that_cannot_be_one(desk: Desk) -> None:
    shells = EsxiShells(desk.secrets, desk.pinned, known_hosts=[])
    with pytest.raises(HostShellError, match="cannot be resolved"):
        shells.connect(f"{'a' * 64}.example", ACCESS)


def test_a_host_that_says_nothing(desk: Desk) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        desk.server.port = silent.getsockname()[1]
        desk.timeout_seconds = 0.05
        with pytest.raises(HostShellError, match=r"cannot be reached|no answer") as caught:
            desk.connect()
    assert str(desk.server.port) in caught.value.subject
