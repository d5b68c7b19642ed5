"""The small programs of every Linux, as far as clients need them, and those that run another one."""

from __future__ import annotations

import hashlib
import posixpath
import re
from collections.abc import Sequence

from vgpu_cfg.lab.guest.shell import Result, Session, run_line, run_words, why_not
from vgpu_cfg.lab.guest.system import files, sysfs
from vgpu_cfg.lab.state.guest import ROOT, fault_of, may_all

WRONG_USE, GONE = 2, 255


def fail(*lines: str, status: int = 1) -> Result:
    """Return a complaint."""
    return Result(status, err="".join(f"{line}\n" for line in lines).encode())


def out(*lines: str, status: int = 0) -> Result:
    """Return whole lines."""
    return Result(status, "".join(f"{line}\n" for line in lines).encode("utf-8", "surrogateescape"))


def options(arguments: Sequence[str]) -> tuple[set[str], list[str]]:
    """Return single-letter options and the other words; `--` ends the options."""
    letters: set[str] = set()
    words = list(arguments)
    while words and words[0].startswith("-") and words[0] != "-":
        word = words.pop(0)
        if word == "--":
            break
        letters |= {word} if word.startswith("--") else set(word[1:])
    return letters, words


def ulimit(session: Session, arguments: Sequence[str], _stdin: bytes) -> Result:
    """Show how much memory may be locked: the only limit that clients ask about."""
    if list(arguments) != ["-l"]:
        return fail("sh: ulimit: the lab's guests support only -l", status=WRONG_USE)
    return out(fault_of(session.guest, "memlock") or "unlimited")


def sha256sum(session: Session, arguments: Sequence[str], _stdin: bytes) -> Result:
    """Show the digest of files; an image's is made of its name, since the lab keeps no images."""
    words = (f"{word}{fault_of(session.guest, 'image')}" for word in arguments)
    return out(*(f"{hashlib.sha256(word.encode()).hexdigest()}  {word}" for word in words))


def echo(_session: Session, arguments: Sequence[str], _stdin: bytes) -> Result:
    words = list(arguments)
    if words[:1] == ["-n"]:
        return Result(0, " ".join(words[1:]).encode("utf-8", "surrogateescape"))
    return out(" ".join(words))


def printf(_session: Session, arguments: Sequence[str], _stdin: bytes) -> Result:
    if not arguments:
        return fail("printf: usage: printf format [arguments]", status=WRONG_USE)
    form = arguments[0].replace("\\n", "\n").replace("\\t", "\t")
    rest = list(arguments[1:])
    made = ""
    while True:
        made += re.sub(r"%[sd]", lambda _found: rest.pop(0) if rest else "", form).replace("%%", "%")
        if not rest or "%" not in form:
            return Result(0, made.encode("utf-8", "surrogateescape"))


def true(_session: Session, _arguments: Sequence[str], _stdin: bytes) -> Result:
    return Result()


def false(_session: Session, _arguments: Sequence[str], _stdin: bytes) -> Result:
    return Result(1)


def cat(session: Session, arguments: Sequence[str], stdin: bytes) -> Result:
    _, paths = options(arguments)
    content, err = b"", b""
    for word in paths or ["-"]:
        try:
            content += stdin if word == "-" else session.read(session.path(word))
        except PermissionError:
            err += f"cat: {word}: Permission denied\n".encode()
        except files.NoSuchPathError:
            is_folder = files.is_folder(session.guest, session.path(word))
            err += f"cat: {word}: {'Is a directory' if is_folder else 'No such file or directory'}\n".encode()
    return Result(1 if err else 0, content, err)


def mkdir(session: Session, arguments: Sequence[str], _stdin: bytes) -> Result:
    words, mode, parents, rest = list(arguments), 0o777 & ~session.umask, False, []
    while words:
        word = words.pop(0)
        match word:
            case "-p":
                parents = True
            case "-m" if words:
                mode = int(words.pop(0), 8)
            case "--":
                rest += words
                break
            case _ if word.startswith("-m"):
                mode = int(word.removeprefix("-m").removeprefix("="), 8)
            case _:
                rest.append(word)
    for word in rest:
        path = session.path(word)
        try:
            session.check_writable(path)
            if not (parents and files.is_folder(session.guest, path)):
                files.make_folder(session.guest, path, mode=mode, parents=parents, owner=session.user)
        except files.PathTakenError:
            return fail(f"mkdir: cannot create directory '{word}': File exists")
        except files.NoSuchPathError:
            return fail(f"mkdir: cannot create directory '{word}': No such file or directory")
        except PermissionError as error:
            return fail(f"mkdir: cannot create directory '{word}': {why_not(error)}")
    session.lab.state.touch(session.vm)
    return Result()


