"""A training is paused on a checkpoint before its workers are changed, and resumed after."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator
from typing import Literal

from pydantic import Field

from vgpu_cfg.changes import privileges
from vgpu_cfg.changes.base import ChangeBase, Face, Timing
from vgpu_cfg.changes.by_hand import Part, command
from vgpu_cfg.changes.need import Needed
from vgpu_cfg.changes.places import Places
from vgpu_cfg.changes.reach import Disturbed, Experience, Reach
from vgpu_cfg.changes.tables import Tables
from vgpu_cfg.changes.values import Placement, Row, VmRef, is_nothing, plain
from vgpu_cfg.model.guests.guest import GuestSpec
from vgpu_cfg.model.observed.inventory import Inventory
from vgpu_cfg.model.ranges import fold_names
from vgpu_cfg.model.wording import duration

TRAIN = "/usr/local/bin/train"


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
        moid = at.vm(self.vm)
        yield Needed(privileges.ADVANCED, moid)
        if self.spec.login.password:
            yield Needed(privileges.GUEST_OPERATIONS, moid)


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
            f"save with `{self.hook}` on every worker, at most {limit}; then pause{after}"
        )

    def by_hand(self, tables: Tables) -> tuple[Part, ...]:
        return (
            Part(
                what=f"Log in to {self.vm.name} as root and pause the training with "
                f"`{command(TRAIN, *self.words)}`. If a worker cannot save, the training continues; then do "
                "not change the workers.",
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
        return "training", plain(f"resume from its checkpoint{others}, if it is paused")

    def by_hand(self, tables: Tables) -> tuple[Part, ...]:
        return (
            Part(
                what=f"Log in to {self.vm.name} as root and resume the training with "
                f"`{command(TRAIN, *self.words)}`.",
                expected='"resumed", or "no training is paused"',
            ),
        )

    def disturbs(self, reach: Reach) -> Iterable[Disturbed]:
        return ()
