"""The page "how to read this code" names files that are there, with what it says is in them, in few words."""

from __future__ import annotations

import ast
import re

import pytest

from tests.architecture.sources import ROOT

TEXT = (ROOT / "docs/explanation/how-to-read-this-code.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| `([\w/.]+\.py)` \| `(\w+)` \|", re.MULTILINE)
PATH = re.compile(r"`((?:vgpu_cfg|tests|script)/[\w/.-]+)`")


@pytest.mark.parametrize(("path", "name"), ROW.findall(TEXT))
def test_a_file_defines_what_the_page_looks_for(path: str, name: str) -> None:
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    defined = {node.name for node in tree.body if isinstance(node, ast.ClassDef | ast.FunctionDef)}
    assigned = (target for node in tree.body if isinstance(node, ast.Assign) for target in node.targets)
    assert name in defined | {target.id for target in assigned if isinstance(target, ast.Name)}


def test_every_path_that_is_named_is_there() -> None:
    named = set(PATH.findall(TEXT))
    assert len(named) > 30
    assert sorted(path for path in named if not (ROOT / path).exists()) == []


def test_it_is_read_in_ten_minutes() -> None:
    assert len(TEXT.split()) <= 1100
