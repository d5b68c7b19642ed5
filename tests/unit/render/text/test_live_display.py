"""The bars of a run on a terminal, frame by frame, and the lines above them.

REWRITE_TRANSCRIPTS=1 writes the stored frames anew.
"""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import pytest
from rich.console import Console
from rich.text import Text

from tests.sections import left_over, section
from tests.unit.execution.makers import create, destroy, power_on
from tests.unit.render import host_reports, host_samples, samples
from vgpu_cfg.changes.plan import Plan
from vgpu_cfg.changes.report import Event, EventKind, OutcomeStatus
from vgpu_cfg.render.layout.console import make_console
from vgpu_cfg.render.text.run.progress import LiveDisplay, PlainDisplay, log_line, make_display, tee

FRAMES = Path(__file__).with_name("frames.txt")
CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\r")
CLOCK = re.compile(r"\d\d:\d\d:\d\d")
TWO = host_samples.two_with_one_reboot()
VMS = samples.plan_of(create("a"), power_on("a"), create("b"), destroy("c", "vm-3"))


def event(kind: EventKind, change: int, seconds: float, **fields: object) -> Event:
    one = VMS.changes[change]
    made = {
        "kind": kind,
        "change_id": one.id,
        "subject": one.subject,
        "at": samples.READ_AT + timedelta(seconds=seconds),
    }
    return Event.model_validate(made | fields)


STARTED, TASK, PROGRESS, NOTE, ENDED = EventKind
OF_VMS = (
    event(STARTED, 0, 0),
    event(TASK, 0, 1, task="task-1"),
    event(PROGRESS, 0, 5, progress=40),
    event(PROGRESS, 0, 70, progress=None, message="copying"),
    event(NOTE, 0, 71, message="the server ignored it"),
    event(ENDED, 0, 75, status=OutcomeStatus.DONE),
    event(STARTED, 2, 76),
    event(PROGRESS, 2, 140, progress=7, message="waiting"),
    event(ENDED, 2, 141, status=OutcomeStatus.FAILED, message="create b: no room"),
    event(STARTED, 1, 142),
    event(ENDED, 1, 150, status=OutcomeStatus.DONE, message="as it was"),
    event(STARTED, 3, 151),
    event(TASK, 3, 152, task="task-2"),
    event(TASK, 3, 153, task="task-3"),
    event(ENDED, 3, 160, status=OutcomeStatus.DONE),
)
SKIPPED = event(ENDED, 0, 0, status=OutcomeStatus.SKIPPED, message="needs b")
RUNS: dict[str, tuple[Plan, Sequence[Event]]] = {
    "VMs": (VMS, OF_VMS),
    "a skipped change": (
        VMS,
        (event(ENDED, 0, 0, status=OutcomeStatus.SKIPPED, message="needs b"), *OF_VMS[6:9]),
    ),
    "what was so already": (VMS, (event(STARTED, 3, 0), event(ENDED, 3, 2, status=OutcomeStatus.NOT_NEEDED))),
    "hosts": (TWO, host_reports.events(host_reports.all_done(TWO))),
    "a host that fails": (TWO, host_reports.events(host_reports.failed_report(TWO))),
}


def terminal(kind: str = "xterm") -> tuple[Console, io.StringIO]:
    stream = io.StringIO()
    console = Console(
        file=stream,
        force_terminal=True,
        width=110,
        color_system=None,
        legacy_windows=False,
        _environ={"TERM": kind},
    )
    return console, stream


def frames_of(plan: Plan, events: Sequence[Event]) -> str:
    """Return what each event adds to the terminal; the clock goes with the events."""
    console, stream = terminal()
    now = [0.0]
    shown = []
    with LiveDisplay(console, plan, auto_refresh=False, get_time=lambda: now[0]) as display:
        for one in events:
            now[0] = (one.at - samples.READ_AT).total_seconds()
            stream.seek(0)
            stream.truncate()
            display(one)
            text = CLOCK.sub("HH:MM:SS", CONTROL.sub("", stream.getvalue()))
            lines = [line.rstrip() for line in text.split("\n") if line.strip()]
            shown.append("\n".join((f"-- {one.kind.value} {one.change_id}", *lines)))
    return "\n".join(shown)


def lines_of(plan: Plan, events: Sequence[Event]) -> str:
    stream = io.StringIO()
    with PlainDisplay(make_console(stream, width=110), plan) as display:
        for one in events:
            display(one)
        display.say("a remark")
    return CLOCK.sub("HH:MM:SS", stream.getvalue()).rstrip()


@pytest.mark.parametrize("name", RUNS)
def test_frames_are_as_they_are_stored(name: str) -> None:
    found = frames_of(*RUNS[name])
    assert found == section(FRAMES, name, found)


@pytest.mark.parametrize("name", RUNS)
def test_lines_are_as_they_are_stored(name: str) -> None:
    found = lines_of(*RUNS[name])
    assert found == section(FRAMES, f"lines of {name}", found)


def test_no_section_is_left_over() -> None:
    assert left_over(FRAMES, [*RUNS, *(f"lines of {name}" for name in RUNS)]) == []


def test_a_remark_stays_above_the_bars_and_the_terminal_can_be_lent() -> None:
    console, stream = terminal()
    with LiveDisplay(console, VMS, auto_refresh=False) as display:
        display.say("wait for it")
        before = len(stream.getvalue())
        with suppress(KeyError), display.aside():
            assert "\x1b[?25h" in stream.getvalue()[before:]
            raise KeyError
        assert "\x1b[?25l" in stream.getvalue().rpartition("\x1b[?25h")[2]
    assert "wait for it" in stream.getvalue()
    assert stream.getvalue().rpartition("\x1b[?25l")[2].count("\x1b[?25h") == 1


def test_a_terminal_has_bars_and_all_else_lines() -> None:
    assert isinstance(make_display(terminal()[0], VMS), LiveDisplay)
    assert isinstance(make_display(terminal("dumb")[0], VMS), PlainDisplay)
    assert isinstance(make_display(make_console(io.StringIO(), width=80), VMS), PlainDisplay)


def test_whose_stream_has_gone_hears_no_more() -> None:
    heard: list[str] = []

    def gone(one: Event) -> None:
        heard.append(f"gone {one.change_id}")
        raise BrokenPipeError

    hand_out = tee(gone, lambda one: heard.append(one.change_id))
    hand_out(OF_VMS[0])
    hand_out(OF_VMS[6])
    assert heard == ["gone create a", "create a", "create b"]


def test_the_line_of_an_event_has_the_colour_of_its_result() -> None:
    colours = {}
    for status in set(OutcomeStatus) - {OutcomeStatus.SKIPPED}:
        line = log_line(event(ENDED, 0, 1, status=status, message="create a: why"), "3 s")
        assert isinstance(line, Text)
        assert line.plain.split(maxsplit=1)[1] == "create a: why  3 s"
        colours[status] = [str(span.style) for span in line.spans]
    assert colours == {
        OutcomeStatus.DONE: ["green", "dim"],
        OutcomeStatus.FAILED: ["bold red", "dim"],
        OutcomeStatus.NOT_NEEDED: ["dim", "dim"],
    }
