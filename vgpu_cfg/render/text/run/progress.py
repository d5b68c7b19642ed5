"""A run in progress: bars per host and VM on a terminal, dated lines anywhere else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self

from rich.progress import BarColumn, Progress, ProgressColumn, Task, TaskID, TextColumn, TimeElapsedColumn
from rich.text import Text

from vgpu_cfg.changes.plan import Plan
from vgpu_cfg.changes.report import Event, EventKind, OutcomeStatus
from vgpu_cfg.model.wording import duration, shown
from vgpu_cfg.render.layout.console import print_lines, width_of
from vgpu_cfg.render.layout.lines import fold, harmless
from vgpu_cfg.render.views.run.timeline import TimeLeft, words_of

if TYPE_CHECKING:
    from rich.console import Console

_MINUTE = 60
_WORTH_TELLING_SECONDS = 10
_STYLES = {
    OutcomeStatus.DONE: "green",
    OutcomeStatus.NOT_NEEDED: "dim",
    OutcomeStatus.FAILED: "bold red",
}


class RunDisplay(Protocol):
    """Takes the events of a run; a context manager around it."""

    def __call__(self, event: Event) -> None: ...

    def say(self, text: str) -> None:
        """Show a remark, as on a first Ctrl-C."""
        ...

    def aside(self) -> AbstractContextManager[None]:
        """Free the terminal for another use for a while, as for a question."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


def make_display(console: Console, plan: Plan) -> RunDisplay:
    """Choose the display that the console can show."""
    if console.is_terminal and not console.is_dumb_terminal:
        return LiveDisplay(console, plan)
    return PlainDisplay(console, plan)


@dataclass(slots=True)
class _Tally:
    """How far a run is: changes ended of all, and when each began."""

    total: int
    ended: int = 0
    began: dict[str, datetime] = field(default_factory=dict)
    tasks: dict[str, int] = field(default_factory=dict)
    said: dict[str, str] = field(default_factory=dict)

    def take(self, event: Event) -> None:
        if event.kind is EventKind.STARTED:
            self.began[event.change_id] = event.at
        elif event.kind is EventKind.TASK:
            self.tasks[event.change_id] = self.tasks.get(event.change_id, 0) + 1
        elif event.kind is EventKind.ENDED:
            self.ended += 1

    def brief(self, event: Event) -> Event:
        """Return an event; a repeated message becomes a reference to the change that had it first."""
        if event.kind is not EventKind.ENDED or not event.message:
            return event
        text = event.message.removeprefix(f"{event.change_id}: ").replace(event.subject.name, "")
        first = self.said.setdefault(text, event.change_id)
        return event if first == event.change_id else event.model_copy(update={"message": f"as {first}"})

    def facts(self, event: Event) -> str:
        """Return how long a change took and its number of tasks, if it did anything."""
        parts = []
        if event.change_id in self.began:
            parts.append(duration((event.at - self.began[event.change_id]).total_seconds()))
        tasks = self.tasks.get(event.change_id, 0)
        if tasks:
            parts.append("1 task" if tasks == 1 else f"{tasks} tasks")
        return ", ".join(parts)


@dataclass(slots=True)
class _Left:
    """Says how long a run has left, once in so many seconds, since it is counted over all that is left."""

    time_left: TimeLeft
    every_seconds: float
    _said_at: datetime | None = None

    def words(self, event: Event) -> str:
        """Process an event; return the text to show after it, "" for nothing."""
        self.time_left.take(event)
        self._said_at = self._said_at or event.at
        if (event.at - self._said_at).total_seconds() < self.every_seconds:
            return ""
        self._said_at = event.at
        seconds = self.time_left.seconds(event.at)
        return "" if seconds is None else words_of(seconds)


class StepColumn(ProgressColumn):
    """The current step of a subject, and its duration if it is long."""

    def render(self, task: Task) -> Text:
        words = harmless(Text(task.description))
        since = task.fields.get("since")
        if since is not None and (seconds := task.get_time() - since) >= _WORTH_TELLING_SECONDS:
            words.append(f"  {duration(seconds)}", "dim")
        return words


