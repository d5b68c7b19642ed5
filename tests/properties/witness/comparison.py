"""What was experienced, held against what was shown: nothing is missing in any output, nothing is made up.

Which experience asks for which announcement and approval is written down here a second time, apart from
`vgpu_cfg/changes`: the two judge each other.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass

from tests.properties.witness.stage import Shown, Witnessed
from vgpu_cfg.catalog import load_catalog
from vgpu_cfg.changes.change import Change
from vgpu_cfg.changes.plan import Plan
from vgpu_cfg.changes.reach import Disturbed, Experience
from vgpu_cfg.lab.state.managed import Entry
from vgpu_cfg.planning.host_settings.table import setting
from vgpu_cfg.render.data.documents import plan_data
from vgpu_cfg.render.markdown.comment import render_comment
from vgpu_cfg.render.markdown.runbook import render_runbook
from vgpu_cfg.render.page.plan import render_plan_page
from vgpu_cfg.render.views.pictures.plan_picture import view_plan_picture


@dataclass(frozen=True, slots=True)
class Fault:
    """A kind of disagreement, and the case: `kind` is an experience, or one that was made up."""

    kind: str
    text: str


_E = Experience
_ANNOUNCED_AS: Mapping[tuple[str, str], Collection[Experience]] = {
    ("VirtualMachine", "link"): {_E.LINK_DOWN},
    ("VirtualMachine", "network"): {_E.LINK_DOWN},
    ("VirtualMachine", "move"): {_E.VMOTION},
    ("VirtualMachine", "register"): {_E.MOVED_OFF},
    ("VirtualMachine", "disk move"): {_E.MOVED_OFF},
    ("VirtualMachine", "power off"): {_E.POWERED_OFF},
    ("VirtualMachine", "gpu mode"): {_E.GPU_MODE},
    ("VirtualMachine", "device detach"): {_E.DISK_DETACHED, _E.DISK_DELETED},
    ("VirtualMachine", "disk delete"): {_E.DISK_DELETED},
    ("VirtualMachine", "process end"): {_E.TRAINING_ENDED},
    ("HostSystem", "link"): {_E.LINK_DOWN},
    ("HostSystem", "network"): {_E.LINK_DOWN},
    ("ClusterComputeResource", "cluster settings"): {_E.OPTION},
    ("Folder", "vcenter settings"): {_E.OPTION},
}
"""What in `Plan.disturbed` announces an experience, by the object's kind."""
_CHANGED_AS: Mapping[tuple[str, str], Collection[str]] = {
    ("VirtualMachine", "move"): {"relocate_vm"},
    ("VirtualMachine", "register"): {"relocate_vm", "power_on_vm"},
    ("VirtualMachine", "disk move"): {"relocate_vm"},
    ("VirtualMachine", "power on"): {"power_on_vm"},
    ("VirtualMachine", "reconfigure"): {"mark_vm", "reconfigure_vm", "upgrade_vm"},
    ("HostSystem", "network"): {"change_host"},
    ("HostSystem", "gpu mode"): {"change_host", "reboot_host", "cold_boot_host", "restart_service"},
    ("HostSystem", "host down"): {"reboot_host", "cold_boot_host", "shut_down_host"},
    ("HostSystem", "host up"): {"reboot_host", "cold_boot_host", "shut_down_host"},
}
"""Which changes of the object itself announce an experience: they are shown among the changes."""


def approval_of(entry: Entry) -> str | None:
    """Return what a stranger's experience needs beside the approvals that there always were."""
    match entry.kind, entry.what:
        case "VirtualMachine", "link" | "network":
            return "network"
        case "HostSystem", "link" if entry.about.startswith("vmk"):
            return "network"
        case "VirtualMachine", "process end":
            return "training"
        case _:
            return None


_HAPPENED_AS: Mapping[Experience, Collection[str]] = {
    _E.LINK_DOWN: {"link", "network"},
    _E.VMOTION: {"move"},
    _E.MOVED_OFF: {"register", "disk move"},
    _E.POWERED_OFF: {"power off"},
    _E.GPU_MODE: {"gpu mode"},
    _E.DISK_DETACHED: {"device detach"},
    _E.DISK_DELETED: {"disk delete"},
    _E.TRAINING_ENDED: {"process end"},
    _E.TRAINING_PAUSED: {"process end"},
    _E.OPTION: {"cluster settings", "vcenter settings"},
}
_ENDS_A_GUEST = frozenset({"power_off_vm", "destroy_vm", "stage_guest"})
_OF_DEVICES = frozenset({"device detach", "network"})
_OF_DISKS = frozenset({"device detach", "disk delete", "disk grow", "disk move"})


def faults_of(witnessed: Witnessed) -> list[Fault]:
    """Return where diaries and announcements differ."""
    found = [*_untold(witnessed), *_missing(witnessed), *_made_up(witnessed), *_unshown(witnessed)]
    return list(dict.fromkeys(found))


def disturbed_strangers(witnessed: Witnessed) -> list[Entry]:
    """Return what those experienced that are not the plan's: the part of the diary that counts."""
    return [one for one in witnessed.diary if _is_strange(one, witnessed)]


def _is_strange(entry: Entry, witnessed: Witnessed) -> bool:
    match entry.kind:
        case "VirtualMachine" if entry.moid in witnessed.strangers:
            return True
        case "VirtualMachine":
            is_disk = entry.what in _OF_DISKS and entry.about in witnessed.foreign_disks
            is_device = entry.what in _OF_DEVICES and (entry.name, entry.about) in witnessed.foreign_devices
            return is_disk or is_device or entry.what == "process end"
        case _:
            return True


