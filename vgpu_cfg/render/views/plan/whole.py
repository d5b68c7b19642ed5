"""A plan's effect on each host, the settings that wait for each restart, and the totals.

A plan's changes as few short rows, for little room: like VMs and hosts are one.

Findings as a reader counts them: one that applies to several hosts or VMs alike is one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from vgpu_cfg.changes.base import Restart, of_kind
from vgpu_cfg.changes.change import KINDS, Change, EnterMaintenance, ExitMaintenance, PowerOnVm
from vgpu_cfg.changes.plan import Canary, Diagnostic, Plan
from vgpu_cfg.changes.severity import Severity
from vgpu_cfg.changes.values import Impact, SettingTarget
from vgpu_cfg.model.ranges import fold_names
from vgpu_cfg.model.wording import as_counted, counted
from vgpu_cfg.render.layout.lines import short

Numbered = Sequence[tuple[int, Change]]

BLOCKED = "blocked"
"""The note on a change that an error blocks."""

TASKS_OF_A_SECOND_START = 3
"""If ESXi chose a GPU of another node: switch off, pin anew, switch on."""

_KINDS = {"host": "host", "vm": "VM", "cluster": "cluster", "network": "network", "plan": "plan"}
_MOST_EDITS = 8


@dataclass(frozen=True, slots=True)
class HostEffort:
    """The changes to one host, counted, and their subjects.

    `moved` and `switched_off` are VMs, `by_hand` the numbers of manual steps in the plan, `right` the
    settings that already have the requested values.
    """

    name: str
    settings: int
    reboots: int
    cold_boots: int
    services: tuple[str, ...]
    enters: EnterMaintenance | None
    moved: tuple[str, ...]
    switched_off: tuple[str, ...]
    by_hand: tuple[int, ...]
    right: tuple[SettingTarget, ...]

    @property
    def text(self) -> str:
        """The disruption: "maintenance mode, 1 reboot"; empty if there is none."""
        words = []
        if self.enters is not None:
            words.append("already in maintenance mode" if self.enters.is_held else "maintenance mode")
        if self.reboots:
            words.append(counted(self.reboots, "reboot"))
        if self.cold_boots:
            words.append(counted(self.cold_boots, "cold boot"))
        words += [f"{service} restart" for service in self.services]
        return ", ".join(words)


def effort_of(name: str, changes: Numbered, plan: Sequence[Change]) -> HostEffort:
    """Count the changes to a host; `changes` are its own, `plan` all of them."""
    own = [change for _, change in changes]
    needs = {need for change in own for need in change.needs}
    enters = next(of_kind(own, EnterMaintenance), None)
    touched = {target.id for target in _written(own)}
    settles = next((change.settles for change in of_kind(own, ExitMaintenance)), ())
    return HostEffort(
        name=name,
        settings=len(touched),
        reboots=sum(change.face.restart is Restart.REBOOT for change in own),
        cold_boots=sum(change.face.restart is Restart.COLD_BOOT for change in own) or _waits_for_power(own),
        services=tuple(dict.fromkeys(one.restarted_service for one in own if one.restarted_service)),
        enters=enters,
        moved=enters.evacuates if enters is not None else (),
        switched_off=tuple(one.stops.name for one in plan if one.stops and one.id in needs),
        by_hand=tuple(number for number, change in changes if change.face.is_by_hand),
        right=tuple(target for target in settles if target.id not in touched),
    )


def _waits_for_power(changes: Sequence[Change]) -> int:
    """Count 1 for a host that an earlier run shut down, and that only waits to be switched on."""
    return int(len(changes) == 1 and changes[0].face.is_by_hand and changes[0].id.startswith("cold boot "))


def _written(changes: Iterable[Change]) -> Iterable[SettingTarget]:
    """Yield the written settings, and those set manually."""
    for change in changes:
        if change.writes or change.edits:
            yield from change.brings


def waits_for(target: SettingTarget, later: Numbered, *, is_numbered: bool = False) -> str:
    """Say which restart further on settles a setting, with the restart's number where that is asked for."""
    is_off = False
    for number, change in later:
        is_off |= change.face.leaves_off
        restart = Restart.COLD_BOOT if is_off and change.face.is_by_hand else change.face.restart
        settles = change.brings if change.face.is_by_hand else change.in_force
        if target.id not in {one.id for one in settles}:
            continue
        if restart is not None:
            return f"{restart} {number}" if is_numbered else restart
        if change.restarted_service:
            return f"{change.restarted_service} restart"
    return ""


