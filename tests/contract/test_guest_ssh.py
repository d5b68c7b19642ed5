"""Guests over real SSH: strict host keys, the plan's own login, root's rights, what goes on by itself."""

from __future__ import annotations

import socket
import stat
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import paramiko
import pytest
from cryptography.hazmat.primitives.asymmetric import ed25519
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from tests.contract.ssh_server import DROP, HANG, PASSWORD, SshServer, running_ssh_server
from vgpu_cfg.errors import GuestError, GuestNotReady
from vgpu_cfg.model.guests.guest import DERIVED, UNKNOWN
from vgpu_cfg.model.plan_file import LoginEntry
from vgpu_cfg.ports import GuestShell, GuestTarget
from vgpu_cfg.shells.guest import SshGuestShells
from vgpu_cfg.shells.keys import PlanKeyRing
from vgpu_cfg.shells.ssh import fingerprint

SEED = b"a seed of thirty-two bytes or so, it is"
SUDO = '#!/bin/sh\n[ "$1 $2" = "-n --" ] || exit 9\nshift 2\nexec "$@"\n'


@dataclass(slots=True)
class Office:
    """Where somebody sits who logs in to guests: a home, secrets, keys, a server that stands for a guest."""

    home: Path
    server: SshServer
    keys: PlanKeyRing = field(default_factory=lambda: PlanKeyRing(SEED))
    secrets: dict[str, str] = field(default_factory=dict)
    config: str = ""
    host_key: str = ""
    timeout_seconds: float = 15.0

    def connect(
        self,
        login: LoginEntry | None = None,
        name: str = "hvd-01",
        addresses: tuple[str, ...] = ("127.0.0.1",),
    ) -> GuestShell:
        path = self.home / "config"
        path.write_text(self.config or f"Host 127.0.0.1\n  Port {self.server.port}\n", encoding="utf-8")
        shells = SshGuestShells(
            self.keys,
            self.secrets,
            known_hosts=[self.home / "known_hosts"],
            ssh_config=path,
            timeout_seconds=self.timeout_seconds,
        )
        target = GuestTarget(name=name, moid="vm-7", addresses=addresses, host_key=self.host_key)
        return shells.connect(target, login or LoginEntry())


MADE = PlanKeyRing(b"what a guest makes its own host key of").host_key("at random")


def told(public: str) -> str:
    """Return a public key as a guest tells it."""
    return " ".join(public.split()[:2])


def key_of(text: str, folder: Path) -> paramiko.PKey:
    path = folder / "a-key"
    path.write_text(text, encoding="ascii")
    return paramiko.PKey.from_path(path)


@pytest.fixture
def office(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Office]:
    sudo = tmp_path / "bin" / "sudo"
    sudo.parent.mkdir()
    sudo.write_text(SUDO, encoding="ascii")
    sudo.chmod(0o755)
    monkeypatch.setenv("PATH", f"{sudo.parent}:/usr/bin:/bin")
    with running_ssh_server() as server:
        office = Office(tmp_path, server)
        server.methods = "publickey"
        server.host_key = key_of(MADE.private, tmp_path)
        office.host_key = told(MADE.public)
        server.user_key = key_of(office.keys.login_key().private, tmp_path)
        yield office


# ------------------------------------------------------------- whom to believe


def test_the_plans_own_key_lets_the_tool_in_and_the_guests_tells_it_from_others(office: Office) -> None:
    shell = office.connect()
    assert shell.run(["echo", "here"]).stdout == "here\n"
    assert office.server.tries[-1] == "publickey vgpu-cfg"
    shell.close()
    shell.close()


def test_a_guest_that_has_the_keys_before_those_of_now_lets_the_tool_in_too(office: Office) -> None:
    office.keys = PlanKeyRing(b"another seed of thirty-two bytes or so", [SEED])
    assert office.connect().run(["echo", "here"]).stdout == "here\n"
    assert office.server.tries == ["publickey vgpu-cfg"] * 2
    office.keys = PlanKeyRing(b"another seed of thirty-two bytes or so")
    with pytest.raises(GuestError):
        office.connect()


def test_another_key_than_the_one_that_was_told_is_never_believed(office: Office) -> None:
    office.host_key = told(office.keys.host_key("hvd-01").public)
    with pytest.raises(GuestError, match="a host key that differs from the known one") as caught:
        office.connect()
    assert fingerprint(office.server.host_key) in caught.value.message
    assert "known_hosts" in caught.value.remedy
    assert office.server.tries == []


def test_a_derived_key_is_believed_only_of_a_guest_that_has_one(office: Office, tmp_path: Path) -> None:
    office.server.host_key = key_of(office.keys.host_key("hvd-01").private, tmp_path)
    with pytest.raises(GuestError, match="a host key that differs"):
        office.connect()
    office.host_key = DERIVED
    office.connect().close()
    with pytest.raises(GuestError, match="a host key that differs"):
        office.connect(name="hvd-02")


def test_a_guest_that_was_not_set_up_yet_is_believed_where_the_user_vouches_for_it(office: Office) -> None:
    office.host_key = UNKNOWN
    with pytest.raises(GuestError, match="has not reported a host key to vCenter") as caught:
        office.connect()
    assert "VMware Tools" in caught.value.remedy
    (office.home / "known_hosts").write_text(office.server.known_hosts_line, encoding="ascii")
    office.connect().close()


def test_known_hosts_that_cannot_be_read_are_named(office: Office) -> None:
    office.server.host_key = paramiko.ECDSAKey.generate()
    (office.home / "known_hosts").mkdir()
    with pytest.raises(GuestError, match="cannot be read") as caught:
        office.connect()
    assert caught.value.subject.endswith("known_hosts")


