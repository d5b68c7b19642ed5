"""The image of the Containerfile: its steps carried out on Debian's packages, and what it runs as whom."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.proof.image import RECIPE, Stage, UnknownInstructionError, build, instructions, run

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "vgpu-cfg" / "image"
PLAN = RECIPE.parent / "examples" / "full-vgpu.yaml"


def test_lines_that_go_on_are_one_instruction() -> None:
    text = "# a comment\nARG B=x\n\nFROM ${B}\nRUN one \\\n    && two\n"
    assert list(instructions(text)) == [("ARG", "B=x"), ("FROM", "${B}"), ("RUN", "one      && two")]


@pytest.mark.parametrize(
    "text", ["FROM debian\n", "RUN true\n", "ARG B=x\nFROM ${B}\nHEALTHCHECK NONE\n", ""]
)
def test_a_recipe_that_is_not_known_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "base").mkdir()
    (tmp_path / "recipe").write_text(text, encoding="utf-8")
    with pytest.raises(UnknownInstructionError):
        build(tmp_path / "recipe", tmp_path / "base", tmp_path / "places")


def test_nothing_secret_goes_in_and_what_is_kept_has_a_place() -> None:
    found = list(instructions(RECIPE.read_text(encoding="utf-8")))
    copied = {word for name, rest in found if name == "COPY" for word in rest.split()[:-1] if "=" not in word}
    assert copied == {
        *("pyproject.toml", "constraints.txt", "README.md", "LICENSE"),
        *("vgpu_cfg", "profiles", "docs/reference/checks", "/opt/vgpu-cfg"),
    }
    assert [rest for name, rest in found if name == "USER"] == ["10001:10001"]
    assert [json.loads(rest) for name, rest in found if name == "VOLUME"] == [["/config", "/state"]]


@pytest.fixture(scope="module")
def image() -> Stage:
    """The image that script/build-image has made."""
    if os.geteuid() != 0:
        pytest.skip("only root can look into a root folder")
    if not (CACHE / "made").is_file():
        pytest.skip("the image is not built: script/build-image says why")
    told = json.loads((CACHE / "image.json").read_text(encoding="utf-8"))
    return Stage(CACHE / "final", **told)


def vgpu_cfg(image: Stage, *words: str) -> str:
    return run(image, [*image.entrypoint, *words])


@pytest.mark.long("an image, built by script/build-image: some minutes")
def test_it_runs_as_nobody_special_and_writes_its_state_alone(image: Stage) -> None:
    assert run(image, ["id", "-u"]).strip() == "10001"
    assert "vgpu-cfg" in vgpu_cfg(image, *image.command)
    assert vgpu_cfg(image, "--version").startswith("vgpu-cfg ")
    (image.root / "plans" / "plan.yaml").write_bytes(PLAN.read_bytes())
    assert "NEXT" in vgpu_cfg(image, "plan", "plan.yaml")
    assert [path.name for path in (image.root / "state").iterdir()] == ["lab"]
    for place in ("/config/x", "/opt/vgpu-cfg/x", "/usr/x"):
        with pytest.raises(subprocess.CalledProcessError):
            run(image, ["touch", place])


@pytest.mark.long("an image, built by script/build-image: some minutes")
def test_its_packages_are_those_that_the_tests_passed_with(image: Stage) -> None:
    pinned = dict(
        line.split("==")
        for line in RECIPE.with_name("constraints.txt").read_text(encoding="utf-8").splitlines()
        if "==" in line and not line.startswith("#")
    )
    folded = {name.lower().replace("-", "_"): version for name, version in pinned.items()}
    listed = json.loads(run(image, ["/opt/vgpu-cfg/bin/python", "-m", "pip", "list", "--format=json"]))
    found = {one["name"].lower().replace("-", "_"): one["version"] for one in listed}
    others = {"pip", "vgpu_cfg"}
    assert {name: folded.get(name) for name in found.keys() - others} == {
        name: version for name, version in found.items() if name not in others
    }
