"""That one run at a time changes a plan, a host or a cluster: locks that vCenter keeps, and their heartbeat.

A lock is an object that vCenter makes once. Whose run has ended without giving its locks back shows only on
the machine where it ran: there it held a lock of the operating system, which goes with its process.
Elsewhere nothing proves it, however long nothing was heard, and a person says so (`unlock`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import Self

from filelock import FileLock, Timeout

from vgpu_cfg.documents import PRIVATE, make_private_folder
from vgpu_cfg.errors import (
    AnswerLost,
    DocumentError,
    DocumentFault,
    Locked,
    LockLost,
    NotPermitted,
    VCenterError,
)
from vgpu_cfg.model.locks import Lock, LockHolder, LockName, Locks, thaw_command, unlock_command
from vgpu_cfg.model.runs import entry_of_lock
from vgpu_cfg.ports import LockKeeper, RunClock, RunLog

_LONGEST_WAIT = timedelta(minutes=10)
"""So long the tasks of a run that was killed are waited for: others may use its account, too."""
_POLL_SECONDS = 2.0

_MOST_TRIES = 5
"""So often a lock is asked for that is refused and then not there: others come and go."""


class RunLocks:
    """The locks of one run, as a context: its end gives all of them back.

    The first that is taken carries the heartbeat; it is that of `own`, the run's plan, if it has one. `log`
    takes word of runs whose locks are taken away. `say` reports handling of other runs' locks, and locks that
    could not be removed.
    """

    def __init__(
        self,
        keeper: LockKeeper,
        log: RunLog,
        clock: RunClock,
        folder: Path,
        holder: LockHolder,
        say: Callable[[str], None] = lambda _: None,
        own: Sequence[LockName] = (),
    ) -> None:
        self.holder = holder
        self._own = tuple(own)
        self._keeper = keeper
        self._log = log
        self._clock = clock
        self._folder = folder
        self._say = say
        self._held: dict[str, tuple[LockName, str]] = {}
        self._beats = 0
        self._beaten_at: datetime | None = None
        self._at_next_beat: Callable[[], None] = _nothing
        self._is_lost = False
        self._is_alone = False
        self._is_unsure = False
        self._is_left = False
        self._has_looked = False
        self._proof = FileLock(_proof(folder, holder.run), mode=PRIVATE, is_singleton=False)

    def __enter__(self) -> Self:
        try:
            make_private_folder(self._folder)
            self._proof.acquire(blocking=False)
        except (OSError, RuntimeError) as error:  # the latter from a file system without locks
            raise _unusable(self._folder, error) from error
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._give_back()
        finally:
            with contextlib.suppress(OSError):
                self._proof.release()
                if (
                    not self._held and not self._is_unsure
                ):  # else it proves to the next run here that this one has ended
                    _proof(self._folder, self.holder.run).unlink(missing_ok=True)

    @property
    def has_own(self) -> bool:
        """Whether the run has locked its plan, or has none."""
        return all(name.text in self._held for name in self._own)

    def take(self, *names: LockName) -> None:
        """Take locks that the run has not yet, its plan's first, the others in the same order for all runs.

        Raises Locked, saying who holds one, or has frozen the vCenter; NotPermitted where the account may
        make none. The locks acquired until then are released at the run's end.
        """
        if not self._has_looked:
            self.refuse_frozen()
        wanted = [name for name in dict.fromkeys((*self._own, *names)) if name.text not in self._held]
        for name in sorted(wanted, key=lambda name: name.text) if self._held else wanted:
            self._held[name.text] = (name, self._make(name))
            self._beaten_at = self._beaten_at or self._clock.now()

    def refuse_frozen(self, found: Locks | None = None) -> None:
        """Raise Locked if changes are frozen, by an earlier reading or else by one made now."""
        refuse_frozen(found or self._keeper.read())
        self._has_looked = True

    def take_over(self, names: Sequence[LockName]) -> bool:
        """Take away the locks of runs that have ended on this machine, and locked any of these.

        Returns whether there were any: earlier readings are then out of date. Raises Locked if another run
        goes on that has locked a host of these; one that works in its cluster does not prevent reading.
        """
        locks = self._keeper.read()
        self.refuse_frozen(locks)
        found = [lock for name in names if (lock := locks.named(name)) is not None]
        for lock in found:
            if lock.holder is not None and has_ended(self._folder, lock.holder, self.holder.machine):
                self._take_away(lock.holder, locks)
                return True
            if lock.name.kind == "host":
                raise refusal(lock, locks)
        return False

    def is_alone(self, found: Locks) -> bool:
        """See by locks that were read since the run took its own that no other works on a plan of this name.

        A plan is locked by its id, or by its name where none is known. Of two runs that know different things
        each makes its own lock and looks then, so at least one of them sees the other. The locks are read
        until none of another remains. False if the other has ended meanwhile: readings made in between are
        then out of date. Raises Locked where another goes on.
        """
        if self._is_alone or not self.meets(found):
            self._is_alone = True
            return True
        locks = self._keeper.read()
        other = self._beside(locks)
        if other is not None:
            if other.holder is None or not has_ended(self._folder, other.holder, self.holder.machine):
                raise refusal(other, locks)
            self._take_away(other.holder, locks)
        return False

    def meets(self, found: Locks) -> bool:
        """Whether another run, active or dead, holds a lock of the run's plan, or of a plan of its name."""
        return self._beside(found) is not None

    def _beside(self, locks: Locks) -> Lock | None:
        """Return the lock of another run on the run's plan, or on a plan of its name."""
        own, plan = {name.text for name in self._own}, self.holder.plan
        named = (lock for lock in locks.held if lock.name.text in own or (plan and lock.name.plan == plan))
        mine = {moid for _, moid in self._held.values()}
        return next((lock for lock in named if lock.moid not in mine), None)

    def check(self, *names: LockName) -> None:
        """See that the run has these locks, and all that it took. Raises LockLost.

        vCenter is asked where a heartbeat is due, once in the keeper's `beat_seconds` at most.
        """
        self.beat()
        for name in names:
            if name.text not in self._held:
                raise LockLost(
                    f"{name} is not locked by this run",
                    subject=str(name),
                    remedy="run the same command again",
                )

    def beat(self) -> None:
        """Say that the run goes on, if that is due. Raises LockLost where the lock has been taken away."""
        now = self._clock.now()
        if not self._is_lost and self._beaten_at is not None:
            if (now - self._beaten_at).total_seconds() < self._keeper.beat_seconds:
                return
            name, moid = next(iter(self._held.values()))
            self._is_lost = not self._keeper.beat(moid, name, self.holder, self._beats + 1)
            self._beats, self._beaten_at = self._beats + 1, now
            if not self._is_lost:
                do, self._at_next_beat = self._at_next_beat, _nothing
                do()
        if self._is_lost:
            raise LockLost(
                f"the lock of this run ({self.holder.run}) was removed; the run makes no further changes",
                remedy=(
                    "check which runs are active (`vgpu-cfg status`); when none is active, run the same "
                    "command again"
                ),
            )

    def at_next_beat(self, do: Callable[[], None]) -> None:
        """Call a function after the next heartbeat; now, if the run has no lock and so no heartbeat."""
        if self._beaten_at is None:
            do()
        else:
            self._at_next_beat = do

    def leave(self) -> None:
        """Keep the locks past the end of the run: vCenter continues the tasks that it started.

        The next run here finds that this one has ended, and takes them over once that has come to its end.
        """
        self._is_left = True

    def _make(self, name: LockName) -> str:
        for _ in range(_MOST_TRIES):
            made = self._ask_for(name)
            if made is not None:
                return made
            locks = self._keeper.read()
            found = locks.named(name)
            if found is None:
                continue
            if found.holder is not None and found.holder.run == self.holder.run:
                self._is_unsure = False
                return found.moid  # the answer to an earlier request was lost
            if found.holder is None or not has_ended(self._folder, found.holder, self.holder.machine):
                raise refusal(found, locks)
            self._take_away(found.holder, locks)
        raise Locked(
            f"vCenter refused the lock on {name}, but no other lock is visible",
            subject=str(name),
            remedy=f"check which vCenter alarm definition is named {name.text!r}",
        )

    def _ask_for(self, name: LockName) -> str | None:
        """Ask for a lock; None where one of that name exists, or the answer was lost and it may be made."""
        self._is_unsure = True
        try:
            made = self._keeper.make(name, self.holder)
        except AnswerLost:
            return None
        except NotPermitted as error:
            self._is_unsure = False
            missing = self._keeper.missing_privileges()
            if missing:
                raise _not_permitted(missing, self._keeper.place) from error
            raise
        self._is_unsure = False
        return made

    def _take_away(self, dead: LockHolder, locks: Locks) -> None:
        """Remove the locks of a run that has ended on this machine without giving them back.

        Raises NotPermitted if the account lacks the privileges for locks, before vCenter's events record that
        run.
        """
        left = locks.of_run(dead.run)
        missing = self._keeper.missing_privileges()
        if missing:
            self._say(self._stays(dead.run, [lock.name for lock in left]))
            raise _not_permitted(missing, self._keeper.place)
        remove_locks(dead.run, locks, self._keeper, self._log, self._clock, self._say)
        with contextlib.suppress(OSError):
            _proof(self._folder, dead.run).unlink(missing_ok=True)
        self._say(f"run {dead.run} ({dead}) ended without releasing its locks; removing them")

    def _give_back(self) -> None:
        """Remove all locks, the one with the heartbeat last; failures are reported."""
        if self._is_left and self._held:
            self._say(
                f"vCenter is still running tasks of run {self.holder.run}, so its locks remain. The next "
                "command on this machine waits for them and removes the locks; on other machines, use "
                f"`{unlock_command(self.holder.run, self._keeper.server)}`"
            )
            return
        for _, moid in reversed(list(self._held.values())):
            try:
                self._keeper.remove(moid)
            except NotPermitted:
                self._say(self._stays(self.holder.run, [name for name, _ in self._held.values()]))
                return
            except VCenterError as error:
                self._say(
                    f"this run's locks could not be released: {error.message}. The next command on this "
                    "machine removes them. On other machines, use "
                    f"`{unlock_command(self.holder.run, self._keeper.server)}`"
                )
                return
        self._held.clear()

    def _stays(self, run: str, names: Sequence[LockName]) -> str:
        """Say which locks of a run stay at vCenter, and what removes them."""
        return (
            f"the locks of run {run} remain: {', '.join(map(str, names))}; remove them with "
            f"`{unlock_command(run, self._keeper.server)}` from an account with these privileges, or correct "
            "the role and run vgpu-cfg on this machine again"
        )


