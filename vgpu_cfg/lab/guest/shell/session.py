"""A guest's shell: runs a line's commands as a user, with files, pipes and statuses.

A command that takes its time raises `StillRunning`. The waiting caller runs the line again later: finished
commands are not run twice, their statuses are in the history.
"""

from __future__ import annotations

import errno
import fnmatch
import posixpath
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from vgpu_cfg.lab.guest.shell.words import Command, Pipeline, SyntaxFaultError, Word, expand, parse
from vgpu_cfg.lab.guest.system import files, sysfs
from vgpu_cfg.lab.guest.system.accounts import ROOT
from vgpu_cfg.lab.guest.system.creation import guest_of
from vgpu_cfg.lab.guest.system.faults import altered, fault_of
from vgpu_cfg.lab.guest.system.nics import reach
from vgpu_cfg.lab.simulation.simulation import Simulation
from vgpu_cfg.lab.state.guest import Guest
from vgpu_cfg.lab.state.inventory import VirtualMachine

NOT_FOUND, NOT_ALLOWED, SYNTAX = 127, 126, 2
NOTHING = "/dev/null"
IN_MEMORY = ("/run/", "/dev/")
"""The file whose content is never written to the disk."""
OTHERS_READ, OTHERS_WRITE = 0o004, 0o002
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
PATTERNS = frozenset("*?[")


class StillRunning(Exception):
    """A command goes on by itself; `what` says what ends it."""

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a command. `is_old` means that it had ended before: no further work for it."""

    status: int = 0
    out: bytes = b""
    err: bytes = b""
    is_old: bool = False


@dataclass(slots=True)
class History:
    """The statuses of a line's commands that are over, and how many of them this run has met.

    `waits_for` is the event for the command after them, which was begun in an earlier run.
    """

    statuses: list[int] = field(default_factory=list)
    waits_for: str = ""
    met: int = 0

    @property
    def resumes(self) -> str:
        """The event that the current command has waited for, "" for one that begins."""
        return self.waits_for if self.met == len(self.statuses) else ""


@dataclass(slots=True)
class Session:
    """A user's shell in a guest."""

    lab: Simulation
    vm: VirtualMachine
    user: str
    find: Finder
    """Which program a name means in the guest."""
    history: History = field(default_factory=History)
    variables: dict[str, str] = field(default_factory=dict)
    folder: str = "/"
    umask: int = 0o022
    unit: str = ""
    """The unit of systemd's that it runs in, if any."""

    @property
    def guest(self) -> Guest:
        """The guest."""
        return guest_of(self.vm)

    def as_user(self, user: str) -> Session:
        """Return the same shell as another user's: it counts the same commands."""
        variables = dict(self.variables)
        return Session(self.lab, self.vm, user, self.find, self.history, variables, self.folder, self.umask)

    def as_transient(self, unit: str) -> Session:
        """Return a shell whose commands are counted for themselves, as a unit of systemd's."""
        made = Session(self.lab, self.vm, self.user, self.find, folder="/")
        made.unit = unit
        return made

    def path(self, word: str) -> str:
        """Return a path as this shell means it."""
        home = self.guest.accounts[self.user].home if self.user in self.guest.accounts else "/"
        return files.normal(home + word[1:] if word == "~" or word.startswith("~/") else word, self.folder)

    def keeper(self, path: str) -> Guest:
        """Return the guest whose disk has a path: another's, if a shared folder is mounted."""
        for folder, server in self.guest.mounts.items():
            if server and path.startswith(f"{folder}/") and not fault_of(self.guest, "mount"):
                end = reach(self.lab.state, self.vm, server)
                return guest_of(end[0]) if end is not None else self.guest
        return self.guest

    def read(self, path: str) -> bytes:
        """Return a file's content. Raises NoSuchPathError, PermissionError."""
        if path == NOTHING:
            return b""
        made = sysfs.read(self.lab.state, self.vm, path)
        if made is not None:
            return made.encode()
        found = self.keeper(path).files.get(path)
        if found is None:
            raise files.NoSuchPathError(path)
        if self.user not in (ROOT, found.owner) and not found.mode & OTHERS_READ:
            raise PermissionError(path)
        return found.read()

    def write(self, path: str, content: bytes, *, append: bool = False, mode: int | None = None) -> None:
        """Write a file. Raises NoSuchPathError, PathTakenError, PermissionError."""
        if path == NOTHING:
            return
        known = self.guest.files.get(path)
        self.check_writable(path)
        self._check_room(path)
        if append and known is not None:
            content = known.read() + content
        if mode is None and known is None:
            mode = 0o666 & ~self.umask
        owner = known.owner if known is not None else self.user
        keeper = self.keeper(path)
        files.write(keeper, path, content, mode=mode, owner=owner, now=self.lab.clock.now())
        self.lab.state.touch(self.vm)

    def _check_room(self, path: str) -> None:
        """Raise PermissionError with the reason that Linux gives where the disk takes nothing more."""
        if self.guest.free_mib <= 0 and not path.startswith(IN_MEMORY):
            raise PermissionError(errno.ENOSPC, "No space left on device")

    def check_writable(self, path: str) -> None:
        """Raise PermissionError if this user, or any user, may not write a file there."""
        if fault_of(self.guest, "root") == "ro" and not path.startswith(IN_MEMORY):
            raise PermissionError(errno.EROFS, "Read-only file system")
        if self.user == ROOT:
            return
        known = self.guest.files.get(path)
        if known is not None:
            if known.owner != self.user and not known.mode & OTHERS_WRITE:
                raise PermissionError(path)
            return
        above = posixpath.dirname(path)
        while not files.is_folder(self.guest, above):
            above = posixpath.dirname(above)
        if self.guest.owners.get(above) == self.user:
            return
        account = self.guest.accounts.get(self.user)
        is_own = account is not None and (above + "/").startswith(account.home.rstrip("/") + "/")
        if not is_own and not self.guest.folders.get(above, 0o755) & OTHERS_WRITE:
            raise PermissionError(path)


