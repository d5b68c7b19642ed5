"""The project is in no package index, so nothing of it installs what bears its name there."""

from __future__ import annotations

import re

import pytest

from tests.architecture.sources import ROOT, named, project_files

NAME = r"""(?<![\w/.-])vgpu[-_.]cfg(?![\w/-]|\.\w)"""
INSTALLS = re.compile(
    rf"""\b(?:pip3?|pipx|uv|poetry|pdm|rye|conda|mamba)\b[^\n;&|#]*?
         \b(?:install|add|inject|run|download|wheel|upgrade|sync)\b[^\n;&|`]*?{NAME}   # a command
       | \buvx\b[^\n;&|`]*?{NAME}
       | \bpip:\s*\n(?:[^\n]*\n)?\s*-?\s*(?:name:\s*)?\W?{NAME}                          # Ansible, conda""",
    re.VERBOSE,
)
REQUIREMENT = re.compile(rf"^\s*(?:-\s*)?{NAME}(?!\s+@)", re.MULTILINE)
HERE = "tests/architecture/test_no_index.py"


def installs(name: str, text: str) -> list[str]:
    """Return what in a file takes the project from an index."""
    found = [one.group() for one in INSTALLS.finditer(text)]
    if re.search(r"(requirements|constraints)[^/]*\.(txt|in)$", name):
        found += [one.group() for one in REQUIREMENT.finditer(text)]
    return found


@pytest.mark.parametrize(
    "text",
    [
        "pip install vgpu-cfg pytest",
        "/opt/x/bin/pip install -U vgpu_cfg",
        "`pip install 'vgpu-cfg[age]'`",
        'pip install "vgpu-cfg==1.0"',
        "python -m pip download vgpu-cfg",
        "pipx run vgpu-cfg plan",
        "uv tool install vgpu-cfg",
        "uvx vgpu-cfg plan",
        "uv add --dev vgpu-cfg",
        '["pip", "install", "vgpu-cfg"]',
        "ansible.builtin.pip:\n    name: vgpu-cfg\n",
    ],
)
def test_an_install_by_name_is_seen(text: str) -> None:
    assert installs("a.md", text)


@pytest.mark.parametrize(
    "text",
    [
        "pip install . pytest",
        "/opt/vgpu-cfg/bin/pip install --constraint constraints.txt .",
        "pip install wheels/vgpu_cfg-*.whl pytest",
        "cd vgpu-cfg && pip install '.[age]'",
        "pip install . && vgpu-cfg plan",
    ],
)
def test_an_install_from_a_checkout_or_a_wheel_is_none(text: str) -> None:
    assert not installs("a.md", text)


def test_a_requirement_by_name_is_seen() -> None:
    assert installs("ci/requirements.txt", "pytest\nvgpu-cfg>=1\n")
    assert not installs("ci/requirements.txt", "pytest\n./wheels/vgpu_cfg-1-py3-none-any.whl\n")


def test_nothing_installs_the_project_from_an_index() -> None:
    found = {}
    for path in project_files():
        if named(path) == HERE or path.stat().st_size > 1_000_000:
            continue
        if seen := installs(named(path), path.read_text(encoding="utf-8", errors="replace")):
            found[path.relative_to(ROOT).as_posix()] = seen
    assert not found
