"""Start queues: which VM may be powered on next, by the GPUs that ESXi gave the other VMs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from vgpu_cfg.catalog import load_catalog
from vgpu_cfg.changes.change import Change, PowerOnVm
from vgpu_cfg.changes.plan import StartQueue
from vgpu_cfg.planning.placement.start_queues import QueueProgress, progress_by_vm


class StartQueues:
    """The start queues of a plan while it is carried out. VMs of a queue start one at a time."""

    def __init__(self, contests: Sequence[StartQueue] = ()) -> None:
        self._queues = progress_by_vm(contests, load_catalog()) if contests else {}

    def is_waiting(self, vm: str) -> bool:
        """Whether a VM is still in a queue, or is being started."""
        return vm in self._queues and vm in self._queues[vm].waiting

    def admits(self, change: Change, running: Iterable[Change]) -> bool:
        """Whether a change may begin as far as queues go."""
        progress = self._of(change)
        if progress is None:
            return True
        if any(self._of(other) is progress for other in running):
            return False
        return change.subject.name in progress.next_vms()

    def started(self, vm: str, pci_ids: Iterable[str]) -> None:
        """Note the GPUs that a VM was given."""
        self._queues[vm].started(vm, pci_ids)

    def miss(self, change: Change) -> None:
        """Keep the place of a VM whose power-on will not be: it is to be started by a later run."""
        progress = self._of(change)
        if progress is not None:
            progress.miss(change.subject.name)

    def leave(self, change: Change) -> None:
        """Take out a VM that runs elsewhere."""
        progress = self._of(change)
        if progress is not None:
            progress.leave(change.subject.name)

    def why_waiting(self, change: Change) -> str:
        """Say for whom a power-on waited in vain, empty where it was for no queue."""
        progress = self._of(change)
        names = sorted(progress.absent) if progress is not None else []
        return f"it could take the last GPU for {', '.join(names)}, which did not start" if names else ""

    def _of(self, change: Change) -> QueueProgress | None:
        name = change.subject.name
        return self._queues[name] if isinstance(change, PowerOnVm) and self.is_waiting(name) else None
