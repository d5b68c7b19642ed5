"""Parsing of a line of a guest's shell: commands, their connectors, their redirections.

It is the part of POSIX's grammar that clients use: quotes, `;` `&&` `||` `|` `&`, redirections, variables.
Compound commands, substitutions of commands and here-documents are refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

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
