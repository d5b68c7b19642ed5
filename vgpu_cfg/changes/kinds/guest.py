"""Changes inside a VM's guest: its setup, its customization by vCenter, and the pause of a training in it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from typing import Literal

from pydantic import Field

from vgpu_cfg.changes import privileges
from vgpu_cfg.changes.base import ChangeBase, Face, Timing
from vgpu_cfg.changes.by_hand import Part, command
from vgpu_cfg.changes.places import Places
from vgpu_cfg.changes.privileges import Needed
from vgpu_cfg.changes.reach import Disturbed, Experience, Reach
from vgpu_cfg.changes.tables import Tables
from vgpu_cfg.changes.values import Edit, Placement, Row, VmRef, is_nothing, plain
from vgpu_cfg.model.choices import Approval
from vgpu_cfg.model.frozen import Frozen
from vgpu_cfg.model.guests.base import Ends
from vgpu_cfg.model.guests.guest import (
    BEGUN,
    GUEST_MARK_KEY,
    REPORT_KEY,
    GuestSpec,
    is_expected,
    parse_mark,
    parse_report,
)
from vgpu_cfg.model.observed.inventory import Inventory
from vgpu_cfg.model.observed.vm import Vm
from vgpu_cfg.model.ranges import fold_names
from vgpu_cfg.model.wording import duration

GUEST = "guest"
"""The difference of a VM whose guest lacks modules."""
_NAMED_ANYWAY = "host-name"
"""The module whose words only repeat the VM's name."""


class AwaitCustomization(ChangeBase):
    """Wait until vCenter reports the end of a guest's customization, which its first start begins."""

    face = Face("set", "guest customized", done="customized", sign=" ", is_task=False, needs_host=True)
    for_good = (
        "customization in the guest cannot be undone",
        "restore the guest from an earlier snapshot or backup",
    )

    kind: Literal["await_customization"] = "await_customization"
    vm: VmRef
    wait_seconds: int

    def spares_pool(self, observed: Inventory) -> bool:
        return True

    def head(self, place: Placement | None) -> Row:
        return "customize", plain(f"wait up to {duration(self.wait_seconds)} for completion", "dim")

    def by_hand(self, tables: Tables) -> tuple[Part, ...]:
        name = self.vm.name
        return (
            Part(
                what=f"Wait up to {duration(self.wait_seconds)} until the guest of {name} is customized.",
                client=f"{name} > Monitor > Events",
                expected=f'the events include "Customization of VM {name} succeeded"',
                verify=(command("govc", "events", name), command("govc", "vm.info", name)),
            ),
        )

    def disturbs(self, reach: Reach) -> Iterable[Disturbed]:
        return ()

    def privileges(self, at: Places) -> Iterator[Needed]:
        yield from ()

    def no_way_back(self, tables: Tables) -> Iterator[str]:
        if self.vm.moid is not None:
            yield "customization in the guest cannot be undone"


