"""The plan file edited so that it asks for what was found of some VMs: each edit is tried by planning again.

An edit stays only where it leaves fewer differences of its VM, and of all other VMs neither what is asked nor
what differs changes. A VM of a line that counts several gets its own keys under `except`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from vgpu_cfg.documents import Edit, Loc, changed_lines
from vgpu_cfg.model.desired import DesiredVm
from vgpu_cfg.model.observed.vm import Vm, VmDetail
from vgpu_cfg.model.plan.as_found import AsFound, Left
from vgpu_cfg.model.plan.change import Plan
from vgpu_cfg.model.plan.difference import Difference
from vgpu_cfg.model.plan.suggestion import FixKind
from vgpu_cfg.planning.drift.differences import GUEST, POWER, THE_VM, differences_of
from vgpu_cfg.planning.estate.own import own_vms
from vgpu_cfg.planning.exporting.names import Names
from vgpu_cfg.planning.exporting.vm_keys import in_order, vm_keys
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.vms.lookup.gpu_match import device_names
from vgpu_cfg.planning.vms.settings.extra_config import current
from vgpu_cfg.planning.vms.settings.table import VM_SETTINGS, vm_setting
from vgpu_cfg.suggestions.candidate import Candidate
from vgpu_cfg.suggestions.situation import Situation
from vgpu_cfg.suggestions.trial import PlanSource, Trial, attempt

_DEVICES = {"gpu": "gpus", "nic": "nics", "nic mac": "nics", "disk": "disks"}
_OF_FINDING: Mapping[str, Sequence[str]] = {Code.DISK_SHRINKS: ("disks",)}
_EXCEPT = "except"
_VM_BELOW_EXCEPT = 4
"""How deep a VM stands there: vms, the line, except, its name."""
NO_KEY = "the plan file has no key for it"
NOT_ENOUGH = "what was found cannot be written so that nothing differs"
NOT_THERE = "the VM is not there: `apply` makes it again; if it shall not be, take it out of the plan file"
IN_GUEST = "what a guest has is not taken into the plan file"


def write_found(source: PlanSource, names: Sequence[str]) -> AsFound:
    """Edit the plan file so that nothing differs of the named VMs any more.

    Raises DocumentError where the file cannot be read.
    """
    text = source.text
    loaded = source.load(text)
    trial = attempt(source, text, ())
    if trial is None:
        raise ValueError(f"{loaded.path} could be read, and not be planned")
    writing = _Writing(source, text, trial, trial)
    for vm in trial.plan.desired.vms:
        if vm.name in names:
            writing.take(vm)
    after = writing.trial.text
    return AsFound(
        text=after, lines=changed_lines(text, after), vms=tuple(writing.taken), left=tuple(writing.left)
    )


@dataclass(slots=True)
class _Writing:
    """The file as it stands after the VMs that were looked at so far; `edits` made it so from `begun`."""

    source: PlanSource
    text: str
    begun: Trial
    trial: Trial
    taken: list[str] = field(default_factory=list)
    left: list[Left] = field(default_factory=list)
    edits: list[Edit] = field(default_factory=list)

    def take(self, vm: DesiredVm) -> None:
        """Write what was found of one VM, key by key; note what stays different, and why."""
        begun = len(self.edits)
        reasons: dict[str, str] = {}
        tried: set[str] = set()
        while fresh := [one for one in _keys_of(self._differing(vm.name), vm) if one[1] not in tried]:
            what, key = fresh[0]
            tried.add(key)
            reason = self._write(vm, key)
            if reason:
                reasons[what] = reason
        if len(self.edits) > begun:
            self.taken.append(vm.name)
        for one in self._differing(vm.name):
            why = reasons.get(one.what) or _why_left(one)
            self.left.append(Left(vm=vm.name, what=one.what, why=why))

    def _differing(self, name: str) -> list[Difference]:
        return _left_of(self.trial.plan, name)

    def _write(self, vm: DesiredVm, key: str) -> str:
        """Try what the file could say at a key; return why nothing does, "" where something did."""
        situation = Situation(self.trial, self.source.catalog)
        at = _place(situation, vm)
        if at is None:
            return "its line is not in the plan file itself"
        way = (
            tuple(key.split(".", maxsplit=1)) if key.startswith(("attributes.", "extra_config.")) else (key,)
        )
        stated = situation.data_at((*at, *way))
        if "${" in str(stated):
            where = f"{situation.document.name}:{situation.document.node((*at, *way)).line}"
            return f"{where} says {stated}: change the variable, or write the value"
        for value in self._values(vm, key, is_stated=stated is not None):
            if self._accept(vm, Edit((*at, *way), value)):
                return ""
        return NOT_ENOUGH

    def _accept(self, vm: DesiredVm, edit: Edit) -> bool:
        """Keep an edit where it leaves fewer differences of its VM, and all other VMs as they are."""
        edits = [one for one in self.edits if one.loc != edit.loc] + [edit]
        idea = Candidate(
            FixKind.FILE, "as found", edits=tuple(_joined(edits, Situation(self.begun, self.source.catalog)))
        )
        trial = attempt(self.source, self.text, (idea,))
        if trial is None:
            return False
        before, after = self.trial.plan, trial.plan
        others = [one for one in before.desired.vms if one.name != vm.name]
        if [_asked(one) for one in after.desired.vms if one.name != vm.name] != [
            _asked(one) for one in others
        ]:
            return False
        outside = [
            [one for one in differences_of(plan) if not _is_of(one, vm.name)] for plan in (before, after)
        ]
        inside = [len(_left_of(plan, vm.name)) for plan in (before, after)]
        if outside[0] != outside[1] or inside[1] >= inside[0]:
            return False
        self.trial, self.edits = trial, edits
        return True

    def _values(self, vm: DesiredVm, key: str, *, is_stated: bool) -> Iterator[Any]:
        """Yield what the file could say at a key, the shortest first; None says nothing."""
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
        if is_stated:
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
    """Return what differs of a VM, and what stands against it."""
    found = [one for one in differences_of(plan) if _is_of(one, name)]
    told = {one.what for one in found}
    errors = (Difference(subject=one.subject, what=one.code) for one in plan.errors if one.code not in told)
    return found + [one for one in errors if _is_of(one, name)]


def _is_of(one: Difference, name: str) -> bool:
    return one.subject.kind == "vm" and name in one.subject.name.split(", ")


def _asked(vm: DesiredVm) -> DesiredVm:
    """Return what is asked of a VM, without its place in the file."""
    return vm.model_copy(update={"origin": "", "line": ""})


def _place(situation: Situation, vm: DesiredVm) -> Loc | None:
    """Return where a VM's own keys stand: in its line, or under `except` where the line counts several."""
    line = situation.line_of(vm)
    if line is None:
        return None
    is_alone = sum(one.origin == vm.origin for one in situation.desired.vms) == 1
    return line if is_alone else (*line, _EXCEPT, vm.name)


def _keys_of(differences: Sequence[Difference], vm: DesiredVm) -> Iterator[tuple[str, str]]:
    """Yield what differs with the key of the plan file that could say it."""
    for one in differences:
        for key in _keys(one, vm):
            yield one.what, key


def _keys(one: Difference, vm: DesiredVm) -> Sequence[str]:
    if one.what in (THE_VM, GUEST):
        return ()
    if one.what == POWER:
        return (POWER,)
    if one.what in _DEVICES:
        return (_DEVICES[one.what],)
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
    del vm
    return ()


def _explicit(detail: VmDetail, key: str) -> Any:
    """Return what a row says of what a VM shows, whether that must be said or not."""
    for row in VM_SETTINGS:
        found = row.shown(detail) if row.plan_key == key and row.in_file is not None else None
        if found is not None and row.in_file is not None:
            return row.in_file(found)
    return None


def _why_left(one: Difference) -> str:
    if one.what == THE_VM:
        return NOT_THERE
    return IN_GUEST if one.what == GUEST else NO_KEY