def remove(session: Session, arguments: Sequence[str], _stdin: bytes) -> Result:
    letters, words = options(arguments)
    forced, recursive = bool(letters & {"f", "--force"}), bool(letters & {"r", "R", "--recursive"})
    for word in words:
        path = session.path(word)
        try:
            if files.exists(session.guest, path):
                session.check_writable(path)
            if files.is_folder(session.guest, path) and not recursive:
                return fail(f"rm: cannot remove '{word}': Is a directory")
            files.remove(session.keeper(path), path, recursive=recursive)
        except files.NoSuchPathError:
            if not forced:
                return fail(f"rm: cannot remove '{word}': No such file or directory")
        except PermissionError as error:
            return fail(f"rm: cannot remove '{word}': {why_not(error)}")
    session.lab.state.touch(session.vm)
    return Result()


def move(session: Session, arguments: Sequence[str], _stdin: bytes) -> Result:
    _, words = options(arguments)
    if len(words) != 2:
        return fail("mv: missing file operand", status=WRONG_USE)
    source, target = (session.path(word) for word in words)
    if files.is_folder(session.guest, target):
        target = posixpath.join(target, posixpath.basename(source))
    try:
        session.check_writable(source)
        session.check_writable(target)
        files.move(session.guest, source, target)
    except files.NoSuchPathError:
        return fail(f"mv: cannot stat '{words[0]}': No such file or directory")
    except PermissionError as error:
        return fail(f"mv: cannot move '{words[0]}' to '{words[1]}': {why_not(error)}")
    session.lab.state.touch(session.vm)
    return Result()


def chmod(session: Session, arguments: Sequence[str], _stdin: bytes) -> Result:
    words = [word for word in arguments if word not in ("--", "-R")]
    if len(words) < 2 or not re.fullmatch(r"[0-7]{3,4}", words[0]):
        return fail(f"chmod: invalid mode: '{words[0] if words else ''}'")
    for word in words[1:]:
        try:
            session.check_writable(session.path(word))
            files.set_mode(session.guest, session.path(word), int(words[0], 8))
        except files.NoSuchPathError:
            return fail(f"chmod: cannot access '{word}': No such file or directory")
        except PermissionError:
            return fail(f"chmod: changing permissions of '{word}': Operation not permitted")
    session.lab.state.touch(session.vm)
    return Result()


def chown(session: Session, arguments: Sequence[str], _stdin: bytes) -> Result:
    _, words = options(arguments)
    if session.user != ROOT:
        return fail("chown: Operation not permitted")
    for word in words[1:]:
        found = session.guest.files.get(session.path(word))
        if found is not None:
            found.owner = words[0].partition(":")[0]
    return Result()


def test(session: Session, arguments: Sequence[str], _stdin: bytes) -> Result:
    """Answer the tests that clients ask; `[` is the same with a bracket at the end."""
    words = [word for word in arguments if word != "]"]
    negated = words[:1] == ["!"]
    words = words[1:] if negated else words
    guest = session.guest
    match words:
        case ["-f", path]:
            is_so = (
                session.path(path) in guest.files
                or sysfs.read(session.lab.state, session.vm, path) is not None
            )
        case ["-d", path]:
            is_so = files.is_folder(guest, session.path(path))
        case ["-e" | "-r" | "-w", path]:
            is_so = files.exists(guest, session.path(path)) or sysfs.exists(
                session.lab.state, session.vm, path
            )
        case ["-x", path]:
            found = guest.files.get(session.path(path))
            is_so = found is not None and bool(found.mode & 0o111)
        case ["-s", path]:
            found = guest.files.get(session.path(path))
            is_so = found is not None and bool(found.content)
        case ["-n", text]:
            is_so = bool(text)
        case ["-z", text]:
            is_so = not text
        case [one, "=" | "==", other]:
            is_so = one == other
        case [one, "!=", other]:
            is_so = one != other
        case [text]:
            is_so = bool(text)
        case _:
            is_so = False
    return Result(0 if is_so is not negated else 1)


