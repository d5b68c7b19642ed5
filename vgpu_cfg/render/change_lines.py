"""How one change reads: its sign and verb, then one line per subject matter, like GPU, CPU, NIC, options."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import assert_never

from rich.text import Text

from vgpu_cfg.model.change import (
    Change,
    CloneFrom,
    CreateVm,
    DestroyVm,
    Edit,
    Impact,
    ManualStep,
    Placement,
    PowerOffVm,
    PowerOnVm,
    ReconfigureVm,
    RemoveRule,
    SetRule,
    UpgradeVm,
)
from vgpu_cfg.render.layout import fold, fold_names

TOPIC_WIDTH = 10
GPU = "GPU"
"""The topic whose line says where ESXi will put the devices, which the edits' own notes say too."""
_SIGN_STYLES = {"+": "green", "~": "yellow", "-": "red", "!": "magenta"}
TOLD_BY_THE_HEAD = frozenset(
    {"clone", "linked clone", "create", "host", "datastore", "folder", "power", "vm"}
)
"""Keys of edits that the line of the change itself tells."""


def sign_of(change: Change) -> str:
    """Return the sign that the legend explains; a blank for switching on and off."""
    match change:
        case CreateVm():
            return "+"
        case SetRule():
            return "+" if change.rule_key is None else "~"
        case DestroyVm() | RemoveRule():
            return "-"
        case ManualStep():
            return "!"
        case PowerOnVm() | PowerOffVm():
            return " "
        case UpgradeVm() | ReconfigureVm():
            return "~"
        case _:
            assert_never(change)


def change_lines(
    number: int, change: Change, placement: Placement | None, width: int, *, number_width: int = 3
) -> list[Text]:
    """Lay out one change; its number stands before the first line."""
    sign = sign_of(change)
    body = [_head(change, placement), *_edit_rows(change, placement)]
    topic_width = max(TOPIC_WIDTH, *(len(topic) + 2 for topic, _ in body))
    lines: list[Text] = []
    for topic, words in body:
        start = Text(f"{number if not lines else '':>{number_width}} ")
        start.append(f"{sign} ", style=_SIGN_STYLES.get(sign, ""))
        start.append(f"{topic:<{topic_width}}")
        hang = " " * start.cell_len
        first, *rest = fold(words, max(30, width - start.cell_len))
        lines += [start + first, *(Text(hang) + part for part in rest)]
    return lines


def edit_value(edit: Edit) -> str:
    """Write the value after an edit, "none" where it goes, with the mark of a default."""
    return f"{'none' if edit.after is None else edit.after}{'*' if edit.is_default else ''}"


def _head(change: Change, placement: Placement | None) -> tuple[str, Text]:
    match change:
        case CreateVm():
            return "clone" if isinstance(change.source, CloneFrom) else "create", _create_words(change)
        case UpgradeVm():
            words = [_changed(edit) for edit in change.edits if edit.key == "hardware_version"]
            return "upgrade", words[0] if words else Text(f"to vmx-{change.hardware_version}")
        case ReconfigureVm():
            cycle = "while it is off" if change.impact is Impact.POWER_CYCLE else ""
            return "configure", Text(cycle)
        case PowerOnVm():
            return "power on", _power_on_words(change, placement)
        case PowerOffVm():
            return "shut down", Text("through its guest, else switched off", "dim")
        case DestroyVm():
            return "delete", Text("with all its disks", "red")
        case SetRule():
            must = "must" if change.is_mandatory else "should"
            return "rule", Text(
                f"{change.rule_name}: {must} run apart: {fold_names(vm.name for vm in change.vms)}"
            )
        case RemoveRule():
            return "rule", Text(change.rule_name)
        case ManualStep():
            return "by hand", Text(change.text)
        case _:
            assert_never(change)


def _create_words(change: CreateVm) -> Text:
    stars = {edit.key for edit in change.edits if edit.is_default}
    source, location = change.source, change.location
    if isinstance(source, CloneFrom):
        origin = source.template.name + (" (linked)" if source.snapshot_moid else "")
    else:
        origin = f"empty, for {source.guest_id}"
    places = {
        "host": location.host_name,
        "datastore": location.datastore_name,
        "folder": location.folder_path,
    }
    where = ", ".join(f"{name}{'*' if key in stars else ''}" for key, name in places.items() if name)
    return Text(f"{origin} -> {where}")


def _power_on_words(change: PowerOnVm, placement: Placement | None) -> Text:
    if change.pin is not None:
        return Text("then tied to the NUMA node of the GPU that ESXi chose", "dim")
    if placement is not None and placement.gpu_pci_ids and not placement.is_certain:
        return Text("ESXi chooses the GPU", "dim")
    return Text("")


def _edit_rows(change: Change, placement: Placement | None) -> Iterable[tuple[str, Text]]:
    """Yield one row per topic for a new VM, one per edit for a VM that is changed."""
    edits = [edit for edit in change.edits if edit.key not in TOLD_BY_THE_HEAD]
    match change:
        case CreateVm():
            yield from _topic_rows(edits, placement)
        case ReconfigureVm():
            yield from ((edit.key, _changed(edit)) for edit in edits)
        case ManualStep():
            if change.proof:
                yield "proof", Text(change.proof)
        case SetRule():
            if change.rule_key is not None:
                yield from ((edit.key, _changed(edit)) for edit in edits)
        case _:
            return


def _topic_rows(edits: Iterable[Edit], placement: Placement | None) -> Iterable[tuple[str, Text]]:
    topics: dict[str, Counter[str]] = {}
    for edit in edits:
        topic, name = topic_of(edit.key)
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


def topic_of(key: str) -> tuple[str, str]:
    """Return the topic under which a key is told, and its name there ("" where the topic says it)."""
    return _TOPICS.get(key, ("options", key) if "." in key or key.isupper() else (key, ""))


_TOPICS = {
    "cpus": ("CPU, mem", "CPUs"),
    "cores_per_socket": ("CPU, mem", "cores per socket"),
    "memory": ("CPU, mem", "memory"),
    "memory_reservation": ("CPU, mem", "memory reserved:"),
    "numa": ("CPU, mem", "NUMA"),
    "numa.nodeAffinity": ("CPU, mem", "nodeAffinity"),
    "hardware_version": ("hardware", "version"),
    "firmware": ("hardware", "firmware"),
    "secure_boot": ("hardware", "secure boot"),
    "guest_id": ("hardware", "guest"),
    "gpu": ("GPU", ""),
    "gpus": ("GPU", ""),
    "nic": ("NIC", ""),
    "nics": ("NIC", ""),
    "nic mac": ("NIC", "MAC"),
    "disk": ("disk", ""),
    "disks": ("disk", ""),
    "extra_config": ("options", ""),
}


def _changed(edit: Edit) -> Text:
    note = Text(f"  {edit.note}", "dim") if edit.note else Text("")
    if edit.before is None:
        return Text(f"+ {edit_value(edit)}") + note
    if edit.after is None:
        return Text.assemble((f"- {edit.before}", "red")) + note
    return Text(f"{edit.before} -> {edit_value(edit)}") + note