def _untold(witnessed: Witnessed) -> Iterator[Fault]:
    """Yield what changed without an entry: then the diary itself is at fault."""
    for moid in sorted(witnessed.changed - {entry.moid for entry in witnessed.diary}):
        yield Fault("untold", f"{witnessed.strangers.get(moid) or witnessed.own.get(moid) or moid} changed")


# ------------------------------------------------------------------ missing


def _missing(witnessed: Witnessed) -> Iterator[Fault]:
    plans = [one.plan for one in witnessed.shown]
    for entry in disturbed_strangers(witnessed):
        if not any(_announces(plan, entry, witnessed) for plan in plans):
            where = f"{entry.name} {entry.about}".strip()
            yield Fault(entry.what, f"not announced: {entry.what} of {where} ({entry.kind}, {entry.cause})")


def _announces(plan: Plan, entry: Entry, witnessed: Witnessed) -> bool:
    key = entry.kind, entry.what
    if entry.what == "maintenance":
        return any(one.kind == f"{entry.about}_maintenance" and _is_about(one, entry) for one in plan.changes)
    kinds = _CHANGED_AS.get(key, ()) if entry.about not in witnessed.foreign_disks else ()
    if any(change.kind in kinds and _is_about(change, entry) for change in plan.changes):
        return True
    if entry.what == "process end" and any(
        change.kind in _ENDS_A_GUEST and change.subject.name == entry.name and _is_a_stop(change)
        for change in plan.changes
    ):
        return True
    return any(
        one.experience in _ANNOUNCED_AS.get(key, ()) and _concerns(one, entry, witnessed)
        for one in plan.disturbed
    )


def _is_a_stop(change: Change) -> bool:
    """Whether a change stops a VM as such: staging does not."""
    return change.kind != "stage_guest"


def _is_about(change: Change, entry: Entry) -> bool:
    moid = getattr(change, "cluster_moid", None) or change.subject.moid
    return entry.kind == "Folder" or entry.moid == moid or entry.name == change.subject.name


def _concerns(one: Disturbed, entry: Entry, witnessed: Witnessed) -> bool:
    if entry.what in _OF_DISKS and entry.about in witnessed.foreign_disks:
        return entry.about in (one.subject.name, one.note) or entry.about in one.subject.name
    if entry.kind == "Folder":
        return one.subject.kind == "vcenter"
    return entry.moid == one.subject.moid or (one.subject.moid is None and entry.name == one.subject.name)


# ------------------------------------------------------------------ made up


def _made_up(witnessed: Witnessed) -> Iterator[Fault]:
    for shown in witnessed.shown:
        for one in shown.plan.disturbed:
            happened = _HAPPENED_AS.get(one.experience)
            if one.change not in shown.done or happened is None or _is_idle(one, shown, witnessed):
                continue
            if not any(
                entry.what in happened and _concerns(one, entry, witnessed) for entry in witnessed.diary
            ):
                words = f"{one.experience.value} of {one.subject.name}"
                yield Fault(f"no {one.experience.value}", f"made up: {words} by {one.change}")


def _is_idle(one: Disturbed, shown: Shown, witnessed: Witnessed) -> bool:
    """Whether what is announced need not be felt: work in a guest without any, an own VM that is off then."""
    if one.experience is Experience.TRAINING_ENDED:
        return not any(
            one.subject.name == name and f"{words} (" in one.note for name, words in witnessed.busy
        )
    stops = {change.subject.name for change in shown.plan.changes if change.kind == "power_off_vm"}
    return one.is_own and one.subject.name in stops


# ------------------------------------------------------------------- shown


def _unshown(witnessed: Witnessed) -> Iterator[Fault]:
    """Yield which stranger that experienced something no row of an output names."""
    names = {entry.name for entry in disturbed_strangers(witnessed) if entry.kind == "VirtualMachine"}
    names &= set(witnessed.strangers.values())
    if not names or not witnessed.shown:
        return
    shown = witnessed.shown[0]
    saved = json.loads(shown.plan.model_dump_json(include={"disturbed", "changes"}))
    named = {face: names_in(text) for face, text in _faces(shown).items()} | {"plan.json": set(_texts(saved))}
    for face, known in named.items():
        for name in sorted(names - known):
            yield Fault(f"unnamed in {face}", f"{name} is not named in {face}")


def _faces(shown: Shown) -> Mapping[str, str]:
    """Return every output of a plan: the text as it was printed, the others as they are rendered from it."""
    plan = shown.plan
    picture = view_plan_picture(plan, shown.observed, load_catalog())
    return {
        "text": shown.text,
        "markdown": render_comment(plan),
        "runbook": render_runbook(plan, setting),
        "page": render_plan_page(plan, plan_data(plan, None), picture),
    }


def _texts(value: object) -> Iterator[str]:
    """Yield every text in a JSON value."""
    match value:
        case dict():
            yield from (text for one in value.values() for text in _texts(one))
        case list():
            yield from (text for one in value for text in _texts(one))
        case str():
            yield value
        case _:
            return


_RANGES: Callable[[str], list[str]] = re.compile(r"[\w.-]*\{[^{}]*\}[\w.{}-]*|[\w.-]+").findall


def names_in(text: str) -> set[str]:
    """Return all words of a text, with its ranges such as `web-{1..3,7}` written out."""
    found: set[str] = set()
    for word in _RANGES(text.replace("\\", "")):
        found |= set(_written_out(word))
    return {word.strip(".,:;") for word in found}


def _written_out(word: str) -> Iterator[str]:
    start, brace, rest = word.partition("{")
    if not brace:
        yield word
        return
    inside, _, after = rest.partition("}")
    for part in inside.split(","):
        first, dots, last = part.strip().partition("..")
        if not (first.isdigit() and (not dots or last.isdigit())):
            continue
        for number in range(int(first), int(last or first) + 1):
            yield from _written_out(f"{start}{number:0{len(first)}}{after}")
