"""The simulated vCenter itself: its state with a clock, tasks, scripted faults and a place to keep it."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from vgpu_cfg.lab import host_life, tasks
from vgpu_cfg.lab.clock import VirtualClock
from vgpu_cfg.lab.faults import Faults
from vgpu_cfg.lab.guest import life
from vgpu_cfg.lab.guest.transfers import Transfers
from vgpu_cfg.lab.operations import find_operation
from vgpu_cfg.lab.rules.gpu_choice import GpuChoice, picker
from vgpu_cfg.lab.state import LabState, type_on_wire

if TYPE_CHECKING:
    from vgpu_cfg.lab.clock import LabClock
    from vgpu_cfg.lab.state import Managed
    from vgpu_cfg.lab.store import Store

LONGEST_NAP = 0.5
"""Seconds that a lab with a state file waits at most before it looks at what other processes did."""


class Lab:
    """A vCenter with GPUs. Everything that happens to it happens inside `transaction`.

    `sessions` belongs to the wire's session manager. `counters` counts calls, tasks and saves,
    for whoever measures.
    """

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
    ) -> None:
        self.state = state
        self.clock = clock
        self.store = store
        self.gpu_choice: GpuChoice = gpu_choice
        self.pick = picker(gpu_choice, random.Random(seed))
        self.task_seconds = task_seconds
        self.task_limit = task_limit
        self.faults = Faults()
        self.transfers = Transfers()
        self.sessions: dict[str, Any] = {}
        self.counters: Counter[str] = Counter()
        self.tried_at: dict[str, int] = {}
        """At which revision the work of a task that is blocked was tried last (moid of the task)."""
        self.user = "Administrator@VSPHERE.LOCAL"
        self.changed = threading.Condition(threading.RLock())
        self._depth = 0
        self._saved_revision = state.revision
        self._announced_revision = state.revision

    def exchange(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes
    ) -> tuple[int, Mapping[str, str], bytes]:
        """Answer one HTTP request. Raises `ConnectionDropped` where a script says so."""
        from vgpu_cfg.lab.soap import dispatch

        return dispatch.exchange(self, method, path, headers, body)

    def close(self) -> None:
        """Let go: everything was saved when it happened."""

    def call(self, subject: Managed | str, method: str, **arguments: Any) -> Any:
        """Call a method as the wire would, with pyvmomi values for arguments."""
        with self.transaction():
            thing = self.state.objects[subject] if isinstance(subject, str) else subject
            return find_operation(type_on_wire(thing), method)(self, thing, **arguments)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Hold the lab: see what others saved, settle what is due, and save what changed."""
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
        host_life.settle(self)
        tasks.settle(self)
        life.settle(self)

    def _announce(self) -> None:
        """Wake who waits, if there is something new: else two who wait would wake each other for ever."""
        if self.state.revision != self._announced_revision:
            self._announced_revision = self.state.revision
            self.changed.notify_all()

    def settle(self) -> None:
        """Complete what is due."""
        with self.transaction():
            pass

    def wait(self, until: float | None = None) -> bool:
        """Wait for the next event of a task, for another's change, or until a time.

        Call it inside no transaction. Returns False where there is nothing to wait for.
        """
        with self.changed:
            known = (tasks.next_event(self), host_life.next_event(self), life.next_event(self), until)
            moments = [moment for moment in known if moment is not None]
            if not moments:
                return False
            moment = min(moments)
            if self.store is not None and not isinstance(self.clock, VirtualClock):
                moment = min(moment, self.clock.now() + LONGEST_NAP)
            self.clock.wait(moment, self.changed)
        self.settle()
        return True

    def run_until_idle(self) -> None:
        """Wait until no task is open, or those that are wait for something that nobody does."""
        while self.state.open_tasks and self.wait():
            continue

    def hand(self, host: Managed | str, what: host_life.HandWork, **facts: bool) -> None:
        """Do what only a person at the server can: `power_on`, or `bios` with facts (`sriov=True`).

        `host` is a host or its name. Raises ValueError where it is on already, or is on for the BIOS.
        """
        with self.transaction():
            host_life.by_hand(self, host, what, facts)

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
