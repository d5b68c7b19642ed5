"""The end of a run on a terminal: hosts and VMs, failures, rollback, emptied hosts, the next command."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from rich.text import Text

from vgpu_cfg.changes.by_hand import command
from vgpu_cfg.changes.change import Change, ManualStep
from vgpu_cfg.changes.plan import Plan
from vgpu_cfg.changes.report import Outcome, OutcomeStatus, Report, Rollback, in_place
from vgpu_cfg.model.observed.inventory import Host, Inventory
from vgpu_cfg.model.ranges import fold_names
from vgpu_cfg.model.wording import counted, duration
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.vms.lookup.moving import running_vms
from vgpu_cfg.render.layout.lines import (
    Cell,
    Column,
    abridged,
    both_ends,
    fold,
    fold_alike,
    hanging,
    table,
    table_rows,
    without_domain,
)
from vgpu_cfg.render.layout.most import USUAL, Most, first_screen, foremost, others
from vgpu_cfg.render.text.plan.findings import render_findings
from vgpu_cfg.render.text.status import GUEST_COLUMN, VM_COLUMNS, guest_text, node_text, state_text
from vgpu_cfg.render.views.estate.inventory import profile_text
from vgpu_cfg.render.views.run.run_steps import (
    HostResult,
    ResultRow,
    host_rows,
    is_settled,
    left_lines,
    other_left_behind,
    reading_text,
    result_rows,
    run_counts,
    run_verdict,
    seconds_of,
    standing_text,
)

_COLUMNS = (
    *VM_COLUMNS,
    Column("TASKS", is_right=True, drop=1),
    Column("TIME", is_right=True),
)
_MOST_FAILURES = 10
_MOST_SKIPPED = 8
_MANY_STEPS = 3
_VERDICT_STYLES = {"STOPPED": "yellow", "FAILED": "red", "WAITING": "magenta", "DONE": "green"}
_HOSTS_COLUMNS = (
    Column("HOST", is_flexible=True),
    Column("STATE"),
    Column("SET", is_right=True),
    Column("REBOOTS", is_right=True),
    Column("COLD BOOTS", is_right=True),
    Column("VERIFIED", is_flexible=True),
    Column("TIME", is_right=True),
)


def render_summary(  # noqa: PLR0913 - what was done, and each command that may come after it
    plan: Plan,
    report: Report,
    width: int,
    *,
    after: Inventory | None = None,
    journal: str = "",
    next_command: str = "",
    check_command: str = "",
    prove_command: str = "",
    undo_command: str = "",
) -> list[Text]:
    """Lay out the end of a run.

    `after` is a reading made after it, from which the table takes host, GPU and node. `check_command` shows
    that a whole run is whole, `next_command` goes on with a partial one. `prove_command` tests the guests
    that were staged, `undo_command` removes the VMs that a rollback left.
    """
    changes = {change.id: change for change in plan.changes}
    hosts_done = host_rows(plan, report, after)
    rows = [row for row in result_rows(plan, report, after) if row.status is not OutcomeStatus.SKIPPED]

    def rendered(most: Most) -> list[Text]:
        lines = _head(plan, report, width)
        lines += render_hosts(hosts_done, width, most)
        if rows:
            first, others_left = foremost(rows, _is_as_planned, most)
            hosts = without_domain(row.vm.host for row in first if row.vm is not None)
            gone = {
                outcome.subject.name
                for outcome in report.outcomes
                if changes[outcome.change_id].deletes and outcome.status.is_in_place
            } | set(report.rollback.gone if report.rollback is not None else ())
            lines += [Text("")] if hosts_done else []
            has_guests = any(row.vm is not None and row.vm.guest is not None for row in first)
            columns = (*_COLUMNS[:-2], GUEST_COLUMN, *_COLUMNS[-2:]) if has_guests else _COLUMNS
            cells = [_cells(row, hosts, gone, with_guest=has_guests) for row in first]
            lines += table(columns, cells, width)
            states = (row.vm.word if row.vm is not None else row.status.value for row in others_left)
            lines += others("VMs", states, width, where="in the journal")
        standing = standing_text(plan, report, hosts_done)
        if standing:
            lines += [Text(""), *(Text("  ") + part for part in fold(Text(standing), width - 2))]
        lines += _failures(report.failed, plan, width, most)
        lines += _skipped(report, width, most)
        waiting = report.waiting_for[: most.rows]
        for change_id in waiting:
            lines += [Text(""), *_manual_step(changes[change_id], plan, next_command, width)]
        if left := report.waiting_for[len(waiting) :]:
            names = abridged((changes[change_id].subject.name for change_id in left), most.runs)
            lines += [Text(""), *fold(Text(f"and {counted(len(left), 'more manual step')}: {names}"), width)]
        left_behind = other_left_behind(report, hosts_done)
        if left_behind:
            lines += [Text("")]
            for index, text in enumerate(left_behind):
                lines += hanging(
                    "LEFT" if index == 0 else "", text, width, indent=0, label_width=6, style="bold yellow"
                )
        lines += _canaries(report, width)
        lines += render_rollback(report.rollback, width, undo_command=undo_command)
        is_waiting = bool(report.waiting_for or report.put_off)
        is_whole = not report.has_failed and not is_waiting and not report.is_interrupted
        if not is_whole:
            commands = {"NEXT": next_command}
        elif _has_staged(report, changes):
            commands = {"CHECK": check_command, "VERIFY": prove_command}
        else:
            commands = {"CHECK": check_command}
        told = {"CHANGE": report.occasion.text, **commands, "LOG": journal}
        return [*lines, *_tail(told, width)]

    hosts = {row.name for row in hosts_done} | {row.vm.host for row in rows if row.vm is not None}
    return first_screen(rendered, len(hosts), with_all=False)


def _is_as_planned(row: ResultRow) -> bool:
    return row.status.is_in_place


def _canaries(report: Report, width: int) -> list[Text]:
    """Say what became of those that went first."""
    lines: list[Text] = []
    for canary in report.canaries:
        others = fold_names(canary.others)
        told = [f"does not match the plan: {problem}" for problem in canary.problems]
        told = told or [f"as planned; {'continued with' if canary.goes_on else 'stopped before'} {others}"]
        told += canary.notes
        for text in told:
            label = "" if lines else "CANARY"
            said = f"{fold_names(canary.names)}: {text}"
            lines += hanging(label, said, width, indent=0, label_width=6, style="bold")
    return [Text(""), *lines] if lines else []


def step_number(plan: Plan, change_id: str) -> int:
    """Return a change's number as the plan shows it, from 1."""
    return next((index for index, change in enumerate(plan.changes, 1) if change.id == change_id), 0)


