"""The parts of a guest to stage: a change per VM, of its outdated modules, and their order in a training.

Secrets must not be in a VM's configuration, so they do not come with its clone: a second change brings them,
once the guest has reported its host key. Staged modules are in the VM's mark. The guest's own report counts
if no mark was written, as after an interrupted run: modules it reports need no restart to be found again.

Workers of a training are changed one after the other, and the training is paused first. A unit is a worker,
or all workers of a host that is taken down. The changes of a unit begin when those of the unit before are
done and confirmed. An elastic training continues without the unit, if enough workers remain.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from vgpu_cfg.changes.base import all_needed, of_kind
from vgpu_cfg.changes.change import Change, PauseTraining, PowerOnVm, ResumeTraining, StageGuest
from vgpu_cfg.changes.values import Edit, Impact, Subject, VmRef
from vgpu_cfg.model.desired import DesiredPlan
from vgpu_cfg.model.guests.guest import (
    BEGUN,
    GUEST_MARK_KEY,
    PAUSED,
    REPORT_KEY,
    TO_COME,
    TRAINING_KEY,
    UNKNOWN,
    USERDATA_KEY,
    GuestReport,
    GuestSpec,
    StagedModule,
    fingerprint_of,
    host_keys_fingerprint,
    is_expected,
    kept_host_key,
    outdated,
    parse_mark,
    parse_report,
)
from vgpu_cfg.model.guests.modules import GuestModule
from vgpu_cfg.model.guests.training_modules import ImageModule
from vgpu_cfg.model.observed.inventory import Inventory
from vgpu_cfg.model.observed.vm import Vm, VmDetail
from vgpu_cfg.model.plan_file.guest_values import parse_elastic
from vgpu_cfg.model.plan_file.training_entries import CheckpointEntry
from vgpu_cfg.model.wording import listed
from vgpu_cfg.planning.guests.peers import Team
from vgpu_cfg.planning.vms.new_vms import change_id, with_needs

_ON_ITS_WAY = frozenset({"running", "reboot", "done"})


@dataclass(frozen=True, slots=True)
class GuestKnown:
    """A VM's facts on its guest: staged modules, its report, whether a clone brought user data.

    `mark_text` is its mark verbatim, `mark` the modules staged according to it. `is_begun`: it was made for a
    plan, and has never been staged whole. `host_key` is its identity, in the form of
    `model.guests.host_keys`. `uptime_seconds` is None while it is off.
    """

    mark: Mapping[str, StagedModule]
    mark_text: str = ""
    host_key: str = UNKNOWN
    report: GuestReport | None = None
    is_marked: bool = False
    is_seeded: bool = False
    is_begun: bool = False
    uptime_seconds: int | None = None


def known_of(detail: VmDetail | None, *, is_exposed: bool) -> GuestKnown:
    """Read a VM's facts; for a missing or unread one nothing is known."""
    options = detail.extra_config if detail is not None else {}
    mark = options.get(GUEST_MARK_KEY, "")
    staged = parse_mark(mark)
    return GuestKnown(
        mark=staged,
        mark_text=mark,
        host_key=kept_host_key(options, is_staged=bool(mark), is_exposed=is_exposed),
        report=parse_report(options.get(REPORT_KEY, "")),
        is_marked=bool(staged),
        is_seeded=bool(options.get(USERDATA_KEY, "")),
        is_begun=BEGUN in mark.split(),
        uptime_seconds=detail.uptime_seconds if detail is not None else None,
    )


def present_report(spec: GuestSpec, known: GuestKnown) -> GuestReport | None:
    """Return the guest's report if it is about the plan's present request."""
    report = known.report
    return report if report is not None and report.spec == spec.digest else None


@dataclass(frozen=True, slots=True)
class GuestUpdate:
    """A VM whose guest may be staged. `moid` is None for one that is yet to be made.

    `is_on` is whether it runs now, `changes` are the plan's others to it, in their order.
    """

    spec: GuestSpec
    known: GuestKnown
    moid: str | None
    host_moid: str | None
    is_on: bool
    changes: Sequence[Change] = ()

    @property
    def is_new(self) -> bool:
        """Whether the plan makes it."""
        return self.moid is None

    @property
    def power_on(self) -> PowerOnVm | None:
        """The change that powers it on, None where there is none."""
        return next(of_kind(self.changes, PowerOnVm), None)

    @property
    def will_run(self) -> bool:
        """Whether it runs once the plan's other changes are done."""
        if self.power_on is not None:
            return True
        return self.is_on and not any(one.stops for one in self.changes)

    @property
    def is_silent(self) -> bool:
        """Whether it has been up for longer than a first boot may take, and has never reported anything."""
        uptime = self.known.uptime_seconds
        return (
            self.known.report is None
            and not self.known.is_marked
            and uptime is not None
            and uptime >= self.spec.wait_seconds
        )


