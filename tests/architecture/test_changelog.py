"""The changelog has a section a release, and the version of the package is the newest of them."""

from __future__ import annotations

import re
from datetime import date

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


def test_what_comes_next_has_its_section_at_the_top() -> None:
    assert headings()[0] == "Unreleased"


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