def _head(plan: Plan, report: Report, width: int) -> list[Text]:
    took = f" in {duration(seconds_of(report.outcomes))}" if report.outcomes else ""
    verdict = run_verdict(report)
    word = Text(f"{verdict}{took}", f"bold {_VERDICT_STYLES[verdict]}")
    left = Text.assemble(word, f".  {', '.join(run_counts(plan, report))}")
    right = Text(f"plan {report.digest}", "dim")
    has_room = left.cell_len + right.cell_len + 2 <= width
    return both_ends(left, right, width) if has_room else fold(left, width, hang=2)


def _cells(
    row: ResultRow, hosts: Mapping[str, str], gone: Collection[str], *, with_guest: bool
) -> list[Cell]:
    times: list[Cell] = [str(row.tasks), duration(row.seconds)]
    name = Text(row.name, "bold red" if row.status is OutcomeStatus.FAILED else "")
    if row.vm is None:
        state = "deleted" if row.name in gone else row.status.value
        return [name, Text(state), "", "", "", "", *([""] if with_guest else []), *times]
    vm = row.vm
    guest: list[Cell] = [guest_text(vm)] if with_guest else []
    return [
        name,
        state_text(vm.state),
        hosts.get(vm.host, ""),
        " ".join(vm.gpu_pci_ids),
        profile_text(vm.profiles),
        node_text(vm),
        *guest,
        *times,
    ]


