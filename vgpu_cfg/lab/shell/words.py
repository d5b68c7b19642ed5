"""How a command line falls into words: as in a POSIX shell, and none of a shell's other doings.

Pipes, lists, redirections, substitutions and patterns are no commands that this shell has.
"""

from __future__ import annotations

import shlex

_OPERATORS = frozenset("|&;<>()\n")
_SUBSTITUTIONS = frozenset("$`")
_PATTERNS = frozenset("*?[~#")


class BadLineError(Exception):
    """The line is none that this shell runs; `status` is what it returns then."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


def split_line(line: str) -> list[str]:
    """Return the words of a command line. Raises BadLineError."""
    _refuse_syntax(line)
    return shlex.split(line)


def _refuse_syntax(line: str) -> None:
    """Raise BadLineError for the first character outside quotes that means something else to a shell."""
    quote, skips = "", False
    for at, character in enumerate(line):
        if skips:
            skips = False
        elif quote == "'":
            quote = "" if character == "'" else quote
        elif character == "\\":
            skips = True
        elif character in _SUBSTITUTIONS:
            raise BadLineError(f"sh: {line[at:].split(maxsplit=1)[0]}: not found", 127)
        elif quote == '"':
            quote = "" if character == '"' else quote
        elif character in "'\"":
            quote = character
        elif character in _OPERATORS:
            raise BadLineError(f"sh: {character.strip() or 'newline'}: not found", 127)
        elif character in _PATTERNS and (
            character not in "~#" or not line[:at].rstrip(" ") or line[at - 1] == " "
        ):
            raise BadLineError(f"sh: {character}: not found", 127)
    if quote or skips:
        raise BadLineError("sh: syntax error: unterminated quoted string", 2)
