"""The parts of a guest to stage, and their effects: a change per VM, of its outdated modules.

Secrets must not be in a VM's configuration, so they do not come with its clone: a second change brings them,
once the guest has reported its host key. Staged modules are in the VM's mark. The guest's own report counts
if no mark was written, as after an interrupted run: modules it reports need no restart to be found again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from vgpu_cfg.changes.base import of_kind
from vgpu_cfg.changes.change import Change, PowerOnVm, StageGuest
from vgpu_cfg.changes.values import Edit, Impact, Subject, VmRef
from vgpu_cfg.model.guests.guest import (
    BEGUN,
    GUEST_MARK_KEY,
    REPORT_KEY,
    TO_COME,
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
from vgpu_cfg.model.observed.vm import VmDetail
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
    update: GuestUpdate, knowledge: Knowledge, *, again: Collection[str] = (), other: str = "secret changed"
) -> tuple[StageGuest, ...]:
    """Return the changes that bring outdated modules; none if there are none, or the VM is not running.

    `again` are kinds of modules that are brought whether they differ or not; `other` says why one is whose
    secrets differ.
    """
    spec, known = update.spec, update.known
    old = outdated(spec.modules, known.mark, knowledge.fingerprints, knowledge.host_keys)
    names = tuple(one.kind for one in spec.modules if one.kind in old or one.kind in again)
    if not names or not update.will_run:
        return ()
    why = partial(_why, update=update, knowledge=knowledge, again=again, other=other)
    with_clone = _comes_with_clone(update)
    first = names
    if with_clone or known.host_key == UNKNOWN:
        # Others can be told its host key once it has told it, and that takes a first part.
        first = tuple(name for name in names if name in spec.carried) or names
    rest = tuple(name for name in names if name not in first)
    change = _change(update, first, knowledge, why)
    change = change.model_copy(update={"with_clone": with_clone, "rest": rest})
    if not rest:
        return (change,)
    follower = _change(update, rest, knowledge, why)
    return change, follower.model_copy(
        update={"id": change_id("finish", spec.vm), "needs": (change.id,), "impact": Impact.NONE}
    )


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
        return "host keys changed"
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
