"""The programs through which texts are piped: grep, head, wc, tee."""

from __future__ import annotations

import re
from collections.abc import Sequence

from vgpu_cfg.lab.guest.shell.session import Result, Session, why_not
from vgpu_cfg.lab.guest.system import files
from vgpu_cfg.lab.guest.tools.base import WRONG_USE, fail, options, out


def grep(session: Session, arguments: Sequence[str], stdin: bytes) -> Result:
    """Search files, or what comes through a pipe; of several files each line says whose it is."""
    letters, words = options(arguments)
    if not words:
        return fail("Usage: grep [OPTION]... PATTERNS [FILE]...", status=WRONG_USE)
    pattern = re.compile(
        re.escape(words[0]) if "F" in letters else words[0], re.IGNORECASE if "i" in letters else 0
    )
    found: list[str] = []
    missing = False
    for name in words[1:] or ["-"]:
        try:
            content = stdin if name == "-" else session.read(session.path(name))
        except (files.NoSuchPathError, PermissionError):
            missing = True
            continue
        prefix = f"{name}:" if len(words) > 2 and "h" not in letters else ""
        lines = content.decode("utf-8", "replace").splitlines()
        found += [f"{prefix}{line}" for line in lines if bool(pattern.search(line)) is not ("v" in letters)]
    status = 0 if found else 2 if missing else 1
    if "q" in letters:
        return Result(status)
    if "c" in letters:
        return out(str(len(found)), status=status)
    return out(*found, status=status)


def head(_session: Session, arguments: Sequence[str], stdin: bytes) -> Result:
    number = next((int(word.lstrip("-nc") or 0) for word in arguments if word.lstrip("-nc").isdigit()), 10)
    if any(word.startswith("-c") for word in arguments):
        return Result(0, stdin[:number])
    return Result(0, b"".join(stdin.splitlines(keepends=True)[:number]))


def tee(session: Session, arguments: Sequence[str], stdin: bytes) -> Result:
    letters, words = options(arguments)
    for word in words:
        try:
            session.write(session.path(word), stdin, append="a" in letters)
        except PermissionError as error:
            return Result(1, stdin, f"tee: {word}: {why_not(error)}\n".encode())
        except (files.NoSuchPathError, files.PathTakenError):
            return Result(1, stdin, f"tee: {word}: No such file or directory\n".encode())
    return Result(0, stdin)


def wc(_session: Session, arguments: Sequence[str], stdin: bytes) -> Result:
    """Count the bytes or lines of what comes through a pipe."""
    return out(str(stdin.count(b"\n") if "-l" in arguments else len(stdin)))
