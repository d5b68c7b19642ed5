"""How the option string of a kernel module is put together, and how one word of it is changed.

A string is words `name=value` with blanks between them, a value may be quoted, and order and
unknown words are somebody's intent: `UpdateModuleOptionString` and `esxcli system module parameters set`
replace the whole string, so whoever writes one word must write all the others again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

_QUOTES = "\"'"


@dataclass(frozen=True, slots=True)
class Word:
    """One word of an option string, `text` as it stands there; `value` is None where there is no `=`."""

    name: str
    value: str | None
    text: str


def parse_options(text: str) -> tuple[Word, ...]:
    """Take an option string apart, in order; of a word that stands twice, both are kept.

    A quote that nobody closes goes to the end of the text.
    """
    return tuple(_word(part) for part in _split(text))


def option_of(text: str, name: str) -> str | None:
    """Return the value that holds for a name: that of the last such word, None where there is none."""
    found = [word.value or "" for word in parse_options(text) if word.name == name]
    return found[-1] if found else None


def merge_options(text: str, changes: Mapping[str, str | None]) -> str:
    """Change some words of an option string and keep every other one, in its order.

    A name whose value is None is removed. A name that stood twice stands once afterwards, where it
    first was; a new one comes last, in the order of `changes`.
    """
    found: list[str] = []
    written: set[str] = set()
    for word in parse_options(text):
        if word.name not in changes:
            found.append(word.text)
        elif word.name not in written:
            written.add(word.name)
            value = changes[word.name]
            if value is not None:
                found.append(_spelled(word.name, value))
    found += [
        _spelled(name, value) for name, value in changes.items() if name not in written and value is not None
    ]
    return " ".join(found)


def _split(text: str) -> Iterable[str]:
    """Yield the words of a text; blanks within quotes do not part them."""
    current: list[str] = []
    quote = ""
    for character in text:
        if quote:
            quote = "" if character == quote else quote
        elif character in _QUOTES:
            quote = character
        elif character.isspace():
            if current:
                yield "".join(current)
                current = []
            continue
        current.append(character)
    if current:
        yield "".join(current)


def _word(text: str) -> Word:
    name, equals, value = text.partition("=")
    return Word(_bare(name), _bare(value) if equals else None, text)


def _spelled(name: str, value: str) -> str:
    return f'{name}="{value}"' if any(character.isspace() for character in value) else f"{name}={value}"


def _bare(text: str) -> str:
    """Return a text without the quotes around it, or around a part of it."""
    return "".join(character for character in text if character not in _QUOTES)