class StageGuest(ChangeBase):
    """Bring the named modules into a VM's guest, verify them, and mark the VM with them.

    With `with_clone` cloud-init brings all of it at the first boot, and this change waits for its report.
    `rest` are modules that another change brings once this one is done: secrets, which must not be in the
    VM's configuration, and modules that depend on them. `peers` are the VMs whose guests' host keys are
    written; `after` names changes that must have ended before, successfully or not: by then those guests have
    reported theirs.
    """

    face = Face("set", "guest set up", done="staged", needs_host=True, stays_at_vm=True)
    for_good = (
        "components installed in the guest are not removed",
        "`apply` completes the setup; to revert, restore an earlier snapshot or backup",
    )

    kind: Literal["stage_guest"] = "stage_guest"
    vm: VmRef
    spec: GuestSpec
    modules: tuple[str, ...]
    with_clone: bool = False
    rest: tuple[str, ...] = ()
    peers: tuple[VmRef, ...] = ()
    after: tuple[str, ...] = ()

    @property
    def staged(self) -> tuple[str, ...]:
        return self.modules

    @property
    def behind(self) -> tuple[str, ...]:
        return self.after

    @property
    def differing(self) -> tuple[Edit, ...]:
        return (Edit(key=GUEST, before="", after=", ".join(self.modules)),)

    def spares_pool(self, observed: Inventory) -> bool:
        return True

    @property
    def sign(self) -> str:
        return "+" if self.with_clone else "~"

    @property
    def way(self) -> str:
        """Which way it comes into the guest."""
        if self.with_clone:
            return "cloud-init at first boot; the run waits for its report"
        way = "guest operations" if self.spec.login.password else "ssh"
        return f"{way}, after host keys are exchanged" if self.after else way

    @property
    def done(self) -> str:
        """Nothing if another change brings the rest: that one counts."""
        return "" if self.rest else self.face.done

    def head(self, place: Placement | None) -> Row:
        """Return the modules it brings: the words of each, a default marked, and why it is brought again."""
        return "guest", plain(", ".join(map(_edit_text, self.edits)))

    def rows(self, place: Placement | None, tables: Tables) -> Iterator[Row]:
        yield "by", plain(self.way, "dim")

    @property
    def in_short(self) -> tuple[str, ...]:
        return (f"guest {', '.join(self.modules)}",)

    @property
    def compared(self) -> tuple[Edit, ...]:
        """No edit: guests may be given different modules and read alike."""
        return ()

    def differs_from(self, other: ChangeBase) -> Iterator[str]:
        """Yield in words what this guest is given and another is not, but for their names."""
        before = {edit.key: _edit_text(edit) for edit in other.edits}
        after = {edit.key: _edit_text(edit) for edit in self.edits}
        words = [text for key, text in after.items() if before.get(key) != text and key != _NAMED_ANYWAY]
        yield from (*words, *(f"no {key}" for key in before if key not in after))

    def by_hand(self, tables: Tables) -> tuple[Part, ...]:
        """Return the manual steps to bring its modules into the guest, in their order."""
        rows = tuple(
            (module.kind, "", module.describe().by_hand)
            for module in self.spec.modules
            if module.kind in self.modules
        )
        return (
            Part(
                what=f"Log in to the guest of {self.vm.name} as root and set up the components in the "
                "table, from top to bottom; keep existing ones. Secrets are listed by their "
                "names in the plan file.",
                why="`vgpu-cfg apply` does the same with idempotent scripts, and marks the VM. If "
                "you set up a guest manually, the next run checks it and has nothing to do",
                expected="the guest has all components, even after a restart",
                rows=rows,
            ),
        )

    def ended_in(self, vm: Vm | None) -> Mapping[str, frozenset[Ends]]:
        """Return the work it ends in its guest, by the module that ends it; `vm` is as it was read.

        Nothing in a guest that is new, starts in this run, or was never set up whole: no work can run there.
        Modules that the guest reports are not applied again. If the VM's settings were not read, all modules
        count.
        """
        if vm is None or not vm.is_on or self.with_clone or f"power on {self.vm.name}" in self.needs:
            return {}
        settings = vm.detail.extra_config if vm.detail is not None else {}
        mark = settings.get(GUEST_MARK_KEY, "")
        if BEGUN in mark.split():
            return {}
        report, marked = parse_report(settings.get(REPORT_KEY, "")), parse_mark(mark)
        return {
            module.kind: module.ends
            for module in self.spec.modules
            if module.kind in self.modules and module.ends and not is_expected(module, report, marked)
        }

    def disturbs(self, reach: Reach) -> Iterable[Disturbed]:
        """Say what work ends: it is its users', and is asked for before the guest is touched."""
        vm = reach.observed.vm_by_moid.get(self.vm.moid or "")
        ended = self.ended_in(vm)
        if vm is not None and ended:
            note = f"{ended_text(ended)}; guests with running work are changed only with approval"
            yield reach.vm(vm, Experience.TRAINING_ENDED, note=note, needs=Approval.TRAINING)

    def privileges(self, at: Places) -> Iterator[Needed]:
        return _needed_in(self.spec, at.vm(self.vm))

    def no_way_back(self, tables: Tables) -> Iterator[str]:
        if self.vm.moid is not None:
            yield "components installed in the guest are not removed"


def _edit_text(edit: Edit) -> str:
    note = f" ({edit.note})" if edit.note else ""
    return f"{edit.after or edit.key}{'*' if edit.is_default else ''}{note}"


def ended_text(ended: Mapping[str, frozenset[Ends]]) -> str:
    """Say what ends, and by which modules: "containers (site)"."""
    by_what: dict[Ends, list[str]] = {}
    for kind, what in ended.items():
        for one in sorted(what):
            by_what.setdefault(one, []).append(kind)
    return ", ".join(f"{what} ({', '.join(kinds)})" for what, kinds in by_what.items())


class NicCustomization(Frozen):
    """The values filled in for a NIC, in the order of its adapters; none if `ip` is "".

    `ip` is "dhcp" or an address with its prefix length; `network` is for a reader.
    """

    network: str = ""
    ip: str = ""
    gateway: str = ""


