"""What of a guest must be staged, and what that disturbs: one change per VM, of its outdated modules.

What was staged stands in the VM's mark. The guest's own report counts where no mark was written, as after
a run that broke off: what it says is there needs no restart to be found there again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from vgpu_cfg.model.guests.base import PLAN_KEYS
from vgpu_cfg.model.guests.guest import (
    BEGUN,
    GUEST_MARK_KEY,
    REPORT_KEY,
    USERDATA_KEY,
    GuestReport,
    GuestSpec,
    StagedModule,
    fingerprint_of,
    outdated,
    parse_mark,
    parse_report,
)
from vgpu_cfg.model.guests.modules import GuestModule
from vgpu_cfg.model.observed.vm import VmDetail
from vgpu_cfg.model.plan.change import Change, Impact, PowerOnVm, StageGuest, Subject, VmRef
from vgpu_cfg.planning.guests.module_text import module_edit
from vgpu_cfg.planning.guests.peers import Team
from vgpu_cfg.planning.vms.new_vms import change_id, with_needs

_IS_THERE = frozenset({"present", "done"})
_UNFINISHED = frozenset({"waiting", "reboot", "failed"})
_ON_ITS_WAY = frozenset({"running", "reboot", "done"})


@dataclass(frozen=True, slots=True)
class GuestKnown:
    """What a VM tells of its guest: what was staged, what it reports, whether a clone brought user data.

    `is_begun`: it was made for a plan, and has never been staged whole. `uptime_seconds` is None while it
    is off.
    """

    mark: Mapping[str, StagedModule]
    report: GuestReport | None = None
    is_marked: bool = False
    is_seeded: bool = False
    is_begun: bool = False
    uptime_seconds: int | None = None


def known_of(detail: VmDetail | None) -> GuestKnown:
    """Read what a VM carries; of one that is not there, or was not read, nothing is known."""
    options = detail.extra_config if detail is not None else {}
    mark = options.get(GUEST_MARK_KEY, "")
    return GuestKnown(
        mark=parse_mark(mark),
        report=parse_report(options.get(REPORT_KEY, "")),
        is_marked=bool(parse_mark(mark)),
        is_seeded=bool(options.get(USERDATA_KEY, "")),
        is_begun=BEGUN in mark.split(),
        uptime_seconds=detail.uptime_seconds if detail is not None else None,
    )


def present_report(spec: GuestSpec, known: GuestKnown) -> GuestReport | None:
    """Return the guest's report if it is about what the plan asks for now."""
    report = known.report
    return report if report is not None and report.spec == spec.digest else None


@dataclass(frozen=True, slots=True)
class GuestUpdate:
    """A VM whose guest may be staged. `moid` is None for one that is yet to be made.

    `is_on` tells whether it runs now, `changes` are the plan's others to it, in their order.
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
        return next((one for one in self.changes if isinstance(one, PowerOnVm)), None)

    @property
    def will_run(self) -> bool:
        """Whether it runs once the plan's other changes are done."""
        if self.power_on is not None:
            return True
        return self.is_on and not any(one.kind == "power_off_vm" for one in self.changes)

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


def stage_guest(update: GuestUpdate, fingerprints: Mapping[str, str]) -> StageGuest | None:
    """Return the change that brings what is outdated; None where nothing is, or the VM does not run."""
    spec, known = update.spec, update.known
    names = outdated(spec.modules, known.mark, fingerprints)
    if not names or not update.will_run:
        return None
    modules = [module for module in spec.modules if module.kind in names]
    return StageGuest(
        id=change_id("stage", spec.vm),
        subject=Subject(kind="vm", name=spec.vm, moid=update.moid),
        edits=tuple(module_edit(one, _why(one, update, fingerprints)) for one in modules),
        needs=(update.changes[-1].id,) if update.changes else (),
        impact=Impact.POWER_CYCLE if restarting(update, modules) else Impact.NONE,
        host_moid=update.host_moid,
        vm=VmRef(name=spec.vm, moid=update.moid),
        spec=spec,
        modules=names,
        with_clone=_comes_with_clone(update),
    )


def restarting(update: GuestUpdate, modules: Iterable[GuestModule]) -> tuple[str, ...]:
    """Name the modules that may restart a guest which runs now and is not switched off anyway.

    What the guest reports to have, with the same parameters, restarts nothing. Nor does a guest disturb
    anybody that was never staged whole, or was on its way to a module it never had: nothing can rely on it.
    """
    is_down = update.is_new or not update.is_on or update.power_on is not None
    if is_down or update.known.is_begun or _comes_with_clone(update):
        return ()
    return tuple(one.kind for one in modules if one.MAY_REBOOT and not _is_expected(one, update.known))


def _is_expected(module: GuestModule, known: GuestKnown) -> bool:
    """Whether a guest has a module by its own report, or was being given it for the first time."""
    reported = (
        next((one for one in known.report.modules if one.name == module.kind), None) if known.report else None
    )
    if reported is None:
        return False
    is_there = reported.state in _IS_THERE and reported.digest == module.digest
    return is_there or (reported.state in _UNFINISHED and module.kind not in known.mark)


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


def _why(module: GuestModule, update: GuestUpdate, fingerprints: Mapping[str, str]) -> str:
    """Say why a module of a guest that exists is brought."""
    if update.is_new or not update.known.is_marked:
        return ""
    staged = update.known.mark.get(module.kind)
    if staged is None:
        return "new"
    if staged.digest != module.digest:
        return "changed"
    is_other = fingerprint_of(module, fingerprints) not in (None, staged.fingerprint)
    if not is_other:
        return ""
    return "other keys" if module.secrets == (PLAN_KEYS,) else "other secret"


def order_stages(changes: Sequence[Change], team: Team | None) -> list[Change]:
    """Let the guest from which training starts wait for its workers', and each for what powers its VM on.

    One that comes with its clone waits for no other: it works by itself, and its secrets are to be taken
    out of the VM's configuration whatever becomes of the others.
    """
    stages = {change.vm.name: change.id for change in changes if isinstance(change, StageGuest)}
    starts = {change.vm.name: change.id for change in changes if isinstance(change, PowerOnVm)}
    ordered: list[Change] = []
    for change in changes:
        if not isinstance(change, StageGuest):
            ordered.append(change)
            continue
        name = change.vm.name
        needs = [starts[name]] if name in starts else []
        if not change.with_clone:
            needs += [stages[one] for one in _before(name, team) if one in stages]
        ordered.append(with_needs(change, tuple(needs)) if needs else change)
    return ordered


def _before(name: str, team: Team | None) -> tuple[str, ...]:
    """Name the VMs of a training whose guests are staged before a VM's."""
    if team is None or team.launcher is None or team.launcher.vm.name != name:
        return ()
    return tuple(one.vm.name for one in team.workers if one.vm.name != name)
