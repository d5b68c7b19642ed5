"""What a step may wait for, and what it ends with."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from vgpu_cfg.errors import ChangeError
from vgpu_cfg.ports import TaskUpdate


class NeedsManualStep(ChangeError):
    """A change came as far as it can by itself, the rest is a manual step: the run waits (exit code 7)."""


@dataclass(frozen=True, slots=True)
class Pause:
    """Go on after so many seconds: no task tells what is waited for."""

    seconds: float


@dataclass(frozen=True, slots=True)
class StepResult:
    """A change that came true. `is_needed` is False where it was true before."""

    vm_moid: str | None = None
    is_needed: bool = True
    message: str = ""


T = TypeVar("T")
Waiting: TypeAlias = Generator[str | Pause, TaskUpdate | None, T]
Step: TypeAlias = Waiting[StepResult]


def wait_for(task: str) -> Waiting[TaskUpdate]:
    """Wait for a task to end and return its last update."""
    update = yield task
    if update is None:
        raise ValueError(f"{task} was answered with no update")
    return update


def wait(seconds: float) -> Waiting[None]:
    """Let time pass."""
    yield Pause(seconds)
