"""The tables of options in docs/reference/commands.md are written from the program.

`REWRITE_PAGES=1` writes them anew. What follows `<br>` in a row is the page's own, and is kept.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from types import UnionType
from typing import Any, Union, get_args, get_origin

from typer.main import get_command

from tests.page_tables import as_code, own_words
from vgpu_cfg.cli.app import app

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "commands.md"
HEAD = "| Option | Value | Meaning |\n|---|---|---|\n"
TABLE = re.compile(r"^\| Option \|.*\n(?:\|.*\n)+", re.MULTILINE)
HEADING = re.compile(r"^#{2,3} (.+)$", re.MULTILINE)
SHARED = re.compile(r"\]\(#(connection|recording|variables|running)\)")
WORDS = {int: "number", float: "number", Path: "path", str: "text", bool: ""}


def commands(parent: Any, path: str = "vgpu-cfg") -> Iterator[tuple[str, Any]]:
    for name, command in parent.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, f"{path} {name}")
        else:
            yield f"{path} {name}", command


def options(command: Any) -> dict[str, Any]:
    return {one.opts[0]: one for one in command.params if one.param_type_name == "option"}


COMMANDS = {name: options(command) for name, command in commands(get_command(app))}


def value_of(option: Any) -> str:
    """Spell what an option is given: its choices, its metavar, or the kind of its value."""
    kind = option.type_descriptor.annotation
    while get_origin(kind) in {list, tuple, Union, UnionType}:
        (kind, *_) = [one for one in get_args(kind) if one is not type(None)]
    if isinstance(kind, type) and issubclass(kind, Enum):
        return ", ".join(f"`{one.value}`" for one in kind)
    if option.is_flag:
        return ""
    return f"`{option.metavar}`" if option.metavar else WORDS[kind]


def meaning_of(option: Any) -> str:
    """Spell an option's help, its default, and whether it may be repeated."""
    said = [as_code(option.help)]
    default = option.default.value if isinstance(option.default, Enum) else option.default
    if option.show_default and isinstance(default, str | int | float) and not isinstance(default, bool):
        said.append(f"Default: `{default}`.")
    return " ".join([*said, *(["Repeatable."] if option.multiple else [])])


def table_of(shown: dict[str, Any], old: str) -> str:
    """Write the rows of a table; the page's own words on an option are kept."""
    own = own_words(old)
    rows = []
    for name, option in shown.items():
        names = ", ".join(f"`{one}`" for one in (*option.opts, *option.secondary_opts))
        more = f"<br>{own[name]}" if name in own else ""
        rows.append(f"| {names} | {value_of(option)} | {meaning_of(option)}{more} |\n")
    return HEAD + "".join(rows)


def shared_options(text: str) -> dict[str, Any]:
    """Return the options of a shared table, as most commands have them."""
    named = re.findall(r"^\| `(-[\w-]+)`", text, re.MULTILINE)
    chosen = {}
    for name in named:
        those = [found[name] for found in COMMANDS.values() if name in found]
        ((most, _),) = Counter(one.help for one in those).most_common(1)
        chosen[name] = next(one for one in those if one.help == most)
    return chosen


def written(page: str) -> str:
    """Write the page with its tables made of the program."""
    start, *pieces = HEADING.split(page)
    sections = dict(zip(pieces[::2], pieces[1::2], strict=True))
    tables = {title.lower(): text for title, text in sections.items() if title[0].isupper()}

    def rewritten(title: str, text: str) -> str:
        if title in COMMANDS:
            elsewhere = {
                name
                for kind in SHARED.findall(text)
                for name in re.findall(r"^\| `(-[\w-]+)`", tables[kind], re.MULTILINE)
            }
            shown = {name: one for name, one in COMMANDS[title].items() if name not in elsewhere}
        elif title.lower() in {"connection", "recording", "variables", "running"}:
            shown = shared_options(text)
        else:
            return text
        return TABLE.sub(lambda found: table_of(shown, found[0]), text, count=1)

    marks = {match[1]: match[0] for match in HEADING.finditer(page)}
    return start + "".join(marks[title] + rewritten(title, text) for title, text in sections.items())


def test_the_tables_of_options_are_those_of_the_program() -> None:
    page = PAGE.read_text(encoding="utf-8")
    if os.environ.get("REWRITE_PAGES") == "1":
        PAGE.write_text(written(page), encoding="utf-8")
        return
    assert written(page) == page, "REWRITE_PAGES=1 writes it anew"


def test_a_page_that_is_older_than_the_program_is_noticed() -> None:
    page = PAGE.read_text(encoding="utf-8")
    older = page.replace(meaning_of(COMMANDS["vgpu-cfg plan"]["--out"]), "Keep it.")
    assert older != page
    assert written(older) == page


def test_every_command_with_options_of_its_own_has_a_table() -> None:
    _, *pieces = HEADING.split(PAGE.read_text(encoding="utf-8"))
    bare = {title for title, text in zip(pieces[::2], pieces[1::2], strict=True) if not TABLE.search(text)}
    assert {title for title in bare if COMMANDS.get(title)} == set()
