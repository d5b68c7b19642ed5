"""How one change reads: its sign and verb, then one line per subject matter, like GPU, CPU, NIC, options."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import assert_never

from rich.text import Text

from vgpu_cfg.changes.change import (
    AwaitCustomization,
    Change,
    ChangeHost,
    ChangeNetwork,
    ColdBootHost,
    CreateVm,
    DestroyVm,
    EnterMaintenance,
    ExitMaintenance,
    ManualStep,
    MarkVm,
    MoveVmToFolder,
    PowerOffVm,
    PowerOnVm,
    RebootHost,
    ReconfigureVm,
    RelocateVm,
    RemoveRule,
    RemoveVmGroup,
    RenameVm,
    RestartService,
    SetAttributes,
    SetClusterOption,
    SetCordon,
    SetHostRule,
    SetOverrides,
    SetReservation,
    SetRule,
    SetTags,
    SetVCenterOption,
    ShutDownHost,
    StageGuest,
    UpgradeVm,
)
from vgpu_cfg.changes.change_network import EditSwitch, MakeSwitch, SetPortgroup
from vgpu_cfg.changes.create_vm import CloneFrom
from vgpu_cfg.changes.values import Edit, Impact, Placement
from vgpu_cfg.model.ranges import fold_names
from vgpu_cfg.planning.vms.settings.edits import extra_config_path
from vgpu_cfg.planning.vms.settings.setting import Topic
from vgpu_cfg.planning.vms.settings.table import vm_setting
from vgpu_cfg.render.layout.commands import proofs
from vgpu_cfg.render.layout.edits import edit_value, goes_along
from vgpu_cfg.render.layout.lines import both_ends, duration, fold
from vgpu_cfg.render.text.guests import guest_text, way_text

_Headed = (
    CreateVm
    | UpgradeVm
    | ReconfigureVm
    | MarkVm
    | SetAttributes
    | SetTags
    | SetOverrides
    | PowerOnVm
    | PowerOffVm
    | DestroyVm
    | RenameVm
    | MoveVmToFolder
    | RelocateVm
    | SetRule
    | SetHostRule
    | RemoveRule
    | RemoveVmGroup
    | EnterMaintenance
    | RestartService
    | RebootHost
    | ColdBootHost
    | ShutDownHost
    | ExitMaintenance
    | SetCordon
    | SetReservation
    | AwaitCustomization
    | StageGuest
    | ManualStep
)
TOPIC_WIDTH = 10
MOST_TOPIC_WIDTH = 40
_FAR = 30
_LEAST_ROOM = 20
"""Values that begin further right than the one get lines of their own where less than the other is left."""
GPU = Topic.GPU
"""The topic whose line says where ESXi will put the devices, which the edits' own notes say too."""
_SIGN_STYLES = {"+": "green", "~": "yellow", "-": "red", "!": "magenta"}
_MARKING = {
    "imported": ("take in", Text("nothing else of it is changed, and it may run", "dim")),
    "own": ("allow", Text("that `destroy` deletes it", "red")),
    "none": ("give up", Text("it stays as it is, and may run", "dim")),
}
"""What is done with a VM whose owner mark is written or taken away."""
IN_HEAD = frozenset(
    {"clone", "linked clone", "create", "host", "datastore", "folder", "name", "power", "resource pool", "vm"}
)
"""Keys of edits that the line of the change itself tells."""


def is_in_head(change: Change, edit: Edit) -> bool:
    """Whether the line of the change itself tells an edit; attributes and pairs may be named as those are."""
    is_named_freely = isinstance(change, ReconfigureVm | MarkVm | SetAttributes | SetTags) or _is_pair(edit)
    return edit.key in IN_HEAD and not is_named_freely


def _is_pair(edit: Edit) -> bool:
    """Whether an edit is of an extraConfig pair of its name."""
    return extra_config_path(edit.key) in edit.sets


