"""Expected texts as sections of one file; with REWRITE_TRANSCRIPTS=1 a test writes its section anew.

A section begins with a line "==== NAME" and reaches to the next one.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

_HEAD = "==== "


def section(path: Path, name: str, text: str) -> str:
    """Return the expected text of a section, after `text` has replaced it where that is asked for."""
    if not is_rewriting():
        return _stored(path)[name]
    found = sections_of(path)
    found[name] = text.strip("\n")
    _write(path, found)
    return found[name]


def has_section(path: Path, name: str) -> bool:
    """Whether a section of this name is stored."""
    return name in (sections_of(path) if is_rewriting() else _stored(path))


@cache
def _stored(path: Path) -> dict[str, str]:
    return sections_of(path)


def left_over(path: Path, names: Iterable[str]) -> list[str]:
    """List the sections with other names, after they were removed where that is asked for."""
    found, known = sections_of(path), set(names)
    if is_rewriting():
        found = {name: text for name, text in found.items() if name in known}
        _write(path, found)
    return [name for name in found if name not in known]


def sections_of(path: Path) -> dict[str, str]:
    """Read all sections of a file by name, none if it does not exist."""
    if not path.exists():
        return {}
    _, *parts = f"\n{path.read_text(encoding='utf-8')}".split(f"\n{_HEAD}")
    return {name: body.strip("\n") for name, _, body in (part.partition("\n") for part in parts)}


def is_rewriting() -> bool:
    """Whether expected texts are written anew."""
    return os.environ.get("REWRITE_TRANSCRIPTS") == "1"


def _write(path: Path, found: Mapping[str, str]) -> None:
    whole = "\n\n".join(f"{_HEAD}{key}\n{body}" for key, body in found.items())
    path.write_text(f"{whole}\n", encoding="utf-8")