def change_folder(session: Session, arguments: Sequence[str], _stdin: bytes) -> Result:
    path = session.path(arguments[0] if arguments else "~")
    if not files.is_folder(session.guest, path):
        return fail(f"sh: cd: can't cd to {path}", status=2)
    session.folder = path
    return Result()


def umask(session: Session, arguments: Sequence[str], _stdin: bytes) -> Result:
    if not arguments:
        return out(f"{session.umask:04o}")
    session.umask = int(arguments[0], 8)
    return Result()


def export(session: Session, arguments: Sequence[str], _stdin: bytes) -> Result:
    for word in arguments:
        name, equals, value = word.partition("=")
        if equals:
            session.variables[name] = value
    return Result()


def listing(session: Session, arguments: Sequence[str], _stdin: bytes) -> Result:
    _, words = options(arguments)
    lines: list[str] = []
    for word in words or ["."]:
        path = session.path(word)
        made = sysfs.listing(session.lab.state, session.vm, path)
        try:
            lines += made or [posixpath.basename(one.path) for one in files.listing(session.guest, path)]
        except files.NoSuchPathError:
            return fail(f"ls: cannot access '{word}': No such file or directory", status=2)
    return out(*lines)


def install(session: Session, arguments: Sequence[str], stdin: bytes) -> Result:
    """Copy a file, or piped input, with permissions: `install -m 600 SOURCE TARGET`."""
    words, mode, folders, rest = list(arguments), 0o755, False, []
    while words:
        word = words.pop(0)
        match word:
            case "-m" | "-o" | "-g" if words:
                value = words.pop(0)
                mode = int(value, 8) if word == "-m" else mode
            case "-d":
                folders = True
            case "-D" | "--":
                continue
            case _ if word.startswith("-m"):
                mode = int(word.removeprefix("-m"), 8)
            case _:
                rest.append(word)
    try:
        if folders:
            for word in rest:
                if not files.is_folder(session.guest, session.path(word)):
                    files.make_folder(
                        session.guest, session.path(word), mode=mode, parents=True, owner=session.user
                    )
            return Result()
        content = stdin if rest[0] in ("-", "/dev/stdin") else session.read(session.path(rest[0]))
        session.write(session.path(rest[1]), content, mode=mode)
        files.set_mode(session.guest, session.path(rest[1]), mode)
    except (files.NoSuchPathError, files.PathTakenError, IndexError):
        return fail("install: cannot create regular file: No such file or directory")
    except PermissionError as error:
        return fail(f"install: cannot create regular file: {why_not(error)}")
    return Result()


def sudo(session: Session, arguments: Sequence[str], stdin: bytes) -> Result:
    """Run a command as root, if the account may without a password."""
    words = list(arguments)
    while words and words[0].startswith("-"):
        word = words.pop(0)
        if word == "--":
            break
        if word in ("-u", "-g") and words:
            words.pop(0)
    if not may_all(session.guest, session.user):
        return fail("sudo: a password is required")
    return run_words(session.as_user(ROOT), words, stdin) if words else Result()


def shell(session: Session, arguments: Sequence[str], stdin: bytes) -> Result:
    """Run a line, a script file, or piped input."""
    words = list(arguments)
    while words and words[0].startswith("-") and "c" not in words[0]:
        words.pop(0)
    if words and words[0].startswith("-"):
        inner = session.as_user(session.user)
        for number, word in enumerate(words[2:]):
            inner.variables[str(number)] = word
        return run_line(inner, words[1] if len(words) > 1 else "", stdin)
    if not words:
        return run_line(session.as_user(session.user), stdin.decode("utf-8", "replace"), b"")
    if session.find(session, words[0]) is not None:
        return run_words(session, words, stdin)
    return fail(f"sh: 0: cannot open {words[0]}: the lab runs no scripts", status=2)


def wrapped(session: Session, arguments: Sequence[str], stdin: bytes) -> Result:
    """Run the command behind env, nohup, timeout, nice, setsid, exec and their options."""
    words = list(arguments)
    while words:
        word = words[0]
        if word in ("-k", "-s", "-u", "-n"):
            words = words[2:]
        elif word.startswith("-") or re.fullmatch(r"\d+(\.\d+)?[smh]?", word):
            words.pop(0)
        elif re.match(r"[A-Za-z_][A-Za-z0-9_]*=", word):
            name, _, value = words.pop(0).partition("=")
            session.variables[name] = value
        else:
            break
    return run_words(session, words, stdin) if words else Result()