def _failures(failed: Sequence[Outcome], plan: Plan, width: int, most: Most) -> list[Text]:
    """Show each cause once, with the steps that it stopped."""
    causes: dict[tuple[str, ...], list[Outcome]] = {}
    for one in failed:
        texts = (one.message.removeprefix(f"{one.change_id}: "), one.cause, one.remedy, one.subject.kind)
        key = tuple(text.replace(one.subject.name, "") for text in texts)
        causes.setdefault((*key, *(reading_text(each) for each in one.readings)), []).append(one)
    alike = list(causes.values())
    shown = alike[: min(_MOST_FAILURES, most.rows or len(alike))]
    lines = [line for same in shown for line in (Text(""), *_failure(same, plan, width, most))]
    if rest := sum(map(len, alike[len(shown) :])):
        lines += [Text(""), Text(f"  and {counted(rest, 'more failure')}, in the journal")]
    return lines


def _failure(same: Sequence[Outcome], plan: Plan, width: int, most: Most) -> list[Text]:
    outcome = same[0]
    what = f"  step {step_number(plan, outcome.change_id)}, "
    if len(same) > 1:
        what = f"  {len(same)} steps: "
    named = abridged((one.change_id for one in same), most.runs)
    if len(what) + len(named) > width // 2 and len(same) > 1:
        return [
            *hanging("FAILED", f"{what.strip()} {named}", width, indent=0, label_width=7, style="bold red"),
            *_reasons(outcome, plan, width),
        ]
    left = Text.assemble(("FAILED", "bold red"), what, (named, "bold"))
    facts = [outcome.tasks[-1]] if outcome.tasks and len(same) == 1 else []
    if outcome.ended_at is not None:
        facts.append(f"{outcome.ended_at.astimezone():%H:%M:%S}")
    return [*both_ends(left, Text(", ".join(facts), "dim"), width), *_reasons(outcome, plan, width)]


def _reasons(outcome: Outcome, plan: Plan, width: int) -> list[Text]:
    message = outcome.message.removeprefix(f"{outcome.change_id}: ")
    is_servers_word = bool(outcome.cause) or (bool(outcome.tasks) and outcome.subject.kind != "host")
    is_guests_word = any(one.id == outcome.change_id and one.staged for one in plan.changes)
    who = "vCenter" if is_servers_word else "why"
    lines = hanging("guest" if is_guests_word else who, message, width)
    lines += hanging("cause", outcome.cause, width) if outcome.cause else []
    pending = [reading_text(one) for one in outcome.readings if not is_settled(one)]
    lines += hanging("pending", "; ".join(pending), width) if pending else []
    return lines + (hanging("do", outcome.remedy, width, style="bold") if outcome.remedy else [])


def _skipped(report: Report, width: int, most: Most) -> list[Text]:
    """Count the skipped changes by reason, and name the first of them."""
    waiting = set(report.waiting_for)
    by_reason: dict[str, list[Outcome]] = {}
    for outcome in report.outcomes:
        if outcome.status is OutcomeStatus.SKIPPED and outcome.change_id not in waiting:
            by_reason.setdefault(outcome.message, []).append(outcome)
    if not by_reason:
        return []
    lines = [Text("")]
    for reason, outcomes in by_reason.items():
        names = abridged(_skipped_names(outcomes), most.runs or _MOST_SKIPPED, "steps")
        text = f"{names}: {reason}"
        label = "SKIPPED" if len(lines) == 1 else ""
        lines += hanging(label, text, width, indent=0, label_width=8, style="yellow")
    return lines


