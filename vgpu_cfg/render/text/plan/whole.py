"""A plan on a terminal: disruptions, changes, findings, unknown settings, downloads, and totals."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from rich.text import Text

from vgpu_cfg.changes.base import of_kind
from vgpu_cfg.changes.change import EnterMaintenance
from vgpu_cfg.changes.plan import Canary, LostHost, Plan
from vgpu_cfg.changes.reach import Experience
from vgpu_cfg.changes.severity import Severity
from vgpu_cfg.changes.suggestion import AsFound
from vgpu_cfg.model.choices import NO_OCCASION, Occasion
from vgpu_cfg.model.guests.downloads import Download, short_pin
from vgpu_cfg.model.ranges import fold_names
from vgpu_cfg.model.wording import counted
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.hosts.window import forecast
from vgpu_cfg.planning.remedies.lost_hosts import told_of
from vgpu_cfg.planning.sync import is_in_sync, waits_for
from vgpu_cfg.render.layout.lines import (
    Cell,
    Column,
    abridged,
    both_ends,
    fold,
    hanging,
    short,
    table,
    table_rows,
    without_domain,
)
from vgpu_cfg.render.layout.most import USUAL, Most, first_screen
from vgpu_cfg.render.text.plan.changes import (
    Block,
    Follower,
    fold_blocks,
    make_blocks,
    render_block,
    render_followers,
)
from vgpu_cfg.render.text.plan.findings import render_findings
from vgpu_cfg.render.views.plan import (
    BLOCKED,
    HostEffort,
    ShellRow,
    UnknownRow,
    canary_text,
    error_count,
    host_efforts,
    other_disruptions,
    plan_counts,
    untouched,
    view_shells,
    view_unknown,
)

_DISRUPTION_COLUMNS = (
    Column("HOST", is_flexible=True),
    Column("WHAT", is_flexible=True),
    Column("", is_flexible=True),
)
_MOST_STEPS = 6
_LEGEND = (
    ("+", "new", "green"),
    ("~", "change", "yellow"),
    ("-", "remove", "red"),
    ("!", "manual", "magenta"),
)
_DIFFERENCES = {
    Code.SETTING_DIFFERS: ("is out of compliance (check only)", "are out of compliance (check only)"),
    Code.SHELL_LEFT_OPEN: ("still has SSH running", "still have SSH running"),
    Code.HOST_SILENT: ("does not respond", "do not respond"),
    Code.HOST_LOST: ("does not respond", "do not respond"),
    Code.OTHERS_MAINTENANCE: (
        "is in maintenance mode for another plan",
        "are in maintenance mode for another plan",
    ),
}
"""The sentence of findings about one or several hosts, in a plan without changes."""
_OF_VMS = {
    Code.ELSEWHERE: "not at the location in the plan file",
    Code.HOST_FORBIDDEN: "not at the location in the plan file",
    Code.SPREAD_UNMET: "not separated as the plan file requires",
    Code.KEEP_FREE_UNMET: "too few spare hosts",
    Code.SET_AT_CREATION_ONLY: "would now be created differently",
    Code.NOT_MADE_ANEW: "could not be recreated",
    Code.ORPHAN_ELSEWHERE: "no longer in the plan file, and neither is their folder",
}
"""The text of findings about VMs, before their names."""
_STYLES = {"+": "green", "-": "red"}
_LABEL = 5
_DOWNLOAD_COLUMNS = (
    Column("DOWNLOAD", is_flexible=True),
    Column("PIN"),
    Column("KEY", drop=2),
    Column("VMS", is_flexible=True, drop=1),
)


def render_disruption(plan: Plan, width: int, *, most: Most = USUAL) -> list[Text]:
    """List the disruptions, by host and by VM, and the untouched objects."""
    efforts = [effort for effort in host_efforts(plan.changes).values() if effort.text or effort.by_hand]
    of_others = other_disruptions(plan, {name for effort in efforts for name in effort.switched_off})
    rest = untouched(plan)
    if not efforts and not of_others:
        nothing = "; ".join(["none", *rest])
        return fold(Text.assemble(("DISRUPTION", "bold"), f"  {nothing}"), width, hang=12)
    blocked = {change.subject.name for change in plan.changes if change.id in plan.blocked}
    heading = Text.assemble(
        ("DISRUPTION", "bold yellow"), ("  including blocked changes" if blocked else "", "dim")
    )
    lines = [heading, *_host_rows(efforts, blocked, width, most)]
    lines += _limits(plan, width)
    label = max([15, *(len(row.what) for row in of_others)]) + 1
    for row in of_others[: most.others]:
        who = f"{abridged(row.names, most.runs)} {row.more}".rstrip()
        who += f", {BLOCKED}" if row.is_blocked else ""
        lines += hanging(row.what, who, width, label_width=label, style="yellow")
    more: dict[str, int] = {}
    for row in of_others[len(of_others[: most.others]) :]:
        more[row.what] = more.get(row.what, 0) + len(row.names)
    for what, count in more.items():
        lines += hanging(what, f"{count} more (-v shows all)", width, label_width=label, style="yellow")
    is_down = any(effort.enters is not None and not effort.enters.is_held for effort in efforts)
    is_off = any(one.experience is Experience.POWERED_OFF for one in plan.disturbed)
    kept = ["No other VM is powered off."] if is_down and not is_off else []
    if kept or rest:
        lines += (Text("  ") + part for part in fold(Text(" ".join([*kept, *rest])), width - 2))
    return lines


def manual_numbers(plan: Plan) -> list[int]:
    """Return the numbers of the manual steps."""
    return [number for number, change in enumerate(plan.changes, 1) if change.face.is_by_hand]


def _host_rows(efforts: Sequence[HostEffort], blocked: Collection[str], width: int, most: Most) -> list[Text]:
    """Lay out a row per host; hosts with the same row share it."""
    if not efforts:
        return []
    shortened = without_domain(effort.name for effort in efforts)
    groups: dict[tuple[str, str], list[str]] = {}
    for effort in efforts:
        details = _details(effort, most, is_blocked=effort.name in blocked)
        groups.setdefault((effort.text or "manual", details), []).append(shortened[effort.name])
    shown = list(groups.items())[: most.hosts]
    rows = [
        (abridged(names, most.runs, "hosts"), Text(words, "yellow"), details)
        for (words, details), names in shown
    ]
    blank = [Column(" ", is_flexible=column.is_flexible) for column in _DISRUPTION_COLUMNS]
    lines = [line for row in table_rows(blank, rows, width)[1:] for line in row]
    left = sum(len(names) for _, names in list(groups.items())[len(shown) :])
    if left:
        lines.append(Text(f"  and {counted(left, 'more host')} with the same entries (-v shows all)", "dim"))
    return lines


def _details(effort: HostEffort, most: Most, *, is_blocked: bool) -> str:
    words = [BLOCKED] if is_blocked else []
    if effort.moved:
        words.append(f"migrates {_vms(effort.moved, most)}")
    if effort.switched_off:
        words.append(f"powers off {_vms(effort.switched_off, most)}")
    if effort.by_hand:
        steps = short((str(number) for number in effort.by_hand), _MOST_STEPS)
        noun = "step" if len(effort.by_hand) == 1 else "steps"
        words.append(f"manual {noun} {steps}")
    return "; ".join(words)


def _limits(plan: Plan, width: int) -> list[Text]:
    """Say how many hosts are down at once, and when that may begin."""
    entering = [change for change in of_kind(plan.changes, EnterMaintenance) if not change.is_held]
    waves: dict[str, list[EnterMaintenance]] = {}
    for change in entering:
        waves.setdefault(change.wave, []).append(change)
    most: dict[int, int] = {}
    for changes in waves.values():
        if len(changes) > 1:
            down = min(change.max_down for change in changes)
            most[down] = most.get(down, 0) + 1
    each = " per cluster" if len(waves) > 1 else ""
    words = [
        f"{'one host' if down == 1 else f'up to {down} hosts'}{each if len(most) == 1 else ''} at a time"
        for down in sorted(most)
    ]
    needs = {one.window: one for one in forecast(entering, plan.read_at)}
    words += [
        f"only in the window {window}" + (f": {needs[window].words}" if window in needs else "")
        for window in dict.fromkeys(change.window for change in entering)
        if window
    ]
    if not words:
        return []
    return [Text("  ") + part for part in fold(Text("; ".join(words)), width - 2)]


def _vms(names: Sequence[str], most: Most) -> str:
    """Name VMs, or count them where there are too many."""
    is_short = most.moved is None or len(names) <= most.moved
    return fold_names(names) if is_short else f"{counted(len(names), 'VM')} each"


@dataclass(frozen=True, slots=True)
class PlanShown:
    """The frame of a plan: the command to type next, whether it is only shown, its purpose."""

    next_command: str = ""
    next_note: str = ""
    approved_command: str = ""
    """This command with the options that approve every error, if that is enough."""
    again: str = ""
    """The command that saves a reviewed plan again, once its errors are fixed."""
    is_only_shown: bool = True
    with_all: bool = False
    occasion: Occasion = NO_OCCASION


def render_plan(plan: Plan, width: int, shown: PlanShown | None = None) -> list[Text]:
    """Lay out a plan; one that changes nothing and found nothing is one line."""
    shown = shown or PlanShown()
    return first_screen(
        lambda most: _rendered(plan, width, shown, most), len(_subjects(plan)), with_all=shown.with_all
    )


def _subjects(plan: Plan) -> set[str]:
    """Return the hosts and VMs that a plan is about."""
    return {one.subject.name for one in (*plan.changes, *plan.diagnostics)}


def _rendered(plan: Plan, width: int, shown: PlanShown, most: Most) -> list[Text]:
    findings = render_findings(plan.diagnostics, width, most=most)
    unknown = _apart([*_shells(plan, width, most), *render_unknown(view_unknown(plan), width)])
    findings = [*findings, *_apart(_beliefs(plan, width, with_all=shown.with_all))]
    if not plan.changes and not plan.errors:
        return [*_in_sync(plan, width), *unknown, *_apart(findings), *_apart(_approved(shown, width))]
    if not plan.changes:
        return [*_header(plan, width), *unknown, *_apart(findings), Text(""), *_totals(plan, width, shown)]
    lines = [*_header(plan, width), Text(""), *render_disruption(plan, width, most=most)]
    lines += _blocks(plan, width, most)
    if plan.hosts_in_sync:
        in_sync = f"{abridged(plan.hosts_in_sync, most.runs)}: nothing to change"
        label = "HOST" if len(plan.hosts_in_sync) == 1 else "HOSTS"
        lines += [Text(""), *hanging(label, in_sync, width, indent=0, label_width=6, style="bold")]
    if plan.contests:
        lines += [Text(""), *_starts(plan, width)]
    lines += _apart(list(_canaries(plan.canaries, width, most)))
    lines += [*unknown, *_apart(findings)]
    return [*lines, Text(""), *_totals(plan, width, shown)]


def _blocks(plan: Plan, width: int, most: Most) -> list[Text]:
    entries = fold_blocks(make_blocks(plan))
    lines: list[Text] = []
    for entry in entries[: most.blocks]:
        match entry:
            case Block():
                block = render_block(entry, width, most=most)
            case Follower():
                block = render_followers(entry, width, most=most)
        lines += _apart(block[: most.lines])
        if left := len(block) - len(block[: most.lines]):
            lines.append(Text(f"  and {counted(left, 'more line')} (-v shows all)", "dim"))
    rest = entries[len(entries[: most.blocks]) :]
    if left := sum(len(entry.blocks) if isinstance(entry, Follower) else 1 for entry in rest):
        subjects = counted(left, "more host or VM", "more hosts and VMs")
        lines += _apart([Text(f"and {subjects} with other changes (-v shows all)", "dim")])
    return lines


def _beliefs(plan: Plan, width: int, *, with_all: bool) -> list[Text]:
    """Show the verdicts on beliefs before the first apply, or with `with_all`."""
    here = plan.beliefs
    if here is None or not (here.is_first or with_all):
        return []
    return hanging("BELIEFS", here.says, width, indent=0, label_width=7, style="bold")


def _apart(block: list[Text]) -> list[Text]:
    """Put an empty line before a block, if there is one."""
    return [Text(""), *block] if block else []


def _starts(plan: Plan, width: int) -> list[Text]:
    """Name the hosts whose VMs start one by one."""
    hosts = {placement.host_moid: placement.host_name for placement in plan.placements}
    lines: list[Text] = []
    for number, queue in enumerate(plan.contests):
        host = hosts.get(queue.host_moid, queue.host_moid)
        text = (
            f"{fold_names(sorted(queue.starts))} on {host}: one at a time, so that every VM gets a GPU, "
            "regardless of which GPUs ESXi assigns"
        )
        label = "" if number else "STARTS"
        lines += hanging(label, text, width, indent=0, label_width=6, style="bold")
    return lines


def _canaries(canaries: Sequence[Canary], width: int, most: Most) -> Iterator[Text]:
    for canary in canaries[: most.canaries]:
        yield from hanging("CANARY", canary_text(canary), width, indent=0, label_width=6, style="bold")
    if rest := canaries[len(canaries[: most.canaries]) :]:
        names = abridged((name for canary in rest for name in canary.names), most.runs)
        yield from hanging("", f"likewise {names}", width, indent=0, label_width=6)


def _header(plan: Plan, width: int) -> list[Text]:
    left = Text.assemble(
        (plan.name, "bold"), f" on {_place(plan)}, read {plan.read_at.astimezone():%H:%M:%S}"
    )
    used = _signs(plan)
    right = Text("  ").join(
        Text.assemble((sign, style), f" {word}") for sign, word, style in _LEGEND if sign in used
    )
    if any(edit.is_default for change in plan.changes for edit in change.edits):
        right = Text.assemble(right, "  ", ("*", "dim"), " default")
    return both_ends(left, right, width)


def _place(plan: Plan) -> str:
    return ", ".join(part for part in (plan.target.address, plan.target.datacenter) if part)


def _in_sync(plan: Plan, width: int) -> list[Text]:
    is_empty = not (plan.hosts_in_sync or plan.unknown)
    counts = [counted(len(plan.in_sync), "VM")] if plan.in_sync or is_empty else []
    if plan.hosts_in_sync:
        counts.append(counted(len(plan.hosts_in_sync), "host"))
    if plan.unknown:
        counts.append(f"{counted(len(plan.unknown), 'host')} partly unknown")
    verdict = Text("in sync", "green") if is_in_sync(plan) else Text("; ".join(_differences(plan)), "yellow")
    if waits := waits_for(plan):
        verdict = Text(waits, "cyan")
    line = Text.assemble(
        (plan.name, "bold"),
        f" on {_place(plan)}: ",
        verdict,
        f"{',' if is_in_sync(plan) else '; in sync:'} {', '.join(counts)}, 0 changes,",
        f" read {plan.read_at.astimezone():%H:%M:%S}",
    )
    return fold(line, width, hang=2)


def _differences(plan: Plan) -> Iterator[str]:
    """Say what differs although no change of the plan fixes it."""
    for code, (one, many) in _DIFFERENCES.items():
        names = sorted({found.subject.name for found in plan.diagnostics if found.code == code})
        if names:
            yield f"{fold_names(names)} {one if len(names) == 1 else many}"
    of_vms: dict[str, set[str]] = {}
    for found in plan.diagnostics:
        words = _OF_VMS.get(Code(found.code))
        if words is not None and found.severity is not Severity.INFO:
            of_vms.setdefault(words, set()).add(found.subject.name)
    yield from (f"{words}: {fold_names(sorted(names))}" for words, names in of_vms.items())
    if plan.orphans:
        verb = "is" if len(plan.orphans) == 1 else "are"
        yield f"{fold_names(plan.orphans)} {verb} not in the plan file"


def _signs(plan: Plan) -> set[str]:
    return {change.sign for change in plan.changes}


def _totals(plan: Plan, width: int, shown: PlanShown) -> list[Text]:
    words = plan_counts(plan)
    removed = {change.subject.name for change in plan.changes if change.deletes}
    kept = [name for name in plan.orphans if name not in removed]
    if plan.blocked:
        words.append(f"{len(plan.blocked)} of {counted(len(plan.changes), 'change')} blocked")
    if kept:
        words.append(f"{counted(len(kept), 'orphan')} kept ({fold_names(kept)})")
    lines = hanging("TOTAL", ", ".join(words), width, indent=0, label_width=6, style="bold")
    if shown.occasion.text:
        lines += hanging("CHANGE", shown.occasion.text, width, indent=0, label_width=6)
    says = "nothing was changed" if shown.is_only_shown else ""
    lines += hanging(
        "PLAN", ", ".join(part for part in (plan.digest, says) if part), width, indent=0, label_width=6
    )
    errors = error_count(plan.diagnostics)
    if errors and shown.approved_command:
        lines += _approved(shown, width)
    elif errors:
        lines += hanging(
            "NEXT",
            f"fix the {counted(errors, 'error')} above"
            + (f"; then {shown.again}" if shown.again else "; until then, nothing is changed"),
            width,
            indent=0,
            label_width=6,
            style="bold red",
        )
    elif shown.next_command:
        note = f"   {shown.next_note or _stops(plan)}".rstrip()
        lines += hanging("NEXT", f"{shown.next_command}{note}", width, indent=0, label_width=6, style="bold")
    return lines


def _approved(shown: PlanShown, width: int) -> list[Text]:
    if not shown.approved_command:
        return []
    return hanging("NEXT", shown.approved_command, width, indent=0, label_width=6, style="bold")


def _stops(plan: Plan) -> str:
    """List the manual steps at which a run stops."""
    numbers = manual_numbers(plan)
    if not numbers:
        return ""
    return f"stops at {short(map(str, numbers))} with exit code 7 and prints the next command"


def render_found(found: AsFound, path: str, width: int, *, is_only_shown: bool) -> list[Text]:
    """Lay out what changes in the file, and what stays different, with the reason."""
    lines: list[Text] = []
    if not found.lines and not found.left:
        lines += fold(Text(f"{path}: the selected VMs match the plan file", "green"), width, hang=2)
    if found.lines:
        head = f"{path}: current state of {', '.join(found.vms)}"
        lines += [*fold(Text(head, "bold"), width, hang=2), Text("")]
    for edit in found.lines:
        depth = len(edit) - len(edit[1:].lstrip())
        lines += fold(Text(f"  {edit}", style=_STYLES.get(edit[0], "")), width, hang=depth + 6)
    if found.left:
        lines += [Text("")] if found.lines else []
        for one in found.left:
            words = f"{one.vm} {one.what}: {one.why}"
            lines += hanging("LEFT", words, width, indent=0, label_width=_LABEL, style="yellow")
    if is_only_shown and found.lines:
        lines += [Text(""), *fold(Text("nothing was written: --dry-run"), width, hang=2)]
    return lines


def _shells(plan: Plan, width: int, most: Most) -> list[Text]:
    """Name the settings for which `apply` needs the hosts' shells, and why; in one row if few runs fit."""
    lines: list[Text] = []
    rows = view_shells(plan)
    if most.runs is not None and rows:
        hosts = dict.fromkeys(name for row in rows for name in row.hosts)
        titles = dict.fromkeys(title for row in rows for title in row.settings)
        rows = (ShellRow(tuple(hosts), tuple(titles)),)
    for row in rows:
        what = "it" if len(row.settings) == 1 else "them"
        needs = f"{abridged(row.hosts, most.runs)}: required for {', '.join(row.settings)}"
        words = f"{needs}; the vSphere API cannot set {what}"
        lines += hanging("SSH", words, width, indent=0, label_width=7, style="bold")
    return lines