class PlainDisplay:
    """One dated line for each change that began or ended, for each remark, and each minute of a long wait.

    One more each minute shows the time left, if it can be estimated from the steps so far.

    Its context is free of effect: nothing has to be set up or taken down.
    """

    def __init__(self, console: Console, plan: Plan) -> None:
        self._console = console
        self._tally = _Tally(len(plan.changes))
        self._told_at: dict[str, datetime] = {}
        self._left = _Left(TimeLeft(plan.changes), _MINUTE)

    def __call__(self, event: Event) -> None:
        self._tally.take(event)
        line = self._waiting(event) or log_line(self._tally.brief(event), self._tally.facts(event))
        if line is not None:
            self._told_at[event.change_id] = event.at
            self._print(event, line)
        left = self._left.words(event)
        if left and self._tally.ended < self._tally.total:
            self._print(event, Text(f"{'left':<8}{left}", "dim"))

    def _print(self, event: Event, line: Text) -> None:
        count = f"[{self._tally.ended}/{self._tally.total}]"
        print_lines(self._console, _dated(event, count, line, width_of(self._console)))

    def _waiting(self, event: Event) -> Text | None:
        """Show the duration of a step, if it was not mentioned for a minute."""
        reported = self._told_at.get(event.change_id)
        if event.kind is not EventKind.PROGRESS or reported is None:
            return None
        if (event.at - reported).total_seconds() < _MINUTE:
            return None
        said = f": {event.message}" if event.message else ""
        done = f" {event.progress} %" if event.progress is not None else ""
        line = Text.assemble((f"{'wait':<8}", "dim"), f"{event.change_id}{said}{done}")
        return line.append(f"  {self._tally.facts(event)}", "dim")

    def say(self, text: str) -> None:
        print_lines(self._console, [Text(text)])

    def aside(self) -> AbstractContextManager[None]:
        return nullcontext()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None


