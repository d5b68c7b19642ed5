"""The state as time passes: transactions, waiting for the next due event, saving and noting of changes."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

from vgpu_cfg.lab.rules.gpu_load import PICK_BY_POLICY, GpuChoice, picker
from vgpu_cfg.lab.rules.refusals import no_permission
from vgpu_cfg.lab.simulation.clock import LabClock, VirtualClock
from vgpu_cfg.lab.simulation.faults import Faults
from vgpu_cfg.lab.simulation.sessions import Sessions
from vgpu_cfg.lab.state.devices import is_passthrough
from vgpu_cfg.lab.state.host import Host
from vgpu_cfg.lab.state.inventory import LabState, Managed
from vgpu_cfg.lab.state.managed import KEPT_ENTRIES, Entry, Experience
from vgpu_cfg.lab.state.permissions import may
from vgpu_cfg.lab.state.store import Store
from vgpu_cfg.lab.state.vm import VirtualMachine


@dataclass(frozen=True, slots=True)
class Transfer:
    """A file that may be put or got, once."""

    vm: str
    path: str
    user: str
    size: int = 0
    mode: int | None = None
    puts: bool = False


@dataclass(slots=True)
class Transfers:
    """A lab's transfers: number → (token, transfer). A process keeps its own."""

    offers: dict[str, tuple[str, Transfer]] = field(default_factory=dict)
    count: int = 0


POLL_SECONDS = 0.5
"""Seconds that a lab with a state file waits at most before it looks at what other processes did."""


class Timeline(Protocol):
    """One kind of things that happen as time passes: tasks end, hosts boot, guests boot."""

    def settle(self, lab: Simulation) -> None:
        """Do all that is due."""
        ...

    def next_event(self, lab: Simulation) -> float | None:
        """Return when something is due next, None where nothing is."""
        ...