def sign_of(change: Change) -> str:
    """Return the sign that the legend explains; a blank for what is switched, restarted or entered."""
    match change:
        case CreateVm():
            return "+"
        case SetRule() | SetHostRule():
            return "+" if change.rule_key is None else "~"
        case DestroyVm() | RemoveRule() | RemoveVmGroup():
            return "-"
        case SetReservation():
            return "-" if change.reservation is None else "~" if change.alarm else "+"
        case ManualStep():
            return "!"
        case PowerOnVm() | PowerOffVm() | AwaitCustomization():
            return " "
        case (
            UpgradeVm()
            | RenameVm()
            | MoveVmToFolder()
            | RelocateVm()
            | ReconfigureVm()
            | MarkVm()
            | SetAttributes()
            | SetTags()
            | SetOverrides()
            | ChangeHost()
            | SetCordon()
            | SetClusterOption()
            | SetVCenterOption()
        ):
            return "~"
        case StageGuest():
            return "+" if change.with_clone else "~"
        case (
            EnterMaintenance()
            | ExitMaintenance()
            | RestartService()
            | RebootHost()
            | ColdBootHost()
            | ShutDownHost()
        ):
            return " "
        case ChangeNetwork():
            return "+" if _is_made(change) else "~"
        case _:
            assert_never(change)


def change_lines(
    number: int,
    change: Change,
    placement: Placement | None,
    width: int,
    *,
    number_width: int = 3,
    topic_width: int = 0,
    endings: Sequence[str] = (),
) -> list[Text]:
    """Lay out one change; its number stands before the first line.

    `topic_width` is the least width of the first column; `endings` stand at the ends of the rows.
    """
    sign = sign_of(change)
    body = [*_head(change, placement), *_edit_rows(change, placement)] or [("set", Text(change.id))]
    topic_width = max(
        [TOPIC_WIDTH, topic_width, *(min(len(topic) + 2, MOST_TOPIC_WIDTH) for topic, _ in body)]
    )
    lines: list[Text] = []
    for index, (topic, words) in enumerate(body):
        ending = endings[index] if index < len(endings) else ""
        start = Text(f"{number if not lines else '':>{number_width}} ")
        start.append(f"{sign} ", style=_SIGN_STYLES.get(sign, ""))
        start.append(f"{topic:<{topic_width - 2}}  ")
        hang = " " * start.cell_len
        room = width - start.cell_len - (len(ending) + 2 if ending else 0)
        least = max([_LEAST_ROOM, *map(len, words.plain.split())])
        if room < least and (start.cell_len > _FAR or least <= width - number_width - 5):
            # A long path or option string would be cut to pieces in what room is left beside its name.
            lines += both_ends(start, Text(ending, "yellow"), width)
            margin = Text(" " * (number_width + 5))
            lines += [margin + part for part in fold(words, width - margin.cell_len)]
            continue
        first, *rest = fold(words, room)
        lines += both_ends(start + first, Text(ending, "yellow"), width) if ending else [start + first]
        lines += [Text(hang) + part for part in rest]
    return lines


def _head(change: Change, placement: Placement | None) -> list[tuple[str, Text]]:
    """Say what is done; nothing for a change whose edits tell all."""
    match change:
        case ChangeHost() | SetClusterOption() | SetVCenterOption() | ChangeNetwork():
            return []
        case _:
            return [_verb_and_text(change, placement)]


def _verb_and_text(change: _Headed, placement: Placement | None) -> tuple[str, Text]:
    match change:
        case AwaitCustomization():
            return "customise", Text(f"until it is done, {duration(change.wait_seconds)} at most", "dim")
        case StageGuest():
            return "guest", Text(guest_text(change))
        case CreateVm():
            return "clone" if isinstance(change.source, CloneFrom) else "create", _create_text(change)
        case UpgradeVm():
            words = [changed(edit) for edit in change.edits if edit.key == "hardware_version"]
            return "upgrade", words[0] if words else Text(f"to vmx-{change.hardware_version}")
        case ReconfigureVm():
            cycle = "while it is off" if change.impact is Impact.POWER_CYCLE else ""
            return "configure", Text(cycle)
        case MarkVm():
            return _MARKING[change.mark]
        case RenameVm():
            return "rename", _told_in_head(change.edits)
        case MoveVmToFolder():
            return "folder", _told_in_head(change.edits)
        case RelocateVm():
            return "move", Text.assemble(f"{move_text(change)}: ", _told_in_head(change.edits))
        case SetAttributes():
            return "attributes", Text("")
        case SetTags():
            return "tags", Text("")
        case SetOverrides():
            return "overrides", Text("what the cluster does with single VMs", "dim")
        case PowerOnVm():
            return "power on", _power_on_text(change, placement)
        case PowerOffVm():
            return "shut down", Text("through its guest, else switched off", "dim")
        case DestroyVm():
            return "delete", Text("; ".join(["with all its disks", *goes_along(change)]), "red")
        case SetRule() | SetHostRule():
            return "rule", Text(_rule_text(change))
        case RemoveRule():
            return "rule", Text(change.rule_name)
        case RemoveVmGroup():
            return "VM group", Text(change.group_name)
        case ManualStep():
            return "by hand", Text(change.text)
        case EnterMaintenance():
            return "maintenance", Text(_entering(change))
        case SetCordon():
            closes = any(change.values.values())
            return "cordon" if closes else "uncordon", Text("nothing new is placed here" if closes else "")
        case SetReservation():
            if change.reservation is None:
                return "give back", Text("others may take them", "dim")
            return "reserve", Text("other plans leave these GPUs to this one", "dim")
        case RestartService():
            return "restart", Text(f"service {change.service}, then read back")
        case RebootHost():
            return "reboot", Text("then read back")
        case ColdBootHost():
            by = f"its BMC {change.bmc.address} switches it on, then read back"
            return "cold boot", Text(f"shut down; once it is off {by}")
        case ShutDownHost():
            return "shut down", Text("the host, for the manual step that follows")
        case ExitMaintenance():
            if not (change.settles or change.is_held):
                return "give back", Text("leave maintenance mode")
            is_kept = "; it stays in maintenance mode, where somebody else holds it" if change.is_held else ""
            return "read back", Text(f"all settings{is_kept}" if is_kept else "then leave maintenance mode")
        case _:
            assert_never(change)