# ------------------------------------------------------------- who logs in


def test_a_password_of_the_plan_file(office: Office) -> None:
    office.server.methods = "password"
    office.secrets["ROOT"] = PASSWORD
    office.connect(LoginEntry(user="root", password="ROOT")).close()
    assert office.server.tries == ["password root"]


def test_a_key_goes_before_a_password(office: Office) -> None:
    secret = ed25519.Ed25519PrivateKey.generate()
    text = secret.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()).decode("ascii")
    office.server.user_key = key_of(text, office.home)
    office.secrets |= {"ROOT": "wrong", "KEY": text}
    office.connect(LoginEntry(user="anna", password="ROOT", key="KEY")).close()
    assert {entry.split()[0] for entry in office.server.tries} == {"publickey"}


@pytest.mark.parametrize(
    ("login", "said"),
    [
        (LoginEntry(user="root", password="ROOT"), "rejected root's login"),
        (LoginEntry(user="root", key="BAD"), "does not contain a private key"),
        (LoginEntry(user="root", key="ABSENT"), "ABSENT has no value"),
    ],
)
def test_a_login_that_does_not_work_says_why_and_shows_no_secret(
    office: Office, login: LoginEntry, said: str
) -> None:
    office.server.methods = "password"
    office.secrets |= {"ROOT": "battery staple", "BAD": "battery staple"}
    with pytest.raises(GuestError, match=said) as caught:
        office.connect(login)
    assert not isinstance(caught.value, GuestNotReady)
    assert "battery" not in f"{caught.value.message} {caught.value.subject} {caught.value.remedy}"


def test_a_user_who_may_not_become_root(office: Office) -> None:
    (office.home / "bin" / "sudo").write_text(
        "#!/bin/sh\necho 'sudo: a password is required' >&2\nexit 1\n", encoding="ascii"
    )
    with pytest.raises(GuestError, match=r"vgpu-cfg cannot become root .* a password is required"):
        office.connect()


# ------------------------------------------------------------- where it is


def hang_up(listener: socket.socket) -> None:
    """Take one connection, and end it."""
    listener.accept()[0].close()


def test_the_next_address_is_tried_where_one_does_not_answer(office: Office) -> None:
    office.config = f"Host *\n  Port {office.server.port}\n"
    with socket.create_server(("127.0.0.2", office.server.port)) as silent:
        closing = threading.Thread(target=hang_up, args=(silent,), daemon=True)
        closing.start()
        office.connect(addresses=("127.0.0.2", "127.0.0.1")).close()
        closing.join(timeout=120)


def test_the_ssh_configuration_may_say_where_a_vm_is(office: Office) -> None:
    office.config = f"Host hvd-01\n  HostName 127.0.0.1\n  Port {office.server.port}\n"
    office.connect(addresses=()).close()


def test_a_guest_whose_address_nobody_knows_may_tell_it_later(office: Office) -> None:
    with pytest.raises(GuestNotReady, match="the guest's address is not known") as caught:
        office.connect(addresses=())
    assert "HostName" in caught.value.remedy


def test_a_guest_that_does_not_listen_yet_may_answer_later(office: Office) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        closed = listener.getsockname()[1]
    office.config = f"Host *\n  Port {closed}\n"
    with pytest.raises(GuestNotReady, match="no SSH service is listening"):
        office.connect()


def test_a_guest_that_says_nothing_may_answer_later(office: Office) -> None:
    office.timeout_seconds = 0.05
    with socket.create_server(("127.0.0.1", 0)) as silent:
        office.config = f"Host *\n  Port {silent.getsockname()[1]}\n"
        with pytest.raises(GuestNotReady, match=r"cannot be reached|no answer"):
            office.connect()


# ------------------------------------------------------------- working in it


def test_files_and_commands_through_sudo(office: Office, tmp_path: Path) -> None:
    shell = office.connect()
    content = bytes(range(256)) * 9000  # more than paramiko's window takes at once
    path = tmp_path / "var" / "it's a file"
    shell.write_file(str(path), content, 0o600)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert shell.read_file(str(path)) == content
    assert shell.read_file(str(tmp_path / "absent")) is None
    shell.close()


def test_a_command_that_takes_no_input_ends_all_the_same(office: Office) -> None:
    shell = office.connect()
    assert shell.run(["sh", "-c", "exit 3"], stdin=b"x" * 5_000_000).status == 3
    shell.close()


def test_a_started_command_outlives_the_connection(office: Office, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    shell = office.connect()
    shell.run(["mkfifo", str(pipe)])
    shell.start(["sh", "-c", 'echo "it goes on" >"$1"', "sh", str(pipe)])
    shell.close()
    assert pipe.read_text(encoding="ascii") == "it goes on\n"


def test_a_command_that_takes_too_long_is_no_reason_to_try_again(office: Office) -> None:
    office.secrets["KEY"] = office.keys.login_key().private
    shell = office.connect(LoginEntry(user="root", key="KEY"))
    with pytest.raises(GuestError, match=r"took longer than 0\.05 s") as caught:
        shell.run([HANG], timeout_seconds=0.05)
    assert not isinstance(caught.value, GuestNotReady)


def test_a_connection_that_breaks_may_come_back(office: Office) -> None:
    office.secrets["KEY"] = office.keys.login_key().private
    shell = office.connect(LoginEntry(user="root", key="KEY"))
    with pytest.raises(GuestNotReady, match=r"^drop: "):
        shell.run([DROP])
