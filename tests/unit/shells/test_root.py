"""The shell with root's rights on a real POSIX shell of this machine: what it writes, reads and refuses."""

from __future__ import annotations

import shlex
import stat
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from vgpu_cfg.errors import GuestError, GuestNotReady
from vgpu_cfg.shells.channel import Executed
from vgpu_cfg.shells.root import RootShell


class LocalChannel:
    """Runs lines in /bin/sh here. `cuts` takes bytes off what comes in, `breaks` loses the connection."""

    def __init__(self, cuts: int = 0, *, breaks: bool = False) -> None:
        self.lines: list[str] = []
        self.started: list[str] = []
        self.cuts = cuts
        self.breaks = breaks

    def execute(self, line: str, timeout_seconds: float, stdin: bytes = b"") -> Executed:
        if self.breaks:
            raise GuestNotReady("the connection broke", subject="vgpu-cfg@10.0.0.5", remedy="see")
        self.lines.append(line)
        given = stdin[: len(stdin) - self.cuts] if stdin else stdin
        done = subprocess.run(
            ["/bin/sh", "-c", line], input=given, capture_output=True, check=False, timeout=120
        )
        return Executed(done.returncode, done.stdout, done.stderr)

    def start(self, prefix: Sequence[str], words: Sequence[str]) -> None:
        self.started.append(shlex.join([*prefix, *words]))

    def close(self) -> None:
        self.lines.append("closed")


@pytest.fixture
def channel() -> LocalChannel:
    return LocalChannel()


@pytest.fixture
def shell(channel: LocalChannel) -> RootShell:
    return RootShell(channel, "hvd-01", "root")


STRANGE = ["with blanks", "it's", '"quoted"', "$(touch owned)", "`id`", "a;b", "two\nlines", "%s", "-n", ""]


def test_arguments_arrive_as_they_were_given(shell: RootShell) -> None:
    result = shell.run(["printf", r"%s\037", *STRANGE])
    assert result.stdout == "".join(f"{word}\037" for word in STRANGE)


def test_input_status_and_both_streams(shell: RootShell) -> None:
    result = shell.run(["sh", "-c", "cat; echo err >&2; exit 7"], stdin=b"in")
    assert (result.status, result.stdout, result.stderr) == (7, "in", "err\n")


def test_a_user_who_is_not_root_goes_through_sudo(channel: LocalChannel) -> None:
    RootShell(channel, "hvd-01", "vgpu-cfg").run(["true"])
    assert channel.lines == ["sudo -n -- true"]


def test_a_user_who_may_not_become_root_is_told_how(
    channel: LocalChannel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(GuestError, match="anna cannot become root") as caught:
        RootShell(channel, "hvd-01", "anna").check_rights()
    assert "anna ALL=(ALL) NOPASSWD: ALL" in caught.value.remedy


NAMES = ["plain", "with blanks", "it's", "$(touch owned)", "-n", "a;b", "two\nlines", "%d", "ümläut"]


@pytest.mark.parametrize("name", NAMES)
def test_a_file_arrives_whole_under_any_name(shell: RootShell, tmp_path: Path, name: str) -> None:
    content = bytes(range(256)) * 700
    path = tmp_path / "made" / name
    shell.write_file(str(path), content, 0o640)
    assert path.read_bytes() == content
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert shell.read_file(str(path)) == content
    assert [found.name for found in path.parent.iterdir()] == [name]


@pytest.mark.parametrize("content", [b"", b"\n", b"no newline"])
def test_small_and_empty_files(shell: RootShell, tmp_path: Path, content: bytes) -> None:
    shell.write_file(str(tmp_path / "file"), content, 0o600)
    assert shell.read_file(str(tmp_path / "file")) == content


def test_a_folder_made_for_a_secret_is_open_to_nobody_else(shell: RootShell, tmp_path: Path) -> None:
    shell.write_file(str(tmp_path / "open" / "file"), b"x", 0o644)
    shell.write_file(str(tmp_path / "var" / "secrets" / "token"), b"x", 0o600)
    modes = [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("open", "var", "var/secrets")]
    assert modes == [0o755, 0o755, 0o700]


def test_what_is_secret_stands_on_no_command_line(
    channel: LocalChannel, shell: RootShell, tmp_path: Path
) -> None:
    shell.write_file(str(tmp_path / "token"), b"correct horse", 0o600)
    assert not [line for line in channel.lines if "correct" in line]


def test_a_file_that_stood_there_is_replaced_by_a_whole_one_or_stays(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("before", encoding="ascii")
    with pytest.raises(GuestError, match="only partly transferred"):
        RootShell(LocalChannel(cuts=3), "hvd-01", "root").write_file(str(path), b"something new", 0o600)
    assert path.read_text(encoding="ascii") == "before"
    assert not list(tmp_path.glob("file.*"))


def test_a_folder_in_the_way_of_a_file(shell: RootShell, tmp_path: Path) -> None:
    (tmp_path / "file").mkdir()
    with pytest.raises(GuestError, match="cannot write"):
        shell.write_file(str(tmp_path / "file"), b"x", 0o600)
    assert list((tmp_path / "file").iterdir()) == []


def test_a_file_that_is_not_there_is_none_and_one_that_cannot_be_read_is_an_error(
    shell: RootShell, tmp_path: Path
) -> None:
    assert shell.read_file(str(tmp_path / "absent")) is None
    with pytest.raises(GuestError, match="cannot read"):
        shell.read_file(str(tmp_path))


def test_a_broken_connection_says_what_was_being_done_and_may_pass(tmp_path: Path) -> None:
    shell = RootShell(LocalChannel(breaks=True), "hvd-01", "root")
    with pytest.raises(GuestNotReady, match=r"^writing /x: the connection broke$") as caught:
        shell.write_file("/x", b"correct horse", 0o600)
    assert caught.value.subject == "vgpu-cfg@10.0.0.5"


def test_what_no_command_line_can_carry_is_refused(shell: RootShell) -> None:
    with pytest.raises(GuestError, match="NUL"):
        shell.run(["echo", "a\0b"])


def test_a_command_is_begun_with_roots_rights(channel: LocalChannel) -> None:
    shell = RootShell(channel, "hvd-01", "vgpu-cfg")
    shell.start(["/usr/local/sbin/vgpu-cfg-stage", "--run", "it's"])
    shell.close()
    assert channel.started == ["sudo -n -- /usr/local/sbin/vgpu-cfg-stage --run 'it'\"'\"'s'"]
    assert channel.lines == ["closed"]
