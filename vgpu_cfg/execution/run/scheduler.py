"""Which changes may begin now: the graph of needs, and the caps on how much goes on at once."""

from __future__ import annotations

from bisect import insort
from collections import Counter
from collections.abc import Collection, Iterable, Sequence

from vgpu_cfg.changes.change import (
    AwaitCustomization,
    Change,
    CreateVm,
    PowerOffVm,
    PowerOnVm,
    RelocateVm,
    StageGuest,
)
from vgpu_cfg.changes.plan import Canary
from vgpu_cfg.errors import PlanError
from vgpu_cfg.execution.run.canaries import Canaries
from vgpu_cfg.execution.run.start_queues import StartQueues
from vgpu_cfg.execution.run.waves import Waves


class Scheduler:
    """Hands out changes in the plan's order as soon as what they need has come true.

    At most `parallel` are under way at once, at most `per_host` of those that burden
    one host; a guest that sets itself up burdens none.
    A power-on with a pin has the power-ons of its host to itself: only so
    is it known which GPU was chosen for whom. Of a wave of hosts no more are taken
    down at once than it allows; `down` names those (moids) that are down already. `start_queues` decide
    which VM of a start queue starts next. `canaries` hold back what waits for one. While vCenter keeps tasks
    of this run in a queue (`is_queueing`) nothing is begun that its limits on provisioning and migration are
    about.
    Raises PlanError where the needs of the changes have no order.
    """

    def __init__(
        self,
        changes: Sequence[Change],
        *,
        parallel: int,
        per_host: int,
        down: Collection[str] = (),
        start_queues: StartQueues | None = None,
        canaries: Sequence[Canary] = (),
    ) -> None:
        self._queues = start_queues or StartQueues()
        self.canaries = Canaries(canaries)
        self.is_queueing = False
        self._parallel = parallel
        self._per_host = per_host
        self._index = {change.id: index for index, change in enumerate(changes)}
        self._changes = tuple(changes)
        if len(self._index) != len(changes):
            twice = [name for name, count in Counter(change.id for change in changes).items() if count > 1]
            raise PlanError(f"two changes have the id {twice[0]!r}", remedy="make the plan again")
        self._unmet: dict[int, int] = {}
        self._needed_by: dict[int, list[int]] = {}
        self._awaited_by: dict[int, list[int]] = {}
        self._ready: list[int] = []
        self._running: set[int] = set()
        self._on_host: Counter[str | None] = Counter()
        self._waves = Waves(changes, down)
        for index, change in enumerate(changes):
            needs = {self._index_of(need, change) for need in change.needs}
            after = {self._index_of(one, change) for one in change.behind} - needs
            self._unmet[index] = len(needs) + len(after)
            for need in needs:
                self._needed_by.setdefault(need, []).append(index)
            for one in after:
                self._awaited_by.setdefault(one, []).append(index)
            if not needs and not after:
                self._ready.append(index)
        self._check_order()

    @property
    def hosts_down(self) -> tuple[str, ...]:
        """The names of the hosts that have been taken down and not been given back."""
        return self._waves.hosts_down

    @property
    def waiting(self) -> tuple[Change, ...]:
        """The changes that have neither begun nor been dropped, in the plan's order."""
        return self._in_order(self._unmet)

    def next_change(self) -> Change | None:
        """Begin the first change that may begin now; None where none may."""
        if len(self._running) >= self._parallel:
            return None
        for position, index in enumerate(self._ready):
            change = self._changes[index]
            if self._has_room(change):
                del self._ready[position]
                del self._unmet[index]
                self._running.add(index)
                self._waves.begin(change)
                if _counts_for_host(change):
                    self._on_host[change.host_moid] += 1
                return change
        return None

    def succeed(self, change: Change) -> None:
        """Note that a change has come true: what needed only it may begin."""
        self._queues.leave(change)  # one that DRS started on another host stood in no queue here
        index = self._end(change)
        self._waves.succeed(change)
        self.canaries.succeed(change)
        self._meet(self._needed_by.get(index, ()))

    def fail(self, change: Change) -> tuple[Change, ...]:
        """Note that a change has not come true, and drop all that needs it, however far away."""
        self._queues.miss(change)
        return self._in_order(self._drop_dependents([self._end(change)]))

    def put_off(self, change: Change) -> tuple[Change, ...]:
        """Note that a change is left for another time, as `fail`; a host of it does not count as down."""
        self._waves.put_off(change)
        return self.fail(change)

    def stop_wave(self, change: Change) -> tuple[Change, ...]:
        """Drop the hosts of a change's wave that have not been taken down yet, and return what is dropped.

        Hosts that are down are finished.
        """
        enters = self._waves.not_begun(change)
        first = [
            index
            for index in self._unmet
            if self._changes[index] in enters or self._waves.is_for(self._changes[index], enters)
        ]
        return self._drop_all(first)

    def stop(self, *, finishes: bool) -> tuple[Change, ...]:
        """Drop what has not begun, and return it; with `finishes` what is out of service comes back first.

        Out of service are hosts that are down, and VMs that were switched off to be started again. No canary
        holds that up.
        """
        self.canaries.release_all()
        kept = {index for index in self._unmet if finishes and self._brings_back(self._changes[index])}
        first = [index for index in self._unmet if index not in kept]
        return self._drop_all(first)

    def _brings_back(self, change: Change) -> bool:
        """Whether a change finishes a host that is down, or a VM that was switched off for a while."""
        if change.host_moid in self._waves.moids_down and change.subject.kind == "host":
            return True
        if change.subject.kind != "vm":
            return False
        own = [one for one in self._changes if one.subject == change.subject]
        is_off = any(isinstance(one, PowerOffVm) and self._index[one.id] not in self._unmet for one in own)
        return is_off and any(isinstance(one, PowerOnVm) for one in own)

    def drop_waiting(self) -> tuple[Change, ...]:
        """Drop everything that has not begun, and return it."""
        dropped = self.waiting
        self._unmet.clear()
        self._ready.clear()
        return dropped

    def _drop_all(self, first: Sequence[int]) -> tuple[Change, ...]:
        """Drop changes and all that needs them, and return what is dropped."""
        for index in first:
            self._drop(index)
        return self._in_order({*first, *self._drop_dependents(first)})

    def _in_order(self, indexes: Iterable[int]) -> tuple[Change, ...]:
        return tuple(self._changes[index] for index in sorted(indexes))

    def _drop_dependents(self, begin: Sequence[int]) -> set[int]:
        dropped: set[int] = set()
        queue = list(begin)
        while queue:
            for dependent in self._needed_by.get(queue.pop(), ()):
                if dependent in self._unmet:
                    self._drop(dependent)
                    dropped.add(dependent)
                    queue.append(dependent)
        return dropped

    def _meet(self, dependents: Iterable[int]) -> None:
        """Let changes wait for one other less."""
        for dependent in dependents:
            if dependent in self._unmet:
                self._unmet[dependent] -= 1
                if self._unmet[dependent] == 0:
                    insort(self._ready, dependent)

    def _drop(self, index: int) -> None:
        del self._unmet[index]
        self._meet(self._awaited_by.get(index, ()))
        if index in self._ready:
            self._ready.remove(index)
        self._waves.drop(self._changes[index])
        self._queues.miss(self._changes[index])

    def _end(self, change: Change) -> int:
        index = self._index[change.id]
        self._running.remove(index)
        self._meet(self._awaited_by.get(index, ()))
        if _counts_for_host(change):
            self._on_host[change.host_moid] -= 1
        return index

    def _has_room(self, change: Change) -> bool:
        if not (self._waves.admits(change) and self.canaries.admits(change)):
            return False
        if self.is_queueing and is_provisioning(change):
            return False
        host = change.host_moid
        if not _counts_for_host(change):
            return True
        if self._on_host[host] >= self._per_host:
            return False
        if not isinstance(change, PowerOnVm):
            return True
        others = [
            other
            for index in self._running
            if isinstance(other := self._changes[index], PowerOnVm) and other.host_moid == host
        ]
        if not self._queues.admits(change, others):
            return False
        return not others or (change.pin is None and all(other.pin is None for other in others))

    def _index_of(self, need: str, change: Change) -> int:
        if need not in self._index:
            raise PlanError(
                f"it needs {need!r}, which the plan does not hold",
                subject=change.id,
                remedy="make the plan again",
            )
        return self._index[need]

    def _check_order(self) -> None:
        unmet = dict(self._unmet)
        queue = list(self._ready)
        while queue:
            index = queue.pop()
            for dependent in (*self._needed_by.get(index, ()), *self._awaited_by.get(index, ())):
                unmet[dependent] -= 1
                if unmet[dependent] == 0:
                    queue.append(dependent)
        stuck = [self._changes[index].id for index, count in unmet.items() if count > 0]
        if stuck:
            raise PlanError(
                f"these changes need one another: {', '.join(stuck[:5])}", remedy="make the plan again"
            )


def is_provisioning(change: Change) -> bool:
    """Whether vCenter limits how many such tasks a host and a datastore have at once, and queues the rest.

    So "vCenter Server Limits on Simultaneous Migrations" has it (vCenter Server and Host Management, vSphere
    6.7): migration and provisioning, such as cloning.
    """
    return isinstance(change, CreateVm | RelocateVm)


def _counts_for_host(change: Change) -> bool:
    """Whether a change counts among those that burden its host: a guest works for half an hour by itself."""
    return change.host_moid is not None and not isinstance(change, StageGuest | AwaitCustomization)
