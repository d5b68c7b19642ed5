"""A plan as rows: its effects on hosts and VMs, its changes, disruptions, findings and unknown settings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from vgpu_cfg.changes.base import Restart, of_kind
from vgpu_cfg.changes.change import KINDS, Change, ChangeHost, EnterMaintenance, ExitMaintenance, PowerOnVm
from vgpu_cfg.changes.plan import Canary, Diagnostic, Plan, UnknownHost
from vgpu_cfg.changes.reach import Experience
from vgpu_cfg.changes.severity import Severity
from vgpu_cfg.changes.values import Impact, SettingTarget, Subject
from vgpu_cfg.model.ranges import fold_names
from vgpu_cfg.model.wording import as_counted, counted, duration
from vgpu_cfg.render.layout.lines import short

Numbered = Sequence[tuple[int, Change]]
BLOCKED = "blocked"
"""The note on a change that an error blocks."""
TASKS_OF_A_SECOND_START = 3
"""If ESXi chose a GPU of another node: switch off, pin anew, switch on."""
_KINDS = {"host": "host", "vm": "VM", "cluster": "cluster", "network": "network", "plan": "plan"}
_MOST_EDITS = 8
_NOBODY = {"name": "", "moid": None}
_IMPACT_WORDS = {
    Impact.SERVICE_RESTART: "service restart",
    Impact.VMOTION: "vMotion",
    Impact.POWER_CYCLE: "power cycle",
    Impact.HOST_MAINTENANCE: "maintenance mode",
    Impact.HOST_REBOOT: "host reboot",
    Impact.HOST_COLD_BOOT: "host cold boot",
}
_SHOWN_WITH_CHANGES = frozenset({Experience.VMOTION, Experience.POWERED_OFF})
"""The row of the host, or of the change itself, says these."""
_NOUNS = {"host": "host", "vm": "VM", "disk": "disk", "device": "device"}
_TAKES_DOWN = (Impact.HOST_MAINTENANCE, Impact.HOST_REBOOT, Impact.HOST_COLD_BOOT)


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
    off = _staying_off(plan) & cycled
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
        (len(off - switched), "VM powered off", "VMs powered off"),
        (len(removed), "removed VM", "removed VMs"),
        (len(staged), "guest setup", "guest setups"),
        (rules, "DRS rule", "DRS rules"),
        (overridden, "cluster override", "cluster overrides"),
        (kinds["remove_vm_group"], "removed VM group", "removed VM groups"),
        (vmotions, "vMotion", "vMotions"),
        (len(cycled - off), "power cycle", "power cycles"),
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


def _staying_off(plan: Plan) -> set[str]:
    """Return the VMs that the plan powers off and does not start again."""
    stopped = {change.subject.name for change in plan.changes if change.stops}
    return stopped - {change.subject.name for change in plan.changes if change.starts}


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


def error_count(findings: Sequence[Diagnostic]) -> int:
    """Count the errors as they are shown."""
    return sum(found.severity is Severity.ERROR for found in alike(findings))


@dataclass(frozen=True, slots=True)
class DisruptionRow:
    """The subjects of a disruption. `more` is its cause, and the number of hosts and VMs."""

    what: str
    names: tuple[str, ...]
    more: str = ""
    is_blocked: bool = False


def untouched(plan: Plan) -> tuple[str, ...]:
    """Return the clause about other hosts and VMs that are not affected, none if there are no others."""
    numbers = ((plan.untouched_hosts, "other host"), (plan.untouched_vms, "other VM"))
    words = [counted(number, noun) for number, noun in numbers if number]
    verb = "is" if plan.untouched_hosts + plan.untouched_vms == 1 else "are"
    return (f"{' and '.join(words)} {verb} not affected",) if words else ()


def disruption_rows(plan: Plan) -> Iterator[tuple[str, str]]:
    """Yield the disrupted subjects, folded, and the disruption; hosts first."""
    efforts = [effort for effort in host_efforts(plan.changes).values() if effort.text]
    by_words: dict[str, list[str]] = {}
    for effort in efforts:
        words = [effort.text]
        words += [f"migrates {fold_names(effort.moved)}"] * bool(effort.moved)
        words += [f"powers off {fold_names(effort.switched_off)}"] * bool(effort.switched_off)
        by_words.setdefault("; ".join(words), []).append(effort.name)
    yield from ((fold_names(names), what) for what, names in by_words.items())
    for row in other_disruptions(plan, {name for effort in efforts for name in effort.switched_off}):
        what = " ".join(part for part in (row.what, row.more) if part)
        yield fold_names(row.names), f"{what}, {BLOCKED}" if row.is_blocked else what


def other_disruptions(plan: Plan, reported: set[str]) -> list[DisruptionRow]:
    """Group all subjects except hosts by disruption, and by whether it is blocked.

    `reported` are VMs that a host's row names.
    """
    removed = {change.subject.name for change in plan.changes if change.deletes}
    blocked = {change.subject.name for change in plan.changes if change.id in plan.blocked}
    impacts: dict[str, set[Impact]] = {}
    by_words: dict[tuple[str, bool], list[str]] = {}
    for change in plan.changes:
        name = change.subject.name
        if change.deletes:
            by_words.setdefault(("deletion", name in blocked), []).append(name)
        elif change.subject.kind == "host" or change.impact is Impact.NONE or name in removed:
            continue
        elif not (name in reported and (change.starts or change.stops)):
            impacts.setdefault(name, set()).add(change.impact)
    off = _staying_off(plan)
    stuns = {one.moves.name: one.timing.stun_ms for one in plan.changes if one.moves}
    impacts |= {name: {Impact.POWER_CYCLE} for name in sorted(off - impacts.keys() - removed - reported)}
    for name, found in impacts.items():
        is_off = found == {Impact.POWER_CYCLE} and name in off
        words = ", ".join(word for impact, word in _IMPACT_WORDS.items() if impact in found)
        words = "powered off" if is_off else words
        if Impact.VMOTION in found and (stun := stuns.get(name)) is not None:
            words += f", {duration(stun / 1000)}"
        by_words.setdefault((words, name in blocked), []).append(name)
    own = [DisruptionRow(what, tuple(names), is_blocked=is_so) for (what, is_so), names in by_words.items()]
    return [*own, *_shared(plan)]


def _shared(plan: Plan) -> Iterator[DisruptionRow]:
    """Group the disrupted subjects that have no changes of their own."""
    groups: dict[tuple[str, str, str, bool, bool], dict[Subject, None]] = {}
    for one in plan.disturbed:
        if one.experience not in _SHOWN_WITH_CHANGES:
            key = (one.experience.value, one.through, one.note, one.is_own, one.change in plan.blocked)
            groups.setdefault(key, {})[one.subject] = None
    for (what, through, note, is_own, is_blocked), subjects in groups.items():
        kinds = Counter(subject.kind for subject in subjects)
        counts = [counted(kinds[kind], noun) for kind, noun in _NOUNS.items() if kinds[kind]]
        whose = "of this plan" if is_own else "not of this plan"
        number = f"{' and '.join(counts)} {whose}" if counts else ""
        more = ", ".join(part for part in (f"through {through}" if through else "", number, note) if part)
        in_order = sorted(subjects, key=lambda subject: subject.kind)
        yield DisruptionRow(what, tuple(one.name for one in in_order), f"({more})", is_blocked)


@dataclass(frozen=True, slots=True)
class ShellRow:
    """Hosts with the same `settings`, in words, that only their shells can change."""

    hosts: tuple[str, ...]
    settings: tuple[str, ...]


def view_shells(plan: Plan) -> tuple[ShellRow, ...]:
    """List the settings that `apply` changes over SSH, by host, in the plan's order."""
    found: dict[str, dict[str, None]] = {}
    for change in plan.changes:
        if isinstance(change, ChangeHost) and change.write.needs_shell:
            titles = found.setdefault(change.host.name, {})
            for edit, target in zip(change.edits, change.settings, strict=False):
                titles[edit.key.removesuffix(f" {target.device}")] = None
    alike: dict[tuple[str, ...], list[str]] = {}
    for host, titles in found.items():
        alike.setdefault(tuple(titles), []).append(host)
    return tuple(ShellRow(tuple(hosts), titles) for titles, hosts in alike.items())