@dataclass(frozen=True, slots=True)
class Knowledge:
    """The known facts of the plan's secrets and guests: fingerprints by name, and by VM host keys and moids.

    A host key has the form of `model.guests.host_keys`. For a VM yet to be made the moid is None.
    """

    fingerprints: Mapping[str, str]
    host_keys: Mapping[str, str]
    moids: Mapping[str, str | None]


def know(updates: Sequence[GuestUpdate], fingerprints: Mapping[str, str]) -> Knowledge:
    """Gather the facts known once the plan is carried out.

    A guest that is made, or reports its host key while it is staged, has a future one.
    """
    host_keys = {}
    for update in updates:
        spec, known = update.spec, update.known
        is_told = update.will_run and outdated(spec.modules, known.mark, fingerprints)
        host_keys[spec.vm] = TO_COME if known.host_key == UNKNOWN and is_told else known.host_key
    return Knowledge(fingerprints, host_keys, {update.spec.vm: update.moid for update in updates})


def stage_guest(
    update: GuestUpdate,
    knowledge: Knowledge,
    *,
    again: Collection[str] = (),
    other: str = "secret changed",
    is_rolled: bool = False,
) -> tuple[StageGuest, ...]:
    """Return the changes that bring outdated modules; none if there are none, or the VM is not running.

    `again` are kinds of modules that are brought whether they differ or not; `other` says why one is whose
    secrets differ. `is_rolled`: a training is paused for the change, so that an image is brought before.
    """
    spec, known = update.spec, update.known
    old = outdated(spec.modules, known.mark, knowledge.fingerprints, knowledge.host_keys)
    names: tuple[str, ...] = tuple(one.kind for one in spec.modules if one.kind in old or one.kind in again)
    if not names or not update.will_run:
        return ()
    why = partial(_why, update=update, knowledge=knowledge, again=again, other=other)
    with_clone = _comes_with_clone(update)
    first = names
    if with_clone or known.host_key == UNKNOWN:
        # Others can be told its host key once it has told it, and that takes a first part.
        first = tuple(name for name in names if name in spec.carried) or names
    elif is_rolled and not update.changes:
        first = _before_the_pause(spec, names) or names
    rest = tuple(name for name in names if name not in first)
    change = _change(update, first, knowledge, why)
    change = change.model_copy(update={"with_clone": with_clone, "rest": rest})
    if not rest:
        return (change,)
    follower = _change(update, rest, knowledge, why)
    return change, follower.model_copy(update={"id": change_id("finish", spec.vm), "needs": (change.id,)})


def _before_the_pause(spec: GuestSpec, names: Collection[str]) -> tuple[str, ...]:
    """Name the modules up to a new image if they end no work; none if the image must wait for one that does.

    Apptainer's image is a file that a running container may read.
    """
    image = spec.get(ImageModule)
    if image is None or image.kind not in names or image.runtime == "apptainer":
        return ()
    kinds = [one.kind for one in spec.modules]
    first = [one for one in spec.modules[: kinds.index(image.kind) + 1] if one.kind in names]
    return () if any(one.ends for one in first) else tuple(one.kind for one in first)


def _change(
    update: GuestUpdate, names: tuple[str, ...], knowledge: Knowledge, why: Callable[[GuestModule], str]
) -> StageGuest:
    spec = update.spec
    modules = [module for module in spec.modules if module.kind in names]
    writes = [name for module in modules for name in module.host_keys_of]
    peers = tuple(dict.fromkeys([*writes, spec.vm])) if writes else ()
    return StageGuest(
        id=change_id("stage", spec.vm),
        subject=Subject(kind="vm", name=spec.vm, moid=update.moid),
        edits=tuple(_edit(one, why(one)) for one in modules),
        needs=(update.changes[-1].id,) if update.changes else (),
        impact=Impact.POWER_CYCLE if restarting(update, modules) else Impact.NONE,
        host_moid=update.host_moid,
        vm=VmRef(name=spec.vm, moid=update.moid),
        spec=spec,
        modules=names,
        peers=tuple(VmRef(name=name, moid=knowledge.moids.get(name)) for name in peers),
    )


