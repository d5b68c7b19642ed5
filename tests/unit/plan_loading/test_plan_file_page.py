"""The tables of keys in docs/reference/plan-file.md are written from the schema of the plan file.

`REWRITE_PAGES=1` writes them anew. What follows `<br>` in a row is the page's own, and is kept.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from typing import Any

from tests.architecture.sources import ROOT
from tests.page_tables import as_code, own_words
from vgpu_cfg.model.plan_file import plan_file_schema

PAGE = ROOT / "docs" / "reference" / "plan-file.md"
SCHEMA = plan_file_schema()
MODELS: Mapping[str, Any] = {"the plan file": SCHEMA, **SCHEMA["$defs"]}
TABLE = re.compile(r"^<!-- keys of (.+) -->\n\n(\|.*\n)\|.*\n((?:\|.*\n)*)", re.MULTILINE)
ROW = re.compile(r"^\| `([^`]+)` \|", re.MULTILINE)


def values_of(rule: Any) -> Iterator[str]:
    """List the words that a key takes."""
    for word in [*rule.get("enum", []), *([rule["const"]] if "const" in rule else [])]:
        yield str(word).lower() if isinstance(word, bool) else str(word)
    if "$ref" in rule:
        yield from values_of({**SCHEMA["$defs"][rule["$ref"].rpartition("/")[2]], "properties": None})
    for one in (*rule.get("anyOf", []), *([rule["items"]] if isinstance(rule.get("items"), dict) else [])):
        yield from values_of(one)


def default_of(rule: Any, is_needed: bool) -> str:
    default = rule.get("x-default", "needed" if is_needed else "")
    is_literal = default in values_of(rule) or re.fullmatch(r"[\d/].*|true|false", default)
    return f"`{default}`" if is_literal else default


def meaning_of(rule: Any) -> str:
    """Spell what a key means, with the words that it takes."""
    said = as_code(rule.get("description", ""))
    values = list(dict.fromkeys(one for one in values_of(rule) if one not in {"true", "false"}))
    return f"{said} Values: {', '.join(f'`{one}`' for one in values)}." if len(values) > 1 else said


def table_of(model: str, head: str, old: str) -> str:
    """Write the rows of a table; the page's order and its own words on a key are kept."""
    own, columns = own_words(old), [cell.strip() for cell in head.strip("|\n ").split("|")]
    keys = MODELS[model]["properties"]
    order = [
        *(key for key in ROW.findall(old) if key in keys),
        *(key for key in keys if f"| `{key}` |" not in old),
    ]
    rows = [head, "|" + "---|" * len(columns) + "\n"]
    for key, rule in ((key, keys[key]) for key in order):
        cells = {
            "When a change takes effect": rule.get("x-takes-effect", ""),
            "Default": default_of(rule, key in MODELS[model].get("required", [])),
            "Meaning": meaning_of(rule) + (f"<br>{own[key]}" if key in own else ""),
        }
        rows.append(f"| `{key}` | {' | '.join(cells[one] for one in columns[1:])} |\n")
    return f"<!-- keys of {model} -->\n\n{''.join(rows)}"


def written(page: str) -> str:
    """Write the page with its tables made of the schema."""
    return TABLE.sub(lambda found: table_of(found[1], found[2], found[3]), page)


def test_the_tables_of_keys_are_those_of_the_schema() -> None:
    page = PAGE.read_text(encoding="utf-8")
    if os.environ.get("REWRITE_PAGES") == "1":
        PAGE.write_text(written(page), encoding="utf-8")
        return
    assert written(page) == page, "REWRITE_PAGES=1 writes it anew"


def test_a_page_that_is_older_than_the_schema_is_noticed() -> None:
    page = PAGE.read_text(encoding="utf-8")
    without_a_key = re.sub(r"^\| `boot_delay` \|.*\n", "", page, flags=re.MULTILINE)
    assert "| `boot_delay` | live |" in written(without_a_key)
    assert written(page.replace("| at a power cycle |", "| live |")) == page
    assert written(page.replace("Virtual CPUs.", "Processors.")) == page


def test_each_table_of_keys_is_written() -> None:
    assert len(re.findall(r"^\| Key.*\| Meaning \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)) == len(
        TABLE.findall(PAGE.read_text(encoding="utf-8"))
    )
