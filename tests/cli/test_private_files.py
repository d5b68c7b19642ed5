"""Whom the files that commands write are for, whatever the umask, and that links are not followed."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from tests.cli.command_line import CommandLine

PLAN = "plans/pair.yaml"
OTHERS = stat.S_IRWXG | stat.S_IRWXO

pytestmark = pytest.mark.skipif(os.name != "posix", reason="files have no modes here")


def open_to_others(*paths: Path) -> list[str]:
    """Name the files and folders that somebody else may use."""
    return [str(path) for path in paths if path.stat().st_mode & OTHERS]


def test_what_tells_of_plan_and_estate_is_for_its_user_alone(vgpu_cfg: CommandLine) -> None:
    umask = os.umask(0)
    try:
        vgpu_cfg.done("plan", PLAN, "-o", "plan.json")
        vgpu_cfg.done("inventory", "--server", "lab:two-a100", "--record", "site.json.gz")
        vgpu_cfg.done("apply", "--yes", "plan.json")
    finally:
        os.umask(umask)
    state = vgpu_cfg.state_folder
    kept = [state, *state.rglob("*")]
    assert {path.name for path in kept} >= {"journals", "lab"}
    assert open_to_others(*(path for path in kept if path.is_dir())) == []
    journals = list((state / "journals").iterdir())
    saved = [vgpu_cfg.folder / name for name in ("plan.json", "site.json.gz")]
    assert journals
    assert open_to_others(*journals, *saved) == []


def test_a_saved_plan_takes_a_links_place(vgpu_cfg: CommandLine) -> None:
    elsewhere = vgpu_cfg.write("elsewhere", "precious\n")
    (vgpu_cfg.folder / "plan.json").symlink_to("elsewhere")
    vgpu_cfg.done("plan", PLAN, "-o", "plan.json")
    assert elsewhere.read_text(encoding="utf-8") == "precious\n"
    assert not (vgpu_cfg.folder / "plan.json").is_symlink()


def test_a_saved_plan_can_go_into_a_pipe(vgpu_cfg: CommandLine) -> None:
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as end:
        place = Path(f"/dev/fd/{writing}")
        if not place.exists():
            pytest.skip("a pipe has no name here")
        # A pipe holds 64 KiB; the plan of one VM has less.
        vgpu_cfg.done("plan", "plans/small.yaml", "-o", place)
        os.close(writing)
        assert b'"digest"' in end.read()


def test_a_recording_is_no_pipe(vgpu_cfg: CommandLine) -> None:
    os.mkfifo(vgpu_cfg.folder / "pipe")
    ran = vgpu_cfg("inventory", "--force", "--server", "lab:two-a100", "--record", "pipe")
    assert ran.code == 3
    assert "it is not a regular file" in ran.told
