"""A guest's file system: absolute paths, files and folders, permissions; no links, no mounts."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass

from vgpu_cfg.lab.state.guest import File, Guest

FOLDER_MODE = 0o755


class NoSuchPathError(Exception):
    """There is nothing at a path, or its folder is not there."""


class PathTakenError(Exception):
    """There is something at a path already, or a folder that is not empty."""


@dataclass(frozen=True, slots=True)
class Entry:
    """The content of a path: a file or a folder."""

    path: str
    is_folder: bool
    size: int
    mode: int
    changed: float
    owner: str = "root"


def normal(path: str, at: str = "/") -> str:
    """Return an absolute path without `.` and `..`."""
    joined = posixpath.normpath(posixpath.join(at, path))
    return "/" + joined.lstrip("/")


def text_of(content: bytes) -> str:
    """Return bytes as a file keeps them."""
    return content.decode("utf-8", "surrogateescape")


def is_folder(guest: Guest, path: str) -> bool:
    """Whether a folder is at a path."""
    return path == "/" or path in guest.folders


def exists(guest: Guest, path: str) -> bool:
    """Whether anything is there."""
    return is_folder(guest, path) or path in guest.files


def make_folder(
    guest: Guest, path: str, *, mode: int = FOLDER_MODE, parents: bool = False, owner: str = "root"
) -> None:
    """Make a folder. Raises PathTakenError, or NoSuchPathError where its parent is not there."""
    if path in guest.files or (is_folder(guest, path) and not parents):
        raise PathTakenError(path)
    above = posixpath.dirname(path)
    if not is_folder(guest, above):
        if not parents:
            raise NoSuchPathError(above)
        make_folder(guest, above, parents=True, owner=owner)
    guest.folders.setdefault(path, mode)
    if owner != "root":
        guest.owners.setdefault(path, owner)


def write(
    guest: Guest,
    path: str,
    content: bytes,
    *,
    mode: int | None = None,
    owner: str = "root",
    now: float = 0.0,
    parents: bool = False,
) -> None:
    """Write a whole file; one that is there keeps its permissions unless they are given.

    Raises PathTakenError for a folder, NoSuchPathError where its folder is not there.
    """
    if is_folder(guest, path):
        raise PathTakenError(path)
    above = posixpath.dirname(path)
    if not is_folder(guest, above):
        if not parents:
            raise NoSuchPathError(above)
        make_folder(guest, above, parents=True)
    known = guest.files.get(path)
    kept = known.mode if known is not None else 0o644
    guest.files[path] = File(text_of(content), kept if mode is None else mode, owner, now)


def read(guest: Guest, path: str) -> bytes:
    """Return a file's content. Raises NoSuchPathError."""
    found = guest.files.get(path)
    if found is None:
        raise NoSuchPathError(path)
    return found.read()


def remove(guest: Guest, path: str, *, recursive: bool = False) -> None:
    """Remove a file, or a folder that is empty. Raises NoSuchPathError, PathTakenError."""
    if path in guest.files:
        del guest.files[path]
        return
    if path not in guest.folders:
        raise NoSuchPathError(path)
    below = [each for each in (*guest.files, *guest.folders) if each.startswith(f"{path}/")]
    if below and not recursive:
        raise PathTakenError(path)
    for each in below:
        guest.files.pop(each, None)
        guest.folders.pop(each, None)
        guest.owners.pop(each, None)
    del guest.folders[path]
    guest.owners.pop(path, None)


def move(guest: Guest, source: str, target: str, *, overwrite: bool = True) -> None:
    """Give a file another path. Raises NoSuchPathError, PathTakenError."""
    if source not in guest.files:
        raise NoSuchPathError(source)
    if is_folder(guest, target) or (target in guest.files and not overwrite):
        raise PathTakenError(target)
    if not is_folder(guest, posixpath.dirname(target)):
        raise NoSuchPathError(posixpath.dirname(target))
    guest.files[target] = guest.files.pop(source)


def set_mode(guest: Guest, path: str, mode: int) -> None:
    """Change permissions. Raises NoSuchPathError."""
    if path in guest.files:
        guest.files[path].mode = mode
    elif path in guest.folders:
        guest.folders[path] = mode
    else:
        raise NoSuchPathError(path)


def entry(guest: Guest, path: str) -> Entry:
    """Return the content of a path. Raises NoSuchPathError."""
    found = guest.files.get(path)
    if found is not None:
        size = len(found.read())
        return Entry(path, False, size, found.mode, found.changed, found.owner)
    if is_folder(guest, path):
        mode = guest.folders.get(path, FOLDER_MODE)
        owner = guest.owners.get(path, "root")
        return Entry(path, is_folder=True, size=4096, mode=mode, changed=0.0, owner=owner)
    raise NoSuchPathError(path)


def listing(guest: Guest, path: str) -> list[Entry]:
    """Return a folder's content, by name; a file lists itself. Raises NoSuchPathError."""
    if path in guest.files:
        return [entry(guest, path)]
    if not is_folder(guest, path):
        raise NoSuchPathError(path)
    prefix = path.rstrip("/") + "/"
    names = {
        each
        for each in (*guest.files, *guest.folders)
        if each.startswith(prefix) and "/" not in each[len(prefix) :]
    }
    return [entry(guest, each) for each in sorted(names - {"/"})]
