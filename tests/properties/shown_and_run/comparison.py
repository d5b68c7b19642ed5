"""The law: what a run sends is what its plan showed, leaf by leaf, and all that it showed is sent."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tests.properties.shown_and_run.exemptions import EXEMPTIONS, Exemption
from tests.properties.shown_and_run.expected import MAYBE, OF_A_VM, SET, Told, told_by
from tests.properties.shown_and_run.wire import GUEST_SHELL, HOST_SHELL, Sent, host_of
from vgpu_cfg.changes.base import IN_HEAD
from vgpu_cfg.changes.values import Edit
from vgpu_cfg.model.observed.vm import MARK_PLAN_KEY
from vgpu_cfg.planning.described import topic_of

Key = tuple[str, str, str, str]
"""Method, object, path, value."""

_DEVICE = re.compile(r"(deviceChange|deviceGroup)\[.*?\]")
_SETTING_A_VM = frozenset({"create_vm", "upgrade_vm", "reconfigure_vm", "mark_vm"})
_ENDING = re.compile(r"\s{2,}(reboot|cold boot|\w+ restart)( \d+)?$", re.MULTILINE)
"""What stands at the end of a setting's first line, in the midst of a value that takes two."""
_STEPS = {
    "power_on_vm": "power on",
    "power_off_vm": "shut down",
    "destroy_vm": "delete",
    "rename_vm": "rename",
    "move_vm_to_folder": "folder",
    "relocate_vm": "move",
    "enter_maintenance": "enter maintenance mode",
    "exit_maintenance": "leave maintenance mode",
    "reboot_host": "reboot",
    "cold_boot_host": "cold boot",
    "shut_down_host": "shut down",
    "restart_service": "restart",
    "stage_guest": "guest",
}
"""How `plan` names a change that has nothing but itself to show."""


@dataclass(frozen=True, slots=True)
class Run:
    """A plan as saved, how it was shown, and what was sent when it was run.

    `vm_names` maps the moids of VMs to names, `carried_out` names the changes that were.
    """

    plan: Mapping[str, Any]
    verbose: str
    runbook: str
    sent: tuple[Sent, ...]
    vm_names: Mapping[str, str]
    carried_out: frozenset[str]


def faults_of(run: Run, *, of_vms: bool, used: set[Exemption] | None = None) -> list[str]:
    """Return where a run breaks the law, in its requests to VMs (`of_vms`) or in all others.

    `used` takes the exemptions that were needed.
    """
    told = [one for change in run.plan["changes"] for one in told_by(change)]
    known = Counter(_key(one) for one in told)
    seen: set[Key] = set()
    faults: list[str] = []
    for sent in run.sent:
        method, on = _named(sent, run)
        if (method == SET) is not of_vms:
            continue
        count: Counter[Key] = Counter()
        for path, value in (("", ""), *sent.leaves):
            key = (method, on, _plain_path(path), _named_values(_as_told(path, value), run))
            anywhere = (method, "", *key[2:])
            seen |= {key, anywhere}
            if (path, value) in sent.kept:
                continue
            count[key] += 1
            if count[key] <= known[key] or known[anywhere]:
                continue
            exempt = next((one for one in EXEMPTIONS if one.covers(method, *key[2:])), None)
            if exempt is None:
                faults.append(f"sent, not shown: {method} on {on}: {key[2] or 'the call'} = {key[3]}")
            elif used is not None:
                used.add(exempt)
    faults += _unsent([one for one in told if (one.method == SET) is of_vms], seen, run)
    faults += _unshown(run, of_vms=of_vms)
    return list(dict.fromkeys(faults))


def _key(told: Told) -> Key:
    return told.method, told.on, _plain_path(told.path), _as_told(told.path, told.value)


def _plain_path(path: str) -> str:
    """Return a path as it is compared: how a device is called in it is for readers."""
    return _DEVICE.sub(r"\1[*]", path).replace("deviceChange[*].device.", "deviceChange[*].")


def _named(sent: Sent, run: Run) -> tuple[str, str]:
    """Return what a call is called in the law, and the moid of its object, or the name of its VM."""
    leaves = dict(sent.leaves)
    if sent.method in ("CloneVM_Task", "CreateVM_Task"):
        return SET, leaves["name"]
    if sent.method in OF_A_VM:
        return SET, run.vm_names[sent.on]
    if sent.method == GUEST_SHELL or sent.on in run.vm_names:
        return sent.method, run.vm_names.get(sent.on, sent.on)
    if sent.method == HOST_SHELL or sent.method.startswith("esxcli "):
        return sent.method, sent.on
    if sent.method == "UpdateAssignedLicense":
        return sent.method, leaves["entity"]
    return sent.method, host_of(sent.on) or sent.on


