"""The seams of the house: what planning and execution need from the world, as Protocols.

Each has more than one implementation: a Transport is HTTPS, the lab in process,
a recorder, a player or a fault injector; a reader and a writer stand before any of
them. Who only reads gets no writer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Protocol

from vgpu_cfg.model.change import CreateVm, RemoveRule, SetRule
from vgpu_cfg.model.frozen import Frozen
from vgpu_cfg.model.inventory import Inventory
from vgpu_cfg.model.vm import Vm
from vgpu_cfg.model.vm_spec import VmSpec


class Transport(Protocol):
    """The wire: one request, one answer, as bytes."""

    def exchange(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes
    ) -> tuple[int, Mapping[str, str], bytes]:
        """Send a request and return (status, headers, body).

        Raises `Unreachable` or `CertificateRejected` where no answer came.
        """
        ...

    def close(self) -> None:
        """Let go of connections and files."""
        ...


class ReadScope(Frozen):
    """What a reading must cover.

    `plan` is the owner name whose VMs are read in detail wherever they are; `vm_names` and
    `template_names` are read in detail too, `extra_config_keys` are kept of each VM besides the
    tool's own. `everything` also reads, in detail, VMs on hosts without GPUs. `system_ids` also
    asks every host with a function in passthrough for its system id, one round trip each: a plan
    with fixed passthrough needs it.
    """

    plan: str | None = None
    datacenter: str | None = None
    vm_names: frozenset[str] = frozenset()
    template_names: frozenset[str] = frozenset()
    extra_config_keys: frozenset[str] = frozenset()
    everything: bool = False
    system_ids: bool = False


class InventoryReader(Protocol):
    """Reads a vCenter in bulk; cannot write. Every method raises `VCenterError`."""

    def read_inventory(self, scope: ReadScope) -> Inventory:
        """Read hosts, GPUs, VMs and what VMs can be placed on."""
        ...

    def read_vms(
        self, moids: Iterable[str], extra_config_keys: frozenset[str] = frozenset()
    ) -> tuple[Vm, ...]:
        """Read some VMs again, in detail, in one round trip; what has gone is left out."""
        ...

    def read_gpu_holders(self, host_moids: Iterable[str]) -> Mapping[str, Mapping[str, tuple[str, ...]]]:
        """Return per host, per GPU address, the moids of the VMs that hold it now."""
        ...

    def read_missing_privileges(self, needed: Mapping[str, Sequence[str]]) -> Mapping[str, tuple[str, ...]]:
        """Return, per entity moid, those of the needed privileges that the account lacks."""
        ...


class TaskState(StrEnum):
    """vim `TaskInfoState`."""

    QUEUED = "queued"
    RUNNING = "running"
    SUCCESS = "success"
    ERROR = "error"

    @property
    def is_over(self) -> bool:
        """Whether the task has ended."""
        return self in (TaskState.SUCCESS, TaskState.ERROR)


class TaskUpdate(Frozen):
    """What became of a task. `error` is vCenter's own text, `fault` its type's name."""

    task: str
    state: TaskState
    progress: int | None = None
    result_moid: str | None = None
    fault: str = ""
    error: str = ""


class ChangeWriter(Protocol):
    """Starts vCenter tasks; each method returns the task's moid at once.

    Every method raises `VCenterError` where vCenter refuses the call itself.
    """

    def create_vm(self, change: CreateVm) -> str:
        """Clone or create; the task's result is the new VM."""
        ...

    def upgrade_vm(self, moid: str, hardware_version: int) -> str:
        """Raise the hardware version."""
        ...

    def reconfigure_vm(self, moid: str, spec: VmSpec) -> str:
        """Reconfigure with one ConfigSpec."""
        ...

    def power_on_vm(self, moid: str, host_moid: str | None = None) -> str:
        """Power on; on a host, where one is given and the cluster lets itself be told."""
        ...

    def power_off_vm(self, moid: str) -> str:
        """Power off, hard."""
        ...

    def shut_down_guest(self, moid: str) -> bool:
        """Ask the guest to shut down; False where its tools do not run. Starts no task."""
        ...

    def destroy_vm(self, moid: str) -> str:
        """Delete with all disks."""
        ...

    def set_rule(self, change: SetRule, vm_moids: Sequence[str]) -> str:
        """Create or edit an anti-affinity rule."""
        ...

    def remove_rule(self, change: RemoveRule) -> str:
        """Remove a rule."""
        ...

    def wait_for_tasks(self, tasks: Sequence[str], timeout_seconds: float) -> tuple[TaskUpdate, ...]:
        """Wait for news of any of the tasks, in one WaitForUpdatesEx; empty when time ran out.

        A task is reported as often as it changes; an ended one may be asked for again.
        """
        ...


class Clock(Protocol):
    """Tells the time; nobody in planning asks it."""

    def now(self) -> datetime:
        """Return the time, with its zone."""
        ...