class Customization(Frozen):
    """A specification by its name, as it was read: `change_version` refuses another one.

    `domain` is what its guest gets, from the plan file where `sets_domain`. `dns` replaces the name servers
    where it is not empty.
    """

    spec: str
    change_version: str
    kind: Literal["linux", "windows"]
    host_name: str
    domain: str = ""
    sets_domain: bool = False
    dns: tuple[str, ...] = ()
    nics: tuple[NicCustomization, ...] = ()


TRAIN = "/usr/local/bin/train"


def _needed_in(spec: GuestSpec, moid: str) -> Iterator[Needed]:
    yield Needed(privileges.ADVANCED, moid)
    if spec.login.password:
        yield Needed(privileges.GUEST_OPERATIONS, moid)


class _OfTraining(ChangeBase):
    """A request to `train` on `vm`, from which the training was started; `spec` has the way in.

    `after` names changes that must have ended before, successfully or not.
    """

    vm: VmRef
    spec: GuestSpec
    after: tuple[str, ...] = Field(default=(), exclude_if=is_nothing)

    @property
    def behind(self) -> tuple[str, ...]:
        return self.after

    def spares_pool(self, observed: Inventory) -> bool:
        return True

    @property
    @abstractmethod
    def words(self) -> tuple[str, ...]:
        """The words after `train`."""

    def likeness(self, name: str) -> object:
        return self.words

    def privileges(self, at: Places) -> Iterator[Needed]:
        return _needed_in(self.spec, at.vm(self.vm))


class PauseTraining(_OfTraining):
    """Have the workers save by the command `hook`, within so many seconds, then stop the training."""

    face = Face("set", "training paused", done="training paused", sign=" ", is_task=False, stays_at_vm=True)

    kind: Literal["pause_training"] = "pause_training"
    hook: str
    seconds: int
    is_marked: bool = True
    """Whether a run resumes it: the VM is marked until then."""

    @property
    def words(self) -> tuple[str, ...]:
        return ("--pause", "--timeout", str(self.seconds), "sh", "-c", self.hook)

    @property
    def timing(self) -> Timing:
        return Timing(self.seconds)

    def head(self, place: Placement | None) -> Row:
        limit = duration(self.seconds)
        after = "" if self.is_marked else "; resume it manually"
        return "training", plain(
            f"save with `{self.hook}` on every worker (up to {limit}), then pause{after}"
        )

    def by_hand(self, tables: Tables) -> tuple[Part, ...]:
        return (
            Part(
                what=f"Log in to {self.vm.name} as root and pause training with "
                f"`{command(TRAIN, *self.words)}`. If a worker cannot save, training continues; in "
                "that case, do not change the workers.",
                expected='"paused on a checkpoint", or "no training is running"',
                undo=(f"run `{TRAIN} --resume` in {self.vm.name}",),
            ),
        )

    def disturbs(self, reach: Reach) -> Iterable[Disturbed]:
        vm = reach.observed.vm_by_moid.get(self.vm.moid or "")
        if vm is not None:
            note = "after it saved a checkpoint; `training.update` in the plan file approves this"
            yield reach.vm(vm, Experience.TRAINING_PAUSED, note=note)


class ResumeTraining(_OfTraining):
    """Start the paused training again from its checkpoint, `without` the workers of these names."""

    face = Face("set", "training resumed", done="training resumed", sign=" ", is_task=False, stays_at_vm=True)

    kind: Literal["resume_training"] = "resume_training"
    without: tuple[str, ...] = Field(default=(), exclude_if=is_nothing)

    @property
    def words(self) -> tuple[str, ...]:
        return ("--resume", *(("--without", ",".join(self.without)) if self.without else ()))

    def head(self, place: Placement | None) -> Row:
        others = f" without {fold_names(self.without)}" if self.without else ""
        when = ", after all changes to its workers" if self.after else ""
        return "training", plain(f"resume from its checkpoint{others}, if it is paused{when}")

    def by_hand(self, tables: Tables) -> tuple[Part, ...]:
        return (
            Part(
                what=f"Log in to {self.vm.name} as root and resume training with "
                f"`{command(TRAIN, *self.words)}`. It waits up to 10 min for workers that are starting.",
                why="training also resumes if a change to a worker failed; if it cannot start, it "
                "stays paused"
                if self.after
                else "",
                expected='"resumed", or "no training is paused"',
            ),
        )

    def disturbs(self, reach: Reach) -> Iterable[Disturbed]:
        return ()
