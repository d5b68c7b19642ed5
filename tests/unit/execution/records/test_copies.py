"""Copies of a journal: in a folder and to syslog as it is written, and never in the way of the run."""

from __future__ import annotations

import re
import socket
import threading
from pathlib import Path

import pytest

from tests.fakes.fake_locks import undisputed
from tests.fakes.fake_vcenter import START
from tests.unit.execution.makers import create, estate, plan_of, power_on
from vgpu_cfg.execution import FolderSink, Journal, JournalCopy, Run, SyslogSink, read_journal
from vgpu_cfg.execution.records import copies
from vgpu_cfg.model.runs import RunEntry, RunResult

ENTRY = RunEntry(run="5eed5eed5eed", at=START, command="apply", plan="demo")
RFC_5424 = re.compile(r"<14>1 \d{4}-\d\d-\d\dT[\d:.]+\+00:00 \S+ vgpu-cfg \d+ (\S+) - (.*)", re.DOTALL)


def keep(folder: Path, *made: JournalCopy) -> Journal:
    """Run two changes with a journal and copies of it."""
    server = estate()
    plan = plan_of(create("a"), power_on("a"))
    with Journal.begin(folder, plan, ENTRY, lambda _stem: made) as journal:
        journal.record_entry("began", ENTRY)
        journal.record_report(
            Run(plan, server, server, server, locks=undisputed(), on_event=journal.record_event).carry_out()
        )
        journal.record_entry("ended", ENTRY.model_copy(update={"result": RunResult.DONE}))
    return journal


def test_a_folder_gets_the_same_journal_readable_for_others(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    journal = keep(tmp_path / "own", JournalCopy(FolderSink(shared, "demo-x")))
    assert journal.problems == []
    assert (shared / "demo-x.jsonl").read_text() == journal.path.read_text()
    assert read_journal(shared / "demo-x.jsonl").report is not None


def test_two_machines_write_two_files_of_one_name(tmp_path: Path) -> None:
    for _ in range(2):
        keep(tmp_path / "own", JournalCopy(FolderSink(tmp_path, "demo-x")))
    assert (tmp_path / "demo-x.jsonl").exists()
    assert (tmp_path / "demo-x-2.jsonl").exists()


def test_a_folder_that_is_not_there_is_told_and_not_made(tmp_path: Path) -> None:
    away = tmp_path / "not-mounted"
    journal = keep(tmp_path / "own", JournalCopy(FolderSink(away, "demo-x")))
    assert journal.problems == [f"cannot copy the journal to {away}: No such file or directory"]
    assert not away.exists()
    assert read_journal(journal.path).report is not None


def test_the_copy_goes_on_where_the_own_journal_cannot_be_kept(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    journal = keep(tmp_path / "file" / "own", JournalCopy(FolderSink(tmp_path, "demo-x")))
    assert len(journal.problems) == 1
    assert read_journal(tmp_path / "demo-x.jsonl").report is not None


class _Hanging:
    """A share that does not answer until it is let."""

    place = "/mnt/hangs"

    def __init__(self) -> None:
        self.is_let = threading.Event()

    def open(self) -> None:
        self.is_let.wait(60)

    def write(self, kind: str, line: str) -> None:
        raise AssertionError((kind, line))

    def close(self) -> None:
        """Let go of nothing."""


def test_a_share_that_hangs_delays_no_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copies, "OPENING_SECONDS", 0.01)
    hanging = _Hanging()
    journal = keep(tmp_path, JournalCopy(hanging))
    assert journal.problems == ["cannot copy the journal to /mnt/hangs: no response"]
    assert read_journal(journal.path).report is not None
    hanging.is_let.set()


def received(text: str) -> list[tuple[str, str]]:
    """Return the kind and the words of a message; it must be one of RFC 5424."""
    found = RFC_5424.fullmatch(text)
    assert found, text
    return [(found[1], found[2])]


@pytest.mark.allow_hosts(["127.0.0.1"])
def test_syslog_gets_a_message_for_each_step_over_udp(tmp_path: Path) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 0))
        server.settimeout(5)
        journal = keep(tmp_path, JournalCopy(SyslogSink("udp", "127.0.0.1", server.getsockname()[1])))
        told = [received(server.recv(4096).decode())[0] for _ in range(8)]
    assert journal.problems == []
    assert [kind for kind, _ in told] == ["began", *["event"] * 6, "ended"]
    assert told[0][1] == ENTRY.text
    assert '"change_id": "create a"' in told[1][1]
    assert "ended: done" in told[-1][1]


@pytest.mark.allow_hosts(["127.0.0.1"])
def test_over_tcp_each_message_is_a_line(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        copy = JournalCopy(SyslogSink("tcp", "127.0.0.1", server.getsockname()[1]))
        client, _ = server.accept()
        with client, client.makefile("r", encoding="utf-8") as stream:
            assert keep(tmp_path, copy).problems == []
            told = [received(line.rstrip("\n"))[0] for line in stream]
    assert [kind for kind, _ in told] == ["began", *["event"] * 6, "ended"]


def test_the_machines_own_syslog_is_a_socket(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as server:
        server.bind(str(path))
        assert keep(tmp_path, JournalCopy(SyslogSink("unix", str(path), 0))).problems == []
        assert received(server.recv(4096).decode())[0][0] == "began"


@pytest.mark.allow_hosts(["127.0.0.1"])
@pytest.mark.parametrize(("way", "words"), [("tcp", "Connection refused"), ("unix", "No such file")])
def test_a_server_that_is_not_there_is_told(way: str, words: str, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        free = server.getsockname()[1]
    sink = (
        SyslogSink("tcp", "127.0.0.1", free) if way == "tcp" else SyslogSink("unix", str(tmp_path / "no"), 0)
    )
    journal = keep(tmp_path, JournalCopy(sink))
    assert len(journal.problems) == 1
    assert words in journal.problems[0]
    assert "syslog at" in journal.problems[0]
