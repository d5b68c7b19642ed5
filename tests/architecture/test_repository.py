"""The project runs wherever it is cloned: its commands are there, and no file knows this machine."""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path

import pytest

from tests.architecture.sources import ROOT, named, project_files

README = ROOT / "README.md"
COMMAND = re.compile(r"^(script/\S+)", re.MULTILINE)
LINK = re.compile(r"\]\((?![a-z]+:|#)([^)#\s]+)")
# Put together here, so that this file does not name them.
REGISTRIES = [
    ".".join(parts) for parts in (("pypi", "org"), ("pythonhosted", "org"), ("proxy", "golang", "org"))
]


def text_of(path: Path) -> str:
    return path.read_bytes().decode("utf-8", errors="replace")


def test_the_readme_begins_with_the_two_commands() -> None:
    first_block = README.read_text(encoding="utf-8").split("```")[1]
    assert COMMAND.findall(first_block) == ["script/demo", "script/test"]


@pytest.mark.parametrize("name", ["script/bootstrap", "script/demo", "script/lint", "script/test", ".ci/run"])
def test_a_command_can_be_run(name: str) -> None:
    assert os.access(ROOT / name, os.X_OK)


def test_every_command_that_a_page_names_is_there() -> None:
    pages = [path for path in project_files() if path.suffix == ".md"]
    named_there = {name for page in pages for name in COMMAND.findall(text_of(page))}
    assert sorted(name for name in named_there if not os.access(ROOT / name, os.X_OK)) == []


def test_every_relative_link_leads_somewhere() -> None:
    pages = [path for path in project_files() if path.suffix == ".md"]
    broken = [
        f"{named(page)}: {target}"
        for page in pages
        for target in LINK.findall(text_of(page))
        if not (page.parent / target).exists()
    ]
    assert broken == []


def test_no_file_knows_this_machine() -> None:
    # A clone in the root or in the folder for temporary files tells nothing by its parent.
    too_common = {Path("/"), Path("/tmp"), Path(tempfile.gettempdir())}
    places = [str(place) for place in (ROOT, ROOT.parent) if place not in too_common]
    found = [
        f"{named(path)}: {place}"
        for path in project_files()
        for place in places
        if re.search(re.escape(place) + r"(?![\w-])", text_of(path))
    ]
    assert found == []


def test_no_file_names_a_package_registry() -> None:
    found = [named(path) for path in project_files() if any(host in text_of(path) for host in REGISTRIES)]
    assert found == []
