"""What a step may wait for, and what it ends with."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from vgpu_cfg.errors import ChangeError
from vgpu_cfg.model.observed.vm import Vm
from vgpu_cfg.ports import TaskUpdate


class NeedsManualStep(ChangeError):
    """A change came as far as it can by itself, the rest is a manual step: the run waits (exit code 7)."""


class HeldBack(ChangeError):
    """A change was not begun, since it would end what somebody uses: it is left for another time."""


@dataclass(frozen=True, slots=True)
class Pause:
    """Go on after so many seconds: no task tells what is waited for."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Look:
    """Read a VM again, in detail, and where a host is given which of its GPUs the VM holds.

    The run answers all that is asked at one moment in one call.
    """

    moid: str
    keys: frozenset[str] = frozenset()
    host_moid: str | None = None


@dataclass(frozen=True, slots=True)
class Looked:
    """A VM as it is, None where it has gone, and the addresses of the GPUs that it holds."""

    vm: Vm | None
    pci_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class StepResult:
    """A change that came true. `is_needed` is False where it was true before."""

    vm_moid: str | None = None
    is_needed: bool = True
    message: str = ""


T = TypeVar("T")
Waiting: TypeAlias = Generator[str | Pause | Look, TaskUpdate | Looked | None, T]
Step: TypeAlias = Waiting[StepResult]


def wait_for(task: str) -> Waiting[TaskUpdate]:
    """Wait for a task to end and return its last update."""
    update = yield task
    if not isinstance(update, TaskUpdate):
        raise ValueError(f"{task} was answered with no update")
    return update


def look(moid: str, keys: frozenset[str], host_moid: str | None = None) -> Waiting[Looked]:
    """Read a VM again with some extraConfig keys and, where a host is given, which GPUs it holds there."""
    found = yield Look(moid, keys, host_moid)
    if not isinstance(found, Looked):
        raise ValueError(f"{moid} was answered with no reading")
    return found


def wait(seconds: float) -> Waiting[None]:
    """Let time pass."""
    yield Pause(seconds)
