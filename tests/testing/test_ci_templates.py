"""The GitHub action and the GitLab component: both validate and plan, and neither can change a vCenter."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from tests.architecture.sources import ROOT
from tests.testing.conftest import SITE
from vgpu_cfg.documents import read_document

GOOD = {"plan": "plan.yaml", "vars": "site.yaml", "recording": "vcenter.json.gz"}


def action(**inputs: str) -> list[tuple[str, dict[str, str]]]:
    """List the action's lines after its installation, with their variables."""
    read: Any = read_document(ROOT / "action.yml").data
    given = {name: one.get("default", "") for name, one in read["inputs"].items()} | inputs
    steps = read["runs"]["steps"]
    assert all(step["shell"] == "bash" for step in steps)
    assert [step["name"] for step in steps] == ["Install", "Validate", "Plan"]
    return [
        (
            step["run"],
            {name: filled(value, r"\$\{\{ inputs\.(\w+) \}\}", given) for name, value in step["env"].items()},
        )
        for step in steps[1:]
    ]


def component(**inputs: str) -> list[tuple[str, dict[str, str]]]:
    head, _, body = (ROOT / "templates" / "plan.yml").read_text(encoding="utf-8").partition("\n---\n")
    spec: Any = YAML(typ="safe").load(head)["spec"]
    given = {name: one.get("default", "") for name, one in spec["inputs"].items()} | inputs
    job: Any = YAML(typ="safe").load(filled(body, r"\$\[\[ inputs\.(\w+) \]\]", given))["vgpu-cfg"]
    assert job["before_script"] == ["pip install --quiet wheels/vgpu_cfg-*.whl"]
    variables = {name: value or "" for name, value in job["variables"].items()}
    return [(line, variables) for line in job["script"]]


def filled(text: str, pattern: str, inputs: dict[str, str]) -> str:
    return re.sub(pattern, lambda match: inputs[match[1]], text)


def run(lines: list[tuple[str, dict[str, str]]], folder: Path, **more: str) -> tuple[int, str]:
    """Run lines as a runner does, up to the first that fails."""
    surroundings = {
        "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
        "HOME": str(folder),
        "GITHUB_STEP_SUMMARY": "plan.md",
    }
    for line, variables in lines:
        done = subprocess.run(
            ["/bin/bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", line],
            cwd=folder,
            env=surroundings | variables | more,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        if done.returncode != 0:
            return done.returncode, done.stderr
    return 0, ""


BOTH = pytest.mark.parametrize("lines", [action, component])


@pytest.fixture
def site(tmp_path: Path) -> Path:
    return Path(shutil.copytree(SITE, tmp_path / "site"))


@pytest.mark.sampled(2)
@BOTH
def test_a_plan_file_is_validated_and_planned_on_a_recording(lines: Any, site: Path) -> None:
    assert run(lines(**GOOD), site) == (0, "")
    assert (site / "plan.md").read_text(encoding="utf-8").startswith("### Changes pending: `training`")


@pytest.mark.sampled(2)
@BOTH
def test_a_plan_file_is_planned_against_a_vcenter(lines: Any, site: Path) -> None:
    told = run(lines(plan="plan.yaml", vars="site.yaml"), site, VGPU_CFG_SERVER="lab:mixed-fleet")
    assert told == (0, "")
    assert (site / "plan.md").read_text(encoding="utf-8").startswith("### ")


@BOTH
def test_without_a_vcenter_a_plan_file_is_only_validated(lines: Any, site: Path) -> None:
    assert run(lines(plan="plan.yaml", vars="site.yaml"), site) == (0, "")
    assert not (site / "plan.md").exists()


@BOTH
def test_a_faulty_plan_file_fails_the_job(lines: Any, site: Path) -> None:
    (site / "plan.yaml").write_text("version: 1\nname: a b\n", encoding="utf-8")
    code, _ = run(lines(plan="plan.yaml"), site)
    assert code == 3


@BOTH
def test_no_line_can_change_a_vcenter(lines: Any) -> None:
    text = "\n".join(line for line, _ in lines(**GOOD))
    assert set(re.findall(r"vgpu-cfg ([a-z]+)", text)) == {"validate", "plan"}


@BOTH
def test_an_input_is_never_part_of_a_line(lines: Any, site: Path) -> None:
    code, _ = run(lines(plan='"; touch injected; "', vars="$(touch injected)"), site)
    assert code != 0
    assert not (site / "injected").exists()


def test_both_accept_the_same_inputs() -> None:
    theirs: Any = read_document(ROOT / "action.yml").data["inputs"]
    head, _, _ = (ROOT / "templates" / "plan.yml").read_text(encoding="utf-8").partition("\n---\n")
    ours: Any = YAML(typ="safe").load(head)["spec"]["inputs"]
    assert [*theirs, "image"] == [*ours]