def _as_told(path: str, value: str) -> str:
    """Return a value without what a run adds that no plan can know: an owner mark tells the plan's name.

    Behind it stand the plan's id, the instance UUID of a VM that was just made, the account and the time; of
    a new VM also what devices its clone makes.
    """
    return value.partition(" ")[0] if path == f"extraConfig[{MARK_PLAN_KEY}]" else value


def _named_values(value: str, run: Run) -> str:
    """Return a value with the names of VMs for their moids."""
    return ", ".join(run.vm_names.get(part, part) for part in value.split(", "))


def _unsent(told: list[Told], seen: set[Key], run: Run) -> Iterator[str]:
    """Yield what a change that was carried out said and did not send, by neither way."""
    for change in run.plan["changes"]:
        if change["id"] not in run.carried_out:
            continue
        ways: dict[int, list[Told]] = {}
        for one in told:
            if one.change == change["id"] and one.way != MAYBE:
                ways.setdefault(one.way, []).append(one)
        left = {way: [one for one in own if not _is_seen(one, seen)] for way, own in ways.items()}
        if all(left.values()):
            for one in left.get(0, ()):
                leaf = f" {one.path} = {one.value}" if one.path else ""
                yield f"shown, not sent: {one.change}: {one.method}{leaf}"


def _is_seen(told: Told, seen: set[Key]) -> bool:
    method, on, path, value = _key(told)
    return (method, on, path, value) in seen or (not on and (method, "", path, value) in seen)


# --------------------------------------------------------------------- shown


def _unshown(run: Run, *, of_vms: bool) -> Iterator[str]:
    """Yield what `plan -v` or the runbook does not tell: a step by its name, an edit by its value."""
    verbose, runbook = _packed(_ENDING.sub("", run.verbose)), _packed(run.runbook)
    for change in run.plan["changes"]:
        if change["id"] not in run.carried_out:
            continue
        told = list(told_by(change))
        if (change["kind"] in _SETTING_A_VM) is not of_vms:
            continue
        if _packed(change["id"]) not in runbook:
            yield f"not in the runbook: {change['id']}"
        if _packed(_STEPS.get(change["kind"], "")) not in verbose:
            yield f"not in plan -v: {change['id']}"
        for number in dict.fromkeys(one.edit for one in told if one.path):
            if number is None:
                if change["kind"] == "change_host":
                    yield f"no edit of its own: {change['id']}"
                continue
            edit = change["edits"][number]
            for text, place, words in (
                (verbose, "plan -v", _in_plan),
                (runbook, "the runbook", _in_runbook),
            ):
                in_table = text is verbose and _is_in_table(change, edit, run.verbose)
                if not in_table and not any(_packed(one) in text for one in words(edit)):
                    yield f"not in {place}: {change['id']}: {edit['key']} {edit['after']}"


def _is_in_table(change: Mapping[str, Any], edit: Mapping[str, Any], verbose: str) -> bool:
    """Whether a table of unlike VMs tells an edit in the row of its VM, under the heading of its key."""
    vm = change.get("subject", {}).get("name", "")
    rows = [line.split() for line in verbose.splitlines()]
    headings = [row for row in rows if row[:2] == ["STEPS", "VM"] and edit["key"].upper() in row]
    values = str(edit["after"]).rstrip("*").split()
    told = (row for row in rows if vm in row[1:2])
    return bool(headings) and any(
        row[start : start + len(values)] == values for row in told for start in range(len(row))
    )


Words = Callable[[Mapping[str, Any]], list[str]]


def _in_plan(edit: Mapping[str, Any]) -> list[str]:
    """Return how `plan` may tell an edit: with its name, or under its topic; with the value before it."""
    after = "none" if edit["after"] is None else edit["after"]
    _, name = topic_of(Edit.model_validate(edit))
    if edit["before"] is None:
        return [f"{name} {after}", *(f"{edit['key']} {sign} {after}" for sign in ("", "+", "->"))]
    return [f"{name} {after}", f"{edit['before']} -> {after}", f"- {edit['before']}"]


def _in_runbook(edit: Mapping[str, Any]) -> list[str]:
    """Return how the runbook may tell an edit: in a table of names and values, or in its sentence."""
    before, after = edit["before"] or "", edit["after"] or ""
    star = "*" if edit["is_default"] else ""
    columns = [f"{before} | "] if before else ["| ", ""]
    ends = (after, f"{after}{star}", "none")
    rows = [f"| {edit['key']} | {column}{end} |" for column in columns for end in ends]
    match edit["key"]:
        case "hardware_version":
            return [*rows, f"to hardware version {after.removeprefix('vmx-')}."]
        case key if key in IN_HEAD:
            return [*rows, after]
        case _:
            return rows


def _packed(text: str) -> str:
    """Return a text without what its layout brings: blanks, breaks, and Markdown's marks."""
    return re.sub(r"[\s`\\]+", "", text)
