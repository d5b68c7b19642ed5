"""Edit the plan file so that it requests the findings on some VMs: each edit is tried by planning again.

An edit stays only if it leaves fewer differences of its VM, and changes neither requests nor differences of
any other VM. A VM of a line that counts several gets its own keys under `except`; findings common to all of
them go into the line.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from vgpu_cfg.changes.kinds.create_vm import THE_VM
from vgpu_cfg.changes.kinds.guest import GUEST
from vgpu_cfg.changes.plan import Plan
from vgpu_cfg.changes.suggestion import AsFound, Difference, FixKind, Left
from vgpu_cfg.documents import Edit, Loc, changed_lines
from vgpu_cfg.model.desired import DesiredVm
from vgpu_cfg.model.observed.vm import Vm, VmDetail
from vgpu_cfg.planning.drift import POWER, differences_of
from vgpu_cfg.planning.estate.ownership import own_vms
from vgpu_cfg.planning.exporting.vm_keys import KEY_OF_DEVICE, Names, in_order, vm_keys
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.vms.lookup.wanted import device_names
from vgpu_cfg.planning.vms.settings.edits import current
from vgpu_cfg.planning.vms.settings.table import VM_SETTINGS, vm_setting
from vgpu_cfg.suggestions.candidate import Candidate, PlanSource, Trial, attempt
from vgpu_cfg.suggestions.situation import Situation

_OF_FINDING: Mapping[str, Sequence[str]] = {Code.DISK_SHRINKS: ("disks",)}
_EXCEPT = "except"
_VM_BELOW_EXCEPT = 4
"""The depth of a VM there: vms, the line, except, its name."""
NO_KEY = "no plan-file key exists for this setting"
NOT_ENOUGH = "a difference would remain even with the current value in the plan file"
NOT_THERE = (
    "the VM does not exist: `apply` recreates it; if you no longer want it, remove it from the plan file"
)
NAME = "name"
OTHER_NAME = (
    "`apply` restores the old name; to keep the new one, use it in `vms` and add a `moved` item, or set "
    "`ignore: [name]`"
)
IN_GUEST = "guest settings are not written to the plan file"


def write_found(source: PlanSource, names: Sequence[str]) -> AsFound:
    """Edit the plan file so that the named VMs have no differences left.

    Raises DocumentError if the file cannot be read.
    """
    text = source.text
    loaded = source.load(text)
    trial = attempt(source, text, ())
    if trial is None:
        raise ValueError(f"{loaded.path} was read, but a plan could not be created from it")
    writing = _Writing(source, text, trial, trial)
    chosen = [vm for vm in trial.plan.desired.vms if vm.name in names]
    for line in _whole_lines(chosen, trial.plan.desired.vms):
        writing.take(line, with_line=True)
    for vm in chosen:
        writing.take((vm,))
        writing.note(vm)
    after = writing.trial.text
    return AsFound(
        text=after,
        lines=changed_lines(text, after),
        vms=tuple(vm.name for vm in chosen if vm.name in writing.taken),
        left=tuple(writing.left),
    )


def _whole_lines(chosen: Sequence[DesiredVm], known: Sequence[DesiredVm]) -> Iterator[tuple[DesiredVm, ...]]:
    """Yield the VMs of each line that counts several of which all are chosen."""
    for origin in dict.fromkeys(vm.origin for vm in chosen):
        members = tuple(vm for vm in known if vm.origin == origin)
        if len(members) > 1 and all(vm in chosen for vm in members):
            yield members


@dataclass(slots=True)
class _Writing:
    """The file after the VMs that were processed so far; `edits` made it from `begun`."""

    source: PlanSource
    text: str
    begun: Trial
    trial: Trial
    taken: set[str] = field(default_factory=set)
    left: list[Left] = field(default_factory=list)
    edits: list[Edit] = field(default_factory=list)
    reasons: dict[tuple[str, str], str] = field(default_factory=dict)

    def take(self, vms: Sequence[DesiredVm], *, with_line: bool = False) -> None:
        """Write the findings on one VM, key by key; or on all VMs of a line the common ones."""
        first = vms[0]
        tried: set[str] = set()
        while fresh := [
            one for one in _keys_of(_left_of(self.trial.plan, first.name)) if one[1] not in tried
        ]:
            what, key = fresh[0]
            tried.add(key)
            reason = self._write(vms, key, with_line=with_line)
            if reason:
                self.reasons[first.name, what] = reason
            else:
                self.taken |= {vm.name for vm in vms}

    def note(self, vm: DesiredVm) -> None:
        """Note what stays different of a VM, and why."""
        for host in self.trial.plan.lost_hosts:
            if any(lost.name == vm.name for lost in host.vms):
                why = f"{host.host.name} {host.connection.words}; reconnect it first"
                self.left.append(Left(vm=vm.name, what=THE_VM, why=why))
        for one in _left_of(self.trial.plan, vm.name):
            why = self.reasons.get((vm.name, one.what)) or _why_left(one)
            self.left.append(Left(vm=vm.name, what=one.what, why=why))

    def _write(self, vms: Sequence[DesiredVm], key: str, *, with_line: bool) -> str:
        """Try the file's possible values at a key; return why none works, "" if one did."""
        situation = Situation(self.trial, self.source.catalog)
        at = situation.line_of(vms[0]) if with_line else _place(situation, vms[0])
        if at is None:
            return "its line is in an included file"
        is_pair = key.startswith(("attributes.", "extra_config."))
        way = tuple(key.split(".", maxsplit=1)) if is_pair else (key,)
        stated = situation.data_at((*at, *way))
        if "${" in str(stated):
            where = f"{situation.document.name}:{situation.document.node((*at, *way)).line}"
            return f"{where} uses {stated}: change the variable, or replace it with the value"
        can_go = stated is not None and not with_line
        values = [list(self._values(vm, key, can_go=can_go)) for vm in vms]
        for value in values[0]:
            if all(value in others for others in values) and self._accept(vms, Edit((*at, *way), value)):
                return ""
        return NOT_ENOUGH

    def _accept(self, vms: Sequence[DesiredVm], edit: Edit) -> bool:
        """Keep an edit where it leaves fewer differences of its VMs, and all other VMs as they are."""
        names = {vm.name for vm in vms}
        edits = [one for one in self.edits if one.loc != edit.loc] + [edit]
        whole = _joined(edits, Situation(self.begun, self.source.catalog))
        trial = attempt(self.source, self.text, (Candidate(FixKind.FILE, "as found", edits=tuple(whole)),))
        if trial is None or _of_others(trial.plan, names) != _of_others(self.trial.plan, names):
            return False
        counts = [sum(len(_left_of(plan, name)) for name in names) for plan in (self.trial.plan, trial.plan)]
        if counts[1] >= counts[0]:
            return False
        self.trial, self.edits = trial, edits
        return True

    def _values(self, vm: DesiredVm, key: str, *, can_go: bool) -> Iterator[Any]:
        """Yield the file's possible values at a key, the shortest first; None removes it."""
        seen = own_vms(self.trial.plan.desired, self.trial.observed).get(vm.name)
        if seen is None:
            return
        detail = seen.detail or VmDetail()
        section, _, name = key.partition(".")
        if name:
            yield detail.attributes.get(name, "") if section == "attributes" else current(name, detail) or ""
            return
        said = self._said(vm, seen)
        if key in said:
            yield said[key]
        explicit = _explicit(detail, key)
        if explicit is not None:
            yield explicit
        if key == POWER:
            yield True
        if key in ("gpus", "nics", "disks") and key not in said:
            yield []
        if can_go:
            yield None

    def _said(self, vm: DesiredVm, seen: Vm) -> Mapping[str, Any]:
        observed = self.trial.observed
        names = Names(observed, self.trial.plan.desired.datacenter)
        template = next((one.detail for one in observed.vms if one.name == _template_of(vm)), None)
        return vm_keys(seen, names, device_names(observed, self.source.catalog), template).keys


