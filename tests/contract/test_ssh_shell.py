"""Commands on a host's shell over real SSH: arguments, streams, time limits, broken connections."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import paramiko
import pytest

from tests.contract.ssh_server import (
    DROP,
    FLOOD,
    FLOOD_BYTES,
    HANG,
    KILL,
    REFUSE,
    STALL,
    SshServer,
    running_ssh_server,
)
from tests.contract.ssh_user import Desk
from vgpu_cfg.errors import HostShellError
from vgpu_cfg.model.plan_values import Limits
from vgpu_cfg.ports import HostShell


@pytest.fixture
def server() -> Iterator[SshServer]:
    with running_ssh_server() as running:
        yield running


@pytest.fixture
def desk(server: SshServer, tmp_path: Path) -> Desk:
    desk = Desk(tmp_path, server)
    desk.trust()
    return desk


@pytest.fixture
def shell(desk: Desk) -> Iterator[HostShell]:
    shell = desk.connect()
    yield shell
    shell.close()


STRANGE = [
    "with blanks",
    "it's",
    '"quoted"',
    "$(touch /tmp/owned)",
    "`id`",
    "a;b",
    "a && b || c",
    "two\nlines",
    "$HOME",
    "*",
    "~",
    "back\\slash",
    "!history",
    "\ttab",
    "ümläut",
    "",
    "-n",
    "#comment",
    "{a,b}",
]


def test_strange_arguments_arrive_as_they_were_given(shell: HostShell) -> None:
    result = shell.run(["printf", r"%s\037", *STRANGE])
    assert result.status == 0
    assert result.stdout == "".join(f"{word}\037" for word in STRANGE)


def test_status_and_both_streams_come_back(shell: HostShell) -> None:
    result = shell.run(["sh", "-c", "echo out; echo err >&2; exit 7"])
    assert (result.status, result.stdout, result.stderr) == (7, "out\n", "err\n")


def test_a_command_that_is_not_there_is_a_status(shell: HostShell) -> None:
    assert shell.run(["/opt/mellanox/bin/no-such-tool"]).status == 127


def test_one_login_serves_many_commands(shell: HostShell, server: SshServer) -> None:
    assert [shell.run(["echo", str(number)]).stdout for number in range(3)] == ["0\n", "1\n", "2\n"]
    assert server.tries == ["password root"]
    assert server.agent_forwards == 0


def test_much_on_both_streams_blocks_neither(shell: HostShell) -> None:
    result = shell.run([FLOOD])
    assert (len(result.stdout), len(result.stderr)) == (FLOOD_BYTES, FLOOD_BYTES)


def test_more_than_anybody_asked_for_is_cut_off(desk: Desk) -> None:
    desk.limits = Limits(answer_mib=1)
    shell = desk.connect()
    with pytest.raises(HostShellError, match="output exceeds 1 MiB: flood"):
        shell.run([FLOOD])
    shell.close()


def test_bytes_that_are_no_text_are_replaced(shell: HostShell) -> None:
    assert shell.run(["printf", r"a\377b"]).stdout == "a\N{REPLACEMENT CHARACTER}b"


def test_a_command_that_takes_too_long(shell: HostShell) -> None:
    with pytest.raises(HostShellError, match=r"took longer than 0\.05 s: hang") as caught:
        shell.run([HANG], timeout_seconds=0.05)
    assert caught.value.subject.startswith("root@127.0.0.1")
    assert shell.run(["echo", "still there"]).stdout == "still there\n"


def test_a_host_that_stops_answering_is_not_waited_for(shell: HostShell, server: SshServer) -> None:
    with pytest.raises(HostShellError, match=r"took longer than 0\.05 s: stall") as caught:
        shell.run([STALL], timeout_seconds=0.05)
    assert "may still be running" in caught.value.remedy
    server.go_on.set()


@pytest.mark.parametrize(
    ("line", "said"),
    [(DROP, "before it finished|interrupted"), (KILL, "before it finished"), (REFUSE, "interrupted")],
)
def test_a_command_that_does_not_end_as_it_should(shell: HostShell, line: str, said: str) -> None:
    with pytest.raises(HostShellError, match=said) as caught:
        shell.run([line])
    assert caught.value.remedy


@pytest.fixture
def lost_while_hanging_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """The connection goes away while paramiko still says goodbye on the channel that it has closed."""
    close = paramiko.Channel.close

    def close_and_lose(channel: paramiko.Channel) -> None:
        close(channel)
        if not channel.get_transport().server_mode:
            raise EOFError

    monkeypatch.setattr(paramiko.Channel, "close", close_and_lose)


@pytest.mark.usefixtures("lost_while_hanging_up")
def test_what_a_command_said_counts_though_the_connection_is_lost_after_it(shell: HostShell) -> None:
    assert shell.run(["echo", "done"]).stdout == "done\n"


@pytest.mark.usefixtures("lost_while_hanging_up")
@pytest.mark.filterwarnings("error::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_time_limit_speaks_once_though_the_connection_is_lost_with_it(
    shell: HostShell, server: SshServer
) -> None:
    with pytest.raises(HostShellError, match=r"took longer than 0\.05 s: stall"):
        shell.run([STALL], timeout_seconds=0.05)
    server.go_on.set()


def test_a_connection_that_was_lost_stays_lost(shell: HostShell) -> None:
    with pytest.raises(HostShellError):
        shell.run([DROP])
    with pytest.raises(HostShellError, match=r"closed|interrupted"):
        shell.run(["echo"])


def test_a_shell_that_was_closed_runs_nothing(desk: Desk) -> None:
    shell = desk.connect()
    shell.close()
    shell.close()
    with pytest.raises(HostShellError, match="connection is closed"):
        shell.run(["echo"])
