"""The disruptions of a plan, shown first: hosts that go down, VMs that are moved, stopped or deleted."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from rich.text import Text

from vgpu_cfg.changes.base import of_kind
from vgpu_cfg.changes.change import EnterMaintenance
from vgpu_cfg.changes.plan import Plan
from vgpu_cfg.changes.reach import Experience
from vgpu_cfg.model.ranges import fold_names
from vgpu_cfg.model.wording import counted
from vgpu_cfg.planning.hosts.window import forecast
from vgpu_cfg.render.layout.lines import Column, abridged, fold, hanging, short, table_rows, without_domain
from vgpu_cfg.render.layout.most import USUAL, Most
from vgpu_cfg.render.views.plan.disruption import other_disruptions
from vgpu_cfg.render.views.plan.whole import BLOCKED, HostEffort, host_efforts

_COLUMNS = (Column("HOST", is_flexible=True), Column("WHAT", is_flexible=True), Column("", is_flexible=True))
_MOST_STEPS = 6


def render_disruption(plan: Plan, width: int, *, most: Most = USUAL) -> list[Text]:
    """List the disruptions, by host and by VM, and the untouched objects."""
    efforts = [effort for effort in host_efforts(plan.changes).values() if effort.text or effort.by_hand]
    of_others = other_disruptions(plan, {name for effort in efforts for name in effort.switched_off})
    rest = f"{counted(plan.untouched_hosts, 'other host')} and {counted(plan.untouched_vms, 'other VM')}"
    if not efforts and not of_others:
        nothing = Text.assemble(("DISRUPTION", "bold"), f"  none; {rest} are not affected")
        return fold(nothing, width, hang=12)
    blocked = {change.subject.name for change in plan.changes if change.id in plan.blocked}
    heading = Text.assemble(
        ("DISRUPTION", "bold yellow"), ("  including blocked changes" if blocked else "", "dim")
    )
    lines = [heading, *_host_rows(efforts, blocked, width, most)]
    lines += _limits(plan, width)
    for row in of_others[: most.others]:
        who = f"{abridged(row.names, most.runs)} {row.more}".rstrip()
        who += f", {BLOCKED}" if row.is_blocked else ""
        lines += hanging(row.what, who, width, label_width=16, style="yellow")
    more: dict[str, int] = {}
    for row in of_others[len(of_others[: most.others]) :]:
        more[row.what] = more.get(row.what, 0) + len(row.names)
    for what, count in more.items():
        lines += hanging(what, f"{count} more (-v shows all)", width, label_width=16, style="yellow")
    is_down = any(effort.enters is not None and not effort.enters.is_held for effort in efforts)
    is_off = any(one.experience is Experience.POWERED_OFF for one in plan.disturbed)
    kept = "No other VM is powered off. " if is_down and not is_off else ""
    return [*lines, *(Text("  ") + part for part in fold(Text(f"{kept}{rest} are not affected"), width - 2))]


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
    blank = [Column(" ", is_flexible=column.is_flexible) for column in _COLUMNS]
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
        f"{'one host' if down == 1 else f'at most {down} hosts'}{each if len(most) == 1 else ''} at a time"
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
