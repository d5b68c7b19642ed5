"""A running guest and its shell, as steps use them: what takes time or does not answer yet is waited for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from vgpu_cfg.changes.change import PauseTraining, ResumeTraining, StageGuest
from vgpu_cfg.errors import GuestError, GuestNotReady, StalePlan
from vgpu_cfg.execution.guests.tools import GUEST_KEYS, GuestSession
from vgpu_cfg.execution.run.session import PLAN_AGAIN
from vgpu_cfg.execution.run.step import Waiting, wait
from vgpu_cfg.model.observed.vm import Vm
from vgpu_cfg.ports import GuestShell

T = TypeVar("T")
OfGuest = StageGuest | PauseTraining | ResumeTraining
"""The changes that are made in a guest."""


class InGuest:
    """The guest of one change: its VM as last read, its shell, and when its time is up."""

    def __init__(self, change: OfGuest, guests: GuestSession, seconds: float) -> None:
        self._id, self._of = change.id, change.vm
        self._spec = change.spec
        self._guests = guests
        self._run = guests.run
        self._options = guests.run.options
        self._deadline = self._run.now() + seconds
        self._no_shell: GuestError | None = None
        self._try_shell_after = float("-inf")
        self.vm: Vm

    def find(self) -> Waiting[None]:
        """See that the VM is this plan's and runs. Raises StalePlan."""
        self.vm = yield from self._run.present(self._of, GUEST_KEYS)
        if not self.vm.is_on:
            raise StalePlan(
                f"{self.vm.name} is {self.vm.power_state}; its guest can be set up only while it is running",
                subject=self.vm.name,
                remedy=PLAN_AGAIN,
            )

    def note(self, message: str) -> None:
        """Report to the observers of the run."""
        self._run.note(self._id, message)

    def _in_shell(self, act: Callable[[GuestShell], T]) -> Waiting[T]:
        """Do something in the guest's shell; a guest that is booting is waited for.

        One that has been up for longer than a boot takes is given less time. Raises GuestError.
        """
        uptime = self.vm.detail.uptime_seconds if self.vm.detail is not None else None
        is_booting = uptime is None or uptime < self._spec.wait_seconds
        patience = self._spec.wait_seconds if is_booting else self._options.guest_silence_seconds
        deadline = min(self._deadline, self._run.now() + patience)
        while True:
            try:
                done = act(self._guests.shell(self._spec, self.vm))
            except GuestNotReady as error:
                if self._no_shell is None:
                    self.note(f"the guest does not respond yet: {error.message}")
                self._lose_shell(error)
                if self._run.now() >= deadline:
                    raise
            else:
                self._no_shell = None
                return done
            yield from self._pause(self._options.guest_retry_seconds)
            # Its tools may tell its address only now.
            self.vm = yield from self._run.present(self._of, GUEST_KEYS)

    def _lose_shell(self, error: GuestError) -> None:
        self._guests.forget(self._spec.vm)
        self._no_shell = error
        self._try_shell_after = self._run.now() + self._options.guest_retry_seconds

    def _pause(self, seconds: float) -> Waiting[None]:
        yield from wait(seconds)
        self._run.check_going_on()

    def _settings(self) -> Mapping[str, str]:
        return self.vm.detail.extra_config if self.vm.detail is not None else {}


def text_of(content: bytes | None) -> str:
    """Return the text of a file in a guest."""
    return (content or b"").decode("utf-8", errors="replace")
