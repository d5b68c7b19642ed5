from __future__ import annotations

import io
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from tests.unit.execution import makers
from vgpu_cfg.changes.plan import Plan
from vgpu_cfg.changes.report import Event, EventKind, OutcomeStatus
from vgpu_cfg.errors import DocumentError, DocumentFault, Interrupted, StalePlan
from vgpu_cfg.render.layout.console import make_console, plain, print_lines, width_of
from vgpu_cfg.render.text.errors import render_error
from vgpu_cfg.render.text.run.progress import LiveDisplay, PlainDisplay, log_line, make_display, tee

if TYPE_CHECKING:
    import pytest


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_what_is_no_terminal_gets_no_colour_and_lines_100_wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS")
    stream = io.StringIO()
    console = make_console(stream)
    print_lines(console, [Text("red", style="red"), Text("[not] :smile: markup  ")])
    assert stream.getvalue() == "red\n[not] :smile: markup\n"
    assert width_of(console) == 100


def test_columns_is_respected_within_60_and_200(monkeypatch: pytest.MonkeyPatch) -> None:
    for columns, width in (("40", 60), ("90", 90), ("300", 200)):
        monkeypatch.setenv("COLUMNS", columns)
        assert width_of(make_console(io.StringIO())) == width


def test_a_terminal_gets_colour_unless_it_is_declined(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    coloured = Terminal()
    print_lines(make_console(coloured), [Text("red", style="red")])
    assert "\x1b[31m" in coloured.getvalue()
    monkeypatch.setenv("NO_COLOR", "1")
    declined = Terminal()
    print_lines(make_console(declined), [Text("red", style="red")])
    assert "\x1b[31m" not in declined.getvalue()


def test_a_long_line_is_left_to_the_reader_not_wrapped() -> None:
    stream = io.StringIO()
    print_lines(make_console(stream, width=80), [Text("x" * 200)])
    assert stream.getvalue() == "x" * 200 + "\n"


def test_nothing_that_others_typed_moves_the_cursor_or_makes_a_line() -> None:
    typed = "a\nesx-02: given back\x1b[31m\u009b1A\u202e\u2028\ud800\u0085é字"
    stream = io.StringIO()
    print_lines(make_console(stream, width=80), [Text(typed, style="bold")])
    told = stream.getvalue()
    assert told == plain([Text(typed)])
    assert told.count("\n") == 1
    assert told.removesuffix("\n").isprintable()
    assert told.endswith("é字\n")


# ------------------------------------------------------------- errors


def test_an_error_is_three_lines() -> None:
    error = StalePlan("the VM hvd-01 no longer exists", subject="hvd-01", remedy="rerun the command")
    assert plain(render_error(error, 80)) == (
        "ERROR  the VM hvd-01 no longer exists\nWHERE  hvd-01\nDO     rerun the command\n"
    )


def test_a_line_with_nothing_to_say_is_left_out() -> None:
    assert plain(render_error(Interrupted("declined"), 80)) == "STOP   declined\n"


def test_a_long_error_hangs_under_its_label() -> None:
    assert plain(render_error(StalePlan("word " * 20), 80)) == (
        "ERROR  word word word word word word word word word word word word word word\n"
        "       word word word word word word\n"
    )


def test_every_fault_of_a_document_is_on_a_line_of_its_own() -> None:
    faults = [
        DocumentFault("plan.yaml", 13, 5, "unknown key 'x'"),
        DocumentFault("plan.yaml", 3, 1, "unknown key 'vm'", "did you mean 'vms'?"),
    ]
    assert plain(render_error(DocumentError(faults), 80)) == (
        "plan.yaml:3:1: unknown key 'vm' (did you mean 'vms'?)\n"
        "plan.yaml:13:5: unknown key 'x'\n"
        "ERROR  2 errors in plan.yaml\n"
        "DO     correct the file, then run the same command again\n"
    )
    assert plain(render_error(DocumentError(faults[:1]), 80)) == (
        "plan.yaml:13:5: unknown key 'x'\nDO     correct the file, then run the same command again\n"
    )


# ------------------------------------------------------------- displays


def events_of_a_run() -> tuple[Plan, list[Event]]:
    server = makers.estate()
    server.failures["create_vm", 2] = ("DuplicateName", "The name 'b' already exists.")
    changes = (makers.create("a"), makers.create("b"), makers.power_on("a"), makers.power_on("b"))
    _, events = makers.run(server, *changes, options={"wait_seconds": 5.0})
    return makers.plan_of(*changes), events


def test_a_terminal_gets_bars_and_anything_else_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    plan, _ = events_of_a_run()
    monkeypatch.setenv("TERM", "xterm")
    assert isinstance(make_display(make_console(Terminal()), plan), LiveDisplay)
    assert isinstance(make_display(make_console(io.StringIO()), plan), PlainDisplay)
    monkeypatch.setenv("TERM", "dumb")
    assert isinstance(make_display(make_console(Terminal()), plan), PlainDisplay)


def test_the_bars_leave_a_line_for_what_ended_and_what_failed() -> None:
    plan, events = events_of_a_run()
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=True, width=100, color_system=None, legacy_windows=False)
    with LiveDisplay(console, plan, auto_refresh=False) as display:
        for event in events:
            display(event)
        display.say("stopping")
    text = stream.getvalue()
    assert "FAILED  create b: The name 'b' already exists.  10 s, 1 task" in text
    assert "power on b" not in text  # what is skipped is counted at the end
    assert "ready   a  20 s" in text
    assert "stopping" in text


def test_only_what_began_ended_or_must_be_known_is_logged() -> None:
    _, events = events_of_a_run()
    silent = {(event.kind, event.status) for event in events if log_line(event) is None}
    assert silent == {
        (EventKind.TASK, None),
        (EventKind.PROGRESS, None),
        (EventKind.ENDED, OutcomeStatus.SKIPPED),
    }


def test_what_was_true_already_says_so() -> None:
    _, events = events_of_a_run()
    ended = next(event for event in events if event.status is OutcomeStatus.DONE)
    event = ended.model_copy(update={"status": OutcomeStatus.NOT_NEEDED, "message": "already running"})
    line = log_line(event)
    assert line is not None
    assert line.plain == "no-op   create a: already running"


def test_every_taker_gets_every_event() -> None:
    _, events = events_of_a_run()
    first: list[Event] = []
    second: list[Event] = []
    hand_out = tee(first.append, second.append)
    for event in events:
        hand_out(event)
    assert first == second == events


def test_a_display_whose_pipe_was_closed_does_not_end_the_run() -> None:
    _, events = events_of_a_run()
    kept: list[Event] = []

    def closed(_: Event) -> None:
        raise BrokenPipeError

    hand_out = tee(closed, kept.append)
    for event in events:
        hand_out(event)
    assert kept == events
