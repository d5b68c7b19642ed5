"""Commands and options of the previous release, with their replacements. They work for one more release."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Old:
    """The command line that replaces an earlier command."""

    now: tuple[str, ...]
    """The command, and the options that are always added."""
    renamed: Mapping[str, str] = field(default_factory=dict)
    """Options by their earlier names; such an option takes the place of the same one in `now`."""
    argument: str = ""
    """The option that is given the earlier command's argument."""


COMMANDS = {
    "usage": Old(("inventory", "--hours=30d"), {"--since": "--hours"}),
    "schema": Old(("validate", "--schema=plan-file"), {"--of": "--schema"}),
    "record": Old(("inventory",), argument="--record"),
    "support-bundle": Old(("doctor",), argument="--bundle"),
}
_FLAGS = ("--force", "--scrub", "--insecure", "--help", "-h")


def renewed(words: Sequence[str]) -> list[str]:
    """Return a command line in today's words; one that has no old word is returned unchanged."""
    old = COMMANDS.get(words[0]) if words else None
    if old is None:
        return list(words)
    rest = [_renamed(word, old.renamed) for word in words[1:]]
    index = _first_argument(rest) if old.argument else None
    if index is not None:
        rest[index] = f"{old.argument}={rest[index]}"
    named = {word.partition("=")[0] for word in rest}
    return [*(word for word in old.now if word.partition("=")[0] not in named), *rest]


def note(words: Sequence[str]) -> str:
    """Return the line that names today's words."""
    old = COMMANDS[words[0]]
    now = " ".join(("vgpu-cfg", *old.now, *([old.argument] if old.argument else [])))
    return f"NOTE  `vgpu-cfg {words[0]}` is now `{now}`; the old word will be removed in the next release"


def _renamed(word: str, names: Mapping[str, str]) -> str:
    option, sign, value = word.partition("=")
    return names.get(option, option) + sign + value


def _first_argument(words: Sequence[str]) -> int | None:
    """Return the index of the first word that is neither an option nor the value of one."""
    follows_option = False
    for index, word in enumerate(words):
        if not word.startswith("-") and not follows_option:
            return index
        follows_option = word.startswith("-") and "=" not in word and word not in _FLAGS
    return None
