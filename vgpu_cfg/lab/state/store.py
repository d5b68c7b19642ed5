"""The store of a lab's state between commands: one file under a lock.

Only what changed since the estate was built is written; the rest is built again from the estate,
whose digest the file carries. The file is a JSON document, followed by a line of JSON for each later save
with the changes since the one before. When the lines grow longer than the document, the file is replaced.
A last line without an end does not count: its process was killed.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

from vgpu_cfg.documents import make_private_folder
from vgpu_cfg.errors import DocumentError, DocumentFault
from vgpu_cfg.lab.state.as_json import decode_object, decode_values, encode_object, encode_values
from vgpu_cfg.lab.state.inventory import LabState

FORMAT = 9
STATE_FILE = "state.json"
LOCK_FILE = "state.lock"
PLAIN_FIELDS = (
    "revision",
    "last_number",
    "tasks",
    "events",
    "last_event",
    "diary",
    "open_tasks",
    "removed",
    "custom_values",
    "tagging",
    "libraries",
    "settings",
    "licences",
    "extensions",
    "statistics_level",
    "key_providers",
    "direct_path",
    "storage_policies",
    "customization_specs",
    "leaving",
    "booting",
    "waking",
    "alarms",
    "roles",
    "permissions",
    "restarts",
    "away_until",
    "starting_until",
)
GROWING_FIELDS = ("tasks", "events", "diary")
"""Lists that are cut at their beginning and grow at their end."""
_END = "\n}}\n"
"""The end of the document, which its lines do not contain."""
_SPARED = 64 * 1024
"""The bytes of lines that are kept however short the document is."""


class Store:
    """The state file of one lab. `build` makes the estate's unchanged state; users type `called`."""

    def __init__(
        self, folder: Path, estate: str, digest: str, build: Callable[[], LabState], *, called: str = ""
    ) -> None:
        self.path = folder / STATE_FILE
        self._lock = folder / LOCK_FILE
        self._estate = estate
        self._called = shlex.quote(called or estate)
        self._digest = digest
        self._build = build
        self._stamp: tuple[int, int, int] | None = None
        self._saved = _Saved()
        self._room = 0
        """The bytes that lines may still take; 0 if the file must be replaced."""

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the file: no other process reads or writes it meanwhile.

        Raises DocumentError where it cannot be held.
        """
        with ExitStack() as holding:
            try:
                make_private_folder(self.path.parent)
                holding.enter_context(held(self._lock))
            except (OSError, RuntimeError) as error:  # the latter of filelock
                raise self._unwritable(error) from error
            yield

    def load_if_newer(self) -> tuple[LabState, float] | None:
        """Return the state and the time it was saved, if the file is not the one last read or written here.

        A missing file means a reset by another process: everything is as the estate made it.
        """
        stamp = self._stamp_now()
        if stamp == self._stamp:
            return None
        self._stamp, self._room = stamp, 0
        if stamp is None:
            return self._build(), 0.0
        return self._load()

    def save(self, state: LabState, now: float) -> None:
        """Save the state. Raises DocumentError where it cannot be written; the state before is whole then."""
        line = self._saved.changes(state, now).encode() if self._room else b""
        room, self._room = self._room - len(line), 0
        try:
            if line and room > 0:
                with self.path.open("ab") as file:
                    file.write(line)
            else:
                room = self._replace(state, now) + _SPARED
        except OSError as error:
            raise self._unwritable(error) from error
        self._room = room
        self._stamp = self._stamp_now()

    def _replace(self, state: LabState, now: float) -> int:
        """Replace the file by a document with all changes since the estate was built; return its length."""
        self._saved.take(state)
        changed = [thing for thing in state.objects.values() if thing.revision]
        parts = ",\n".join(f"{json.dumps(one.moid)}: {json.dumps(encode_object(one))}" for one in changed)
        head = {
            "format": FORMAT,
            "estate": self._estate,
            "digest": self._digest,
            "saved_at": now,
            "state": encode_values({name: getattr(state, name) for name in PLAIN_FIELDS}),
        }
        begin = json.dumps(head)[:-1] + ',\n"objects": {\n'
        scratch = self.path.with_suffix(".new")
        length = scratch.write_bytes(f"{begin}{parts}{_END}".encode())
        os.replace(scratch, self.path)  # noqa: PTH105 - the same as Path.replace, named for what it is
        return length

    def _load(self) -> tuple[LabState, float]:
        try:
            document, end, lines = self.path.read_text(encoding="utf-8").partition(_END)
            saved = json.loads(document + end)
            if saved["format"] != FORMAT:
                raise self._unusable(
                    f"it was written in format {saved['format']}, but this program reads format {FORMAT}"
                )
            if (saved["estate"], saved["digest"]) != (self._estate, self._digest):
                raise self._unusable(f"the estate {self._estate!r} has changed since the lab was started")
            state = self._build()
            for name, value in decode_values(saved["state"]).items():
                setattr(state, name, value)
            now, objects = saved["saved_at"], saved["objects"]
            for line in lines.splitlines(keepends=True):
                if line.endswith("\n"):
                    change = json.loads(line)
                    now = change.pop("saved_at")
                    objects |= _follow(change, state)
            for moid, parts in objects.items():
                state.objects[moid] = decode_object(parts)
            for moid in state.removed:
                state.objects.pop(moid, None)
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise self._unusable(f"it cannot be read ({type(error).__name__})") from error
        return state, float(now)

    def _unusable(self, reason: str) -> DocumentError:
        fault = DocumentFault(str(self.path), 1, 1, f"the lab's state cannot be used: {reason}")
        return DocumentError([fault], remedy=f"start over with `vgpu-cfg lab reset {self._called}`")

    def _unwritable(self, error: Exception) -> DocumentError:
        reason = (error.strerror if isinstance(error, OSError) else "") or str(error)
        fault = DocumentFault(str(self.path), 1, 1, f"the lab cannot keep its state here: {reason}")
        return DocumentError([fault], remedy="set VGPU_CFG_STATE_FOLDER to a writable folder with free space")

    def _stamp_now(self) -> tuple[int, int, int] | None:
        try:
            found = self.path.stat()
        except FileNotFoundError:
            return None
        return found.st_mtime_ns, found.st_ino, found.st_size


class _Saved:
    """The saved part of a state, to find what changed since."""

    def __init__(self) -> None:
        self._revision = self._removed = 0
        self._fields: dict[str, str] = {}
        self._lists: dict[str, list[Any]] = {}

    def take(self, state: LabState) -> dict[str, str]:
        """Note that a state is saved; return its plain fields as JSON."""
        plain = {name: getattr(state, name) for name in PLAIN_FIELDS}
        self._lists = {name: list(plain.pop(name)) for name in GROWING_FIELDS}
        self._removed = len(plain.pop("removed"))
        self._revision = state.revision
        self._fields = {name: json.dumps(value) for name, value in encode_values(plain).items()}
        return self._fields

    def changes(self, state: LabState, now: float) -> str:
        """Return what changed since the last call as JSON, and note that it is saved."""
        revision, removed, fields, lists = self._revision, self._removed, self._fields, self._lists
        changed = [thing for thing in state.objects.values() if thing.revision > revision]
        texts = {name: text for name, text in self.take(state).items() if fields[name] != text}
        grown: dict[str, Any] = {}
        for name, items in self._lists.items():
            cut = _cut(lists[name], items)
            grown[name] = [cut, encode_values({name: items[len(lists[name]) - cut :]})[name]]
        texts |= {"saved_at": json.dumps(now), "grown": json.dumps(grown)}
        texts["removed"] = json.dumps(dict(islice(state.removed.items(), removed, None)))
        texts["objects"] = json.dumps({thing.moid: encode_object(thing) for thing in changed})
        return f"{{{', '.join(f'{json.dumps(name)}: {text}' for name, text in texts.items())}}}\n"


# Processes lock the file for some milliseconds, thousands of times in a command. The system's own call takes
# a tenth of the time of filelock, which keeps books on threads, forks and waits.
if sys.platform == "win32":  # which has no such call
    from filelock import FileLock

    def held(path: Path) -> FileLock:
        """Hold a file, which is made where it is missing. Raises OSError, RuntimeError."""
        return FileLock(path)

else:
    import fcntl

    @contextmanager
    def held(path: Path) -> Iterator[None]:
        """Hold a file, which is made where it is missing. Raises OSError."""
        file = _hold(path)
        try:
            yield
        finally:
            # What was forked meanwhile has the file open, too: closing it here alone lets nobody in.
            fcntl.flock(file, fcntl.LOCK_UN)
            os.close(file)

    def _hold(path: Path) -> int:
        while True:
            file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(file, fcntl.LOCK_EX)
                if os.fstat(file).st_nlink:
                    return file
            except BaseException:
                os.close(file)
                raise
            os.close(file)  # it was removed while this waited: others hold the new one


def _cut(before: list[Any], now: list[Any]) -> int:
    """Return how many items a growing list lost at its beginning; all if it is another list."""
    cut = before.index(now[0]) if before and now and now[0] in before else len(before)
    return cut if now[: len(before) - cut] == before[cut:] else len(before)


def _follow(line: dict[str, Any], state: LabState) -> dict[str, Any]:
    """Change a state as a line says; return its objects."""
    for name, (cut, items) in line.pop("grown").items():
        getattr(state, name)[:cut] = []
        getattr(state, name).extend(decode_values({name: items})[name])
    state.removed.update(line.pop("removed"))
    objects: dict[str, Any] = line.pop("objects")
    for name, value in decode_values(line).items():
        setattr(state, name, value)
    return objects
