"""Parts of plan files in pages, in fences and in sentences: the plan file's schema accepts them.

The context of a part is hidden: any place of a plan file whose keys it has.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from jsonschema import Draft202012Validator

from tests.architecture.sources import named
from tests.unit.test_docs import BLOCKS, FENCE, PAGES
from vgpu_cfg.documents import parse_text
from vgpu_cfg.errors import DocumentError
from vgpu_cfg.model.plan_file.schema import plan_file_schema

IN_SENTENCES = re.compile(r"`(\{?[a-z_]+: [^`\n]+)`")
PLACEHOLDER = re.compile(r"…|\.\.\.|\bN\b|NAME|IMAGE|VGnnn|\{\w+, \w+\}")
NEXT_KEY = re.compile(r"^(?=[a-z_]+:)", re.MULTILINE)
WHOLE = re.compile(r"^(version|about|contexts|faults|owners|config_version):", re.MULTILINE)
"""Files of their own, which other tests open."""
NOT_READ = ("CHANGELOG.md", "docs/decisions/", "docs/reference/explain.md", "tests/")
"""What earlier releases had, texts of other programs, and cases of tests."""
OF_OTHERS = re.compile(
    r"^(lacking:|drift:|journal_folder:|datasource_list:|- hosts: localhost)"
    r"|^(guest: [/~]|pool: \{clusters|kind: [a-z_]+$|password: file:|gpus: true$|hosts: access: ssh$)",
    re.MULTILINE,
)
"""Parts of other files: faults, pipelines, the config file, cloud-init, Ansible, shares, reports."""


class Part(NamedTuple):
    """A part of a plan file, and the page that has it."""

    page: str
    text: str

    def __str__(self) -> str:
        return f"{self.page}: {self.text.splitlines()[0]}"


def parts() -> Iterator[Part]:
    for page in PAGES:
        for text in IN_SENTENCES.findall(FENCE.sub("", page.read_text(encoding="utf-8"))):
            yield Part(named(page), text)
    for block in BLOCKS:
        if block.info == "yaml" and not WHOLE.search(block.text):
            yield Part(named(block.page), block.text)


def without_what_a_part_leaves_out(rule: Any) -> Any:
    """Return a schema that needs no key; keys that exclude each other still may not both be wrong."""
    match rule:
        case dict():
            return {
                "anyOf" if name == "oneOf" else name: without_what_a_part_leaves_out(inner)
                for name, inner in rule.items()
                if name not in ("not", "if", "then", "else", "dependentRequired")
                and not (name == "required" and isinstance(inner, list))
            }
        case list():
            return [without_what_a_part_leaves_out(inner) for inner in rule]
        case _:
            return rule


SCHEMA = without_what_a_part_leaves_out(plan_file_schema())
PLACES = [
    (frozenset(rule["properties"]), Draft202012Validator({**rule, "$defs": SCHEMA["$defs"]}))
    for rule in (SCHEMA, *SCHEMA["$defs"].values())
    if "properties" in rule
]
"""The keys of each place of a plan file, and what judges it."""


KEYS = frozenset[str]().union(*(keys for keys, _ in PLACES))


def is_of_a_plan(part: Part) -> bool:
    """Tell whether a part is judged; in a sentence it begins with a key of plan files and is complete."""
    if part.page.startswith(NOT_READ) or OF_OTHERS.search(part.text):
        return False
    if "\n" in part.text:
        return True
    return part.text.lstrip("{").partition(":")[0] in KEYS and not PLACEHOLDER.search(part.text)


PARTS = [part for part in parts() if is_of_a_plan(part)]


def faults_of(text: str) -> list[str]:
    """Return why no place of a plan file accepts a part; where a key is repeated, each line is a part."""
    try:
        value = parse_text(text, "part.yaml").data
    except DocumentError as fault:
        pieces = [piece for piece in NEXT_KEY.split(text) if piece.strip()]
        return [one for piece in pieces for one in faults_of(piece)] if len(pieces) > 1 else [str(fault)]
    tried = [list(place.iter_errors(value)) for keys, place in PLACES if keys >= set(value)]
    if not tried:
        return [f"{text.strip()}: no place of a plan file has these keys"]
    return [] if not all(tried) else [f"{text.strip()}: {min(tried, key=len)[0].message}"]


@pytest.mark.parametrize("page", sorted({part.page for part in PARTS}))
def test_a_part_of_a_plan_file_in_a_page_is_one(page: str) -> None:
    assert [fault for part in PARTS if part.page == page for fault in faults_of(part.text)] == []


def test_there_are_parts_to_look_at() -> None:
    assert len(PARTS) > 200


@pytest.mark.parametrize(
    ("text", "is_right"),
    [
        ("guest: {wait: 10m}", True),
        ("guest: {wait: 10min}", False),
        ("site: {depots: {}}", False),
        ("nics: [{network: a, rdma: host}]", True),
        ("rdma: hosts", False),
        ("gpus: grid_a100-40c\ngpus: [{count: 2}]", True),
        ("gpus: grid_a100-40c\ngpus: [{counts: 2}]", False),
    ],
)
def test_a_wrong_key_or_value_is_found(text: str, is_right: bool) -> None:
    assert (faults_of(text) == []) is is_right
