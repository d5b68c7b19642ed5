"""Each run of these tests as a stored text: events, writes, tasks, outcomes and errors, word by word.

`transcripts.txt` has a section for each test, `errors.txt` one for each with errors; REWRITE_TRANSCRIPTS=1
writes them anew. A test without a section is not compared, so write one for a new test. Tests of very many
runs have none.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import wraps
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.fake_guests import FakeGuests, FakeGuestShell
from tests.fakes.fake_hosts import FakeHosts, FakeShell
from tests.fakes.fake_vcenter import FakeVCenter
from tests.sections import has_section, is_rewriting, section
from tests.value_text import text_of
from vgpu_cfg.changes.report import Event, EventKind, Outcome, Report
from vgpu_cfg.errors import VgpuCfgError
from vgpu_cfg.execution import Run
from vgpu_cfg.ports import ChangeWriter, HostWriter

FILE = Path(__file__).with_name("transcripts.txt")
ERRORS = Path(__file__).with_name("errors.txt")
LONGEST, LONGEST_LINE = 6000, 700
READS = {"wait_for_tasks", "read_image_task", "running_image_tasks", "close"}
WRITES = {name for port in (ChangeWriter, HostWriter) for name in vars(port) if name[0] != "_"} - READS
WRITERS: dict[type[Any], set[str]] = {
    FakeVCenter: WRITES & vars(FakeVCenter).keys(),
    FakeHosts: WRITES & vars(FakeHosts).keys(),
    FakeShell: {"run"},
    FakeGuestShell: {"run", "start", "write_file"},
    FakeGuests: {"former_host_key"},
}
"""The methods by which the fakes are written to."""
UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
DIGEST = re.compile(r"(?<=-)[0-9a-f]{8}(?=-\d{8}T)")


@pytest.fixture(autouse=True)
def told(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Compare what the runs of a test said with its section."""
    said: list[str] = []
    carry_out = Run.carry_out

    def recorded(run: Run) -> Report:
        def tell(event: Event) -> None:
            said.append(event_text(event))
            run.on_event(event)

        try:
            report = carry_out(replace(run, on_event=tell))
        except VgpuCfgError as error:
            said.append(error_text(error))
            raise
        finally:
            if isinstance(run.writer, FakeVCenter):
                said.append(f"calls: {calls_text(run.writer.calls)}")
        said.append(report_text(report))
        return report

    monkeypatch.setattr(Run, "carry_out", recorded)
    for kind, names in WRITERS.items():
        for name in names:
            monkeypatch.setattr(kind, name, noting(getattr(kind, name), said))
    yield
    name = request.node.nodeid.removeprefix("tests/unit/execution/")
    text = "\n".join(one for one in said if one).replace(str(tmp_path), "TMP")
    text = re.sub(" +\n", "\n", UUID.sub("UUID", text)).strip()
    if (is_rewriting() and 0 < len(text) < LONGEST) or has_section(FILE, name):
        assert text == section(FILE, name, text)


@pytest.fixture(autouse=True)
def errors(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Compare each error that a test comes to, with its subject and remedy, with its section."""
    made: dict[str, None] = {}
    make = VgpuCfgError.__init__

    def noted(error: VgpuCfgError, *args: Any, **fields: Any) -> None:
        make(error, *args, **fields)
        words = f"{type(error).__name__}: {error.message} | {error.subject} | {error.remedy}"
        made[DIGEST.sub("DIGEST", UUID.sub("UUID", words)).replace(str(tmp_path), "TMP")] = None

    monkeypatch.setattr(VgpuCfgError, "__init__", noted)
    yield
    name, text = request.node.nodeid.removeprefix("tests/unit/execution/"), "\n".join(made)
    if (is_rewriting() and 0 < len(text) < LONGEST) or has_section(ERRORS, name):
        assert text == section(ERRORS, name, text)


def noting(method: Callable[..., Any], said: list[str]) -> Callable[..., Any]:
    """Return a method of a fake that also notes with what it was called."""

    @wraps(method)
    def noted(fake: Any, *args: Any, **named: Any) -> Any:
        words = [
            method.__name__,
            *map(text_of, args),
            *(f"{key} {text_of(one)}" for key, one in named.items()),
        ]
        said.append(UUID.sub("UUID", " ".join(" | ".join(words).split()))[:LONGEST_LINE])
        return method(fake, *args, **named)

    return noted


def calls_text(calls: Iterable[tuple[str, str]]) -> str:
    """List calls of vCenter, those in a row that are the same as one."""
    groups = ((" ".join(call), len(list(same))) for call, same in groupby(calls))
    return "; ".join(f"{words} ({count} times)" if count > 1 else words for words, count in groups)


def event_text(event: Event) -> str:
    if event.kind in (EventKind.STARTED, EventKind.PROGRESS):
        return ""
    words = (event.kind.value, event.change_id, event.task or "", event.status or "", event.message)
    return ": ".join(word for word in words if word)


def error_text(error: VgpuCfgError) -> str:
    return "\n".join((type(error).__name__, *rows(message=error.message, of=error.subject, do=error.remedy)))


def report_text(report: Report) -> str:
    lines = [line for outcome in report.outcomes for line in outcome_lines(outcome)]
    lines += rows(
        left="; ".join(map(str, report.left_behind)),
        waiting="; ".join(report.waiting_for),
        put_off="; ".join(report.put_off),
        canaries="; ".join(map(str, report.canaries)),
    )
    if report.rollback is not None:
        lines += ["rollback", *(line for one in report.rollback.outcomes for line in outcome_lines(one))]
    return "\n".join(lines)


def outcome_lines(outcome: Outcome) -> list[str]:
    head = " ".join((outcome.status, outcome.change_id, *outcome.tasks))
    readings = "; ".join(
        f"{one.setting} {one.device} {one.wanted} {one.configured} {one.runtime} {one.waits_for}"
        for one in outcome.readings
    )
    told = rows(message=outcome.message, cause=outcome.cause, do=outcome.remedy, readings=readings)
    return [head, *told]


def rows(**values: Any) -> list[str]:
    return [f"  {key}: {value}" for key, value in values.items() if value]