def remove_locks(
    run: str, locks: Locks, keeper: LockKeeper, log: RunLog, clock: RunClock, say: Callable[[str], None]
) -> tuple[Lock, ...]:
    """Remove the locks of a run that is dead, once vCenter's events record it; return them.

    Tasks that the run had started at vCenter are waited for, since nothing can be planned meanwhile. The run
    may have died before it wrote there itself; where it has not, both entries are of one run. A failure to
    write it is reported, and keeps no lock. Raises VCenterError where a lock cannot be removed.
    """
    held = locks.of_run(run)
    entry = entry_of_lock(held[0]) if held else None
    if held:
        _await_tasks(run, held[0].account, keeper, clock, say)
    if entry is not None:
        late = (locks.now - locks.beat_of(run)).total_seconds()
        try:
            log.write(entry.model_copy(update={"late_seconds": late}).text)
        except VCenterError as error:
            say(f"the start of run {run} was not recorded as a vCenter event: {error.message}")
    for lock in reversed(held):
        keeper.remove(lock.moid)
    return held


def _await_tasks(
    run: str, account: str, keeper: LockKeeper, clock: RunClock, say: Callable[[str], None]
) -> None:
    deadline = clock.now() + _LONGEST_WAIT
    is_told = False
    while tasks := keeper.running_tasks(account):
        if not is_told:
            say(
                f"run {run} has ended, but vCenter tasks are still running: {', '.join(tasks)}; waiting "
                "for them"
            )
            is_told = True
        if clock.now() >= deadline:
            say(f"continuing while these tasks run: {', '.join(tasks)}")
            return
        clock.pause(_POLL_SECONDS)