def why_not(error: PermissionError) -> str:
    """Return the reason that Linux gives for what may not be written."""
    return error.strerror or "Permission denied"


Tool = Callable[[Session, Sequence[str], bytes], Result]
"""`tool(session, arguments, stdin)`, without the tool's own name."""

Finder = Callable[[Session, str], Tool | None]
"""`finder(session, name)`: None where the guest has no such program."""


def run_line(session: Session, line: str, stdin: bytes) -> Result:
    """Run a whole line. Raises StillRunning."""
    try:
        pipelines = parse(line)
    except SyntaxFaultError as error:
        return Result(SYNTAX, err=f"sh: {error}\n".encode())
    total = Result()
    status, out, err = 0, b"", b""
    for pipeline in pipelines:
        if (pipeline.joiner == "&&" and status) or (pipeline.joiner == "||" and not status):
            continue
        total = _pipeline(session, pipeline, stdin)
        status = total.status
        session.variables["?"] = str(status)
        out, err = out + total.out, err + total.err
    return Result(status, out, err)


def _pipeline(session: Session, pipeline: Pipeline, stdin: bytes) -> Result:
    result, err = Result(out=stdin), b""
    for index, command in enumerate(pipeline.commands):
        try:
            result = _command(session, command, result.out if index else stdin)
        except StillRunning:
            if not pipeline.is_background:
                raise
            result = Result()
            session.history.waits_for = ""
            session.history.statuses.append(0)
            session.history.met += 1
        err += result.err
    return Result(result.status, result.out, err)


def _command(session: Session, command: Command, stdin: bytes) -> Result:
    words = [text for word in command.words for text in _texts(session, word)]
    local: dict[str, str] = {}
    while words and _ASSIGNMENT.match(words[0]):
        name, _, value = words.pop(0).partition("=")
        local[name] = value
    targets = [(operator, _target(session, word)) for operator, word in command.redirections]
    try:
        for operator, path in targets:
            if operator == "<":
                stdin = session.read(path)
    except (files.NoSuchPathError, PermissionError):
        return Result(1, err=f"sh: cannot open {path}: No such file\n".encode())
    if not words:
        session.variables |= local
        result = Result()
    else:
        before = dict(session.variables)
        session.variables |= local
        result = run_words(session, words, stdin)
        for name in local:
            session.variables.pop(name, None)
            if name in before:
                session.variables[name] = before[name]
    return _redirect(session, targets, result)


def run_words(session: Session, words: Sequence[str], stdin: bytes) -> Result:
    """Run one simple command, given as words. Raises StillRunning."""
    tool = session.find(session, words[0])
    if tool is None:
        return _counted(session, lambda: Result(NOT_FOUND, err=f"sh: 1: {words[0]}: not found\n".encode()))
    if getattr(tool, "is_wrapper", False):
        return tool(session, words[1:], stdin)

    def run() -> Result:
        result = tool(session, words[1:], stdin)
        name = posixpath.basename(words[0])
        return Result(
            result.status, altered(session.guest, name, result.out), altered(session.guest, name, result.err)
        )

    return _counted(session, run)


def _counted(session: Session, run: Callable[[], Result]) -> Result:
    """Run a command unless it is over already: then only its status is known."""
    history = session.history
    if history.met < len(history.statuses):
        history.met += 1
        return Result(history.statuses[history.met - 1], is_old=True)
    try:
        result = run()
    except StillRunning as waits:
        history.waits_for = waits.what
        raise
    history.waits_for = ""
    history.statuses.append(result.status)
    history.met += 1
    return result


def _redirect(session: Session, targets: Sequence[tuple[str, str]], result: Result) -> Result:
    if result.is_old:
        return result
    out, err = result.out, result.err
    out_to: str | None = None
    try:
        for operator, path in targets:
            if operator in (">", ">>"):
                session.write(path, out, append=operator == ">>")
                out, out_to = b"", path
            elif operator in ("2>", "2>>"):
                session.write(path, err, append=operator == "2>>")
                err = b""
            elif operator == "2>&1":
                if out_to is not None:
                    session.write(out_to, err, append=True)
                else:
                    out += err
                err = b""
            elif operator in (">&2", "1>&2"):
                out, err = b"", err + out
    except (files.NoSuchPathError, files.PathTakenError):
        return Result(2, err=f"sh: cannot create {path}: Directory nonexistent\n".encode())
    except PermissionError as error:
        return Result(2, err=f"sh: cannot create {path}: {why_not(error)}\n".encode())
    return Result(result.status, out, err)


def _target(session: Session, word: Word) -> str:
    return session.path("".join(expand(piece, session.variables) for piece in word)) if word else ""


def _texts(session: Session, word: Word) -> list[str]:
    """Return the texts of a word: several where a pattern matches, none where a variable alone is empty."""
    text = "".join(expand(piece, session.variables) for piece in word)
    if not text and all(piece.globs for piece in word):
        return []
    if any(piece.globs and PATTERNS & set(piece.text) for piece in word):
        known = {*session.guest.files, *session.guest.folders, *sysfs.paths(session.lab.state, session.vm)}
        wanted = session.path(text)
        found = sorted(path for path in known if _matches(path, wanted))
        return found or [text]
    return [text]


def _matches(path: str, pattern: str) -> bool:
    ours, theirs = path.split("/"), pattern.split("/")
    return len(ours) == len(theirs) and all(
        fnmatch.fnmatchcase(one, other) for one, other in zip(ours, theirs, strict=True)
    )
