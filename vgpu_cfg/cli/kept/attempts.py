"""Attempts on disk: what an interrupted `apply --rollback-on-failure` leaves for the next one to finish."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from vgpu_cfg.cli.kept.whole_file import write_whole
from vgpu_cfg.cli.output import show
from vgpu_cfg.documents import MOST_DATA_BYTES, PRIVATE, make_private_folder, read_bytes
from vgpu_cfg.errors import VgpuCfgError
from vgpu_cfg.settings.folders import state_folder

if TYPE_CHECKING:
    from vgpu_cfg.model.identity import PlanIdentity
    from vgpu_cfg.planning.rollback.attempt import Attempt


@dataclass(frozen=True, slots=True)
class KeptAttempt:
    """The place of an attempt of one plan at one vCenter."""

    path: Path

    @classmethod
    def of(cls, plan: PlanIdentity, instance_uuid: str) -> KeptAttempt:
        """Return the place for a plan, by its id."""
        return cls(state_folder() / "attempts" / f"{plan.id}-{instance_uuid}.json")

    def read(self) -> Attempt | None:
        """Return the attempt; None if there is none, or another version wrote it."""
        from vgpu_cfg.planning.rollback.attempt import Attempt

        if not self.path.exists():
            return None
        try:
            return Attempt.model_validate_json(read_bytes(self.path, MOST_DATA_BYTES))
        except (OSError, ValueError) as error:
            show.say(f"{self.path}: the interrupted run cannot be rolled back: {type(error).__name__}")
            return None

    def keep(self, attempt: Attempt) -> None:
        """Write the attempt down. A disk that fails does not stop the run."""
        try:
            make_private_folder(self.path.parent)
            write_whole(self.path, attempt.model_dump_json(), mode=PRIVATE)
        except (OSError, VgpuCfgError) as error:
            show.say(f"{self.path}: if this run is interrupted, it cannot be rolled back later: {error}")

    def forget(self) -> None:
        """Remove the attempt, if there is one."""
        self.path.unlink(missing_ok=True)
