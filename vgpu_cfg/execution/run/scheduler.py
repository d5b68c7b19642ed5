"""Scheduling of changes: the graph of needs, caps on concurrent work, and limits that hold changes back.

Waves of hosts decide which hosts are down, whether another may go down, and which are dropped when a wave
stops. A host counts as down from the first change that takes something from it, the switching off of the
plan's own VMs included, until it has left maintenance mode. One that waits for a manual step, or has failed,
stays down. So does from the beginning a host that was in maintenance mode before the run. A host that another
user holds there (`is_held`) counts for no wave. A host that is powered off, and that the plan only asks to be
powered on manually, counts in every wave.

Canaries hold back the changes that wait until the canary's own are confirmed and approved. Maintenance
windows hold back changes that must not begin because the window of their hosts would close too early. Start
queues decide which VM may be powered on next, by the GPUs that ESXi gave the other VMs.
"""

from __future__ import annotations

from bisect import insort
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime

from vgpu_cfg.catalog import load_catalog
from vgpu_cfg.changes.base import of_kind
from vgpu_cfg.changes.change import (
    AwaitCustomization,
    Change,
    CreateVm,
    EnterMaintenance,
    ExitMaintenance,
    ManualStep,
    PowerOffVm,
    PowerOnVm,
    RelocateVm,
    ResumeTraining,
    StageGuest,
)
from vgpu_cfg.changes.plan import Canary, StartQueue
from vgpu_cfg.changes.values import Impact
from vgpu_cfg.errors import PlanError
from vgpu_cfg.planning.placement.start_queues import QueueProgress, progress_by_vm

Place = tuple[str, str]
"""A wave, "" for all of them, and the moid of one of its hosts."""

_Bound = tuple[str, int]
"""A window as the plan file has it, and how many seconds are thought to be needed within it."""


class Scheduler:
    """Hands out changes in the plan's order as soon as their needs are confirmed.

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
            raise PlanError(f"two changes have the ID {twice[0]!r}", remedy="recreate the plan")
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
        """Drop the hosts of a change's wave that have not been taken down yet; return the dropped changes.

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
        """Drop and return all that has not begun; `finishes` first brings back all that is out of service.

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
        if isinstance(change, ResumeTraining):
            return not any(self._index[need] in self._unmet for need in change.needs)
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
        """Drop changes and all that need them, and return all dropped ones."""
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
                f"this change requires {need!r}, which is not in the plan",
                subject=change.id,
                remedy="recreate the plan",
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
                f"these changes depend on each other: {', '.join(stuck[:5])}", remedy="recreate the plan"
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


class Waves:
    """The hosts of a plan's waves, as its changes begin and end; `down` are moids of those that are down."""

    def __init__(self, changes: Sequence[Change], down: Collection[str] = ()) -> None:
        by_id = {change.id: change for change in changes}
        self._enters: dict[Place, EnterMaintenance] = {}
        self._limit: dict[str, int] = {}
        self._takes_down: dict[str, Place] = {}
        self._gives_back: dict[str, Place] = {}
        self._down: dict[Place, str] = {}
        for change in changes:
            if isinstance(change, EnterMaintenance):
                place = (change.wave, change.host.moid)
                self._enters[place] = change
                if change.is_held:
                    continue
                if change.host.moid in down:
                    self._down[place] = change.host.name
                least = self._limit.get(change.wave, change.max_down)
                self._limit[change.wave] = max(1, min(least, change.max_down))
                before = (by_id[need] for need in change.needs if need in by_id)
                offs = [one.id for one in of_kind(before, PowerOffVm)]
                self._takes_down.update(dict.fromkeys((change.id, *offs), place))
        entered = {moid for _, moid in self._enters}
        for change in changes:
            if _is_off(change) and change.host_moid is not None and change.host_moid not in entered:
                self._down["", change.host_moid] = change.subject.name
                self._gives_back[change.id] = ("", change.host_moid)
            if isinstance(change, ExitMaintenance):
                place = (change.wave, change.host.moid)
                self._gives_back[change.id] = place
                if place not in self._enters:
                    self._down[place] = change.host.name

    @property
    def hosts_down(self) -> tuple[str, ...]:
        """The names of the hosts that are down now."""
        return tuple(self._down.values())

    @property
    def moids_down(self) -> frozenset[str]:
        """The moids of the hosts that are down now."""
        return frozenset(moid for _, moid in self._down)

    def admits(self, change: Change) -> bool:
        """Whether a change may begin: it takes no host down, or one that is down, or there is room for it."""
        place = self._takes_down.get(change.id)
        if place is None or place in self._down:
            return True
        return sum(wave in ("", place[0]) for wave, _ in self._down) < self._limit[place[0]]

    def begin(self, change: Change) -> None:
        """Note that a change begins."""
        place = self._takes_down.get(change.id)
        if place is not None:
            self._down[place] = self._enters[place].host.name

    def succeed(self, change: Change) -> None:
        """Note that a change has come true."""
        place = self._gives_back.get(change.id)
        if place is not None:
            self._down.pop(place, None)

    def put_off(self, change: Change) -> None:
        """Note that the first change of a host did not begin after all: it was not taken down."""
        place = self._takes_down.get(change.id)
        if place is not None:
            self._down.pop(place, None)

    def drop(self, change: Change) -> None:
        """Note that a change will not begin: a host that will not be taken down frees its place."""
        if isinstance(change, EnterMaintenance):
            self._down.pop((change.wave, change.host.moid), None)

    def not_begun(self, change: Change) -> tuple[Change, ...]:
        """Return the entries into maintenance mode of other hosts of a change's wave that have not begun."""
        wave = getattr(change, "wave", "")
        return tuple(
            enter
            for place, enter in self._enters.items()
            if wave and place[0] == wave and place not in self._down
        )

    def is_for(self, change: Change, enters: Sequence[Change]) -> bool:
        """Whether a change only clears the way for one of these entries: own VMs that are switched off."""
        place = self._takes_down.get(change.id)
        return isinstance(change, PowerOffVm) and place is not None and self._enters[place] in enters


