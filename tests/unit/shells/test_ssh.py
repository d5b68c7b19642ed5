"""SSH without a server: what a failure means, what a credential is, and what passes through a channel."""

from __future__ import annotations

import socket
from base64 import b64encode
from hashlib import sha256
from io import StringIO
from typing import cast

import paramiko
import pytest
from paramiko.ssh_exception import NoValidConnectionsError

from vgpu_cfg.errors import GuestError, HostShellError
from vgpu_cfg.shells.channel import Executed
from vgpu_cfg.shells.keys import PlanKeyRing
from vgpu_cfg.shells.ssh import (
    Endpoint,
    SshChannel,
    SshConnection,
    SshFailure,
    SshProblem,
    connect,
    fingerprint,
    private_key,
    secret_value,
)

PRIVATE = PlanKeyRing(bytes(32)).login_key().private
AWAY = ("192.0.2.1", 22)
REFUSED = NoValidConnectionsError({AWAY: OSError("no route"), ("192.0.2.2", 22): ConnectionRefusedError()})


def failing(error: BaseException) -> SshFailure:
    def trust(_: paramiko.SSHClient) -> None:
        raise error

    with pytest.raises(SshFailure) as caught:
        connect(Endpoint("192.0.2.1", "root"), trust)
    assert caught.value.__cause__ is error
    return caught.value


@pytest.mark.parametrize(
    ("error", "problem", "said"),
    [
        (paramiko.AuthenticationException("Authentication failed."), "NOT_LET_IN", "Authentication failed."),
        (REFUSED, "REFUSED", str(REFUSED)),
        (NoValidConnectionsError({AWAY: OSError("no route")}), "UNREACHABLE", "Unable to connect"),
        (socket.gaierror(-2, "Name or service not known"), "UNRESOLVED", "not known"),
        (TimeoutError(), "SILENT", "TimeoutError"),
        (paramiko.SSHException("No authentication methods available"), "NOTHING_TO_LOG_IN_WITH", "methods"),
        (paramiko.SSHException("Error reading SSH protocol banner"), "UNREACHABLE", "banner"),
        (EOFError(), "UNREACHABLE", "EOFError"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_failed_login_has_its_kind_and_its_reason(error: BaseException, problem: str, said: str) -> None:
    failure = failing(error)
    assert failure.problem is SshProblem[problem]
    assert said in failure.said


@pytest.mark.parametrize("error", [GuestError("m", subject="s", remedy="r"), ValueError("a bug")])
def test_errors_that_are_not_the_connections_pass(error: Exception) -> None:
    def trust(_: paramiko.SSHClient) -> None:
        raise error

    with pytest.raises(type(error)) as caught:
        connect(Endpoint("192.0.2.1", "root"), trust)
    assert caught.value is error


@pytest.mark.parametrize(("port", "subject"), [(22, "root@esx-01"), (2222, "root@esx-01:2222")])
def test_a_login_is_named_by_account_and_address(port: int, subject: str) -> None:
    endpoint = Endpoint("esx-01", "root", port, password="SECRET", key="KEY")
    assert endpoint.subject == subject
    assert "SECRET" not in repr(endpoint)
    assert "KEY" not in repr(endpoint)


def test_a_private_key_is_known_by_its_text() -> None:
    key = private_key(f"\n{PRIVATE}\n")
    assert key.get_name() == "ssh-ed25519"
    digest = b64encode(sha256(key.asbytes()).digest()).decode()
    assert fingerprint(key) == f"SHA256:{digest.removesuffix('=')}"


def test_a_key_of_another_kind_or_none_or_a_locked_one() -> None:
    text = StringIO()
    paramiko.ECDSAKey.generate().write_private_key(text)
    assert private_key(text.getvalue()).get_name() == "ecdsa-sha2-nistp256"
    locked = StringIO()
    paramiko.ECDSAKey.generate().write_private_key(locked, password="a passphrase")
    for unusable, problem in ((locked.getvalue(), SshProblem.LOCKED_KEY), ("no key", SshProblem.NO_KEY)):
        with pytest.raises(SshFailure) as caught:
            private_key(unusable)
        assert caught.value.problem is problem


def test_a_secret_has_a_value_or_is_not_asked_for() -> None:
    assert secret_value({"a": "1"}, "a", "vm", GuestError) == "1"
    assert secret_value({}, None, "vm", GuestError) is None
    with pytest.raises(HostShellError, match="the secret b has no value") as caught:
        secret_value({"a": "1"}, "b", "vm", HostShellError)
    assert (caught.value.subject, "for b in" in caught.value.remedy) == ("vm", True)


class Line:
    """An open login that notes the commands, or fails."""

    def __init__(self, failure: SshFailure | None = None) -> None:
        self.failure = failure
        self.noted: list[object] = []

    def execute(self, line: str, timeout_seconds: float, stdin: bytes = b"") -> Executed:
        self.noted.append((line, timeout_seconds, stdin))
        if self.failure is not None:
            raise self.failure
        return Executed(3, b"out", b"err")

    def close(self) -> None:
        self.noted.append("closed")


def channel_on(line: Line) -> SshChannel:
    def to_error(failure: SshFailure, command: str) -> GuestError:
        return GuestError(f"{command}: {failure.said}", subject="vm", remedy="wait")

    return SshChannel(cast("SshConnection", line), to_error)


def test_a_command_passes_with_its_time_and_input() -> None:
    line = Line()
    channel = channel_on(line)
    assert channel.execute("true", 5.0, b"in") == Executed(3, b"out", b"err")
    assert channel.execute("false", 6.0) == Executed(3, b"out", b"err")
    channel.close()
    assert line.noted == [("true", 5.0, b"in"), ("false", 6.0, b""), "closed"]


def test_a_failed_command_is_named_in_the_error() -> None:
    failure = SshFailure(SshProblem.LATE, "took longer than 5 s")
    with pytest.raises(GuestError, match=r"^reboot: took longer than 5 s$") as caught:
        channel_on(Line(failure)).execute("reboot", 5.0)
    assert caught.value.__cause__ is failure
