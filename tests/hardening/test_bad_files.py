"""Saved plans, recordings and settings of VMs that no program wrote, or that got damaged."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from tests.cli.command_line import CommandLine
from vgpu_cfg.documents import dump
from vgpu_cfg.errors import DocumentError
from vgpu_cfg.recording import load_recording, save_recording

PLAN = "plans/pair.yaml"
SERVER = ("--server", "lab:two-a100")
MONSTERS = [
    pytest.param("[" * 100_000, "nested too deeply", id="deep"),
    pytest.param('{"exchanges": ' + "9" * 5000 + "}", "too long", id="a long number"),
]


@pytest.mark.parametrize(("text", "words"), MONSTERS)
@pytest.mark.parametrize(
    "command", [["validate"], ["plan"], ["apply", "--yes"], ["status"], ["destroy", "--yes"]]
)
def test_json_that_no_reader_takes_is_no_saved_plan(
    command: list[str], text: str, words: str, vgpu_cfg: CommandLine
) -> None:
    vgpu_cfg.write("plan.json", text)
    ran = vgpu_cfg(*command, "plan.json")
    assert ran.code == 3
    assert words in ran.told
    assert "vgpu-cfg plan PLAN -o" in ran.told


@pytest.mark.parametrize(("text", "words"), MONSTERS)
@pytest.mark.parametrize("name", ["r.json", "r.json.gz"])
def test_json_that_no_reader_takes_is_no_recording(text: str, words: str, name: str, tmp_path: Path) -> None:
    content = text.encode()
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    with pytest.raises(DocumentError) as caught:
        load_recording(tmp_path / name)
    assert words in caught.value.message


def test_a_recording_that_cannot_be_written_is_told_and_leaves_nothing(vgpu_cfg: CommandLine) -> None:
    ran = vgpu_cfg("inventory", "--record", "nowhere/r.json.gz", *SERVER)
    assert ran.code == 3
    assert "cannot write the recording" in ran.told
    vgpu_cfg.done("inventory", "--record", "r.json.gz", *SERVER)
    recording = load_recording(vgpu_cfg.folder / "r.json.gz")
    (vgpu_cfg.folder / "taken").mkdir()
    with pytest.raises(DocumentError):
        save_recording(recording, vgpu_cfg.folder / "taken")
    assert not list(vgpu_cfg.folder.glob(".*.unfinished"))


# ---------------------------------------------------------------- settings of a VM


def plan_with(key: str, value: str) -> str:
    line = {"name": "a", "template": "ubuntu-22.04-efi", "cluster": "gpu", "extra_config": {key: value}}
    return dump({"version": 1, "name": "p", "vcenter": "lab:two-a100", "vms": [line]})


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("k", "x\ny"),
        ("k", "x\r\ny"),
        ("k", "\0"),
        ("k", "\x01"),
        ("a\nb", "x"),
        ("", "x"),
        ("a=b", "x"),
        (" a", "x"),
    ],
)
def test_a_setting_that_would_not_come_back_as_written_is_refused(
    key: str, value: str, vgpu_cfg: CommandLine
) -> None:
    escaped = json.dumps({"k": {key: value}})[6:-1]
    vgpu_cfg.write(
        "p.yaml", plan_with("k", "v").replace("k: v", "").replace("extra_config:", f"extra_config: {escaped}")
    )
    ran = vgpu_cfg("validate", "p.yaml")
    assert ran.code == 3, ran.told
    assert "p.yaml:" in ran.err


@pytest.mark.parametrize("value", ["a\tb", " x ", "\u00fc\U0001f600\"<&>]]>'", "x" * 3000, "a=b"])
def test_any_other_comes_back(value: str, vgpu_cfg: CommandLine) -> None:
    vgpu_cfg.write("p.yaml", plan_with("guestinfo.k", value))
    vgpu_cfg.done("apply", "--yes", "p.yaml")
    assert vgpu_cfg("plan", "--exit-code", "p.yaml").code == 0