def _told_in_head(edits: Iterable[Edit]) -> Text:
    """Write edits one after the other; what the verb says, or a host, needs no name."""
    words = Text("")
    for number, edit in enumerate(edits):
        name = "" if edit.key in ("name", "folder", "host") else f"{edit.key} "
        words += Text(f"{', ' if number else ''}{name}") + changed(edit)
    return words


def move_text(change: RelocateVm) -> str:
    """Say how a VM is moved, and how long vMotion stops it where that is known."""
    window = f", only in the window {' and '.join(change.windows)}" if change.windows else ""
    if not change.is_running:
        return f"while it is off{window}"
    stun = "" if change.stun_ms is None else f", stopped for about {duration(change.stun_ms / 1000)}"
    return f"by vMotion, as it runs{stun}{window}"


def _rule_text(change: SetRule | SetHostRule) -> str:
    must = "must" if change.is_mandatory else "should"
    what = f"run on hosts of {change.host_group}" if isinstance(change, SetHostRule) else "run apart"
    return f"{change.rule_name}: {must} {what}: {fold_names(vm.name for vm in change.vms)}"


def _entering(change: EnterMaintenance) -> str:
    if change.is_held:
        return "somebody else holds it in maintenance mode: it is marked, and left there"
    if change.is_recovered:
        return "an earlier run took it into maintenance mode, and its mark is gone: it is marked again"
    words = "enter maintenance mode"
    if change.evacuates:
        moved = fold_names(change.evacuates)
        words = f"DRS moves {moved} away; {words}"
    if change.vsan is not None:
        words += f", vSAN {change.vsan}"
    return words


def _is_made(change: ChangeNetwork) -> bool:
    """Whether a change to networks makes something that is not there."""
    match change.network:
        case MakeSwitch():
            return True
        case SetPortgroup():
            return change.network.portgroup_moid is None
        case EditSwitch():
            return False
        case _:
            assert_never(change.network)


def _create_text(change: CreateVm) -> Text:
    stars = {edit.key for edit in change.edits if edit.is_default}
    source, location = change.source, change.location
    if isinstance(source, CloneFrom):
        notes = ["linked"] if source.snapshot_moid else []
        notes += [edit.note for edit in change.edits if edit.key in ("clone", "linked clone") and edit.note]
        origin = source.template.name + (f" ({', '.join(notes)})" if notes else "")
    else:
        origin = f"empty, for {source.guest_id}"
    places = {
        "host": location.host_name,
        "datastore": location.datastore_name,
        "folder": location.folder_path,
    }
    where = ", ".join(f"{name}{'*' if key in stars else ''}" for key, name in places.items() if name)
    return Text(f"{origin} -> {where}")


def _power_on_text(change: PowerOnVm, placement: Placement | None) -> Text:
    if change.pin is not None:
        return Text("then tied to the NUMA node of the GPU that ESXi chose", "dim")
    if placement is not None and placement.gpu_pci_ids and not placement.is_certain:
        return Text("ESXi chooses the GPU", "dim")
    return Text("")