def _is_off(change: Change) -> bool:
    return isinstance(change, ManualStep) and change.impact is Impact.HOST_COLD_BOOT


class Canaries:
    """The canaries of a plan while it is carried out."""

    def __init__(self, canaries: Sequence[Canary] = ()) -> None:
        self._left = {canary: set(canary.first) for canary in canaries}
        self._held = {canary: frozenset(canary.held) for canary in canaries}

    def admits(self, change: Change) -> bool:
        """Whether a change may begin as far as canaries go."""
        return self.holding(change) is None

    def holding(self, change: Change) -> Canary | None:
        """Return the canary that a change waits for."""
        return next((canary for canary, held in self._held.items() if change.id in held), None)

    def preceding(self, change: Change) -> Canary | None:
        """Return the canary that a change is part of, while others wait for it."""
        return next((canary for canary in self._held if change.id in canary.first), None)

    def succeed(self, change: Change) -> None:
        """Note that a change has come true."""
        for left in self._left.values():
            left.discard(change.id)

    @property
    def done(self) -> Canary | None:
        """The first canary whose changes have all come true, and that others wait for."""
        return next((canary for canary in self._held if not self._left[canary]), None)

    def release(self, canary: Canary) -> None:
        """Let go on who waited for a canary."""
        del self._held[canary]

    def release_all(self) -> None:
        """End all waits."""
        self._held.clear()


class Windows:
    """The windows that a plan's changes are bound to.

    A host counts from the first change that takes something from it: VMs that are switched off for it. A host
    that has begun, or is `down` already (a moid), is finished at any hour: leaving it down helps nothing.
    """

    def __init__(self, changes: Sequence[Change], down: Collection[str]) -> None:
        self._bound: dict[str, tuple[_Bound, ...]] = {}
        self._host: dict[str, str] = {}
        self._begun: set[str] = set(down)
        by_id = {change.id: change for change in changes}
        for change in changes:
            if isinstance(change, RelocateVm | PowerOffVm):
                self._bind(change, [(window, change.takes_seconds) for window in change.windows])
            elif isinstance(change, EnterMaintenance) and change.window and not change.is_held:
                before = (by_id[need] for need in change.needs if need in by_id)
                bound: list[Change] = [change, *of_kind(before, PowerOffVm)]
                for one in bound:
                    self._bind(one, [(change.window, change.takes_seconds)])
                    self._host[one.id] = change.host.moid

    def why_not(self, change: Change, now: datetime) -> str:
        """Say why a change may not begin at a moment; empty where it may, and then it counts as begun."""
        host = self._host.get(change.id)
        if host in self._begun:
            return ""
        reasons = (_why_not(text, seconds, now) for text, seconds in self._bound.get(change.id, ()))
        why = next((reason for reason in reasons if reason), "")
        if host is not None and not why:
            self._begun.add(host)
        return why

    def _bind(self, change: Change, bounds: Iterable[_Bound]) -> None:
        self._bound[change.id] = (*self._bound.get(change.id, ()), *bounds)


def _why_not(text: str, seconds: int, now: datetime) -> str:
    from vgpu_cfg.planning.hosts.window import parse_window

    window = parse_window(text)
    left = window.seconds_left(now)
    if left is None:
        return f"the window {text} is currently closed; it {window.when(now)}"
    if left < seconds:
        return f"it takes about {_minutes(seconds)}, but the window {text} closes in {_minutes(left)}"
    return ""


def _minutes(seconds: float) -> str:
    return f"{seconds / 60:.0f} min"


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
        return f"held back to leave the last GPU for {', '.join(names)}, which did not start" if names else ""

    def _of(self, change: Change) -> QueueProgress | None:
        name = change.subject.name
        return self._queues[name] if isinstance(change, PowerOnVm) and self.is_waiting(name) else None
