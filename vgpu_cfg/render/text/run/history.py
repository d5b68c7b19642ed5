"""Past runs and locks on a terminal: a table, the newest run first, one run with its steps, and lock owners.

Locks are shown by the runs that hold some, one run with all that it has, and as the removed ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.text import Text

from vgpu_cfg.model.locks import KeptFreeze, Lock, Locks
from vgpu_cfg.model.ranges import fold_names
from vgpu_cfg.model.wording import as_counted, counted, duration
from vgpu_cfg.render.layout.lines import (
    Cell,
    Column,
    abridged_runs,
    both_ends,
    hanging,
    table,
    table_on_a_screen,
)
from vgpu_cfg.render.layout.most import MOST_LINES
from vgpu_cfg.render.views.run.run_steps import RunRow, StepDone, moment_text

_COLUMNS = (
    Column("STARTED"),
    Column("COMMAND"),
    Column("PLAN", is_flexible=True),
    Column("USER", is_flexible=True),
    Column("RESULT", is_flexible=True),
    Column("DURATION", is_right=True, drop=2),
    Column("CHANGE", is_flexible=True),
    Column("RUN"),
    Column("SOURCE", is_flexible=True, drop=1),
)
_STEPS = (
    Column("", is_right=True),
    Column("STEP", is_flexible=True),
    Column("RESULT", is_flexible=True),
    Column("STARTED", drop=1),
    Column("DURATION", is_right=True),
)
_STYLES = {"done": "green", "failed": "bold red", "waiting": "magenta", "stopped": "yellow", "": "yellow"}

_LOCKS_COLUMNS = (
    Column("RUN"),
    Column("COMMAND"),
    Column("USER", is_flexible=True),
    Column("SINCE", drop=1),
    Column("LAST ACTIVE", is_flexible=True),
    Column("LOCKED", is_flexible=True),
)

_IN_JSON = "--output json lists all"
_SAME_KIND = 6
"""The names of so many locks of a kind are listed, of more their ranges, and at most so many of those."""


def render_history(
    rows: Sequence[RunRow], width: int, *, server: str, notes: Sequence[str], with_all: bool = False
) -> list[Text]:
    """Lay runs out, the newest first as they are given; without `with_all`, as many as fit a screen."""
    where = server or "any vCenter"
    if not rows:
        return [*hanging("RUNS", f"no known runs on {where}", width, indent=0), *_notes(notes, width)]
    head = both_ends(Text(counted(len(rows), "run"), "bold"), Text(f"{where}, newest first", "dim"), width)
    cells, rest = [_cells(row) for row in rows], _notes(notes, width)
    if with_all:
        return [*head, *table(_COLUMNS, cells, width), *rest]
    room = MOST_LINES - len(head) - len(rest)
    return [*head, *table_on_a_screen(_COLUMNS, cells, width, room, "run"), *rest]


def render_run(
    row: RunRow,
    steps: Sequence[StepDone] | None,
    width: int,
    *,
    notes: Sequence[str],
    journal: str,
    with_all: bool = False,
) -> list[Text]:
    """Lay one run out; `steps` is None where no journal of it is within reach.

    Without `with_all`, steps fill a screen, and those that were not done are not left out for others.
    """
    took = "" if row.seconds is None else f", {duration(row.seconds)}"
    ended = moment_text(row.ended_at) + took if row.ended_at else ""
    account = f", as {row.account}" if row.account and row.account != row.who else ""
    tasks = f", {counted(row.tasks, 'task')}" if row.tasks else ""
    facts = {
        "plan": " ".join(part for part in (row.plan, row.digest) if part),
        "user": row.who + account,
        "change": row.occasion.text,
        "started": moment_text(row.began_at) if row.began_at else "",
        "ended": ended,
        "result": row.result_text + tasks,
        "source": f"{', '.join(row.known_from)}",
    }
    lines = [Text.assemble((f"run {row.run}", "bold"), f"  {row.command}".rstrip())]
    for label, text in facts.items():
        lines += hanging(label, text, width) if text else []
    if steps is None:
        reason = "the steps are in a journal that is not accessible from this machine"
        lines += hanging("NOTE", reason, width, indent=0, label_width=6)
    rest = _notes(notes, width)
    if journal:
        rest += [Text(""), *hanging("LOG", journal, width, indent=0, label_width=6, style="dim")]
    if not steps:
        return [*lines, *rest]
    cells = [_step_cells(step) for step in steps]
    if with_all:
        return [*lines, Text(""), *table(_STEPS, cells, width), *rest]
    undone = [index for index, step in enumerate(steps) if not step.is_done]
    room = MOST_LINES - len(lines) - 1 - len(rest)
    return [*lines, Text(""), *table_on_a_screen(_STEPS, cells, width, room, "step", first=undone), *rest]


def _cells(row: RunRow) -> list[Cell]:
    began = row.began_at or row.ended_at
    return [
        f"{began.astimezone():%Y-%m-%d %H:%M}" if began else "",
        row.command,
        row.plan,
        row.who,
        Text(row.result_text, _STYLES.get(row.result, "")),
        "" if row.seconds is None else duration(row.seconds),
        row.occasion.text,
        row.short_id,
        ", ".join(row.known_from),
    ]


def _step_cells(step: StepDone) -> list[Cell]:
    style = "bold red" if step.result == "FAILED" else ""
    return [str(step.number), step.title, Text(step.result, style), step.began, step.took]


def _notes(notes: Sequence[str], width: int) -> list[Text]:
    return [line for note in notes for line in hanging("NOTE", note, width, indent=0, label_width=6)]


def render_locks(found: Locks, width: int, *, server: str) -> list[Text]:
    """Lay out all runs that hold locks, then the locks that name no run, and the freeze."""
    unknown = [line for lock in found.unknown[:_SAME_KIND] for line in _without_run(lock, width)]
    if (more := len(found.unknown) - _SAME_KIND) > 0:
        text = f"{more} more without a run ID ({_IN_JSON})"
        unknown += hanging("LOCKS", text, width, indent=0)
    unknown += render_freezes(found, width) if found.freeze is not None else []
    if not found.runs:
        return unknown or hanging("LOCKS", f"no run holds locks on {server}", width, indent=0)
    head = both_ends(
        Text(counted(len(found.runs), "run"), "bold"),
        Text(f"{server}, times according to vCenter's clock", "dim"),
        width,
    )
    cells = [_locks_cells(found, run) for run in found.runs]
    room = MOST_LINES - len(head) - len(unknown)
    rows = table_on_a_screen(_LOCKS_COLUMNS, cells, width, room, "run", hint=_IN_JSON)
    return [*head, *rows, *unknown]


def render_freezes(found: Locks, width: int) -> list[Text]:
    """Lay out the freezes of a vCenter, with account, end and reason, and the runs that continue."""
    lines: list[Text] = []
    for kept in found.freezes:
        is_on = kept.is_on(found.now)
        lines += hanging("FROZEN" if is_on else "ENDED", kept.words, width, indent=0, style="bold" * is_on)
    for run in found.runs if found.freeze is not None else ():
        words = f"run {run} of {found.of_run(run)[0].holder} holds locks; if still active, it may finish"
        lines += hanging("RUN", words, width, indent=0)
    return lines


def render_thawed(ended: Sequence[KeptFreeze], width: int) -> list[Text]:
    """Say which freezes were ended."""
    if not ended:
        return [Text("Nothing to do: not frozen.")]
    told = (kept.words if kept.freeze is None else f"it was frozen {kept.words}" for kept in ended)
    return [line for words in told for line in hanging("THAWED", words, width, indent=0)]


def render_run_locks(found: Locks, run: str, width: int) -> list[Text]:
    """Lay out what one run has locked."""
    held = found.of_run(run)
    holder = held[0].holder
    lines = [Text.assemble((f"run {run}", "bold"), f"  {holder.command if holder else ''}".rstrip())]
    facts = {
        "plan": holder.plan if holder else "",
        "user": f"{holder.user} on {holder.machine}, process {holder.pid}" if holder else "",
        "account": held[0].account,
        "since": moment_text(holder.since) if holder else "",
        "active": f"{moment_text(found.beat_of(run))}, {_heard(found, run)}",
        "locked": _names(held),
    }
    for label, text in facts.items():
        lines += hanging(label, text, width) if text else []
    return lines


def render_removed(gone: Sequence[Lock], width: int) -> list[Text]:
    """List the removed locks, and the next step."""
    holder = gone[0].holder if gone else None
    count = len({str(lock.name) for lock in gone})  # a plan's name and its id are one for people
    text = f"{counted(count, 'lock')}: {_names(gone)}" if gone else "none: the locks had already been removed"
    lines = hanging("REMOVED", text, width, indent=0, label_width=8)
    if holder is not None and holder.plan:
        again = f"to continue that run, rerun `vgpu-cfg {holder.command}` for {holder.plan}"
        lines += hanging("NEXT", again, width, indent=0, label_width=8)
    return lines


def _without_run(lock: Lock, width: int) -> list[Text]:
    changed = f"last changed by {lock.account or 'an unknown user'}, {moment_text(lock.beat_at)}"
    text = f"{lock.name} is locked, but the lock does not contain a run ID ({changed})"
    lines = hanging("LOCKS", text, width, indent=0)
    return lines + hanging("do", f"remove the alarm {lock.name.text!r} in vCenter", width, indent=9)


def _locks_cells(found: Locks, run: str) -> list[Cell]:
    held = found.of_run(run)
    holder = held[0].holder
    if holder is None:
        return [run, "", "", "", "", _names(held)]
    return [
        run,
        f"{holder.command} of {holder.plan}" if holder.plan else holder.command,
        f"{holder.user} on {holder.machine}",
        moment_text(holder.since),
        _heard(found, run),
        _names(held),
    ]


def _heard(found: Locks, run: str) -> str:
    ago = f"{duration((found.now - found.beat_of(run)).total_seconds())} ago"
    return f"{ago} (no longer responding)" if found.is_silent(run) else ago


def _names(locks: Iterable[Lock]) -> str:
    """Name locks, many of a kind by their ranges: "plan train, 300 hosts: esx-{001..300}"."""
    kinds: dict[str, dict[str, None]] = {}
    for lock in locks:
        kind, _, label = str(lock.name).partition(" ")
        kinds.setdefault(kind, {})[label] = None
    parts = []
    for kind, labels in kinds.items():
        if len(labels) <= _SAME_KIND:
            parts += [f"{kind} {label}" for label in labels]
        else:
            folded = fold_names(sorted(labels, key=as_counted))
            cut = abridged_runs(folded, _SAME_KIND, f"{kind}s")
            parts.append(f"{counted(len(labels), kind)}: {folded}" if cut == folded else cut)
    return ", ".join(parts)
