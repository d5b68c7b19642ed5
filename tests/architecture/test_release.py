"""`script/release` builds what is tagged, clean and told in the changelog, and refuses all else."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.architecture.sources import ROOT
from vgpu_cfg.documents import read_document

VERSION = "1.2.3"
CHANGELOG = """# Changelog

## Unreleased

## 1.2.3 - 2030-01-02

- **A thing**.

## 1.2.2 - 2029-01-02
"""
# Builds nothing: script/release-files tries what it builds.
BUILDER = '#!/bin/sh\nrm -rf dist && mkdir dist && touch "dist/built${1:-}"\n'


def git(folder: Path, *words: str) -> None:
    person = ["-c", "user.name=A", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false"]
    command = ["git", *person, *words]
    subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=120)


def write(folder: Path, name: str, text: str) -> None:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    if text.startswith("#!"):
        path.chmod(0o755)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Make a clone whose last commit is a release, and tagged."""
    folder = tmp_path / "clone"
    write(folder, "CHANGELOG.md", CHANGELOG)
    write(folder, "vgpu_cfg/__init__.py", f'__version__ = "{VERSION}"\n')
    write(folder, ".gitignore", "dist/\n")
    write(folder, "script/release-files", BUILDER)
    shutil.copy(ROOT / "script" / "release", folder / "script")
    git(folder, "init", "--quiet")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "--message", "Release")
    git(folder, "tag", "--annotate", f"v{VERSION}", "--message", VERSION)
    return folder


def release(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [str(folder / "script" / "release"), *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


def commit(folder: Path, name: str, text: str) -> None:
    """Make the tagged commit anew, with one file otherwise."""
    write(folder, name, text)
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "--amend", "--message", "Release")
    git(folder, "tag", "--force", "--annotate", f"v{VERSION}", "--message", VERSION)


def retag(folder: Path, *words: str) -> None:
    git(folder, "tag", "--delete", f"v{VERSION}")
    if words:
        git(folder, "tag", *words)


REFUSED: dict[str, tuple[Callable[[Path], None], str]] = {
    "a file that is not committed": (lambda at: write(at, "notes.txt", "x"), "git status lists changes"),
    "no section": (
        lambda at: commit(at, "CHANGELOG.md", "# Changelog\n\n## Unreleased\n"),
        "no section '## 1.2.3 - DATE'",
    ),
    "an empty section": (
        lambda at: commit(
            at, "CHANGELOG.md", "# Changelog\n\n## 1.2.3 - 2030-01-02\n## 1.2.2 - 2029-01-02\n\n- B\n"
        ),
        "nothing in it",
    ),
    "a change that no section has": (
        lambda at: commit(at, "changes/+another.added.md", "**Another**.\n"),
        "changes/ has files: .venv/bin/towncrier build --version 1.2.3",
    ),
    "no tag": (retag, "git tag -a v1.2.3"),
    "a tag without a message": (lambda at: retag(at, f"v{VERSION}"), "no annotated tag"),
    "a commit after the tag": (
        lambda at: git(at, "commit", "--quiet", "--allow-empty", "--message", "More"),
        "v1.2.3 names another commit",
    ),
}


def test_a_tagged_commit_is_built_and_what_an_earlier_run_left_goes(project: Path) -> None:
    write(project, "dist/of-an-earlier-run", "")
    done = release(project)
    assert done.returncode == 0, done.stderr
    assert [path.name for path in (project / "dist").iterdir()] == ["built"]


def test_a_key_is_handed_on(project: Path) -> None:
    assert release(project, ".key").returncode == 0
    assert (project / "dist" / "built.key").exists()


def test_a_dry_run_builds_from_any_commit(project: Path) -> None:
    retag(project)
    write(project, "notes.txt", "x")
    done = release(project, "--dry-run")
    assert (done.returncode, done.stderr) == (0, "")
    assert (project / "dist" / "built").exists()


@pytest.mark.parametrize("what", REFUSED)
def test_it_is_refused(what: str, project: Path) -> None:
    spoil, told = REFUSED[what]
    spoil(project)
    done = release(project)
    assert done.returncode == 1
    assert told in done.stderr
    assert not (project / "dist").exists()


def test_galaxy_accepts_the_collections_metadata() -> None:
    """Ansible's galaxy-importer requires one of these tags, and at most 20."""
    required = {"application", "cloud", "infrastructure", "linux", "monitoring", "networking", "tools"}
    tags = read_document(ROOT / "ansible_collection/galaxy.yml").data["tags"]
    assert required & set(tags)
    assert len(tags) <= 20
