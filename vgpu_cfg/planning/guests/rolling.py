"""Rolling updates: workers of a training are changed one after the other, and the training is paused first.

A unit is a worker, or all workers of a host that is taken down. The changes of a unit begin when those of the
unit before are done and confirmed. An elastic training continues without the unit, if enough workers remain.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from vgpu_cfg.changes.base import all_needed
from vgpu_cfg.changes.change import Change, PauseTraining, ResumeTraining
from vgpu_cfg.changes.values import Impact, Subject, VmRef
from vgpu_cfg.model.desired import DesiredPlan
from vgpu_cfg.model.guests.guest import GUEST_MARK_KEY, PAUSED, TRAINING_KEY, GuestSpec, parse_mark
from vgpu_cfg.model.observed.inventory import Inventory
from vgpu_cfg.model.observed.vm import Vm
from vgpu_cfg.model.plan_file.guest_values import parse_elastic
from vgpu_cfg.model.plan_file.training_entries import CheckpointEntry
from vgpu_cfg.planning.guests.peers import Team
from vgpu_cfg.planning.vms.new_vms import with_needs


@dataclass(slots=True)
class _Unit:
    """Workers that go together: the changes that take them away, and all of their changes."""

    names: list[str]
    away: list[str] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)


def roll(
    changes: Sequence[Change],
    team: Team | None,
    specs: Mapping[str, GuestSpec],
    observed: Inventory,
    launcher: Vm | None,
) -> list[Change]:
    """Order the changes of a training's workers as `update` says, with those that pause and resume it.

    `launcher` is the running VM from which it can have been started, None if there is none.
    """
    if team is None:
        return list(changes)
    update = team.training.update
    units = _in_order(_units(changes, team, observed), changes) if update is not None else []
    most = update.max_unavailable if update is not None else 1
    batches = [units[at : at + most] for at in range(0, len(units), most)]
    pauses = _Pauses(team, specs, launcher, update.checkpoint if update is not None else None)
    first: dict[str, tuple[str, ...]] = {}
    until_now: tuple[str, ...] = ()
    for batch in batches:
        names = [name for unit in batch for name in unit.names]
        begins = pauses.before(names, until_now)
        first |= {one: (*until_now, *begins) for unit in batch for one in unit.away}
        until_now = tuple(_last([one for unit in batch for one in unit.ids], changes))
    pauses.after([one for unit in units for one in unit.ids])
    begun = [one for one in pauses.changes if not one.after]
    ended = [one for one in pauses.changes if one.after]
    rolled = [with_needs(one, first[one.id]) if one.id in first else one for one in changes]
    return [*begun, *rolled, *ended]


def _units(changes: Sequence[Change], team: Team, observed: Inventory) -> list[_Unit]:
    """List the workers that changes take away, in the plan's order; a host's workers go together."""
    units: dict[str, _Unit] = {}
    for worker in team.workers:
        own = [one for one in changes if one.subject.kind == "vm" and one.subject.name == worker.vm.name]
        away = [one.id for one in own if _takes_away(one, observed)]
        if away:
            units[worker.vm.name] = _Unit([worker.vm.name], away, [one.id for one in own])
    for change in changes:
        if change.subject.kind == "host":
            together = {id(one): one for one in units.values() if not {*change.needs}.isdisjoint(one.away)}
            joined = _joined(list(together.values()))
            units |= dict.fromkeys(joined.names, joined)
    return list({id(one): one for one in units.values()}.values())


def _joined(units: Sequence[_Unit]) -> _Unit:
    return _Unit(
        [name for unit in units for name in unit.names],
        [one for unit in units for one in unit.away],
        [one for unit in units for one in unit.ids],
    )


def _takes_away(change: Change, observed: Inventory) -> bool:
    """Whether a change ends work in a worker that runs."""
    vm = observed.vm_by_moid.get(change.subject.moid or "")
    if vm is None or not vm.is_on:
        return False
    is_restarted = bool(change.staged) and change.impact is Impact.POWER_CYCLE
    return is_restarted or change.stops is not None or bool(change.ended_in(vm))


def _in_order(units: list[_Unit], changes: Sequence[Change]) -> list[_Unit]:
    """Put units in the plan's order, but each after those that its changes wait for anyway."""
    waits = {one.id: (*one.needs, *one.behind) for one in changes}
    before = [all_needed(unit.ids, waits) for unit in units]
    left, ordered = list(range(len(units))), list[_Unit]()
    while left:
        free = (
            one
            for one in left
            if all(before[one].isdisjoint(units[other].away) for other in left if other != one)
        )
        chosen = next(free, None)
        # Those that wait for each other go together.
        together = left if chosen is None else [chosen]
        ordered.append(_joined([units[one] for one in together]))
        left = [one for one in left if one not in together]
    return ordered