def _skipped_names(outcomes: Sequence[Outcome]) -> list[str]:
    """Name changes, or only the host where there are many of one: "esx-01 (6 steps)"."""
    counts = Counter(outcome.subject.name for outcome in outcomes if outcome.subject.kind == "host")
    names = []
    for outcome in outcomes:
        count = counts[outcome.subject.name]
        is_many = count >= _MANY_STEPS
        names.append(f"{outcome.subject.name} ({count} steps)" if is_many else outcome.change_id)
    return list(dict.fromkeys(names))


def _manual_step(change: Change, plan: Plan, next_command: str, width: int) -> list[Text]:
    """Describe a step that waits: the task, the command to type, the proof of completion, the next step."""
    title = f" {step_number(plan, change.id)}, {change.subject.name}"
    lines = [Text.assemble(("MANUAL STEP", "bold magenta"), title)]
    if not isinstance(change, ManualStep):
        return lines
    lines += hanging("do", change.text, width, style="bold")
    for index, typed in enumerate(change.commands):
        lines += _to_type("" if index else "run", typed, width)
    for index, proof in enumerate(change.proofs):
        lines += hanging("" if index else "verify", proof, width)
    if next_command and change.needs_acknowledgement:
        done = f"{next_command} --done {shlex.quote(change.id)}"
        lines += _to_type("then", done, width)
    elif next_command:
        lines += hanging("then", f"{next_command} (detects whether the step is complete)", width)
    return lines


def _to_type(label: str, command: str, width: int) -> list[Text]:
    """Leave a command on one line, however long: broken in two it could not be copied."""
    line = Text.assemble(f"  {label:<8} ", (command, "bold"))
    if line.cell_len <= width:
        return [line]
    return [*([Text(f"  {label}")] if label else []), Text.assemble("    ", (command, "bold"))]


def _has_staged(report: Report, changes: Mapping[str, Change]) -> bool:
    return any(
        outcome.status is OutcomeStatus.DONE and changes[outcome.change_id].staged
        for outcome in report.outcomes
    )


def _tail(words: Mapping[str, str], width: int) -> list[Text]:
    lines: list[Text] = []
    for label, text in words.items():
        style = "dim" if label in ("LOG", "CHANGE") else "bold"
        lines += hanging(label, text, width, indent=0, label_width=6, style=style) if text else []
    return [Text(""), *lines] if lines else []


def render_hosts(rows: Sequence[HostResult], width: int, most: Most = USUAL) -> list[Text]:
    """Lay out a row per host, and under it the values that were not confirmed; count those of very many."""
    if not rows:
        return []
    told, left = foremost(rows, _hosts_is_as_planned, most)
    shortened = without_domain(row.name for row in told)
    heading, *laid_out = table_rows(_HOSTS_COLUMNS, [_hosts_cells(row, shortened) for row in told], width)
    lines = heading
    for row, shown in zip(told, laid_out, strict=True):
        lines += shown
        for one in row.unsettled:
            words = Text(f"~ {reading_text(one)}", "yellow")
            lines += [Text("    ") + part for part in fold(words, width - 4, hang=2)]
    return lines + others("hosts", (row.state for row in left), width, where="in the journal")


def _hosts_is_as_planned(row: HostResult) -> bool:
    return row.state == "ready" and not row.standing and not row.unsettled


def _hosts_cells(row: HostResult, shortened: Mapping[str, str]) -> list[Cell]:
    styles = {"ready": "green", "failed": "bold red", "waiting": "magenta"}
    settled = len(row.readings) - len(row.unsettled)
    read = f"{settled} of {len(row.readings)} as expected" if row.readings else ""
    return [
        shortened[row.name],
        Text(row.state, styles.get(row.state, "")),
        str(row.set),
        str(row.reboots or ""),
        str(row.cold_boots or ""),
        read,
        duration(row.seconds) if row.seconds else "",
    ]