def _edit_rows(change: Change, placement: Placement | None) -> Iterable[tuple[str, Text]]:
    """Yield one row per topic for a new VM, one per edit for a VM that is changed."""
    edits = [edit for edit in change.edits if not is_in_head(change, edit)]
    match change:
        case CreateVm():
            yield from _topic_rows(edits, placement)
        case ChangeHost():
            yield from ((edit.key, _set(edit, unset="")) for edit in change.edits)
        case SetClusterOption() | SetVCenterOption():
            yield from ((edit.key, _set(edit, unset="unset")) for edit in change.edits)
        case ChangeNetwork():
            words = (changed(edit) if edit.before else Text(edit_value(edit)) for edit in change.edits)
            yield from zip((edit.key for edit in change.edits), words, strict=True)
        case (
            ReconfigureVm()
            | MarkVm()
            | SetAttributes()
            | SetTags()
            | SetOverrides()
            | SetCordon()
            | SetReservation()
        ):
            yield from ((edit.key, changed(edit)) for edit in edits)
        case StageGuest():
            yield "by", Text(way_text(change), "dim")
        case ManualStep():
            yield from manual_rows(change)
        case SetHostRule():
            if change.rule_key is None:
                yield "VM group", Text(change.vm_group)
            else:
                yield from ((edit.key, changed(edit)) for edit in edits)
        case SetRule():
            if change.rule_key is not None:
                yield from ((edit.key, changed(edit)) for edit in edits)
        case _:
            return


def manual_rows(step: ManualStep) -> Iterable[tuple[str, Text]]:
    """Yield what is told beside a manual step's text: why, what to type, and what shows that it was done."""
    if step.edits:
        yield "why", Text("; ".join(_reason(edit) for edit in step.edits))
    for command in step.commands:
        yield "type", Text(command)
    for proof in proofs(step):
        yield "proof", Text(proof)
    if step.needs_acknowledgement:
        yield "then", Text(f"apply --done {shlex.quote(step.id)}, as nothing else shows that it was done")


def _reason(edit: Edit) -> str:
    found = "not known" if edit.before is None else edit.before
    note = f" ({edit.note})" if edit.note else ""
    return f"{edit.key} is {found}, and is to be {edit_value(edit)}{note}"


def _topic_rows(edits: Iterable[Edit], placement: Placement | None) -> Iterable[tuple[str, Text]]:
    topics: dict[str, Counter[str]] = {}
    for edit in edits:
        topic, name = topic_of(edit)
        value = f"no {edit.before}" if edit.after is None else edit_value(edit)
        if edit.note and topic != GPU:
            value += f" ({edit.note})"
        topics.setdefault(topic, Counter())[f"{name} {value}".strip()] += 1
    for topic, counts in topics.items():
        words = (words if count == 1 else f"{count} x {words}" for words, count in counts.items())
        line = ", ".join(words)
        yield topic, Text(line + _where(placement) if topic == GPU else line)


def _where(placement: Placement | None) -> str:
    """Say on which GPU, "probably" where ESXi chooses among several."""
    if placement is None or not placement.gpu_pci_ids:
        return ""
    return f", {'on' if placement.is_certain else 'probably on'} {', '.join(placement.gpu_pci_ids)}"


def topic_of(edit: Edit) -> tuple[str, str]:
    """Return the topic under which an edit is told, and its name there ("" where the topic says it)."""
    key = edit.key
    setting = vm_setting(key)
    if _is_pair(edit) and (setting is None or setting.path != key):
        return Topic.OPTIONS, key
    if setting is not None:
        return setting.topic, setting.name
    return _DEVICES.get(key, (Topic.OPTIONS, key) if "." in key or key.isupper() else (key, ""))


_DEVICES = {
    "gpu": (Topic.GPU, ""),
    "nic": (Topic.NIC, ""),
    "nic mac": (Topic.NIC, "MAC"),
    "disk": (Topic.DISK, ""),
}
"""The topics of what the table has no row for."""


def _set(edit: Edit, *, unset: str) -> Text:
    """Write the two values of a setting; `unset` is said of one that had none."""
    note = Text(f"  {edit.note}", "dim") if edit.note else Text("")
    before = unset if edit.before is None else edit.before
    return Text(f"{before} -> {edit_value(edit)}".lstrip()) + note


def changed(edit: Edit) -> Text:
    """Write an edit's two values: "+ new", "- old", or "old -> new"."""
    note = Text(f"  {edit.note}", "dim") if edit.note else Text("")
    if edit.before is None:
        return Text(f"+ {edit_value(edit)}") + note
    if edit.after is None:
        return Text.assemble((f"- {edit.before}", "red")) + note
    return Text(f"{edit.before} -> {edit_value(edit)}") + note
