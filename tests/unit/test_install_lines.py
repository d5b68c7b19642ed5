"""The install lines of the pages name no project that does not exist; script/check-installs runs them."""

from __future__ import annotations

import pytest

from tests.proof.installs import KNOWN, lines_of, named, pages


def test_no_line_names_a_project_that_is_not_known() -> None:
    assert {one for lines in pages() for line in lines for one in named(line)} == KNOWN


def test_the_ways_to_install_are_all_found() -> None:
    text = "\n".join(line for lines in pages() for line in lines)
    for way in (
        "script/bootstrap",
        "pip install",
        "pipx install",
        "uv tool install",
        "ansible-galaxy collection",
    ):
        assert way in text


@pytest.mark.parametrize(
    ("text", "lines", "projects"),
    [
        (
            "```sh\nscript/bootstrap   # or: pipx install .\n```",
            ["script/bootstrap", "pipx install ."],
            set(),
        ),
        ("Run `uv tool install\nx`.", ["uv tool install x"], {"x"}),
        ("Run `uv tool install other-name`.", ["uv tool install other-name"], {"other-name"}),
        ("```sh\npip install --constraint constraints.txt . x\n```", None, {"x"}),
        ("Run `vgpu-cfg --help`.", [], set()),
    ],
)
def test_lines_and_projects_are_read(text: str, lines: list[str] | None, projects: set[str]) -> None:
    found = lines_of(text)
    assert lines is None or found == lines
    assert {one for line in found for one in named(line)} == projects
