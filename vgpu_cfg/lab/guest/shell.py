"""A guest's shell: a line parsed and run as a user, with files, pipes and statuses; background programs.

A command that takes its time raises `StillRunning`. The waiting caller runs the line again later: finished
commands are not run twice, their statuses are in the history.

It is the part of POSIX's grammar that clients use: quotes, `;` `&&` `||` `|` `&`, redirections, variables.
Compound commands, substitutions of commands and here-documents are refused.
"""

from __future__ import annotations

import errno
import fnmatch
import posixpath
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from vgpu_cfg.lab.guest.system import files, sysfs
from vgpu_cfg.lab.guest.system.creation import guest_of
from vgpu_cfg.lab.guest.system.nics import reach
from vgpu_cfg.lab.simulation.simulation import Simulation
from vgpu_cfg.lab.state.guest import ROOT, Guest, Process, altered, fault_of
from vgpu_cfg.lab.state.inventory import VirtualMachine

OPERATORS = ("&&", "||", ">>", "2>&1", ">&2", "1>&2", "2>>", "2>", ";", "|", "&", ">", "<", "\n")
REDIRECTIONS = frozenset({">", ">>", "<", "2>", "2>>", "2>&1", ">&2", "1>&2"})
TO_NOTHING = frozenset({"2>&1", ">&2", "1>&2"})
RESERVED = frozenset(
    {"if", "then", "fi", "for", "while", "until", "do", "done", "case", "esac", "{", "}", "!"}
)
BLANK = " \t"


class SyntaxFaultError(Exception):
    """The line is none that this shell runs."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Part of a word. `expands` says that variables in it count, `globs` that patterns do."""

    text: str
    expands: bool = False
    globs: bool = False


Word = tuple[Piece, ...]


@dataclass(slots=True)
class Command:
    """One simple command: its words, and (operator, target) of its redirections."""

    words: list[Word] = field(default_factory=list)
    redirections: list[tuple[str, Word]] = field(default_factory=list)


@dataclass(slots=True)
class Pipeline:
    """Commands joined by pipes, and what joins this to the one before it."""

    joiner: str
    commands: list[Command] = field(default_factory=list)
    is_background: bool = False


def parse(line: str) -> list[Pipeline]:
    """Take a line apart. Raises SyntaxFaultError."""
    pipelines: list[Pipeline] = []
    current, command, joiner = Pipeline(";"), Command(), ";"
    tokens = _tokens(line)
    for part in tokens:
        if not isinstance(part, str):
            command.words.append(part)
            continue
        if part in TO_NOTHING:
            command.redirections.append((part, ()))
        elif part in REDIRECTIONS:
            target = next(tokens, "")
            if isinstance(target, str):
                raise SyntaxFaultError(f"syntax error: {part!r} has no file")
            command.redirections.append((part, target))
        elif part == "|":
            _check(command, part)
            current.commands.append(command)
            command = Command()
        else:
            _close(pipelines, current, command, part)
            joiner = part if part in ("&&", "||") else ";"
            current, command = Pipeline(joiner), Command()
    _close(pipelines, current, command, "")
    return pipelines


def _close(pipelines: list[Pipeline], current: Pipeline, command: Command, operator: str) -> None:
    if not command.words and not command.redirections:
        if current.commands or (operator not in ("", ";", "\n")) or current.joiner in ("&&", "||"):
            raise SyntaxFaultError(f"syntax error near {operator or 'the end'!r}")
        return
    _check(command, operator)
    current.commands.append(command)
    current.is_background = operator == "&"
    pipelines.append(current)


def _check(command: Command, operator: str) -> None:
    if not command.words and not command.redirections:
        raise SyntaxFaultError(f"syntax error near {operator!r}")
    if command.words and len(command.words[0]) == 1 and command.words[0][0].text in RESERVED:
        raise SyntaxFaultError(
            f"{command.words[0][0].text}: the lab's guests do not support compound commands"
        )


def _tokens(line: str) -> Iterator[str | Word]:
    """Yield operators, as text, and words."""
    at = 0
    while at < len(line):
        if line[at] in BLANK:
            at += 1
        elif line.startswith("\\\n", at):
            at += 2
        elif line[at] == "#":
            at = (line.find("\n", at) + len(line) + 1) % (len(line) + 1)
        elif (operator := _operator(line, at)) is not None:
            if line.startswith("<<", at) or line[at] in "()":
                raise SyntaxFaultError(f"the lab's guests do not run {line[at:].split(maxsplit=1)[0]!r}")
            yield operator
            at += len(operator)
        else:
            word, at = _word(line, at)
            yield word


def _operator(line: str, at: int) -> str | None:
    if line[at] in "()":
        return line[at]
    return next(
        (operator for operator in sorted(OPERATORS, key=len, reverse=True) if line.startswith(operator, at)),
        None,
    )