def render_rollback(rollback: Rollback | None, width: int, *, undo_command: str = "") -> list[Text]:
    """Lay out the result of a rollback; `undo_command` removes the VMs that the run made."""
    if rollback is None:
        return []
    lines = _labelled("ROLLBACK", _rollback_head(rollback), width)
    said: dict[str, list[tuple[str, str]]] = {}
    for outcome in rollback.outcomes:
        if outcome.change_id not in rollback.done:
            message = outcome.message.removeprefix(f"{outcome.change_id}: ")
            said.setdefault("not done", []).append((outcome.change_id, f"{message}\n{outcome.remedy}"))
    for one in rollback.kept:
        word = "not undone" if one.code == Code.NOT_UNDONE else "kept intentionally"
        said.setdefault(word, []).append((one.subject.name, f"{one.message} ({one.code})\n{one.remedy}"))
    for word, told in said.items():
        for line in fold_alike(told):
            text, _, remedy = line.partition("\n")
            lines += _labelled("", f"{word}: {text}", width)
            lines += _labelled("", f"do: {remedy}", width) if remedy else []
    for left in left_lines(rollback.left_behind):
        lines += _labelled("", f"left: {left}", width)
    lines += _labelled("", f"manual: {undo_command}", width) if undo_command else []
    return [Text(""), *lines]


def _rollback_head(rollback: Rollback) -> str:
    if rollback.why_not:
        return f"not performed: {rollback.why_not}"
    if not rollback.changes:
        return "nothing to undo" if not rollback.kept else "nothing could be undone"
    done, total = len(rollback.done), len(rollback.changes)
    if rollback.is_interrupted:
        return f"stopped: {done} of {counted(total, 'change')} undone"
    return f"{(f'{done} of ' if done < total else '')}{counted(total, 'change')} undone"


def _labelled(label: str, text: str, width: int) -> list[Text]:
    return hanging(label, text, width, indent=0, label_width=9, style="bold yellow")


@dataclass(frozen=True, slots=True)
class Drained:
    """The current state of a host to be emptied, and the VMs that still run there."""

    host: Host
    running: tuple[str, ...]
    back: str

    @classmethod
    def of(cls, host: Host, after: Inventory, back: str) -> Self:
        """Look at a host after the run; `back` is the command that gives it back."""
        return cls(host, tuple(vm.name for vm in running_vms(host, after)), back)


def render_upkeep(
    plan: Plan, report: Report | None, width: int, *, drained: Drained | None = None, journal: str = ""
) -> list[Text]:
    """Lay out the completed work, nothing without a report; for a `drained` host its current state."""
    findings = render_findings(plan.diagnostics, width)
    apart = [Text(""), *findings] if findings else []
    ending = _left(drained, width) if drained is not None else []
    if report is None:
        why = "see FINDINGS" if plan.diagnostics else "already in the requested state"
        return [Text(f"Nothing to do for {plan.name}: {why}."), *apart, *ending]
    done = in_place(report.outcomes)
    lines: list[Text] = []
    for change in plan.changes:
        for words in change.came_to if change.id in done else ():
            lines += fold(Text(words), width, hang=2)
    for outcome in report.failed:
        lines += fold(Text(f"{outcome.change_id} failed: {outcome.message}", "red"), width, hang=2)
        lines += hanging("do", outcome.remedy, width, style="bold") if outcome.remedy else []
    log = hanging("LOG", journal, width, indent=0, label_width=6, style="dim") if journal else []
    return [*lines, *apart, *ending, *log]


def _left(drained: Drained, width: int) -> list[Text]:
    """Say whether a host is empty now, and what to do with it."""
    name = drained.host.name
    if drained.running:
        words = (
            f"{name} is still running {', '.join(drained.running)}; to continue, rerun the command with "
            "the same options"
        )
        return [Text(""), *fold(Text(words, "bold yellow"), width, hang=2)]
    enter = command("govc", "host.maintenance.enter", drained.host.inventory_path or name)
    return [
        Text(""),
        *fold(
            Text(f"no VMs are running on {name}, so it can enter maintenance mode", "bold green"),
            width,
            hang=2,
        ),
        *hanging("NEXT", enter, width, indent=0, label_width=6),
        *hanging("THEN", f"{drained.back}   when maintenance is complete", width, indent=0, label_width=6),
    ]
