"""Words for which today's are used: commands and options of the previous release, and another spelling.

Those of the previous release work for one more release.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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
    "rebalance": Old(("plan",), {"--dry-run": ""}),
}
_STRICT, _PRUNE = {"--strict": "--exit-code"}, {"--prune": ""}
_MAY_DESTROY = "--may-destroy"
OPTIONS: dict[str, dict[str, str]] = {
    "plan": _STRICT | _PRUNE, "status": _STRICT, "apply": _PRUNE, "runbook": _PRUNE,
    "import": {_MAY_DESTROY: _MAY_DESTROY},
}  # fmt: skip
"""By command, the options that replace earlier ones.

Those without a replacement are left out; one that another command replaces stays, and is refused.
"""
_INSTEAD = {"--prune": "--delete NAME", _MAY_DESTROY: "vgpu-cfg destroy PLAN --only NAME --delete NAME"}
_FLAGS = ("--force", "--scrub", "--insecure", "--help", "-h")


def renewed(words: Sequence[str]) -> list[str]:
    """Return a command line in today's words; one that has no old word is returned unchanged."""
    if not words:
        return []
    old = COMMANDS.get(words[0], Old((words[0],), OPTIONS.get(words[0], {})))
    rest = [_renamed(word, old.renamed) for word in words[1:] if old.renamed.get(word) != ""]
    index = _first_argument(rest) if old.argument else None
    if index is not None:
        rest[index] = f"{old.argument}={rest[index]}"
    named = {word.partition("=")[0] for word in rest}
    return [*(word for word in old.now if word.partition("=")[0] not in named), *rest]


def notes(words: Sequence[str]) -> Iterator[str]:
    """Yield a line for each old word of a command line, with today's words."""
    if not words:
        return
    old = COMMANDS.get(words[0])
    if old is not None:
        now = " ".join(("vgpu-cfg", *old.now, *([old.argument] if old.argument else [])))
        yield f"NOTE  `vgpu-cfg {words[0]}` is now `{now}`; {_UNTIL}"
    for word in words[1:]:
        instead = OPTIONS.get(words[0], {}).get(word)
        if instead is not None:
            yield f"NOTE  `{word}` is now `{_INSTEAD.get(word, instead)}`; {_UNTIL}"


_UNTIL = "the old word will be removed in the next release"


def as_named(word: str) -> str:
    """Return a word of a command line as checks and options spell it: both spellings of a license count."""
    return word.replace("license", "licence")


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