def _word(line: str, at: int) -> tuple[Word, int]:
    pieces: list[Piece] = []
    plain = ""
    while at < len(line) and line[at] not in BLANK and line[at] not in ";|&<>()\n":
        character = line[at]
        if character in "'\"":
            if plain:
                pieces.append(Piece(plain, expands=True, globs=True))
                plain = ""
            text, at = _quoted(line, at)
            pieces.append(Piece(text, expands=character == '"'))
        elif character == "\\":
            if plain:
                pieces.append(Piece(plain, expands=True, globs=True))
                plain = ""
            pieces.append(Piece(line[at + 1 : at + 2]))
            at += 2
        elif character == "`" or line.startswith("$(", at):
            raise SyntaxFaultError("the lab's guests do not support command substitution")
        else:
            plain += character
            at += 1
    if plain or not pieces:
        pieces.append(Piece(plain, expands=True, globs=True))
    return tuple(pieces), at


def _quoted(line: str, at: int) -> tuple[str, int]:
    quote, at = line[at], at + 1
    text = ""
    while at < len(line) and line[at] != quote:
        if quote == '"' and line[at] == "\\" and line[at + 1 : at + 2] in ('"', "\\", "$", "`"):
            text += "\0" + line[at + 1] if line[at + 1] == "$" else line[at + 1]
            at += 2
            continue
        if quote == '"' and (line[at] == "`" or line.startswith("$(", at)):
            raise SyntaxFaultError("the lab's guests do not support command substitution")
        text += line[at]
        at += 1
    if at >= len(line):
        raise SyntaxFaultError("syntax error: unterminated quoted string")
    return text, at + 1


def expand(piece: Piece, variables: Mapping[str, str]) -> str:
    """Return a piece's text with its variables put in."""
    if not piece.expands:
        return piece.text
    made, at, text = "", 0, piece.text
    while at < len(text):
        if text[at] == "\0":
            made += text[at + 1 : at + 2]
            at += 2
        elif text[at] != "$" or at + 1 == len(text):
            made += text[at]
            at += 1
        else:
            name, at = _variable(text, at + 1)
            made += variables.get(name, "")
    return made


def _variable(text: str, at: int) -> tuple[str, int]:
    if text[at] == "{":
        end = text.find("}", at)
        return text[at + 1 : end], end + 1
    if text[at] in "?$":
        return text[at], at + 1
    end = at
    while end < len(text) and (text[end].isalnum() or text[end] == "_"):
        end += 1
    return text[at:end], max(end, at + 1)


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


KEPT_SECONDS = 300.0
"""How long the exit code of a program is kept: about five minutes (vSphere API reference)."""

KILLED = 143


def start_process(session: Session, line: str) -> Process:
    """Start a line of shell as a program of its own, as the user and in the folder of a session."""
    lab, vm = session.lab, session.vm
    guest, now = guest_of(vm), lab.clock.now()
    guest.last_pid += 1
    words = shlex.split(line, posix=True) if _can_split(line) else [line]
    process = Process(guest.last_pid, posixpath.basename(words[0]) if words else "", line, session.user, now)
    guest.processes.append(process)
    _go_on(lab, vm, process, session.find, session.folder)
    lab.state.touch(vm)
    return process


def _can_split(line: str) -> bool:
    try:
        shlex.split(line)
    except ValueError:
        return False
    return True


def _go_on(lab: Simulation, vm: VirtualMachine, process: Process, find: Finder, folder: str = "/") -> None:
    history = History(process.statuses, process.waits_for)
    session = Session(lab, vm, process.owner, find, history, folder=folder)
    process.waits_for = ""
    try:
        result = run_line(session, process.command, b"")
    except StillRunning as waits:
        process.waits_for = waits.what
        return
    process.exit_code, process.ended = result.status & 0xFF, lab.clock.now()


def finish_process(lab: Simulation, vm: VirtualMachine, what: str, find: Finder) -> None:
    """Resume the programs that waited for an event in this guest; `find` returns its programs."""
    for process in guest_of(vm).processes:
        if process.exit_code is None and process.waits_for == what:
            _go_on(lab, vm, process, find)


def kill_process(lab: Simulation, vm: VirtualMachine, process: Process) -> None:
    """End a program that runs."""
    if process.exit_code is None:
        process.exit_code, process.ended, process.waits_for = KILLED, lab.clock.now(), ""
        lab.state.touch(vm)


def known_processes(lab: Simulation, vm: VirtualMachine) -> list[Process]:
    """Return the listed programs: those that run, and those that ended of late."""
    now = lab.clock.now()
    return [
        process
        for process in guest_of(vm).processes
        if process.ended is None or now - process.ended <= KEPT_SECONDS
    ]
