"""How the changes of a host read: a line per setting, what brings it into force, and which hosts are alike.

What a written setting waits for is told by the restart further on that settles it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from rich.text import Text

from vgpu_cfg.model.change import (
    Change,
    ChangeHost,
    Edit,
    EnterMaintenance,
    ExitMaintenance,
    ManualStep,
    PowerOffVm,
    RebootHost,
    RestartService,
    SettingTarget,
    ShutDownHost,
)
from vgpu_cfg.render.layout.edits import edit_value
from vgpu_cfg.render.layout.lines import counted, fold, fold_names
from vgpu_cfg.render.text.plan.change_lines import MOST_TOPIC_WIDTH, change_lines

Numbered = Sequence[tuple[int, Change]]
_STEP_WIDTH = 13
_MARGIN = 6


@dataclass(frozen=True, slots=True)
class HostEffort:
    """What is done to one host, counted, and whom it concerns.

    `moved` and `switched_off` are VMs, `by_hand` the numbers of manual steps in the plan,
    `right` the settings that are asked for and need nothing.
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
    def words(self) -> str:
        """What is disturbed: "maintenance mode, 1 reboot"; empty where nothing is."""
        words = []
        if self.enters is not None:
            words.append("in maintenance mode already" if self.enters.is_held else "maintenance mode")
        if self.reboots:
            words.append(counted(self.reboots, "reboot"))
        if self.cold_boots:
            words.append(counted(self.cold_boots, "cold boot"))
        words += [f"restart of {service}" for service in self.services]
        return ", ".join(words)


def effort_of(name: str, changes: Numbered, plan: Sequence[Change]) -> HostEffort:
    """Count what is done to a host; `changes` are its own, `plan` all of them."""
    own = [change for _, change in changes]
    needs = {need for change in own for need in change.needs}
    enters = next((change for change in own if isinstance(change, EnterMaintenance)), None)
    touched = {target.id for target in _written(own)}
    settles = next((change.settles for change in own if isinstance(change, ExitMaintenance)), ())
    return HostEffort(
        name=name,
        settings=len(touched),
        reboots=sum(isinstance(change, RebootHost) for change in own),
        cold_boots=sum(isinstance(change, ShutDownHost) for change in own) or _waits_for_power(own),
        services=tuple(dict.fromkeys(change.service for change in own if isinstance(change, RestartService))),
        enters=enters,
        moved=enters.evacuates if enters is not None else (),
        switched_off=tuple(
            change.vm.name for change in plan if isinstance(change, PowerOffVm) and change.id in needs
        ),
        by_hand=tuple(number for number, change in changes if isinstance(change, ManualStep)),
        right=tuple(target for target in settles if target.id not in touched),
    )


def _waits_for_power(changes: Sequence[Change]) -> int:
    """Count 1 for a host that an earlier run shut down, and that only waits to be switched on."""
    return int(
        len(changes) == 1 and isinstance(changes[0], ManualStep) and changes[0].id.startswith("cold boot ")
    )


def _written(changes: Iterable[Change]) -> Iterable[SettingTarget]:
    """Yield the settings that are written, and those that are set by hand."""
    for change in changes:
        if isinstance(change, ChangeHost):
            yield from change.settings
        elif isinstance(change, ManualStep) and change.edits:
            yield from change.proves


def host_lines(changes: Numbered, width: int, number_width: int, *, with_all: bool = False) -> list[Text]:
    """Lay out a host's changes; each setting's line ends with what brings it into force."""
    keys = [edit.key for _, change in changes if isinstance(change, ChangeHost) for edit in change.edits]
    topic_width = min(MOST_TOPIC_WIDTH, max((len(key) + 2 for key in keys), default=0))
    lines: list[Text] = []
    restarts = sum(isinstance(change, RebootHost | ShutDownHost) for _, change in changes)
    for index, (number, change) in enumerate(changes):
        endings: tuple[str, ...] = ()
        if isinstance(change, ChangeHost) and len(change.edits) == len(change.settings):
            later = changes[index + 1 :]
            endings = tuple(waits_for(target, later, is_numbered=restarts > 1) for target in change.settings)
        lines += change_lines(
            number,
            change,
            None,
            width,
            number_width=number_width,
            topic_width=topic_width if isinstance(change, ChangeHost) else _STEP_WIDTH,
            endings=endings,
        )
    return lines + _right(changes, width, with_all=with_all)


