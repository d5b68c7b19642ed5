"""The changelog has a section a release, and the version of the package is the newest of them."""

from __future__ import annotations

import re
import subprocess
import sys
from datetime import date
from pathlib import Path

import pytest

from tests.architecture.sources import ROOT
from vgpu_cfg import __version__
from vgpu_cfg.documents import read_document

HEADING = re.compile(r"^## (.+)$", re.MULTILINE)
RELEASE = re.compile(r"(\d+)\.(\d+)\.(\d+) - (\d{4}-\d\d-\d\d)")


def headings() -> list[str]:
    return HEADING.findall((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"))


def releases() -> list[tuple[tuple[int, ...], date]]:
    """Read each release's version and date, as the page has them from top to bottom."""
    found = []
    for heading in headings()[1:]:
        match = RELEASE.fullmatch(heading)
        assert match, f"a section is headed VERSION - DATE, and not {heading!r}"
        *version, day = match.groups()
        found.append((tuple(map(int, version)), date.fromisoformat(day)))
    return found


def test_what_comes_next_is_in_files_and_not_in_the_changelog() -> None:
    assert headings()[0] == "Unreleased"
    unreleased, _, _ = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").partition("\n## 0")
    assert not re.search(r"^[-*] ", unreleased, re.MULTILINE), "add a file to changes/ instead"


FRAGMENTS = sorted(path for path in (ROOT / "changes").iterdir() if path.name != "README.md")


@pytest.mark.parametrize("path", FRAGMENTS, ids=lambda path: path.name)
def test_a_change_is_one_paragraph_that_starts_in_bold(path: Path) -> None:
    assert re.fullmatch(r"\+[a-z0-9-]+\.(added|changed|fixed)\.md", path.name)
    text = path.read_text(encoding="utf-8")
    assert re.match(r"\*\*[^*]+\*\*", text)
    assert len(text.split()) <= 60
    assert "\n\n" not in text
    assert text.endswith("\n")


def test_a_release_collects_every_change() -> None:
    pytest.importorskip("towncrier", reason="of the extra dev")
    command = [sys.executable, "-m", "towncrier", "build", "--draft", "--version", "9.8.7"]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=120)
    if not FRAGMENTS:
        return
    assert RELEASE.search(run.stdout)
    for path in FRAGMENTS:
        first, *_ = path.read_text(encoding="utf-8").splitlines()
        assert f"- {first}" in run.stdout


def test_the_newest_release_is_the_version_of_the_package() -> None:
    newest, _ = releases()[0]
    assert ".".join(map(str, newest)) == __version__


def test_the_collection_has_the_version_of_the_package() -> None:
    galaxy = read_document(ROOT / "ansible_collection/galaxy.yml").data
    assert galaxy["version"] == __version__


def test_releases_stand_newest_first() -> None:
    found = releases()
    assert found == sorted(found, reverse=True)
    assert len({version for version, _ in found}) == len(found)


def test_it_is_read_in_twenty_minutes() -> None:
    assert len((ROOT / "CHANGELOG.md").read_text(encoding="utf-8").split()) <= 5_000