def has_ended(folder: Path, holder: LockHolder, machine: str) -> bool:
    """Whether a run was started on this machine, with this folder of locks, and its process is no more."""
    path = _proof(folder, holder.run)
    if holder.machine != machine or not path.exists():
        return False
    lock = FileLock(path, mode=PRIVATE, is_singleton=False)
    try:
        lock.acquire(blocking=False)
    except (Timeout, OSError, RuntimeError):
        return False
    lock.release()
    return True


def _not_permitted(missing: Sequence[str], place: str) -> NotPermitted:
    return NotPermitted(
        f"the account lacks {', '.join(missing)}, required to lock the objects that a run changes",
        subject=place,
        remedy=(
            "grant it on that object; `vgpu-cfg privileges PLAN` lists all required privileges and "
            "generates the roles"
        ),
    )


def refuse_frozen(found: Locks) -> None:
    """Raise Locked if changes in this vCenter are frozen."""
    if found.freeze is None:
        return
    raise Locked(
        f"changes in this vCenter are frozen {found.freeze.words}",
        subject=found.server,
        remedy=f"wait until then; if it is urgent, contact the author and run `{thaw_command(found.server)}`",
    )


def refusal(lock: Lock, locks: Locks) -> Locked:
    """Return what to raise where another run holds a lock."""
    holder = lock.holder
    if holder is None:
        return Locked(
            f"{lock.name} is locked, but the lock does not show by whom",
            subject=str(lock.name),
            remedy=f"find out in vCenter who created the alarm {lock.name.text!r}, and remove it",
        )
    beat_at = locks.beat_of(holder.run)
    silent = locks.is_silent(holder.run)
    day = "" if beat_at.date() == locks.now.date() else f" on {beat_at:%Y-%m-%d}"
    return Locked(
        f"another run has locked {lock.name}: {holder}, since {holder.since:%Y-%m-%d %H:%M:%S} UTC, run "
        f"{holder.run}; "
        + ("inactive since" if silent else "last active at")
        + f" {beat_at:%H:%M:%S} UTC{day}",
        subject=str(lock.name),
        remedy=f"make sure that the run has ended; then `{locks.unlock_command(holder.run)}`"
        if silent
        else "wait for the run to end, or stop it on its machine; if it was interrupted, "
        f"`{locks.unlock_command(holder.run)} --force`",
    )


def _nothing() -> None:
    """Do nothing."""


def _proof(folder: Path, run: str) -> Path:
    return folder / f"{run}.lock"


def _unusable(folder: Path, error: Exception) -> DocumentError:
    reason = (error.strerror if isinstance(error, OSError) else "") or str(error)
    fault = DocumentFault(str(folder), 1, 1, f"cannot create a lock on this machine: {reason}")
    return DocumentError(
        [fault], remedy="nothing was changed; set VGPU_CFG_STATE_FOLDER to a writable folder"
    )