def waits_for(target: SettingTarget, later: Numbered, *, is_numbered: bool = False) -> str:
    """Say which restart further on settles a setting, with the restart's number where that is asked for."""
    is_down = False
    for number, change in later:
        match change:
            case RebootHost(settles=settles) if target.id in {one.id for one in settles}:
                return f"reboot {number}" if is_numbered else "reboot"
            case RestartService(settles=settles) if target.id in {one.id for one in settles}:
                return f"restart of {change.service}"
            case ShutDownHost():
                is_down = True
            case ManualStep(proves=proves) if is_down and target.id in {one.id for one in proves}:
                return f"cold boot {number}" if is_numbered else "cold boot"
            case _:
                continue
    return ""


def _right(changes: Numbered, width: int, *, with_all: bool) -> list[Text]:
    right = effort_of("", changes, ()).right
    if not right:
        return []
    margin = " " * _MARGIN
    if not with_all:
        verb = "is" if len(right) == 1 else "are"
        return [Text(f"{margin}{counted(len(right), 'more setting')} {verb} right (-v)", "dim")]
    words = Text("right: " + ", ".join(f"{target.id} {target.value}" for target in right), "dim")
    return [Text(margin) + part for part in fold(words, width - _MARGIN, hang=2)]


def host_shape(changes: Numbered, name: str) -> tuple[object, ...]:
    """Return what must be equal for two hosts to be told as one; their own names are taken out of texts."""
    return tuple(
        (change.kind, change.impact, tuple(edit.key for edit in change.edits), _rest(change, name))
        for _, change in changes
    )


def _rest(change: Change, name: str) -> object:
    match change:
        case ManualStep():
            texts = (change.text, change.proof, *change.commands)
            return (*(text.replace(name, "") for text in texts), change.needs_word)
        case EnterMaintenance():
            return (change.is_held, change.vsan, change.window)
        case RestartService():
            return change.service
        case ChangeHost():
            return change.write.kind
        case _:
            return None


def host_difference(leader: Numbered, follower: Numbered) -> tuple[str, ...]:
    """List what differs between two hosts of one shape: who is moved away, and values before and after."""
    words: list[str] = []
    for (_, theirs), (_, ours) in zip(leader, follower, strict=True):
        if (
            isinstance(ours, EnterMaintenance)
            and isinstance(theirs, EnterMaintenance)
            and ours.evacuates != theirs.evacuates
        ):
            words.append(f"moves {fold_names(ours.evacuates)} away" if ours.evacuates else "moves no VM away")
        words += [
            _edit_words(after)
            for before, after in zip(theirs.edits, ours.edits, strict=True)
            if (before.before, before.after, before.is_default)
            != (after.before, after.after, after.is_default)
        ]
    return tuple(dict.fromkeys(words))


def _edit_words(edit: Edit) -> str:
    return f"{edit.key} {edit_value(edit) if edit.before is None else f'{edit.before} -> {edit_value(edit)}'}"


def host_efforts(plan: Sequence[Change]) -> Mapping[str, HostEffort]:
    """Count by host what a plan does, in the order in which hosts first appear."""
    found: dict[str, list[tuple[int, Change]]] = {}
    for number, change in enumerate(plan, 1):
        if change.subject.kind == "host":
            found.setdefault(change.subject.name, []).append((number, change))
    return {name: effort_of(name, changes, plan) for name, changes in found.items()}


def host_counts(plan: Sequence[Change]) -> list[str]:
    """Count what is done to hosts, in words: "7 host settings", "1 reboot"."""
    efforts = host_efforts(plan).values()
    kinds = Counter(change.kind for change in plan)
    counts = [
        (sum(effort.settings for effort in efforts), "host setting"),
        (sum(effort.reboots for effort in efforts), "reboot"),
        (sum(effort.cold_boots for effort in efforts), "cold boot"),
        (kinds["set_cluster_option"] + kinds["set_vcenter_option"], "option"),
        (kinds["change_network"], "network change"),
    ]
    return [counted(number, noun) for number, noun in counts if number]
