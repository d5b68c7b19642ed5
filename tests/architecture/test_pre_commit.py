"""A commit that `script/lint` would refuse is refused by git, once pre-commit is installed in a clone."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.sources import ROOT

CONFIG = ROOT / ".pre-commit-config.yaml"
PRE_COMMIT = Path(sys.executable).with_name("pre-commit")
SOUND = '"""Nothing."""\n\nfrom __future__ import annotations\n'
WITHOUT_STYLE = "import os\n"


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False, timeout=120)


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a repository with the hooks, whose script/lint is ours and looks at what is in it."""
    monkeypatch.setenv("SKIP", "types,layers")  # they look at the whole package
    for role in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{role}_NAME", "A")
        monkeypatch.setenv(f"GIT_{role}_EMAIL", "a@example.com")
    folder = tmp_path / "clone"
    (folder / "script").mkdir(parents=True)
    shutil.copy(ROOT / "script" / "lint", folder / "script")
    shutil.copy(ROOT / "pyproject.toml", folder)
    shutil.copy(CONFIG, folder)
    (folder / ".venv").symlink_to(Path(sys.prefix))
    (folder / ".gitignore").write_text(".venv\n", encoding="utf-8")
    run(folder, "git", "init", "--quiet")
    run(folder, "git", "add", ".")
    assert run(folder, str(PRE_COMMIT), "install").returncode == 0
    return folder


def commit(folder: Path, source: str) -> subprocess.CompletedProcess[str]:
    (folder / "new.py").write_text(source, encoding="utf-8")
    run(folder, "git", "add", ".")
    return run(folder, "git", "commit", "--message", "Add a module")


def test_a_bad_commit_is_refused(clone: Path) -> None:
    done = commit(clone, WITHOUT_STYLE)
    assert done.returncode == 1
    assert "F401" in done.stdout + done.stderr
    assert run(clone, "git", "rev-parse", "HEAD^{commit}").returncode != 0


def test_a_good_one_is_made(clone: Path) -> None:
    done = commit(clone, SOUND)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_hooks_are_all_that_script_lint_checks() -> None:
    parts = re.findall(
        r"^(\w+)\(\) \{$", (ROOT / "script" / "lint").read_text(encoding="utf-8"), re.MULTILINE
    )
    hooks = re.findall(r"^ +entry: script/lint (\w+)$", CONFIG.read_text(encoding="utf-8"), re.MULTILINE)
    assert hooks == parts == ["style", "types", "layers"]


def test_script_lint_knows_no_other_word() -> None:
    assert run(ROOT, "script/lint", "stile").returncode == 2


def test_the_hook_for_users_reports_each_plan_file_with_errors(tmp_path: Path) -> None:
    (entry,) = re.findall(r"entry: (.*)", (ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
    bad = tmp_path / "bad.yaml"
    bad.write_text("version: 1\nname: a b\n", encoding="utf-8")
    good = ROOT / "examples" / "four-10c.yaml"
    surroundings = {"PATH": f"{PRE_COMMIT.parent}:/usr/bin:/bin", "HOME": str(tmp_path)}
    for plans, code in (([good], 0), ([bad, good], 1)):
        done = subprocess.run(
            [*shlex.split(entry), *plans],
            env=surroundings,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert done.returncode == code, done.stderr
        assert ("bad.yaml:2" in done.stderr) == (bad in plans)
