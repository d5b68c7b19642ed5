"""The example of a site's repository: two pipelines that do the same, offline, in less than a minute."""

from __future__ import annotations

import resource
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.architecture.sources import ROOT
from tests.cli.command_line import CommandLine
from tests.testing.conftest import SITE
from vgpu_cfg.documents import read_document

INSTALL = ["sha256sum --check wheels/SHA256SUMS", "pip install wheels/vgpu_cfg-*.whl pytest"]
GITLAB, GITHUB = ".gitlab-ci.yml", ".github/workflows/plan.yml"
MOST_SECONDS = 60


def gitlab_lines() -> list[str]:
    job: Any = read_document(SITE / GITLAB).data["plan"]
    return [*job["before_script"], *job["script"], *job["after_script"]]


def github_lines() -> list[str]:
    jobs: Any = read_document(SITE / GITHUB).data["jobs"]
    return [step["run"] for step in jobs["plan"]["steps"] if "run" in step]


PIPELINES = {GITLAB: gitlab_lines, GITHUB: github_lines}
HEALTH = ".github/workflows/health.yml"


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    return Path(shutil.copytree(SITE, tmp_path / "site"))


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Say how the lines of a job find this checkout, and what its package offers to pytest."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (name, module), *_ = project["entry-points"]["pytest11"].items()
    told = tmp_path / "metadata" / "site_pipeline-1.dist-info"
    told.mkdir(parents=True)
    (told / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: site-pipeline\nVersion: 1\n", encoding="utf-8"
    )
    (told / "entry_points.txt").write_text(f"[pytest11]\n{name} = {module}\n", encoding="utf-8")
    return {
        "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
        "HOME": str(tmp_path),
        "PYTHONPATH": f"{ROOT}:{told.parent}",
        "CI": "true",
    }


def offline() -> list[str]:
    """Return what starts a command without any network, as far as this machine lets us."""
    words = ["unshare", "--user", "--map-root-user", "--net"]
    if shutil.which("unshare") is None:
        return []
    tried = subprocess.run([*words, "true"], capture_output=True, check=False, timeout=120)
    return words if tried.returncode == 0 else []


def test_both_pipelines_run_the_same_lines() -> None:
    ours = [[line for line in lines() if not line.startswith("if ")] for lines in PIPELINES.values()]
    assert ours[0] == ours[1]
    assert ours[0][:2] == INSTALL
    assert ours[0][-1].startswith("pytest")


def test_both_check_the_health_alike_and_neither_plans_then() -> None:
    jobs: Any = read_document(SITE / GITLAB).data
    there: Any = read_document(SITE / HEALTH).data
    ours = [step["run"] for step in there["jobs"]["health"]["steps"] if "run" in step]
    assert [*jobs["health"]["before_script"], *jobs["health"]["script"]] == ours
    assert ours == [*INSTALL, "python health.py $HEALTH_OPTIONS"]
    assert jobs["plan"]["rules"][0] == {"if": jobs["health"]["rules"][0]["if"], "when": "never"}
    kept = there["jobs"]["health"]["steps"][-1]["with"]["path"].split()
    assert kept == jobs["health"]["artifacts"]["paths"]


@pytest.mark.exhaustive("longer runs of what the tests beside them try")
def test_the_health_of_a_new_build_is_looked_at_once_and_what_is_broken_each_night(
    copy: Path, environment: dict[str, str]
) -> None:
    site = {"VGPU_CFG_SERVER": "lab:mixed-fleet", "VGPU_CFG_STATE_FOLDER": str(copy / "state")}

    def check(*options: str) -> tuple[int, str]:
        done = subprocess.run(
            [sys.executable, "health.py", *options],
            cwd=copy,
            env=environment | site,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        return done.returncode, done.stdout

    code, told = check("--only-upgrade")
    (file,) = copy.glob("vcenter-*.yaml")
    assert (code, told.splitlines()[0]) == (10, f"new build: review and commit {file.name}")
    assert check("--only-upgrade") == (0, "")
    code, told = check()
    assert (code, told.splitlines()[0]) == (10, "broken: host:esx-a100-05.lab: host not connected")
    assert told.splitlines()[-1].startswith("lab:mixed-fleet: 1 broken, ")
    assert (copy / "health.html").exists()


@pytest.fixture
def vgpu_cfg(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    folder = tmp_path / "work"
    folder.mkdir()
    return CommandLine(folder, monkeypatch)


def test_the_lines_of_the_command_do_what_they_say(
    vgpu_cfg: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The short part of the test below: the commands alone, in this process."""
    monkeypatch.chdir(vgpu_cfg.folder / "examples" / "site-repository")
    lines = [line for line in gitlab_lines() if line.startswith("vgpu-cfg ")]
    printed = [vgpu_cfg.done(*line.partition(" > ")[0].split()[1:]).out for line in lines]
    assert [text.split()[0] for text in printed] == ["###", "<?xml"]


@pytest.mark.long("the pipelines of the example of a site's repository: tests/testing")
def test_a_pipeline_runs_offline_in_less_than_a_minute(copy: Path, environment: dict[str, str]) -> None:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    for line in gitlab_lines():
        if line in INSTALL:
            continue
        done = subprocess.run(
            [*offline(), "/bin/sh", "-e", "-c", line],
            cwd=copy,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=240,
        )
        assert done.returncode == 0, f"{line}: exit {done.returncode}\n{done.stdout}{done.stderr}"
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < MOST_SECONDS
    assert (copy / "comment.md").read_text(encoding="utf-8").startswith("### Changes pending: `training`")
    assert 'failures="0"' in (copy / "plan.xml").read_text(encoding="utf-8")
    assert 'tests="5"' in (copy / "tests.xml").read_text(encoding="utf-8")
