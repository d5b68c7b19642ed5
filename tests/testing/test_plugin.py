"""What pytest does with the plugin: fixtures by markers and settings, no traceback, nothing heavy early."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib

import pytest

from tests.architecture.sources import ROOT
from tests.testing.conftest import SITE

PLUGIN = "vgpu_cfg.testing.plugin"
HEAVY = ("pydantic", "pyVmomi", "typer", "rich", "ruamel", "vgpu_cfg.cli", "vgpu_cfg.model")

HEAD = """
import pytest
from vgpu_cfg.testing import assert_fits, assert_placed
"""


@pytest.fixture(autouse=True)
def inner(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run pytest with the plugin alone, as this environment's metadata may be older than the checkout."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTEST_ADDOPTS", f"-p {PLUGIN} --strict-markers -p no:cacheprovider")
    for name in ("plan.yaml", "site.yaml", "vcenter.json.gz"):
        shutil.copy(SITE / name, pytester.path / name)


def run(pytester: pytest.Pytester, body: str) -> pytest.RunResult:
    pytester.makepyfile(HEAD + body)
    return pytester.runpytest_inprocess()


def test_the_package_offers_it_to_pytest() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["entry-points"]["pytest11"] == {"vgpu-cfg": PLUGIN}
    assert not [name for name in project["dependencies"] if name.startswith("pytest")]


def test_loading_it_loads_nothing_heavy() -> None:
    code = f"import sys, pytest; before = set(sys.modules); import {PLUGIN}, vgpu_cfg.testing; "
    code += "print(*(set(sys.modules) - before))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT, timeout=120
    )
    loaded = done.stdout.split()
    assert PLUGIN in loaded
    assert [name for name in loaded if name.startswith(HEAVY)] == []


def test_markers_and_settings_name_the_files(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nvgpu_plan = plan.yaml\nvgpu_recording = vcenter.json.gz\n")
    run(
        pytester,
        """
@pytest.mark.vgpu_plan(variable_files=["site.yaml"])
def test_the_path_of_the_settings(vgpu_plan, vgpu_recording):
    assert str(vgpu_plan.path) == "plan.yaml"
    assert_fits(vgpu_plan, vgpu_recording)
    assert_placed(vgpu_plan, vgpu_recording, "train-01", "esx-a100-01.lab")

@pytest.mark.vgpu_plan("plan.yaml", variables={"network": "vm-network"})
@pytest.mark.vgpu_lab("mixed-fleet")
def test_a_lab(vgpu_plan, vgpu_lab):
    assert_fits(vgpu_plan, vgpu_lab)
""",
    ).assert_outcomes(passed=2)


def test_what_was_read_and_planned_is_kept_for_the_tests_that_follow(pytester: pytest.Pytester) -> None:
    run(
        pytester,
        """
seen = []
pytestmark = [
    pytest.mark.vgpu_recording("vcenter.json.gz"),
    pytest.mark.vgpu_plan("plan.yaml", variables={"network": "vm-network"}),
]

@pytest.mark.parametrize("number", range(3))
def test_it(vgpu_plan, vgpu_recording, number):
    assert_fits(vgpu_plan, vgpu_recording)
    seen.append((vgpu_plan, vgpu_recording, vgpu_recording.planned(vgpu_plan)))
    assert all(all(a is b for a, b in zip(one, seen[0])) for one in seen)
""",
    ).assert_outcomes(passed=3)


def test_faults_of_files_and_markers_are_told_without_a_traceback(pytester: pytest.Pytester) -> None:
    done = run(
        pytester,
        """
@pytest.mark.vgpu_plan("plan.yaml")
def test_variable(vgpu_plan): ...

@pytest.mark.vgpu_plan("plan.yaml", variable={})
def test_marker(vgpu_plan): ...

def test_nothing(vgpu_recording): ...

@pytest.mark.vgpu_recording("site.yaml")
def test_recording(vgpu_recording): ...
""",
    )
    done.assert_outcomes(errors=4)
    done.stdout.fnmatch_lines(
        [
            "plan.yaml:11:10: unknown variable 'network'*",
            "@pytest.mark.vgpu_plan: got an unexpected keyword argument 'variable'; the syntax is vgpu_plan*",
            'vgpu_recording: no value specified; add @pytest.mark.vgpu_recording("...") to the test, or*',
            "site.yaml:1:1: not a valid recording*",
        ]
    )
    done.stdout.no_fnmatch_line("*Traceback*")
    done.stdout.no_fnmatch_line("*During handling*")
    done.stdout.no_fnmatch_line("*vgpu_cfg/testing*")


def test_a_failure_points_at_the_line_of_the_test(pytester: pytest.Pytester) -> None:
    done = run(
        pytester,
        """
@pytest.mark.vgpu_recording("vcenter.json.gz")
@pytest.mark.vgpu_plan("plan.yaml", variables={"network": "vm-network"})
def test_it(vgpu_plan, vgpu_recording):
    assert_placed(vgpu_plan, vgpu_recording, "train-01", "esx-a100-09*")
""",
    )
    done.assert_outcomes(failed=1)
    done.stdout.fnmatch_lines(
        [
            ">*assert_placed(vgpu_plan, vgpu_recording, *",
            "E*plan.yaml on vcenter.json.gz: it does not place train-01 on esx-a100-09*",
        ]
    )
    done.stdout.no_fnmatch_line("*vgpu_cfg/testing*")


def test_markers_are_known_and_other_tests_undisturbed(pytester: pytest.Pytester) -> None:
    run(pytester, "def test_it(): ...\n").assert_outcomes(passed=1)
    pytester.runpytest_inprocess("--markers").stdout.fnmatch_lines(["*@pytest.mark.vgpu_plan(path, *"])
