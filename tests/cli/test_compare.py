"""`inventory --compare`: what changed at a site since it was recorded, and which exit code says so."""

from __future__ import annotations

import json

import pytest

from tests.cli.command_line import CommandLine

LAB = ("--server", "lab:two-a100")


@pytest.fixture
def recorded(vgpu_cfg: CommandLine) -> CommandLine:
    vgpu_cfg.done("inventory", "--record", "old.json", *LAB)
    return vgpu_cfg


def test_what_an_apply_made_came_since(recorded: CommandLine) -> None:
    same = recorded.done("inventory", *LAB, "--compare", "old.json", "--exit-code")
    assert same.out.startswith("lab:two-a100: no changes from ")
    recorded.done("apply", "--yes", "examples/full-vgpu.yaml")
    recorded.done("inventory", "--record", "new.json.gz", *LAB)
    for server in (LAB, ("--from", "new.json.gz")):
        changed = recorded("inventory", *server, "--compare", "old.json", "--exit-code")
        assert changed.code == 10
        assert changed.out.splitlines()[-1].split() == ["+", "VM", "big-01", "came"]
    back = recorded.done("inventory", "--from", "old.json", "--compare", "new.json.gz", "--output", "json")
    document = json.loads(back.out)
    assert (document["kind"], document["changes"]) == (
        "site-changes",
        [{"kind": "VM", "name": "big-01", "fate": "went", "edits": []}],
    )


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--exit-code"], "requires --compare"),
        (["--compare", "old.json", "--gpus"], "omit --gpus, --host, --cluster and --html"),
        (["--compare", "old.json", "--host", "esx-*"], "omit --gpus, --host, --cluster and --html"),
    ],
)
def test_options_that_do_not_go_together(vgpu_cfg: CommandLine, words: list[str], told: str) -> None:
    ran = vgpu_cfg("inventory", *LAB, *words)
    assert ran.code == 2
    assert told in " ".join(ran.told.replace("│", " ").split())


def test_what_is_no_recording_is_told_with_its_place(vgpu_cfg: CommandLine) -> None:
    ran = vgpu_cfg("inventory", *LAB, "--compare", "examples/full-vgpu.yaml")
    assert ran.code == 3
    assert "examples/full-vgpu.yaml:1:1: not a valid recording: " in ran.err