@dataclass(frozen=True, slots=True)
class UnknownRow:
    """Hosts with the same unknowns: `settings` of each, in words, and how `many` of each host.

    `at_most` is the greatest effect on each host; `is_of_shell` is whether only their shells show the values.
    """

    hosts: tuple[str, ...]
    settings: tuple[str, ...]
    many: int
    at_most: str
    is_of_shell: bool
    remedy: str


def view_unknown(plan: Plan) -> tuple[UnknownRow, ...]:
    """Make the rows, in the plan's order."""
    groups: dict[tuple[object, ...], list[UnknownHost]] = {}
    for found in plan.unknown:
        groups.setdefault((*_row(found), len(found.settings)), []).append(found)
    return tuple(
        UnknownRow(
            hosts=tuple(one.host.name for one in found),
            settings=_titles(found[0]),
            many=len(found[0].settings),
            at_most=at_most(found[0]),
            is_of_shell=_is_of_shell(found[0]),
            remedy=found[0].remedy,
        )
        for found in groups.values()
    )


def _row(found: UnknownHost) -> tuple[object, ...]:
    return _titles(found), at_most(found), _is_of_shell(found), found.remedy


def _titles(found: UnknownHost) -> tuple[str, ...]:
    return tuple(dict.fromkeys(one.title for one in found.settings))


def _is_of_shell(found: UnknownHost) -> bool:
    return all(one.is_of_shell for one in found.settings)


def at_most(found: UnknownHost) -> str:
    """List the disruptions of setting all of it, beyond the plan's own."""
    if found.is_checked_only:
        return "check only"
    restarts: Sequence[tuple[int, str]] = ((found.reboots, "reboot"), (found.cold_boots, "cold boot"))
    words = [counted(number, noun) for number, noun in restarts if number]
    if words:
        return f"up to {' and '.join(words)}"
    if found.impact is Impact.HOST_MAINTENANCE:
        return "up to maintenance mode"
    return "no additional restart" if found.impact in _TAKES_DOWN else "no restart"
