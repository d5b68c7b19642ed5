"""The wheel does the main job on every Python that pyproject.toml names, away from the checkout.

A Python that this machine does not have is skipped, and so is all of it where nothing can be fetched.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.architecture.sources import ROOT
from vgpu_cfg import __version__

pytestmark = pytest.mark.long("the wheel on each Python: tests/wheel")

PYTHONS = re.findall(r":: Python :: (3\.\d+)", (ROOT / "pyproject.toml").read_text(encoding="utf-8"))
DEMO = re.findall(
    r'^show "[^"]*" "vgpu-cfg (.*)"$', (ROOT / "script/demo").read_text(encoding="utf-8"), re.MULTILINE
)
PLAN = "examples/multi-node-horovod.yaml"
OFFLINE = re.compile(
    r"NewConnectionError|NameResolutionError|ConnectTimeoutError|ProxyError|Failed to fetch|sending request"
)
SECONDS = 600
# Asked while the tests are gathered: each of them has an empty home.
EACH = [
    number
    if number in (PYTHONS[0], PYTHONS[-1])
    else pytest.param(number, marks=pytest.mark.exhaustive("the wheel on the Pythons between: tests/wheel"))
    for number in PYTHONS
]
"""The oldest and the newest; those between on demand."""
PYENV = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")


def find_python(version: str) -> Path | None:
    """Look for a Python on the PATH, which may hold a stand-in that starts none, and among pyenv's."""
    on_path = shutil.which(f"python{version}")
    kept = sorted(PYENV.glob(f"versions/{version}.*/bin/python{version}"))
    for place in (*([Path(on_path)] if on_path else []), *kept):
        told = subprocess.run([place, "--version"], capture_output=True, text=True, check=False, timeout=120)
        if told.stdout.startswith(f"Python {version}."):
            return place
    return None


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    hatchling = Path(sys.executable).with_name("hatchling")
    subprocess.run(
        [hatchling, "build", "--target", "wheel", "--directory", folder],
        cwd=ROOT,
        check=True,
        timeout=SECONDS,
    )
    (built,) = folder.iterdir()
    return built


@pytest.fixture(scope="module", params=EACH)
def programs(
    request: pytest.FixtureRequest, wheel: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Path]:
    """Install the wheel into an environment of its own, and return the folder of its programs."""
    python = find_python(request.param)
    if python is None:
        pytest.skip(f"no Python {request.param} on this machine: nobody looked whether the wheel works on it")
    folder = tmp_path_factory.mktemp(f"python{request.param}")
    install(wheel, python, folder)
    yield folder / "bin"
    shutil.rmtree(folder)


def install(what: Path | str, python: Path, folder: Path) -> None:
    """Install what a user installs with pip into an environment, which is made if it is not there."""
    words = ["--only-binary=:all:", f"--constraint={ROOT / 'constraints.txt'}", what]
    done = subprocess.run(
        [ROOT / "script" / "environment", python, folder, *words],
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
    )
    if done.returncode and OFFLINE.search(done.stderr):
        pytest.skip("what it takes cannot be fetched: nobody looked whether it works")
    assert done.returncode == 0, done.stderr


def run(programs: Path, folder: Path, line: str) -> str:
    """Run a line as its user would who has no checkout; it must succeed."""
    environment = {
        "PATH": f"{programs}:/usr/bin:/bin",
        "HOME": str(folder),
        "VGPU_CFG_STATE_FOLDER": str(folder / "state"),
        "VGPU_CFG_CONFIG": str(folder / "config.yaml"),
        "VGPU_CFG_LAB_SPEED": "0",
        "COLUMNS": "110",
    }
    done = subprocess.run(
        ["/bin/sh", "-c", line],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
    )
    assert done.returncode == 0, f"{line}: exit {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copytree(ROOT / "examples", tmp_path / "work" / "examples")
    return tmp_path / "work"


def test_what_is_installed_is_the_wheel(programs: Path, folder: Path) -> None:
    assert run(programs, folder, "vgpu-cfg --version").startswith(f"vgpu-cfg {__version__}\nPython ")
    place = run(programs, folder, "python -c 'import vgpu_cfg; print(vgpu_cfg.__file__)'")
    assert Path(place.strip()).is_relative_to(programs.parent)


def test_what_is_no_code_has_travelled(programs: Path, folder: Path) -> None:
    """The catalogue of boards, and the pages of checks."""
    assert "grid_a100-40c" in run(programs, folder, "vgpu-cfg profiles")
    assert "VG104" in run(programs, folder, "vgpu-cfg explain VG104")


def test_a_plan_file_is_validated(programs: Path, folder: Path) -> None:
    run(programs, folder, f"vgpu-cfg validate {PLAN}")


@pytest.mark.exhaustive("longer runs of what the tests beside them try")
@pytest.mark.parametrize("programs", PYTHONS[-1:], indirect=True)
def test_the_demo(programs: Path, folder: Path) -> None:
    """What script/demo types, in its order, with virtual time."""
    assert len(DEMO) > 5
    for words in DEMO:
        run(programs, folder, "vgpu-cfg " + words.replace("$plan", PLAN))


@pytest.mark.parametrize("programs", PYTHONS[-1:], indirect=True)
def test_pytest_finds_the_plugin(programs: Path, folder: Path) -> None:
    """The wheel and pytest are all that the tests of the example need."""
    install("pytest", programs / "python", programs.parent)
    run(programs, folder / "examples" / "site-repository", "python -m pytest -q -p no:cacheprovider")