class LiveDisplay:
    """A bar and the step of each host or VM that is worked on, one for the whole, and lines of what ended.

    A subject counts as ended when all its changes have. `auto_refresh` is off in tests, and `get_time`
    returns the seconds from which the length of a step is computed.
    """

    def __init__(
        self,
        console: Console,
        plan: Plan,
        *,
        auto_refresh: bool = True,
        get_time: Callable[[], float] | None = None,
    ) -> None:
        self._console = console
        self._tally = _Tally(len(plan.changes))
        self._left: dict[str, int] = {}
        for change in plan.changes:
            self._left[change.subject.name] = self._left.get(change.subject.name, 0) + 1
        self._all = dict(self._left)
        self._removed = {change.subject.name for change in plan.changes if change.deletes}
        self._bars: dict[str, TaskID] = {}
        self._began: dict[str, datetime] = {}
        self._progress = Progress(
            TextColumn("{task.fields[name]}", markup=False),
            BarColumn(bar_width=24),
            TimeElapsedColumn(),
            StepColumn(),
            console=console,
            auto_refresh=auto_refresh,
            get_time=get_time,
            transient=True,
        )
        self._whole = self._progress.add_task("", name=shown(plan.name), total=max(1, len(plan.changes)))
        self._time_left = _Left(TimeLeft(plan.changes), _WORTH_TELLING_SECONDS)

    def __call__(self, event: Event) -> None:
        self._tally.take(event)
        left = self._time_left.words(event)
        if left:
            self._progress.update(self._whole, description=left)
        name = event.subject.name
        match event.kind:
            case EventKind.STARTED:
                self._began.setdefault(name, event.at)
                self._progress.update(self._bar(name, self._step(event)), since=self._progress.get_time())
            case EventKind.TASK:
                self._bar(name, f"{self._step(event)}  {event.task or ''}")
            case EventKind.PROGRESS:
                done = self._all[name] - self._left[name]
                self._progress.update(self._bar(name), completed=done + (event.progress or 0) / 100)
            case EventKind.NOTE:
                self._print(event)
            case EventKind.ENDED:
                self._end(event)
        self._progress.refresh()

    def say(self, text: str) -> None:
        print_lines(self._progress.console, [Text(text)])

    @contextmanager
    def aside(self) -> Iterator[None]:
        self._progress.stop()
        try:
            yield
        finally:
            self._progress.start()

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def _step(self, event: Event) -> str:
        """Say which step of its subject a change is: "5/6 reboot esx-01"."""
        name = event.subject.name
        all_steps = self._all[name]
        return f"{all_steps - self._left[name] + 1}/{all_steps} {event.change_id}"

    def _bar(self, name: str, description: str | None = None) -> TaskID:
        if name not in self._bars:
            self._bars[name] = self._progress.add_task("", name=shown(name), total=self._all[name])
        if description is not None:
            self._progress.update(self._bars[name], description=description)
        return self._bars[name]

    def _end(self, event: Event) -> None:
        name = event.subject.name
        self._left[name] -= 1
        self._progress.update(self._whole, completed=self._tally.ended)
        if event.status is OutcomeStatus.FAILED or event.message:
            self._print(event)
        if name in self._bars:
            self._progress.update(
                self._bars[name], completed=self._all[name] - self._left[name], description="", since=None
            )
        if self._left[name] == 0 and name in self._bars:
            self._progress.remove_task(self._bars.pop(name))
            if event.status is OutcomeStatus.DONE:
                took = duration((event.at - self._began[name]).total_seconds())
                word = "deleted" if name in self._removed else "ready"
                ended = Text.assemble((f"{word:<8}", "green"), name, (f"  {took}", "dim"))
                print_lines(self._progress.console, _dated(event, "", ended, width_of(self._console)))

    def _print(self, event: Event) -> None:
        line = log_line(self._tally.brief(event), self._tally.facts(event))
        if line is not None:
            print_lines(self._progress.console, _dated(event, "", line, width_of(self._console)))


def log_line(event: Event, facts: str = "") -> Text | None:
    """Say in one line what an event is; None for those that are only for bars."""
    match event.kind:
        case EventKind.STARTED:
            return Text(f"{'start':<8}{event.change_id}")
        case EventKind.TASK | EventKind.PROGRESS:
            return None
        case EventKind.ENDED if event.status is OutcomeStatus.SKIPPED:
            return None  # counted by reason at the end of the run
        case EventKind.NOTE:
            return Text.assemble((f"{'note':<8}", "cyan"), f"{event.change_id}: {event.message}")
        case EventKind.ENDED:
            status = event.status or OutcomeStatus.DONE
            word = {OutcomeStatus.FAILED: "FAILED", OutcomeStatus.NOT_NEEDED: "no-op"}.get(
                status, status.value
            )
            message = event.message.removeprefix(f"{event.change_id}: ")
            line = Text.assemble((f"{word:<8}", _STYLES[status]), event.change_id)
            if message:
                line.append(f": {message}")
            if facts:
                line.append(f"  {facts}", style="dim")
            return line


def _dated(event: Event, count: str, line: Text, width: int) -> list[Text]:
    start = (
        f"{event.at.astimezone():%H:%M:%S} {count:>7} " if count else f"{event.at.astimezone():%H:%M:%S}  "
    )
    first, *rest = fold(line, width - len(start), hang=8)
    margin = " " * len(start)
    return [Text.assemble((start, "dim"), first), *(Text(margin) + part for part in rest)]


OnEvent = Callable[[Event], None]


def tee(*takers: OnEvent) -> OnEvent:
    """Hand every event to several takers, as to the display and the journal.

    One whose stream has gone (a closed pipe) is left out from then on: a run goes on unseen.
    """
    listening = list(takers)

    def hand_out(event: Event) -> None:
        for taker in tuple(listening):
            try:
                taker(event)
            except OSError:
                listening.remove(taker)

    return hand_out
