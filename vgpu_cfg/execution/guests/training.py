"""Pause and resume of a training: `train` does it on the VM from which the training was started.

The mark is written before the training is asked, and removed after it was resumed: whatever ends the run, the
next plan resumes the training.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from vgpu_cfg.changes.change import PauseTraining, ResumeTraining
from vgpu_cfg.changes.kinds.guest import TRAIN
from vgpu_cfg.changes.kinds.vm_spec import VmSpec
from vgpu_cfg.errors import NotConfirmed
from vgpu_cfg.execution.guests.session import GUEST_KEYS, GuestSession, InGuest, text_of
from vgpu_cfg.execution.run.session import PLAN_AGAIN
from vgpu_cfg.execution.run.step import Step, StepResult, Waiting
from vgpu_cfg.execution.vms.reconfigure import reconfigure
from vgpu_cfg.model.guests.guest import PAUSED, TRAINING_KEY

ANSWER_FILE = "/var/lib/vgpu-cfg/training"
_RESUME_SECONDS = 900
_SAID = "train: "


def ask_training(change: PauseTraining | ResumeTraining, guests: GuestSession) -> Step:
    """Pause or resume a training, and confirm it."""
    asked = _Asked(change, guests)
    try:
        return (yield from asked.ask())
    finally:
        guests.forget(change.spec.vm)


class _Asked(InGuest):
    def __init__(self, change: PauseTraining | ResumeTraining, guests: GuestSession) -> None:
        # A pause has its time for saving, and as much for the end of the training.
        seconds = 2 * change.seconds + 60 if isinstance(change, PauseTraining) else _RESUME_SECONDS
        super().__init__(change, guests, seconds)
        self._change = change
        self._pauses = isinstance(change, PauseTraining)

    def ask(self) -> Step:
        yield from self.find()
        if isinstance(self._change, PauseTraining) and self._change.is_marked:
            yield from self._mark(PAUSED)
        word = self._guests.tools.new_run()
        command = ("sh", "-c", _script(word, self._change.words))
        yield from self._in_shell(lambda shell: shell.start(command))
        status, said = yield from self._answer(word)
        if status != 0:
            if self._pauses:
                yield from self._mark("")
            raise NotConfirmed(
                f"{self._spec.vm}: training was not {'paused' if self._pauses else 'resumed'}: {said}",
                subject=self._spec.vm,
                remedy=f"for details, see {ANSWER_FILE} in the guest; then {PLAN_AGAIN}",
            )
        if not self._pauses:
            yield from self._mark("")
        return StepResult(vm_moid=self.vm.moid, message=said)

    def _mark(self, text: str) -> Waiting[None]:
        """Mark the VM, or remove its mark: at most one task."""
        self.vm = yield from self._run.present(self._of, GUEST_KEYS)
        if self._settings().get(TRAINING_KEY, "") != text:
            yield from reconfigure(
                self.vm, VmSpec(extra_config={TRAINING_KEY: text}), f"mark {self.vm.name}", self._run
            )
            self.vm = yield from self._run.read_back(self.vm.moid, self.vm.name, GUEST_KEYS)

    def _answer(self, word: str) -> Waiting[tuple[int, str]]:
        """Wait for the end of the script, and return the status and the last message."""
        while True:
            yield from self._pause(self._options.poll_seconds)
            content = yield from self._in_shell(lambda shell: shell.read_file(ANSWER_FILE))
            *lines, last = text_of(content).splitlines() or [""]
            told, _, status = last.partition(" ")
            if told == word and status.isdecimal():
                said = [line.removeprefix(_SAID) for line in lines if line.startswith(_SAID)]
                return int(status), said[-1] if said else "no reason given"
            if self._run.now() >= self._deadline:
                raise NotConfirmed(
                    f"{self._spec.vm}: `train` did not respond in time",
                    subject=self._spec.vm,
                    remedy=f"check `train --status` in the guest; then {PLAN_AGAIN}",
                )


def _script(word: str, words: Sequence[str]) -> str:
    """Return the script that runs `train` and stores its answer: the output, then the status."""
    new, train = f"{ANSWER_FILE}.new", shlex.join((TRAIN, *words))
    return f'umask 077; {train} >{new} 2>&1; echo "{word} $?" >>{new}; mv -f {new} {ANSWER_FILE}'
