"""The software of a host's kernel as settings need it: option strings of modules, and requested packages.

An option string is words `name=value` with blanks between them, a value may be quoted, and order and unknown
words are intentional: `UpdateModuleOptionString` and `esxcli system module parameters set` replace the whole
string, so every write of one word must write all the others again.

A setting's request for packages names the release, its installer, and its offline bundles.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase

from vgpu_cfg.changes.kinds.change_host import EsxcliWrite
from vgpu_cfg.model.observed.host_facts import HostFacts, is_same_boot

_QUOTES = "\"'"

_GLOB = re.compile(r"[\w.*?\[\]!-]+")
NONE = "none"
STAGED = "written, pending reboot"


@dataclass(frozen=True, slots=True)
class Word:
    """One word of an option string, `text` verbatim; `value` is None without a `=`."""

    name: str
    value: str | None
    text: str


def parse_options(text: str) -> tuple[Word, ...]:
    """Split an option string, in order; of a repeated word, both are kept.

    An unclosed quote goes to the end of the text.
    """
    return tuple(_word(part) for part in _split(text))


def option_of(text: str, name: str) -> str | None:
    """Return the value that holds for a name: that of the last such word, None where there is none."""
    found = [word.value or "" for word in parse_options(text) if word.name == name]
    return found[-1] if found else None


def merge_options(text: str, changes: Mapping[str, str | None]) -> str:
    """Change some words of an option string and keep every other one, in its order.

    A name whose value is None is removed. A repeated name occurs once afterwards, at its first place; a new
    one comes last, in the order of `changes`.
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


@dataclass(frozen=True, slots=True)
class WantedPackage:
    """A desired setting's value taken apart: `nvd-aie 580.* by esxcli from /vmfs/volumes/ds/driver.zip`."""

    kind: str
    version: str
    by: str = "hand"
    depots: tuple[str, ...] = ()

    @classmethod
    def parse(cls, value: str) -> WantedPackage:
        """Read what `value` wrote."""
        kind, version, *rest = shlex.split(value)
        by = rest[1] if rest else "hand"
        return cls(kind, version, by, tuple(rest[3:]))

    @property
    def value(self) -> str:
        """The value as plans and marks have it."""
        words = [self.kind, self.version]
        if self.by != "hand":
            words += ["by", self.by]
        if self.depots:
            words += ["from", *self.depots]
        return " ".join(word if _GLOB.fullmatch(word) else shlex.quote(word) for word in words)

    @property
    def is_installed_here(self) -> bool:
        """Whether this tool installs it, by esxcli."""
        return self.by == "esxcli" and bool(self.depots)

    @property
    def install(self) -> tuple[EsxcliWrite, ...]:
        """The call that takes in all bundles at once, for the next boot; nothing where others install it."""
        if not self.is_installed_here:
            return ()
        depots = tuple(("depot", depot) for depot in self.depots)
        return (EsxcliWrite(command="software.vib.install", arguments=depots),)


def is_wanted_package(wanted: str, found: str) -> bool:
    """Whether an installed package is of the wanted kind and its version fits the glob.

    A glob without a wildcard also fits a version with the VIB's suffix: "580.95.02" fits "580.95.02-1OEM…". A
    staged package counts as the wanted one: after the reboot it shows whether it was.
    """
    if found == STAGED:
        return True
    kind, _, version = found.partition(" ")
    desired = WantedPackage.parse(wanted)
    return kind == desired.kind and fits_version(version, desired.version)


def fits_version(version: str, wanted: str) -> bool:
    """Whether a version fits a glob, or has the suffix of a VIB after it."""
    return fnmatchcase(version, wanted) or fnmatchcase(version, f"{wanted}-*")


def is_staged(facts: HostFacts, setting: str) -> bool:
    """Whether this tool has installed a setting's package, and the host has not rebooted since.

    Until then the list of VIBs is that of the running image: the host's mark shows it, together with the
    host's own state that it must be rebooted.
    """
    waiting = facts.mark.waiting if facts.mark is not None else {}
    return facts.reboot_required and setting in waiting and is_same_boot(waiting[setting], facts.boot_time)
