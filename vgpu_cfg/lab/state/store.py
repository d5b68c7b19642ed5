"""The store of a lab's state between commands: one JSON file, replaced whole, under a lock.

Only what changed since the estate was built is written; the rest is built again from the estate,
whose digest the file carries.
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from vgpu_cfg.documents import make_private_folder
from vgpu_cfg.errors import DocumentError, DocumentFault
from vgpu_cfg.lab.state.as_json import decode_object, decode_values, encode_object, encode_values
from vgpu_cfg.lab.state.held_file import held
from vgpu_cfg.lab.state.inventory import LabState, Managed

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
        self._stamp: tuple[int, int] | None = None
        self._written: dict[str, tuple[int, bytes]] = {}

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
        self._stamp = stamp
        if stamp is None:
            self._written.clear()
            return self._build(), 0.0
        return self._load()

    def save(self, state: LabState, now: float) -> None:
        """Replace the file. Raises DocumentError where it cannot be written; the old one is whole then."""
        changed = [thing for thing in state.objects.values() if thing.revision]
        parts = b",\n".join(self._text_of(thing) for thing in changed)
        head = {
            "format": FORMAT,
            "estate": self._estate,
            "digest": self._digest,
            "saved_at": now,
            "state": encode_values({name: getattr(state, name) for name in PLAIN_FIELDS}),
        }
        begin = json.dumps(head)[:-1] + ',\n"objects": {\n'
        scratch = self.path.with_suffix(".new")
        try:
            scratch.write_bytes(b"".join([begin.encode(), parts, b"\n}}\n"]))
            os.replace(scratch, self.path)  # noqa: PTH105 - the same as Path.replace, named for what it is
        except OSError as error:
            raise self._unwritable(error) from error
        self._stamp = self._stamp_now()

    def _text_of(self, thing: Managed) -> bytes:
        known = self._written.get(thing.moid)
        if known is not None and known[0] == thing.revision:
            return known[1]
        text = f"{json.dumps(thing.moid)}: {json.dumps(encode_object(thing))}".encode()
        self._written[thing.moid] = (thing.revision, text)
        return text

    def _load(self) -> tuple[LabState, float]:
        self._written.clear()
        try:
            saved = json.loads(self.path.read_text(encoding="utf-8"))
            if saved["format"] != FORMAT:
                raise self._unusable(
                    f"it was written in format {saved['format']}, this program reads {FORMAT}"
                )
            if (saved["estate"], saved["digest"]) != (self._estate, self._digest):
                raise self._unusable(
                    f"the estate {self._estate!r} is no longer what the lab was started with"
                )
            state = self._build()
            for name, value in decode_values(saved["state"]).items():
                setattr(state, name, value)
            for moid, parts in saved["objects"].items():
                state.objects[moid] = decode_object(parts)
            for moid in state.removed:
                state.objects.pop(moid, None)
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise self._unusable(f"it cannot be read ({type(error).__name__})") from error
        return state, float(saved["saved_at"])

    def _unusable(self, reason: str) -> DocumentError:
        fault = DocumentFault(str(self.path), 1, 1, f"the lab's state cannot be used: {reason}")
        return DocumentError([fault], remedy=f"start over with `vgpu-cfg lab reset {self._called}`")

    def _unwritable(self, error: Exception) -> DocumentError:
        reason = (error.strerror if isinstance(error, OSError) else "") or str(error)
        fault = DocumentFault(str(self.path), 1, 1, f"the lab cannot keep its state here: {reason}")
        return DocumentError(
            [fault], remedy="let VGPU_CFG_STATE_FOLDER name a folder that you may write to, with room in it"
        )

    def _stamp_now(self) -> tuple[int, int] | None:
        try:
            found = self.path.stat()
        except FileNotFoundError:
            return None
        return found.st_mtime_ns, found.st_ino
