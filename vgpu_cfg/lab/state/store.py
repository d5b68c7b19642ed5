"""The store of a lab's state between commands: one file of JSON under a lock.

Only what changed since the estate was built is written; the rest is built again from the estate,
whose digest the file carries. The file is a JSON document, followed by a line of JSON for each later save
with the changes since the one before. When the lines grow longer than the document, the file is replaced.
A last line without an end does not count: its process was killed.

A data object of pyvmomi's is kept by the fields that its type declares and that are set; values other than
words, numbers and data objects are kept as their XML. So nothing is kept that the wire does not know.
"""

from __future__ import annotations

import dataclasses
import json
import os
import shlex
import sys
import types
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any, Final, Union, get_args, get_origin, get_type_hints

from pyVmomi import SoapAdapter, VmomiSupport, vmodl

from vgpu_cfg.documents import make_private_folder
from vgpu_cfg.errors import DocumentError, DocumentFault
from vgpu_cfg.lab.state import host as host_state
from vgpu_cfg.lab.state import inventory as state
from vgpu_cfg.lab.state import vm as vm_state
from vgpu_cfg.lab.state.inventory import LabState
from vgpu_cfg.lab.state.managed import Managed

TYPE = "$type"
TUPLE = "$tuple"
KEYED = "$keyed"

_KINDS: dict[str, type[Managed]] = {
    kind.__name__: kind
    for kind in (
        state.Folder, state.StoragePod, state.Datacenter, state.Cluster, state.ResourcePool, state.Datastore,
        state.DistributedSwitch, state.Network, state.Task, state.PastEvent, state.Alarm, host_state.Host,
        vm_state.Snapshot, vm_state.VirtualMachine,
    )
}  # fmt: skip

_HINTS: dict[type, dict[str, Any]] = {}
_NAMES: dict[type, tuple[str, ...]] = {}

_NOT_KEPT = frozenset({"seed"})
_PLAIN = frozenset({str, int, float, bool, type(None)})

KIND = "$kind"
XML = "$xml"

_BASIC = (bool, int, float, str)


def encode_object(thing: Managed) -> dict[str, Any]:
    """Return a managed object as JSON values. A VM's devices are made if they were not yet."""
    if isinstance(thing, vm_state.VirtualMachine):
        _ = thing.devices
    kept = (name for name in _names(type(thing)) if name not in _NOT_KEPT)
    return {TYPE: type(thing).__name__, **{name: _encode(getattr(thing, name)) for name in kept}}


def decode_object(parts: dict[str, Any]) -> Managed:
    """Return the managed object of JSON values."""
    kind = _KINDS[parts[TYPE]]
    hints = _hints(kind)
    return kind(**{name: _decode(value, hints[name]) for name, value in parts.items() if name != TYPE})


def encode_values(values: dict[str, Any]) -> Any:
    """Return plain fields of the state as JSON values."""
    return {name: _encode(value) for name, value in values.items()}


