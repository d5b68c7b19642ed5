"""Files that commands read and write: pipes, links that lead nowhere, no room, names that are not UTF-8."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.sources import PACKAGE, modules
from tests.cli.command_line import CommandLine
from vgpu_cfg.cli.kept import whole_file
from vgpu_cfg.documents import put_whole

PLAN = "plans/small.yaml"
SAVED = (
    ("plan", PLAN, "-o"),
    ("plan", PLAN, "--html"),
    ("verify", PLAN, "--report"),
    ("verify", PLAN, "--save"),
)

pytestmark = pytest.mark.skipif(os.name != "posix", reason="files have no modes and pipes here")


@pytest.mark.parametrize("words", [*SAVED, ("verify", PLAN, "--history")], ids=lambda words: words[-1])
def test_a_link_that_leads_nowhere_is_not_followed(words: tuple[str, ...], vgpu_cfg: CommandLine) -> None:
    (vgpu_cfg.folder / "link").symlink_to("elsewhere")
    vgpu_cfg(*words, "link")
    assert not (vgpu_cfg.folder / "elsewhere").exists()


@pytest.mark.parametrize("words", [*SAVED, ("verify", PLAN, "--history")], ids=lambda words: words[-1])
def test_a_pipe_that_no_program_reads_is_refused(words: tuple[str, ...], vgpu_cfg: CommandLine) -> None:
    os.mkfifo(vgpu_cfg.folder / "pipe")
    ran = vgpu_cfg(*words, "pipe")
    assert ran.code in {2, 3}, ran.told
    assert "pipe" in ran.told


def test_a_failed_write_leaves_no_draft(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    path = tmp_path / "plan.json"
    with pytest.raises(OSError, match="No space"):
        put_whole(path, "text", lambda draft: draft.replace(path))
    assert list(tmp_path.iterdir()) == []


def test_a_probe_leaves_what_is_there_and_nothing_else(tmp_path: Path) -> None:
    whole_file.refuse_unwritable(tmp_path / "new", "--html")
    assert list(tmp_path.iterdir()) == []
    kept = tmp_path / "kept"
    kept.write_text("text", encoding="ascii")
    whole_file.refuse_unwritable(kept, "--html")
    assert kept.read_text(encoding="ascii") == "text"


@pytest.mark.sampled(4)
@pytest.mark.parametrize("output", ["text", "json", "markdown", "junit"])
def test_a_name_that_is_not_utf_8_is_shown_escaped(output: str, vgpu_cfg: CommandLine) -> None:
    name = os.fsdecode(b"pl\xffan.yaml")
    text = (vgpu_cfg.folder / PLAN).read_text(encoding="utf-8")
    Path(name).write_text(text, encoding="utf-8")
    words = [sys.executable, "-m", "vgpu_cfg", "plan", name, "--output", output]
    ran = subprocess.run(words, capture_output=True, timeout=120, check=False)
    assert ran.returncode == 0, ran.stderr
    told = ran.stdout.decode()
    if output == "json":
        json.loads(told)


def test_a_saved_plan_without_a_digest_is_refused(vgpu_cfg: CommandLine) -> None:
    vgpu_cfg.done("plan", PLAN, "-o", "plan.json")
    saved = vgpu_cfg.folder / "plan.json"
    whole = json.loads(saved.read_text(encoding="utf-8"))
    saved.write_text(
        json.dumps({key: value for key, value in whole.items() if key != "digest"}), encoding="utf-8"
    )
    before = vgpu_cfg.look("one-a100")
    ran = vgpu_cfg("apply", "--yes", "plan.json")
    assert ran.code == 3
    assert "it has no digest" in ran.told
    assert vgpu_cfg.look("one-a100") == before


RAW = {
    "open",
    "read_text",
    "read_bytes",
    "write_text",
    "write_bytes",
    "fdopen",
    "NamedTemporaryFile",
    "mkstemp",
}
ROOMS = ("cli", "settings", "plan_loading", "suggestions", "recording", "shells")
BY_DESIGN = {
    "cli/output/standard_streams.py": {"open", "fdopen"},  # what is written to it is dropped
    "settings/secrets.py": {"open"},  # <(…) of a shell, named by the user alone
}


def test_only_documents_opens_files() -> None:
    """Raw calls pass over pipes, links and limits; `documents` has the ways that do not."""
    found = {}
    for path in modules(PACKAGE):
        place = path.relative_to(PACKAGE).as_posix()
        if place.partition("/")[0] not in ROOMS:
            continue
        calls = [
            node.func
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
            if isinstance(node, ast.Call)
        ]
        names = {one.attr for one in calls if isinstance(one, ast.Attribute)}
        names |= {one.id for one in calls if isinstance(one, ast.Name) and one.id == "open"}
        if names & RAW != BY_DESIGN.get(place, set()):
            found[place] = names & RAW
    assert found == {}