class Simulation:
    """A simulated vCenter as time passes. Everything that happens to it happens inside `transaction`.

    `counters` counts calls, tasks and saves, for measurements.
    """

    timelines: ClassVar[tuple[Timeline, ...]] = ()
    """The automatic events, in their order. Set by the class that has the parts."""

    state: LabState
    clock: LabClock
    changed: threading.Condition

    def __init__(
        self,
        state: LabState,
        *,
        clock: LabClock,
        store: Store | None = None,
        gpu_choice: GpuChoice = "least_loaded",
        seed: int = 0,
        task_seconds: float = 1.0,
        task_limit: int | None = None,
        attribute_length: int | None = None,
    ) -> None:
        self.state = state
        self.clock = clock
        self.store = store
        is_blind = state.denies("vgpus-follow-assignment-policy")
        self.pick = picker("lowest" if is_blind else gpu_choice, random.Random(seed))
        if "mig-gpus-fill-one-by-one" in state.lies:
            self.pick = PICK_BY_POLICY
        self.task_seconds = task_seconds
        self.task_limit = task_limit
        self.attribute_length = attribute_length
        self.faults = Faults()
        self.transfers = Transfers()
        self.sessions = Sessions()
        self.restarts_seen = state.restarts
        """How many restarts of vCenter its sessions have gone through."""
        self.counters: Counter[str] = Counter()
        self.tried_at: dict[str, int] = {}
        """At which revision the work of a task that is blocked was tried last (moid of the task)."""
        self.cause = ""
        """The task whose work is done right now, and its object."""
        self.user = "Administrator@VSPHERE.LOCAL"
        self.is_administrator = True
        self.changed = threading.Condition(threading.RLock())
        self._depth = 0
        self._saved_revision = state.revision
        self._announced_revision = state.revision

    def lacks(self, moid: str, privilege: str) -> bool:
        """Whether the current caller lacks a privilege on an object."""
        if privilege in self.faults.lacking:
            return True
        return not self.is_administrator and not may(self.state, self.user, moid, privilege)

    def check_privileges(self, entity: Any, privileges: Iterable[str]) -> None:
        """Raise NoPermission for the first privilege that the caller lacks on an entity (a reference)."""
        for privilege in privileges:
            if self.lacks(entity._moId, privilege):
                raise no_permission(entity, privilege)

    def note(self, thing: Managed, what: Experience, about: str = "") -> None:
        """Write into the diary what an object experiences now."""
        self.note_of(thing.wsdl_type, thing.moid, thing.name, what, about)

    def note_of(self, kind: str, key: str, name: str, what: Experience, about: str = "") -> None:
        """Write into the diary what anything experiences; forget the oldest entries."""
        self.state.diary.append(Entry(self.clock.now(), kind, key, name, what, about, self.cause))
        del self.state.diary[:-KEPT_ENTRIES]

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Lock the lab: load others' changes, settle due events, and save changes."""
        with self.changed:
            if self._depth:
                yield
                return
            self._depth += 1
            try:
                with self._stored():
                    self._settle()
                    try:
                        yield
                    finally:
                        self._settle()
                        self.save()
            finally:
                self._depth -= 1
                self._announce()

    def _settle(self) -> None:
        for timeline in self.timelines:
            timeline.settle(self)

    def _announce(self) -> None:
        """Wake who waits, if there is something new: else two who wait would wake each other for ever."""
        if self.state.revision != self._announced_revision:
            self._announced_revision = self.state.revision
            self.changed.notify_all()

    def settle(self) -> None:
        """Complete due events."""
        with self.transaction():
            pass

    def wait(self, until: float | None = None) -> bool:
        """Wait for the next event, for another's change, or until a time.

        Call it inside no transaction. Returns False where there is nothing to wait for.
        """
        with self.changed:
            known = (*(timeline.next_event(self) for timeline in self.timelines), until)
            moments = [moment for moment in known if moment is not None]
            if not moments:
                return False
            moment = min(moments)
            if self.store is not None and not isinstance(self.clock, VirtualClock):
                moment = min(moment, self.clock.now() + POLL_SECONDS)
            self.clock.wait(moment, self.changed)
        self.settle()
        return True

    def run_until_idle(self) -> None:
        """Wait until no task is open, or the open ones wait for an event that never comes."""
        while self.state.open_tasks and self.wait():
            continue

    def save(self) -> None:
        """Write the state if it changed and there is a place for it."""
        if self.store is not None and self.state.revision != self._saved_revision:
            self.store.save(self.state, self.clock.now())
            self.counters["saves"] += 1
        self._saved_revision = self.state.revision

    @contextmanager
    def _stored(self) -> Iterator[None]:
        if self.store is None:
            yield
            return
        with self.store.locked():
            newer = self.store.load_if_newer()
            if newer is not None:
                self.state, saved_at = newer
                self.clock.catch_up(saved_at)
                self._saved_revision = self.state.revision
            yield


@contextmanager
def watched_gpus(lab: Simulation, host: Host) -> Iterator[None]:
    """Write into the diary which modes in force differ afterwards.

    VMs with GPUs that are registered here and off experience it as well: they start in another mode.
    """
    before = _modes(host)
    yield
    registered = [lab.state.get(moid, VirtualMachine) for moid in host.vms]
    waiting = [vm for vm in registered if not vm.is_on and any(map(is_passthrough, vm.devices.values()))]
    for (pci_id, mode), after in _modes(host).items():
        if before[pci_id, mode] != after:
            for thing in (host, *waiting):
                lab.note(thing, "gpu mode", f"{pci_id} {mode} {after}")


def _modes(host: Host) -> dict[tuple[str, str], str]:
    return {
        (gpu.pci_id, mode): str(value)
        for gpu in host.gpus
        for mode, value in (
            ("graphics_type", gpu.graphics_type),
            ("vgpu_mode", gpu.vgpu_mode),
            ("mig", gpu.mig_enabled),
            ("ecc", gpu.ecc_enabled),
            ("passthrough", host.is_passed_through(gpu.pci_id)),
        )
    }