def _last(ids: Sequence[str], changes: Iterable[Change]) -> Iterator[str]:
    """Yield those of the changes that none of the others needs."""
    needed = {need for change in changes if change.id in ids for need in change.needs}
    return (one for one in ids if one not in needed)


class _Pauses:
    """The pauses and resumptions of a training, as its workers go and come back."""

    def __init__(
        self,
        team: Team,
        specs: Mapping[str, GuestSpec],
        launcher: Vm | None,
        checkpoint: CheckpointEntry | None,
    ) -> None:
        self._team, self._launcher, self._checkpoint = team, launcher, checkpoint
        self._spec = specs.get(launcher.name) if launcher is not None else None
        self._resumes = checkpoint is None or checkpoint.resume == "automatic"
        self._least = parse_elastic(team.training.elastic)[0] if team.training.elastic else None
        self._is_paused = False
        self.changes: list[PauseTraining | ResumeTraining] = []

    def before(self, names: Sequence[str], needs: tuple[str, ...]) -> tuple[str, ...]:
        """Pause the training before workers go, and let the others continue if they can."""
        if not self._is_paused:
            self._pause(needs)
        if self._goes_on_without(names):
            self._resume(tuple(name for name in self._names if name in names))
        return (self.changes[-1].id,) if self.changes else ()

    def after(self, ids: Sequence[str]) -> None:
        """Let the training continue with all workers, however their changes ended."""
        was_left = not ids and self._launcher is not None and is_paused(self._launcher)
        if not self.changes and not was_left:
            return
        if self.changes and not self._is_paused:
            self._pause((self.changes[0].id,), tuple(ids))
        if self._resumes:
            self._resume((), tuple(ids))

    @property
    def _names(self) -> list[str]:
        return [worker.vm.name for worker in self._team.workers]

    def _goes_on_without(self, names: Sequence[str]) -> bool:
        left = len(self._names) - len(names)
        is_kept = self._launcher is not None and self._launcher.name not in names
        return (
            is_kept and self._is_paused and self._resumes and self._least is not None and left >= self._least
        )

    def _id(self, verb: str) -> str:
        """Name a pause or a resumption: the first, and each further one by its number."""
        name = f"{verb} training {self._launcher.name if self._launcher is not None else ''}"
        number = sum(one.id.startswith(name) for one in self.changes)
        return f"{name} again ({number})" if number else name

    def _pause(self, needs: tuple[str, ...], after: tuple[str, ...] = ()) -> None:
        vm, spec, checkpoint = self._launcher, self._spec, self._checkpoint
        if vm is None or spec is None or checkpoint is None:
            return
        self._is_paused = True
        self.changes.append(
            PauseTraining(
                id=self._id("pause"),
                subject=Subject(kind="vm", name=vm.name, moid=vm.moid),
                vm=VmRef(name=vm.name, moid=vm.moid),
                spec=spec,
                hook=checkpoint.before,
                seconds=checkpoint.timeout,
                is_marked=self._resumes,
                needs=needs,
                after=after,
            )
        )

    def _resume(self, without: tuple[str, ...], after: tuple[str, ...] = ()) -> None:
        vm, spec = self._launcher, self._spec
        if vm is None or spec is None:
            return
        self._is_paused = False
        self.changes.append(
            ResumeTraining(
                id=self._id("resume"),
                subject=Subject(kind="vm", name=vm.name, moid=vm.moid),
                vm=VmRef(name=vm.name, moid=vm.moid),
                spec=spec,
                without=without,
                needs=(self.changes[-1].id,) if self.changes else (),
                after=after,
            )
        )


def launcher_of(team: Team | None, desired: DesiredPlan, observed: Inventory) -> Vm | None:
    """Return the running VM from which a training can have been started, None if there is none."""
    name = team.launcher.vm.name if team is not None and team.launcher is not None else ""
    own = (one for one in observed.vms if one.name == name and one.is_of(desired.identity))
    vm = next((one for one in own if one.is_on), None)
    settings = vm.detail.extra_config if vm is not None and vm.detail is not None else {}
    return vm if "launcher" in parse_mark(settings.get(GUEST_MARK_KEY, "")) else None


def is_paused(vm: Vm) -> bool:
    """Whether a run has paused the training of a VM, and none has resumed it."""
    return vm.detail is not None and vm.detail.extra_config.get(TRAINING_KEY, "") == PAUSED