def decode_values(values: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of the state."""
    hints = _hints(state.LabState)
    return {name: _decode(value, hints[name]) for name, value in values.items()}


def _encode(value: Any) -> Any:
    kind: Any = type(value)
    if kind in _PLAIN:  # nearly all are
        return value
    if kind is list:
        return [_encode(item) for item in value]
    if isinstance(value, tuple):
        return {TUPLE: [_encode(item) for item in value]}
    if isinstance(value, dict):
        if all(isinstance(key, str) and not key.startswith("$") for key in value):
            return {key: _encode(item) for key, item in value.items()}
        return {KEYED: [[key, _encode(item)] for key, item in value.items()]}
    if dataclasses.is_dataclass(kind):
        return {name: _encode(getattr(value, name)) for name in _names(kind)}
    if isinstance(value, (int, float, str)):
        return kind.__mro__[1](value)
    return encode_value(value)


def _decode(value: Any, hint: Any) -> Any:
    if isinstance(value, dict):
        if KIND in value or XML in value:
            return decode_value(value)
        if TUPLE in value:
            inner = get_args(hint)
            items = [_decode(item, inner[0] if inner else Any) for item in value[TUPLE]]
            return tuple(items)
        kind = _dataclass_of(hint)
        if kind is not None:
            hints = _hints(kind)
            return kind(**{name: _decode(item, hints[name]) for name, item in value.items()})
        inner = get_args(hint)
        of = inner[1] if get_origin(hint) is dict and len(inner) > 1 else Any
        if KEYED in value:
            return {key: _decode(item, of) for key, item in value[KEYED]}
        return {key: _decode(item, of) for key, item in value.items()}
    if isinstance(value, list):
        inner = get_args(hint)
        return [_decode(item, inner[0] if inner else Any) for item in value]
    return value


def _dataclass_of(hint: Any) -> Any:
    if dataclasses.is_dataclass(hint):
        return hint
    if get_origin(hint) in (Union, types.UnionType):
        return next((found for arg in get_args(hint) if (found := _dataclass_of(arg)) is not None), None)
    return None


def _names(kind: Any) -> tuple[str, ...]:
    if kind not in _NAMES:
        _NAMES[kind] = tuple(field.name for field in dataclasses.fields(kind))
    return _NAMES[kind]


def _hints(kind: type) -> dict[str, Any]:
    if kind not in _HINTS:
        _HINTS[kind] = get_type_hints(kind)
    return _HINTS[kind]


def encode_value(value: Any) -> dict[str, Any]:
    """Return a value as a JSON object that has KIND or XML."""
    kind: Any = type(value)
    if not isinstance(value, VmomiSupport.DataObject) or issubclass(kind, _IN_THEIR_OWN_WAY):
        return {XML: _to_xml(value)}
    kept: dict[str, Any] = {KIND: kind.__name__}
    for name, declared, item in _fields(kind):
        field = getattr(value, name)
        if field is None or (not field and isinstance(field, list)):
            continue
        if item is None:
            kept[name] = _encode_field(field, declared)
        elif isinstance(field, list):
            kept[name] = [_encode_field(one, item) for one in field]
        else:
            kept[name] = {XML: _to_xml(field)}
    return kept


def decode_value(kept: dict[str, Any]) -> Any:
    """Return the value of such a JSON object."""
    if XML in kept:
        return SoapAdapter.Deserialize(kept[XML], object, None)
    kind: Any = VmomiSupport.GetVmodlType(kept[KIND])
    made = kind.__new__(kind)
    fields, unset, arrays = made.__dict__, *_unset(kind)
    fields.update(unset)
    for name, array in arrays:
        fields[name] = array()
    for name, declared, item in _fields(kind):
        if name not in kept:
            continue
        one = kept[name]
        if isinstance(one, list):
            fields[name].extend([_decode_field(each, item) for each in one])
        else:
            fields[name] = _decode_field(one, declared)
    return made


def _encode_field(value: Any, declared: Any) -> Any:
    if isinstance(value, _BASIC) and declared is not object:
        kind: Any = type(value)
        return _basic(kind)(value)
    return encode_value(value)


def _decode_field(kept: Any, declared: Any) -> Any:
    if isinstance(kept, dict):
        return decode_value(kept)
    return kept if type(kept) is declared else declared(kept)


@cache
def _basic(kind: Any) -> type:
    return next(one for one in _BASIC if issubclass(kind, one))


@cache
def _fields(kind: Any) -> tuple[tuple[str, Any, Any], ...]:
    """Return a type's declarations: names, types, and the types of items of arrays."""
    return tuple(
        (info.name, info.type, info.type.Item if issubclass(info.type, list) else None)
        for info in kind._GetPropertyList()
    )


@cache
def _unset(kind: Any) -> tuple[dict[str, Any], tuple[tuple[str, Any], ...]]:
    """Return the content of a new object of a type: values, and its empty arrays' types."""
    fields = vars(kind())
    arrays = tuple((name, type(value)) for name, value in fields.items() if isinstance(value, list))
    return {name: value for name, value in fields.items() if not isinstance(value, list)}, arrays


def _to_xml(value: Any) -> str:
    info = VmomiSupport.Object(name="value", type=object, version=_VERSION, flags=0)
    return str(SoapAdapter.SerializeToStr(value, info, _VERSION))


_IN_THEIR_OWN_WAY: Final = (vmodl.MethodFault, SoapAdapter.LocalizedMethodFault)
"""Faults: pyvmomi writes and reads them otherwise than other data objects."""
_VERSION: Final = VmomiSupport.newestVersions.GetName("vim")


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
    "licence_ends",
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
                try:
                    holding.enter_context(held(self._lock))
                except FileNotFoundError:
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
            # Processes forked meanwhile have the file open, too: closing it here would not release the lock.
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