def host_efforts(plan: Sequence[Change]) -> Mapping[str, HostEffort]:
    """Count a plan's changes by host, in the order in which hosts first appear."""
    found: dict[str, list[tuple[int, Change]]] = {}
    for number, change in enumerate(plan, 1):
        if change.subject.kind == "host":
            found.setdefault(change.subject.name, []).append((number, change))
    return {name: effort_of(name, changes, plan) for name, changes in found.items()}


def host_counts(plan: Sequence[Change]) -> list[str]:
    """Count the changes to hosts, in words: "7 host settings", "1 reboot"."""
    efforts = host_efforts(plan).values()
    nouns = Counter(change.face.noun for change in plan)
    counts = [
        (sum(effort.settings for effort in efforts), "host setting"),
        (sum(effort.reboots for effort in efforts), "reboot"),
        (sum(effort.cold_boots for effort in efforts), "cold boot"),
        *((nouns[noun], noun) for noun in dict.fromkeys(kind.face.noun for kind in KINDS) if noun),
    ]
    return [counted(number, noun) for number, noun in counts if number]


def plan_counts(plan: Plan) -> list[str]:
    """Count a plan's changes, in words: "2 VMs new", "1 power cycle"."""
    kinds = Counter(change.kind for change in plan.changes)
    removed = {change.subject.name for change in plan.changes if change.deletes}
    new = {change.subject.name for change in plan.changes if change.makes}
    changed = {change.subject.name for change in plan.changes if change.face.changes_vm} - (new | removed)
    switched = {change.subject.name for change in plan.changes if change.starts or change.stops}
    switched -= new | removed | changed
    staged = {change.subject.name for change in plan.changes if change.staged}
    cycled = {change.subject.name for change in plan.changes if change.impact is Impact.POWER_CYCLE} - removed
    vmotions = sum(change.impact is Impact.VMOTION for change in plan.changes)
    rules = kinds["set_rule"] + kinds["set_host_rule"] + kinds["remove_rule"]
    overridden = sum(len(change.overridden) for change in plan.changes)
    given_back = 0 if kinds["enter_maintenance"] else kinds["exit_maintenance"]
    counts = [
        (len(new), "new VM", "new VMs"),
        (len(changed), "changed VM", "changed VMs"),
        (kinds["rename_vm"], "renamed VM", "renamed VMs"),
        (kinds["move_vm_to_folder"], "VM moved to its folder", "VMs moved to their folders"),
        (kinds["relocate_vm"], "moved VM", "moved VMs"),
        (len(switched), "VM powered on or off", "VMs powered on or off"),
        (len(removed), "removed VM", "removed VMs"),
        (len(staged), "guest setup", "guest setups"),
        (rules, "DRS rule", "DRS rules"),
        (overridden, "cluster override", "cluster overrides"),
        (kinds["remove_vm_group"], "removed VM group", "removed VM groups"),
        (vmotions, "vMotion", "vMotions"),
        (len(cycled), "power cycle", "power cycles"),
        (given_back, "host returned", "hosts returned"),
    ]
    words = [counted(number, one, many) for number, one, many in counts if number]
    words += host_counts(plan.changes)
    if kinds["manual_step"]:
        words.append(counted(kinds["manual_step"], "manual step", "manual steps"))
    tasks = sum(change.face.is_task for change in plan.changes)
    again = sum(change.pin is not None for change in of_kind(plan.changes, PowerOnVm))
    perhaps = f", or {tasks + again * TASKS_OF_A_SECOND_START} if {counted(again, 'VM')} must restart"
    return [*words, f"about {counted(tasks, 'task')}{perhaps if again else ''}"] if words else ["no changes"]


