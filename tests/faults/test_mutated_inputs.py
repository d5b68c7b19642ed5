"""Any file, broken in any way, gets a clean answer: no traceback, five seconds of CPU and 1 GiB at most."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.command_line import CommandLine
from tests.cli.conftest import vgpu_cfg
from tests.faults.mutated.inputs import KINDS, ROOT
from tests.faults.mutated.trial import CHUNK, try_chunk, try_inputs

__all__ = ["vgpu_cfg"]

MOST = 20_000
SAMPLE = 16


@pytest.fixture(scope="module")
def originals(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make what only commands write: a saved plan, a recording, journals."""
    folder = tmp_path_factory.mktemp("originals")
    (folder / "p.yaml").write_bytes((ROOT / "tests" / "cli" / "plans" / "pair.yaml").read_bytes())
    surroundings = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "VGPU_CFG_STATE_FOLDER": "state",
        "VGPU_CFG_LAB_SPEED": "0",
    }
    for words in (
        "plan p.yaml -o saved.json",
        "apply p.yaml --yes",
        "record r.json --server lab:two-a100",
        "destroy p.yaml --yes",
    ):
        command = [sys.executable, "-m", "vgpu_cfg", *words.split()]
        subprocess.run(command, cwd=folder, env=surroundings, check=True, capture_output=True, timeout=120)
    shutil.copytree(folder / "state" / "journals", folder / "journals")
    return folder


def test_some_broken_files_get_a_clean_answer(originals: Path) -> None:
    found = list(try_inputs(originals, 0, SAMPLE))
    assert [one["index"] for one in found] == list(range(SAMPLE))
    assert [one for one in found if one["wrong"]] == []
    assert len({one["kind"] for one in found}) >= len(KINDS) - 2


@pytest.mark.exhaustive("longer runs of what the tests beside them try")
def test_what_goes_beyond_a_limit_is_told_and_the_next_is_tried(
    originals: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VGPU_CFG_MUTATED_HANGS_AT", "1")
    first, second, third = try_inputs(originals, 0, 3)
    assert (first["wrong"], third["wrong"]) == ("", "")
    assert second["wrong"].startswith("it was ended")


@pytest.mark.exhaustive("20,000 broken files")
@pytest.mark.parametrize("first", range(0, MOST, CHUNK))
@pytest.mark.timeout(1800)
def test_every_broken_file_gets_a_clean_answer(
    first: int, originals: Path, record_property: Callable[[str, object], None]
) -> None:
    found = try_chunk(originals, first)
    assert len(found) == CHUNK
    kinds = Counter(str(one["kind"]) for one in found)
    record_property("tried", f"{len(found)}: {dict(kinds)}")
    assert [one for one in found if one["wrong"]] == []


@pytest.mark.parametrize(
    ("name", "text", "command", "code"),
    [
        ("config.yaml", 'current: ""\n', ["inventory"], 5),
        ("bare.yaml", "templates: [{name: t, guest_id: ubuntu64Guest}]\n", ["--server", "lab:bare.yaml"], 3),
    ],
)
def test_what_was_found_so_stays_mended(
    name: str, text: str, command: list[str], code: int, vgpu_cfg: CommandLine
) -> None:
    vgpu_cfg.write(name, text)
    ran = vgpu_cfg("inventory", *[word for word in command if word != "inventory"])
    assert (ran.code, "a bug" in ran.told) == (code, False), ran.told