def _joined(edits: Sequence[Edit], file: Situation) -> Iterator[Edit]:
    """Yield the edits, those of a VM that has nothing under `except` yet as one, in the order of keys."""
    new: dict[Loc, dict[str, Any]] = {}
    for edit in edits:
        above = edit.loc[:_VM_BELOW_EXCEPT]
        if len(edit.loc) <= _VM_BELOW_EXCEPT or above[2] != _EXCEPT or file.data_at(above) is not None:
            yield edit
            continue
        keys = new.setdefault(above, {})
        *way, last = (str(one) for one in edit.loc[_VM_BELOW_EXCEPT:])
        for one in way:
            keys = keys.setdefault(one, {})
        keys[last] = edit.value
    yield from (Edit(loc, in_order(keys)) for loc, keys in new.items())


def _template_of(vm: DesiredVm) -> str:
    return getattr(vm.source, "path_or_name", "")


def _left_of(plan: Plan, name: str) -> list[Difference]:
    """Return a VM's differences, and its obstacles."""
    found = [one for one in differences_of(plan) if _is_of(one, name)]
    told = {one.what for one in found}
    errors = (Difference(subject=one.subject, what=one.code) for one in plan.errors if one.code not in told)
    return found + [one for one in errors if _is_of(one, name)]


def _is_of(one: Difference, name: str) -> bool:
    return one.subject.kind == "vm" and name in one.subject.name.split(", ")