def canary_text(canary: Canary) -> str:
    """List the canaries, and the changes that wait for approval."""
    changes = counted(len(canary.held), "change")
    return f"{fold_names(canary.names)}, then asks before {fold_names(canary.others)} ({changes})"


@dataclass(frozen=True, slots=True)
class ChangeRow:
    """The change to one or several objects that are treated alike.

    `verb` is "new", "changed", "removed", "powered on or off", "guest" or "manual"; `where` the VMs' hosts;
    `what` the changed values, of a new VM only those of the plan file.
    """

    kind: str
    names: str
    verb: str
    where: str
    what: str
    is_blocked: bool


def change_rows(plan: Plan) -> tuple[ChangeRow, ...]:
    """Return a row for each host, VM, cluster and network that changes, in the plan's order."""
    subjects: dict[tuple[str, str], list[tuple[int, Change]]] = {}
    for number, change in enumerate(plan.changes, 1):
        subjects.setdefault((change.subject.kind, change.subject.name), []).append((number, change))
    hosts = {placement.vm: placement.host_name for placement in plan.placements}
    alike: dict[ChangeRow, list[str]] = {}
    for (kind, name), numbered in subjects.items():
        changes = [change for _, change in numbered]
        effort = effort_of(name, numbered, plan.changes).text if kind == "host" else ""
        row = ChangeRow(
            kind=_KINDS.get(kind, kind),
            names="",
            verb=verb_of(changes),
            where="",
            what="; ".join(part for part in (effort, _what(changes)) if part),
            is_blocked=any(change.id in plan.blocked for change in changes),
        )
        alike.setdefault(row, []).append(name)
    return tuple(
        replace(row, names=fold_names(names), where=_where(row, names, hosts)) for row, names in alike.items()
    )


def _where(row: ChangeRow, names: Sequence[str], hosts: Mapping[str, str]) -> str:
    """Name the hosts that VMs go to or stay on."""
    found = {hosts[name] for name in names if name in hosts} if row.kind == _KINDS["vm"] else set()
    return fold_names(sorted(found, key=as_counted))


def verb_of(changes: Sequence[Change]) -> str:
    """Say in a word what becomes of something."""
    if any(change.makes for change in changes):
        return "new"
    if any(change.deletes for change in changes):
        return "removed"
    if all(change.starts or change.stops for change in changes):
        return "powered on or off"
    if all(change.staged for change in changes):
        return "guest"
    if all(change.face.is_by_hand for change in changes):
        return "manual"
    return "changed"


def _what(changes: Sequence[Change]) -> str:
    words = Counter(text for change in changes for text in change.in_short)
    return short((f"{count} x {text}" if count > 1 else text for text, count in words.items()), _MOST_EDITS)


def alike(findings: Sequence[Diagnostic]) -> list[Diagnostic]:
    """Return every finding once, its subjects as ranges, errors first."""
    names: dict[Diagnostic, dict[str, None]] = {}
    for found in findings:
        shared = found.model_copy(update={"subject": found.subject.model_copy(update=_NOBODY)})
        names.setdefault(shared, {})[found.subject.name] = None
    merged = [
        found.model_copy(
            update={
                "subject": found.subject.model_copy(update={"name": fold_names(sorted(own, key=as_counted))})
            }
        )
        for found, own in names.items()
    ]
    return sorted(merged, key=lambda one: tuple(Severity).index(one.severity))


_NOBODY = {"name": "", "moid": None}


def error_count(findings: Sequence[Diagnostic]) -> int:
    """Count the errors as they are shown."""
    return sum(found.severity is Severity.ERROR for found in alike(findings))