def render_unknown(rows: Sequence[UnknownRow], width: int) -> list[Text]:
    """List the unknown settings by host, their possible effect, and their source; nothing if all is known."""
    lines: list[Text] = []
    for number, row in enumerate(rows):
        label = "" if number else "UNKNOWN"
        lines += hanging(label, _words(row), width, indent=0, label_width=7, style="bold yellow")
    return lines


def _words(row: UnknownRow) -> str:
    is_one_host, is_one = len(row.hosts) == 1, row.many == 1
    told = "readable only over SSH" if row.is_of_shell else "could not be read"
    each = "" if is_one_host else " each"
    at_most = row.at_most
    if at_most.startswith("up to"):
        at_most += each
    if at_most.startswith(("up to", "no restart")):
        at_most += f" if {'it differs' if is_one else 'they differ'}"
    what = f"{counted(row.many, 'setting')}{' of' if is_one_host else ' each of'} {fold_names(row.hosts)}"
    return f"{what}, {told}: {', '.join(row.settings)}; {at_most}; {row.remedy}"


def lost_lines(lost: Sequence[LostHost], width: int) -> list[Text]:
    """Lay out a line for each such host."""
    lines: list[Text] = []
    for one in lost:
        words = f"{one.host.name} {one.connection.words}: {'; '.join(told_of(one))}"
        lines += hanging("LOST", words, width, indent=0, style="yellow")
    return lines


def render_downloads(downloads: Sequence[Download], width: int) -> list[Text]:
    """Lay out a row for each; a row without a pin accepts any content."""
    rows: list[list[Cell]] = [[_source(one), _pin(one), one.key, fold_names(one.vms)] for one in downloads]
    return [Text(f"DOWNLOADS ({len(downloads)})", style="bold"), *table(_DOWNLOAD_COLUMNS, rows, width)]


def _source(one: Download) -> str:
    words = (one.package, one.version, "from") if one.package else ()
    return " ".join(word for word in (*words, one.address, one.via and f"by {one.via}") if word)


def _pin(one: Download) -> Cell:
    if one.pin:
        return short_pin(one.pin)
    return "signed" if one.is_signed else Text("none", style="yellow")