def restarting(update: GuestUpdate, modules: Iterable[GuestModule]) -> tuple[str, ...]:
    """Name the modules that may restart a guest which runs now and is not switched off anyway.

    Modules that the guest reports, with the same parameters, restart nothing. A guest that was never staged
    whole, or was on its way to a module it never had, disturbs nothing: no work can rely on it.
    """
    is_down = update.is_new or not update.is_on or update.power_on is not None
    if is_down or update.known.is_begun or _comes_with_clone(update):
        return ()
    return tuple(
        one.kind
        for one in modules
        if one.MAY_REBOOT and not is_expected(one, update.known.report, update.known.mark)
    )


def _comes_with_clone(update: GuestUpdate) -> bool:
    """Whether cloud-init brings it: at the first boot of a new VM, or of one that a broken run has left.

    One that has failed there is not waited for again, nor one that has been silent for all of its time.
    """
    if update.spec.by != "cloud-init":
        return False
    if update.is_new:
        return True
    report = update.known.report
    is_waiting = (report is None and not update.is_silent) or (
        report is not None
        and report.spec == update.spec.digest
        and report.run == "first"
        and report.state in _ON_ITS_WAY
    )
    return update.known.is_seeded and not update.known.is_marked and is_waiting


def _edit(module: GuestModule, why: str) -> Edit:
    description = module.describe()
    return Edit(key=module.kind, after=description.words, is_default=description.is_default, note=why)


def _why(
    module: GuestModule, update: GuestUpdate, knowledge: Knowledge, again: Collection[str], other: str
) -> str:
    """Say why a module of a guest that exists is brought."""
    if update.is_new or not update.known.is_marked:
        return ""
    staged = update.known.mark.get(module.kind)
    if staged is None:
        return "new"
    if staged.digest != module.digest:
        return "changed"
    if fingerprint_of(module, knowledge.fingerprints) not in (None, staged.fingerprint):
        return other
    if host_keys_fingerprint(module, knowledge.host_keys) != staged.host_keys:
        unknown = [one for one in module.host_keys_of if knowledge.host_keys.get(one, UNKNOWN) == UNKNOWN]
        return f"host keys of {listed(unknown)} are unknown" if unknown else "host keys changed"
    return "delivered again" if module.kind in again else ""


def order_stages(changes: Sequence[Change], team: Team | None) -> list[Change]:
    """Order the guests: each after the power-on of its VM, host keys after the guests that report theirs.

    The guest from which training starts waits for its workers', if they run; one that is made waits for none.
    Changes that follow a first part come at the end.
    """
    stages = list(of_kind(changes, StageGuest))
    last = {change.vm.name: change.id for change in stages}
    made = {change.vm.name for change in stages if change.with_clone}
    is_split = {change.vm.name for change in stages if change.rest}
    starts = {change.vm.name: change.id for change in of_kind(changes, PowerOnVm)}
    telling = {change.id: place for place, change in enumerate(stages) if not change.peers}
    told_by: dict[str, list[str]] = {}
    for stage in stages:
        if stage.id in telling:
            told_by.setdefault(stage.vm.name, []).append(stage.id)
    placed: dict[str, Change] = {}
    followers: dict[str, Change] = {}
    for change in stages:
        name = change.vm.name
        peers = {peer.name for peer in change.peers} - {name}
        after = sorted((one for peer in peers for one in told_by.get(peer, ())), key=telling.__getitem__)
        is_second = name in is_split and not change.rest
        needs = [starts[name]] if name in starts and not is_second else []
        if name not in made and not change.rest:
            needs += [last[one] for one in _before(name, team) if one in last]
        line = followers if is_second else placed
        line[change.id] = with_needs(change, tuple(needs)).model_copy(update={"after": tuple(after)})
    ordered = [placed.get(change.id, change) for change in changes if change.id not in followers]
    return [*ordered, *followers.values()]


def _before(name: str, team: Team | None) -> tuple[str, ...]:
    """Name the VMs of a training whose guests are staged before a VM's."""
    if team is None or team.launcher is None or team.launcher.vm.name != name:
        return ()
    return tuple(one.vm.name for one in team.workers if one.vm.name != name)


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
    rolled_ids = {one for unit in units for one in unit.ids}
    # An image is brought while the training still runs.
    until_now = tuple(one.id for one in of_kind(changes, StageGuest) if one.rest and one.id in rolled_ids)
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