def _of_others(plan: Plan, names: Collection[str]) -> tuple[list[DesiredVm], list[Difference], set[str]]:
    """Return the requests, differences and obstacles of all other VMs."""
    return (
        [_asked(vm) for vm in plan.desired.vms if vm.name not in names],
        [one for one in differences_of(plan) if not any(_is_of(one, name) for name in names)],
        {
            f"{one.code} {one.subject.name}"
            for one in plan.errors
            if not {*names} & {*one.subject.name.split(", ")}
        },
    )


def _asked(vm: DesiredVm) -> DesiredVm:
    """Return the requests for a VM, without its place in the file."""
    return vm.model_copy(update={"origin": "", "line": ""})


def _place(situation: Situation, vm: DesiredVm) -> Loc | None:
    """Return the place of a VM's own keys: in its line, or under `except` if the line counts several."""
    line = situation.line_of(vm)
    if line is None:
        return None
    is_alone = sum(one.origin == vm.origin for one in situation.desired.vms) == 1
    return line if is_alone else (*line, _EXCEPT, vm.name)


def _keys_of(differences: Sequence[Difference]) -> Iterator[tuple[str, str]]:
    """Yield what differs with the key of the plan file that could say it."""
    for one in differences:
        for key in _keys(one):
            yield one.what, key


def _keys(one: Difference) -> Sequence[str]:
    if one.what in (THE_VM, GUEST):
        return ()
    if one.what == POWER:
        return (POWER,)
    if one.what in KEY_OF_DEVICE:
        return (KEY_OF_DEVICE[one.what],)
    if one.what == Code.SET_AT_CREATION_ONLY:
        return [row.plan_key for row in VM_SETTINGS if row.is_of_creation and row.plan_key]
    if one.what in _OF_FINDING:
        return _OF_FINDING[one.what]
    row = vm_setting(one.what)
    if row is not None:
        return [key for key in (row.plan_key, row.said_in, *row.follows) if key]
    for path in one.sets:
        kind, _, rest = path.partition("[")
        if kind == "customValue":
            return (f"attributes.{rest.removesuffix(']')}",)
        if kind == "extraConfig":
            return (f"extra_config.{rest.removesuffix(']')}",)
    return ()


def _explicit(detail: VmDetail, key: str) -> Any:
    """Return a row's words for a VM's value, required or not."""
    for row in VM_SETTINGS:
        found = row.shown(detail) if row.plan_key == key and row.in_file is not None else None
        if found is not None and row.in_file is not None:
            return row.in_file(found)
    return None


def _why_left(one: Difference) -> str:
    if one.what == THE_VM:
        return NOT_THERE
    if one.what == NAME:
        return OTHER_NAME
    return IN_GUEST if one.what == GUEST else NO_KEY
