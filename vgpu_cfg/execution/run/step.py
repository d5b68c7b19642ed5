"""The waits and the results of a step, and the readings that it requests.

Readings that several steps request at one moment are one call.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from vgpu_cfg.errors import ChangeError, LoginFailed, Unreachable, VCenterError
from vgpu_cfg.model.observed.vm import Vm
from vgpu_cfg.ports import InventoryReader, TaskUpdate


class NeedsManualStep(ChangeError):
    """A change came as far as it can by itself, the rest is a manual step: the run waits (exit code 7)."""


class HeldBack(ChangeError):
    """A change was not begun, since it would interrupt work in use: it is left for later."""


@dataclass(frozen=True, slots=True)
class Pause:
    """Continue after so many seconds: no task reports this event."""

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
    """A VM, None if it has gone, and the addresses of the GPUs that it holds."""

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
        raise ValueError(f"{task} returned no update")
    return update


def look(moid: str, keys: frozenset[str], host_moid: str | None = None) -> Waiting[Looked]:
    """Read a VM again with some extraConfig keys and, if a host is given, the GPUs it holds there."""
    found = yield Look(moid, keys, host_moid)
    if not isinstance(found, Looked):
        raise ValueError(f"{moid} returned no data")
    return found


def wait(seconds: float) -> Waiting[None]:
    """Let time pass."""
    yield Pause(seconds)


def look_at(reader: InventoryReader, wanted: Sequence[Look]) -> Mapping[Look, Looked | VCenterError]:
    """Read VMs, and which GPUs they hold, in one call; what cannot be read is answered with the error.

    If the call fails although vCenter answers, each VM is read alone, so that none affects the change of
    another.
    """
    try:
        return _read(reader, wanted)
    except VCenterError as error:
        if len(wanted) == 1 or isinstance(error, Unreachable | LoginFailed):
            return dict.fromkeys(wanted, error)
    return {one: answer for each in wanted for one, answer in look_at(reader, [each]).items()}


def _read(reader: InventoryReader, wanted: Sequence[Look]) -> dict[Look, Looked | VCenterError]:
    keys = frozenset[str]().union(*(one.keys for one in wanted))
    hosts = dict.fromkeys(one.host_moid for one in wanted if one.host_moid is not None)
    vms, holders = reader.read_vms_and_holders(dict.fromkeys(one.moid for one in wanted), hosts, keys)
    found = {vm.moid: vm for vm in vms}
    return {one: Looked(found.get(one.moid), _held_by(one, holders)) for one in wanted}


def _held_by(one: Look, holders: Mapping[str, Mapping[str, tuple[str, ...]]]) -> tuple[str, ...]:
    if one.host_moid is None:
        return ()
    by_gpu = holders.get(one.host_moid, {})
    return tuple(sorted(pci_id for pci_id, moids in by_gpu.items() if one.moid in moids))
